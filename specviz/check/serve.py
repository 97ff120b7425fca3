"""A serving command's line, held against what the draft is: `vllm serve .. --speculative-config '{..}'`, SGLang's
`--speculative-algorithm`, llama.cpp's `--spec-type`."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specviz.check.findings import PairFinding, error, note, warning
from specviz.check.kinds import KINDS, MTP, DraftKind, kind_of_draft
from specviz.check.side import ModelSide
from specviz.errors import SpecvizError, suggestion
from specviz.mtp_layers import own_mtp_layers
from specviz.text import quoted

_OPTIONS = {
    "vLLM": ("--speculative-config", "--speculative_config", "-sc"),
    "SGLang": ("--speculative-algorithm", "--speculative-algo"),
    "llama.cpp": ("--spec-type",),
}
_LENGTHS = ("--speculative-num-steps", "--spec-draft-n-max", "--draft-max", "--num-speculative-tokens")
_DRAFTS = ("-md", "--model-draft", "--speculative-draft-model-path")
_ALIKE = {"deepseek_mtp": "mtp", "qwen3_next_mtp": "mtp", "glm4_moe_mtp": "mtp", "mimo_mtp": "mtp", "EAGLE": "NEXTN"}


@dataclass(frozen=True, slots=True)
class ServeCommand:
    """`method`: as the engine's option says it; "" where none does. `length`: the draft length; None: not given."""

    engine: str
    method: str
    length: int | None


def parse_serve(line: str) -> ServeCommand:
    """What a command line asks for, or vLLM's --speculative-config alone. Raises SpecvizError where none of the
    engines' options stands in it."""
    if line.lstrip().startswith("{"):
        return _vllm(line)
    try:
        words = shlex.split(line)
    except ValueError as problem:
        raise SpecvizError(f"--serve: {problem}: give the command as one quoted text") from None
    options = dict(_pairs(words))
    for engine, names in _OPTIONS.items():
        value = next((options[name] for name in names if name in options), None)
        if value is not None and engine == "vLLM":
            # Quotes that the shell left in the line are the option's own.
            return _vllm(value if '"' in value or "{" not in value else line[line.index("{") : line.rfind("}") + 1])
        if value is not None:
            return ServeCommand(engine, value, _length(options))
    if any(name in options for name in _DRAFTS):
        llama = "-md" in options or "--model-draft" in options
        return ServeCommand("llama.cpp" if llama else "SGLang", "", _length(options))
    known = [name for names in _OPTIONS.values() for name in names]
    near = next((close for word in options if word.startswith("--spec") and (close := suggestion(word, known))), "")
    raise SpecvizError(
        f"--serve: nothing of speculation stands in it{near}; looked for are "
        f"{', '.join(names[0] for names in _OPTIONS.values())}"
    )


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            yield name, value if equals else following


def _vllm(value: str) -> ServeCommand:
    try:
        config = json.loads(value)
    except ValueError as problem:
        raise SpecvizError(
            f"--serve: --speculative-config is no JSON ({problem}): keep its quotes within those of COMMAND"
        ) from None
    if not isinstance(config, dict):
        raise SpecvizError(f"--serve: --speculative-config is {quoted(value[:60])}, not an object")
    n = config.get("num_speculative_tokens")
    return ServeCommand("vLLM", str(config.get("method") or ""), n if isinstance(n, int) else None)


def _length(options: dict[str, str]) -> int | None:
    text = next((options[name] for name in _LENGTHS if name in options), "")
    return int(text) if text.isdigit() else None


def check_serve(target: ModelSide, draft: ModelSide, command: ServeCommand) -> Iterator[PairFinding]:
    """Whether the command names the draft for what it is, and a length that it can draft."""
    kind = kind_of_draft(target, draft)
    wanted = _name(kind, command.engine)
    if not command.method:
        yield note(
            "method-unnamed", 3, f"the command names no method; the draft is {kind.named}", f"name it: {kind.served}"
        )
    elif wanted and not _same(command.method, wanted):
        other = next((k.named for k in KINDS if _same(command.method, _name(k, command.engine))), "something else")
        yield error(
            "served-otherwise",
            1,
            f"the command serves it as {quoted(command.method)}, {other}; it is {kind.named} ({kind.seen})",
            f"say {command.engine} {wanted}: served as another kind its states are not read, and nothing warns",
        )
    elif not wanted:
        yield warning(
            "method-unknown",
            15,
            f"{command.engine} has no method for {kind.named}",
            f"known are: {kind.served or 'none'}",
        )
    yield from _too_long(target, draft, kind, command)


def _too_long(target: ModelSide, draft: ModelSide, kind: DraftKind, command: ServeCommand) -> Iterator[PairFinding]:
    layers = own_mtp_layers(target.config, target.tensors) if kind.name == MTP.name else 0
    if command.length and layers and command.length > layers:
        yield warning(
            "mtp-repeats",
            14,
            f"{command.length} tokens are asked for, and there {'is' if layers == 1 else 'are'} {layers} MTP "
            f"layer{'s' * (layers != 1)}",
            f"draft at most {layers} first: further ones call the last layer again",
        )
    block = draft.count("block_size")
    if command.length and block and command.length >= block:
        yield warning(
            "length-beyond",
            14,
            f"{command.length} tokens are asked for, a block has {block}",
            f"draft at most {block - 1}",
        )


def kinds_served(engine: str, method: str) -> list[DraftKind]:
    """The kinds of draft that an engine calls so."""
    return [kind for kind in KINDS if engine in _OPTIONS and _name(kind, engine) and _same(method, _name(kind, engine))]


def _name(kind: DraftKind, engine: str) -> str:
    return {"vLLM": kind.vllm, "SGLang": kind.sglang, "llama.cpp": kind.llama}[engine]


def _same(spelled: str, wanted: str) -> bool:
    names = {spelled.lower(), _ALIKE.get(spelled, spelled).lower()}
    return wanted.partition(" ")[0].lower() in names
