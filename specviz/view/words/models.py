"""How a model is named on a line: where its numbers are not float32, it says what they are."""

from specviz.events import Header, ModelInfo
from specviz.text import running

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}


EXACT = "bitwise"  # what a run says of a target whose rows do not depend on what else is in a pass


def rounding(header: Header) -> str:
    """`" up to bf16 rounding"`, for a target whose pass over several rows rounds otherwise than over one: a promise
    about its text then ends where two tokens are nearly level. Older runs do not say; in 16 bits it was so."""
    target, exactness_note = header.models.target, header.env.get("exact")
    if target is None or exactness_note == EXACT:
        return ""
    if target.dtype == "float32":
        return " up to fp32 rounding" if isinstance(exactness_note, str) else ""
    short = _SHORT.get(target.dtype or "", "")
    return f" up to {short} rounding" if short in ("bf16", "fp16") else ""


def exactness(header: Header) -> str:
    """`"exact: bitwise"`, or why it is up to rounding, and where its layers lie; nothing where a run does not say."""
    exactness_note = header.env.get("exact")
    exact = f"exact: {running(exactness_note)}" if isinstance(exactness_note, str) else ""
    return " · ".join(filter(None, (exact, placement(header))))


def placement(header: Header) -> str:
    """Where a target's layers lie that are spread over devices, or partly on disk; nothing for any other."""
    layers_note = header.env.get("layers")
    return f"layers: {running(layers_note)}" if isinstance(layers_note, str) else ""


def precision(info: ModelInfo) -> str:
    """`" bf16"`; nothing for float32, and for a model whose name says it (`smollm2:int4`)."""
    short = _SHORT.get(info.dtype or "", "")
    return f" {short}" if short else ""
