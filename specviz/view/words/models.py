"""How a model is named on a line: where its numbers are not float32, it says what they are."""

from specviz.events import ModelInfo

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}


def precision(info: ModelInfo) -> str:
    """`" bf16"`; nothing for float32, and for a model whose name says it (`smollm2:int4`)."""
    short = _SHORT.get(info.dtype or "", "")
    return f" {short}" if short else ""
