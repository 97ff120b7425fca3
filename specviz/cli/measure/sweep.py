"""`specviz whatif --sweep`: what other early-exit settings would have brought on a recorded text, not decoded again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from specviz.cli.flags import TARGET, flag, text
from specviz.cli.measure.values import each_value
from specviz.cli.printing import echo_json, narrate
from specviz.cli.request import check_place
from specviz.cost.exit_grid import AXES, grid
from specviz.cost.exit_replay import (
    ExitKnobs,
    ReplayQuery,
    Total,
    added,
    n_layers_of,
    own_values,
    queries,
    temperature_of,
)
from specviz.errors import SpecvizError, WriteError, suggestion
from specviz.events import End, ExitTable, Header
from specviz.methods import all_methods, get_method
from specviz.methods.early_exit import spec as early
from specviz.trace import Trace

# Those whose rounds can be replayed, and the share of the layers that their d_max -1 stands for.
METHODS = {m.name: depth for m in all_methods().values() if (depth := m.traits.replay_depth) is not None}
ADVISED = "advised exit layers"  # the part of a header that keeps what `auto` stands for
ASKED, SHIPPED = "replayed heads", "shipped"  # and which heads were asked; those that nobody named
STOPS = "stop tokens"  # and what is drafted but never fed


OPTIONS: tuple[Callable[[Any], Any], ...] = (
    text("--alpha", "X,X", "With --sweep: annealing strengths, in steps of 0.1 [default: the run's or method's]."),
    text("--tau", "X,X", "Thresholds."),
    text("--d-max", "N,N", "Deepest exit layers; 1..6 names a range."),
    text("--w-max", "N,N", "Drafts fed per round; 0..8 names a range."),
    text("--exit-layers", "N,N", "Layers with a test: numbers, or shares such as L/4."),
    text("--heads", "FOLDER", "Exit heads, or lens [default: those trained for the target]."),
    TARGET,
    click.option("--write", type=click.Path(path_type=Path), help="Copy the trace with what the heads say added."),
    flag("--force", "With --write: over a trace that is there."),
)


def sweep_options(command: Any) -> Any:
    """The options of a replay of early exits."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def sweep(
    method: str,
    trace: Path,
    as_json: bool,
    *,
    heads: str | None,
    target: str | None,
    write: Path | None,
    force: bool,
    **values: str | None,
) -> None:
    """Replay a method on the text of a trace under every combination of the settings given, and print it.

    Under walk the text does not depend on these settings, so tokens per round come out exactly. One pass of the target
    over the text tells what its heads say; a trace that holds that already needs no model. Raises SpecvizError.
    """
    if method not in METHODS:
        raise SpecvizError(f"--sweep knows {', '.join(sorted(METHODS))}, not '{method}'{suggestion(method, METHODS)}")
    if write is not None:
        check_place(write, force)
    with Trace(trace) as opened:
        header, replayed = queries(opened.read())
    own = _own_heads(method, header)
    parts = _told(header, replayed, heads, own) or _ask_heads(header, replayed, target, heads or own)
    for query in replayed:
        query.stops = frozenset(_numbers(parts.get(STOPS, "")))
    advised = _numbers(parts.get(ADVISED, ""))
    n_layers = n_layers_of(header)
    base = _base(method, header, n_layers, values["exit_layers"], advised)
    axes = _axes(method, n_layers, advised, base, values)
    as_run = values["exit_layers"] is None and (heads or own) == own
    checked = _checked(method, header, replayed, base, n_layers) if as_run else None
    totals = grid([query.text(n_layers) for query in replayed], **axes, layers=base.layers).totals()
    if write is not None:
        _copy(trace, replayed, parts, write)
    if as_json:
        echo_json({"method": method, "n_layers": n_layers, "totals": [_row(t) for t in totals], "run": checked})
        return
    _show(totals, checked)


def _own_heads(method: str, header: Header) -> str | None:
    """The heads that the run had if it was of this method, else the method's own; None: those of the target."""
    spec = get_method(method).table.spec("heads")
    heads = spec.check(header.knobs.get("heads", [])) if header.method == method else spec.default
    return next(iter(heads), None)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdecimal() and len(word) < 10]


def _told(header: Header, replayed: list[ReplayQuery], heads: str | None, own: str | None) -> dict[str, str] | None:
    """What the trace already holds of the method's heads; None where they, or others named now, must be asked."""
    parts = header.models.parts
    if heads is not None or parts.get(ASKED, SHIPPED) != (own or SHIPPED) or not all(q.records for q in replayed):
        return None
    return {ASKED: SHIPPED} | {name: parts[name] for name in (ADVISED, ASKED, STOPS) if name in parts}


def _ask_heads(header: Header, replayed: list[ReplayQuery], target: str | None, heads: str | None) -> dict[str, str]:
    """One pass of the target over every text; which heads were asked, and which layers they advise to test.

    Raises SpecvizError for a model that cannot have written them.
    """
    from specviz.engine.model.files.loading import stop_tokens
    from specviz.engine.run.local import load_pair
    from specviz.methods.early_exit.heads import pick
    from specviz.methods.early_exit.recorder import exit_table

    pair = load_pair(target, needs_draft=False)
    pair.runtime.begin()
    loaded = pair.target
    adapter = loaded.adapter
    _refuse_other(header, adapter)
    chosen = pick(adapter, heads)
    narrate(f"asking the heads ({chosen.kind}) about {sum(len(query.tokens) for query in replayed)} tokens")
    for query in replayed:
        query.records = list(exit_table(adapter, chosen, query.prompt + query.tokens, len(query.prompt)))
    advised, stops = (" ".join(map(str, numbers)) for numbers in (chosen.advised, sorted(stop_tokens(loaded))))
    return {ADVISED: advised, ASKED: heads or SHIPPED, STOPS: stops}


