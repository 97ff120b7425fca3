"""How a model is named on a line: where its numbers are not float32, it says what they are."""

from specviz.events import Header, ModelInfo

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}


EXACT = "bitwise"  # what a run says of a target whose rows do not depend on what else is in a pass


def rounding(header: Header) -> str:
    """`" up to bf16 rounding"`, for a target of 16 bits whose pass over several rows rounds otherwise than over one:
    a promise about its text then ends where two tokens are nearly level. `" bit for bit"` where that was ruled out."""
    if header.keeps_tokens and header.env.get("exact") == EXACT:
        return " bit for bit"
    target = header.models.target
    short = _SHORT.get(target.dtype or "", "") if target is not None else ""
    rounds = short in ("bf16", "fp16") and header.env.get("exact") != EXACT
    return f" up to {short} rounding" if rounds else ""


def exactness(header: Header) -> str:
    """`"exact: bitwise"`, or why it is up to rounding; nothing where a run does not say."""
    said = header.env.get("exact")
    return f"exact: {said}" if isinstance(said, str) else ""


def precision(info: ModelInfo) -> str:
    """`" bf16"`; nothing for float32, and for a model whose name says it (`smollm2:int4`)."""
    short = _SHORT.get(info.dtype or "", "")
    return f" {short}" if short else ""
