"""How a model is named on a line: where its numbers are not float32, it says what they are."""

from specviz.events import ModelInfo

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}


def rounding(target: ModelInfo | None) -> str:
    """`" up to bf16 rounding"`, for a target of 16 bits: its pass over several rows rounds otherwise than over one, so
    a promise about its text ends where two tokens are nearly level."""
    short = _SHORT.get(target.dtype or "", "") if target is not None else ""
    return f" up to {short} rounding" if short in ("bf16", "fp16") else ""


def precision(info: ModelInfo) -> str:
    """`" bf16"`; nothing for float32, and for a model whose name says it (`smollm2:int4`)."""
    short = _SHORT.get(info.dtype or "", "")
    return f" {short}" if short else ""
