"""Models in GGUF files: the library undoes the quantisation and builds its own model of an architecture it knows.

What the library leaves out of the tokenizer is put back: the vocabularies whose digits stand alone. The packed path of
the library, whose every pass unpacks its weights on a CPU, is not used.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from specviz.errors import MissingExtra, ModelError
from specviz.local_models.gguf_header import GgufHeader, read_header

# Ways to split text in which every digit is a token of its own (llama.cpp's `tokenizer.ggml.pre`); the library splits
# all of them as GPT-2 does, so that numbers would be read as their model never saw them.
_LONE_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})


def check(path: Path) -> GgufHeader:
    """The header of a file that can be loaded. Raises ModelError for another architecture, without reading weights."""
    header = read_header(path)
    known = architectures()
    if header.architecture not in known and header.architecture.replace("moe", "_moe") not in known:
        raise ModelError(
            f"{path.name} holds a model of architecture '{header.architecture[:40]}', which the library does not "
            f"dequantise; it does: {', '.join(known)}"
        )
    if not header.tokens:
        raise ModelError(f"{path.name} holds no vocabulary: it is no language model, or a part of one that was split")
    return header


def architectures() -> tuple[str, ...]:
    """Those the library dequantises. Raises MissingExtra where the reader of GGUF files is not installed."""
    try:
        import gguf  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtra("engine", "a GGUF file is read with gguf, which is not installed; it") from None
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    return tuple(sorted(GGUF_SUPPORTED_ARCHITECTURES))


def read_tokenizer(path: Path) -> Any:
    """The tokenizer of a file, its template included."""
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    with _alone(path) as folder:
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=path.name, trust_remote_code=False)
    tokenizer.name_or_path = str(path)
    if read_header(path).fields.get("tokenizer.ggml.pre") in _LONE_DIGITS:
        inner = tokenizer.backend_tokenizer
        digits = pre_tokenizers.Digits(individual_digits=True)
        inner.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return tokenizer


def read_model(path: Path, dtype: torch.dtype) -> tuple[Any, dict[str, Any]]:
    """The library's model with dense weights of that dtype, and what it says of loading them.

    What it keeps of the quantisation goes with it: it would refuse to save a model that still names one.
    """
    import transformers

    try:  # newer ones may keep the blocks packed, unless told not to
        more = {"quantization_config": transformers.GgufConfig(dequantize=True)}
    except AttributeError:
        more = {}
    with _no_bar(), _alone(path) as folder:
        model, loading_info = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            gguf_file=path.name,
            dtype=dtype,
            trust_remote_code=False,
            output_loading_info=True,
            **more,
        )
    vars(model.config).pop("quantization_config", None)
    for kept in ("hf_quantizer", "quantization_method", "is_quantized"):
        vars(model).pop(kept, None)
    model.name_or_path = str(path)  # the library takes the folder
    return model, loading_info


@contextmanager
def _alone(path: Path) -> Iterator[str]:
    """A folder in which the file lies by itself: the library takes a tokenizer's settings from what lies beside it, and
    then neither the template nor the special tokens that the file brings."""
    with tempfile.TemporaryDirectory(prefix="specviz-") as folder:
        try:
            Path(folder, path.name).symlink_to(path.resolve())
        except OSError:  # a system without links
            folder = str(path.parent)
        yield folder


@contextmanager
def _no_bar() -> Iterator[None]:
    """The library draws a bar of its own here, whatever its settings say."""
    import transformers.modeling_gguf_pytorch_utils as library

    drawn = library.tqdm
    library.tqdm = lambda iterable, **words: iterable
    try:
        yield
    finally:
        library.tqdm = drawn