def _refuse_other(header: Header, adapter: Any) -> None:
    """Raises SpecvizError unless the trace may have been written by this model: its layers, its weights."""
    from specviz.methods.trained.parts import fingerprint

    if adapter.n_layers != n_layers_of(header):
        raise SpecvizError(
            f"the trace was written by a target of {n_layers_of(header)} layers, {adapter.name} has "
            f"{adapter.n_layers}; name the right one with --target"
        )
    wrote = header.models.target
    if wrote is not None and wrote.hash is not None and wrote.hash != fingerprint(adapter):
        raise SpecvizError(
            f"the trace was written by {wrote.name} (weights {wrote.hash[:8]}), {adapter.name} has weights "
            f"{fingerprint(adapter)[:8]}; name the right one with --target"
        )
    if wrote is not None and wrote.vocab not in (None, adapter.vocab):
        raise SpecvizError(
            f"the trace was written by {wrote.name} with {wrote.vocab} tokens, {adapter.name} has {adapter.vocab}; "
            "name the right one with --target"
        )


def _base(method: str, header: Header, n_layers: int, exit_layers: str | None, advised: list[int]) -> ExitKnobs:
    """The method's setting: the run's own values if it was that method, its defaults otherwise."""
    table = get_method(method).table
    own = own_values(header, (*AXES, "exit_layers")) if header.method == method else {}
    if exit_layers is not None:
        own["exit_layers"] = [exit_layers]
    limits = early.read(table.knobs(own).values, n_layers, METHODS[method], advised)
    return ExitKnobs(limits.alpha, limits.tau, limits.d_max, limits.w_max, limits.asked)


def _axes(
    method: str, n_layers: int, advised: list[int], base: ExitKnobs, values: dict[str, str | None]
) -> dict[str, list[Any]]:
    """The values of every knob: those given, each as a run would take it, or the setting's. Raises KnobError."""
    table, axes = get_method(method).table, {}
    for name in AXES:
        text = values[name]
        fitted = None if text is None else early.fitted(table.spec(name), n_layers, METHODS[method], advised)
        axes[name] = [getattr(base, name)] if text is None or fitted is None else each_value(fitted, text)
    return axes


def _checked(
    method: str, header: Header, replayed: list[ReplayQuery], base: ExitKnobs, n_layers: int
) -> dict[str, float] | None:
    """Tokens per round replayed and run, when the trace is a run of this method with one setting throughout."""
    if header.method != method or any(query.n_changes for query in replayed):
        return None
    if header.knobs.get("draft_mode", "argmax") != "argmax" and temperature_of(header) > 0:
        return None
    again = added([query.text(n_layers).total(base) for query in replayed])
    return {"replayed": again.tokens_per_round, "run": again.n_new / sum(query.n_rounds for query in replayed)}


def _row(total: Total) -> dict[str, Any]:
    setting, calls = total.setting, total.calls_per_token
    return {
        "alpha": setting.alpha,
        "tau": setting.tau,
        "d_max": setting.d_max,
        "w_max": setting.w_max,
        "exit_layers": list(setting.layers or ()),
        "tokens_per_round": total.tokens_per_round,
        "draft_precision": total.precision,
        "layer_calls_per_token": list(calls),
        "n_new": total.n_new,
        "n_rounds": total.n_rounds,
    }


def _show(totals: list[Total], checked: dict[str, float] | None) -> None:
    """Print one line a setting; the one with the fewest layer calls (upper bound) is marked."""
    best = min(totals, key=lambda total: total.calls_per_token[1])
    click.secho("    α     τ   d   w  tokens/round  drafts right  layer calls/token", bold=True)
    for total in totals:
        setting, (least, most) = total.setting, total.calls_per_token
        right = "-" if total.precision is None else f"{total.precision:.0%}"
        calls = f"{least:.2f}" if most - least < 0.005 else f"{least:.2f} to {most:.2f}"
        click.echo(
            f"{setting.alpha:5.1f} {setting.tau:5.2f} {setting.d_max:3} {setting.w_max:3}  "
            f"{total.tokens_per_round:12.2f}  {right:>12}  {calls}{'  ← fewest' if total is best else ''}"
        )
    narrate(f"plain decoding: 1 token a round, {totals[0].n_layers} layer calls a token; {totals[0].n_new} tokens")
    if checked:
        narrate(f"the recorded run: {checked['replayed']:.4f} tokens a round replayed, {checked['run']:.4f} run")


def _copy(trace: Path, replayed: list[ReplayQuery], parts: dict[str, str], path: Path) -> None:
    """The trace again with the records added in front of its end, and what was asked in its header."""
    from specviz.trace import Recorder

    records = [msgspec.structs.replace(record, q=query.q) for query in replayed for record in query.records]
    recorder = Recorder(path)
    with Trace(trace) as opened:
        for event in opened.read():
            for record in records if isinstance(event, End) else ():
                record.t = event.t
                recorder.write(record)
            if isinstance(event, Header):
                models = msgspec.structs.replace(event.models, parts=event.models.parts | parts)
                event = msgspec.structs.replace(event, models=models)
            if not isinstance(event, ExitTable):
                recorder.write(event)
    recorder.close()
    if recorder.problem:
        raise WriteError(f"the copy {recorder.path} was not written whole: {recorder.problem}")
    narrate(f"wrote {recorder.path}")
