"""A recorded run beside its prompt decoded again with something set otherwise: `specviz compare RUN --gamma 2`.

Everything else is as it was recorded: target, method, verifier, seed, sampling, knobs. What cannot be the same is
refused, so that a difference is what was asked for and nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.cli import options
from specviz.cli.look.written import read_run
from specviz.cli.request import check_models
from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.events import Header, Prefill
from specviz.local_models.found import local_path
from specviz.methods import Method, pick_verifier
from specviz.runlog.fold import Run
from specviz.sources.model_names import recorded_draft
from specviz.trace import resolve
from specviz.verifiers import get_verifier
from specviz.view.stage.notebook import trace_title

if TYPE_CHECKING:
    from specviz.engine.model.pair import Pair


def decoded_again(
    name: str, method: str | None, verifiers: Sequence[str], arguments: Mapping[str, Any]
) -> list[tuple[str, Run]]:
    """The recorded run, then one for every verifier that was named, or one with the other knobs.

    Raises SpecvizError for a recording without its prompt, a target that is not its target, and bad settings.
    """
    path = resolve(name)
    run = read_run(Path(path)).run
    header, prefill = run.header, run.queries[0].prefill
    redacted = header is None or header.imported or header.env.get("redacted")
    if header is None or redacted or prefill is None or not prefill.text:
        raise SpecvizError(
            f"{name} does not hold its prompt, so it cannot be decoded again; record it without --redact"
        )
    table = options.chosen_method(method or header.method, None)
    knobs = _knobs(table, header, arguments)
    asked = [
        pick_verifier(table, named, table.table.knobs(knobs)).name for named in _verifiers(table, header, verifiers)
    ]
    pair = _pair(header, table, arguments)
    chat = _as_message(pair, prefill, name)
    starts = [
        Start(prompt=prefill.text, method=table.name, verifier=verifier, knobs=knobs, chat=chat) for verifier in asked
    ]
    return [(trace_title(path), run), *_decoded(pair, starts)]


def _verifiers(method: Method, header: Header, asked: Sequence[str]) -> list[str | None]:
    """The verifiers named; else the recorded one, where the method accepts it."""
    for name in asked:
        get_verifier(name)
        options.chosen_method(method.name, name)
    if asked:
        return list(asked)
    return [header.verifier if header.verifier in method.verifiers else None]


def _knobs(method: Method, header: Header, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded values of the knobs that the method has, under those that were typed."""
    was = {**header.knobs, **header.sampling}
    kept = {
        spec.name: was[spec.name] for spec in method.table.specs if was.get(spec.name, spec.default) != spec.default
    }
    return method.table.check(kept) | options.given_knobs(method, {**arguments, "verifier": None})


def _pair(header: Header, method: Method, arguments: Mapping[str, Any]) -> "Pair":
    """The recording's target. Raises SpecvizError where another one was loaded."""
    was = header.models.target
    known = was.name if was is not None and local_path(was.name) is not None else None
    target, draft = arguments["target"] or known, arguments["draft"] or recorded_draft(header)
    check_models(target, draft, method.needs_draft)
    from specviz.engine.run.local import load_pair

    models = (arguments[name] for name in ("device", "dtype", "threads"))
    pair = load_pair(target, draft, method.needs_draft, *models)
    pair.runtime.begin()
    here = pair.target.info
    if was is None or (was.name, was.vocab) != (here.name, here.vocab):
        name = was.name if was is not None else "an unknown target"
        raise SpecvizError(f"the run was decoded with {name}, this is {here.name}; name its target with --target")
    return pair


def _as_message(pair: "Pair", prefill: Prefill, name: str) -> bool:
    """Whether the prompt went through the chat template, by its token ids. Raises SpecvizError where neither fits."""
    from specviz.engine.run.prepare import encode_prompt

    templated = bool(getattr(pair.target.tokenizer, "chat_template", None))
    for chat in (True, False) if templated else (False,):
        if encode_prompt(pair.target.tokenizer, prefill.text, chat) == list(prefill.prompt):
            return chat
    raise SpecvizError(f"the first prompt of {name} went on from a conversation, or was read by another tokenizer")


def _decoded(pair: "Pair", starts: Sequence[Start]) -> Iterator[tuple[str, Run]]:
    from specviz.engine.run.local import LocalRun

    for start in starts:
        run = Run()
        for _ in LocalRun(pair, start, run.apply).rounds():
            pass
        yield f"again, {start.verifier}", run
