"""Loading a target over the devices of one host, or partly from disk, by the library's own map of devices and hooks."""

import atexit
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.files.dtypes import pick_dtype
from specviz.engine.model.files.loading import Loaded, embedded, found, load, plain_model, plain_tokenizer, proved
from specviz.engine.model.files.quiet import one_line
from specviz.engine.model.spread.adapter import SpreadAdapter
from specviz.engine.model.spread.layout import device_map, limits, main_of
from specviz.errors import ModelError


@dataclass(frozen=True, slots=True)
class Spreading:
    """`device`: where rows begin and end. `library`: what the library must know to spread a model of that `dtype`;
    empty where the device holds all of it."""

    device: torch.device
    dtype: torch.dtype
    library: Mapping[str, Any]


def load_spread(source: str | None, device: str, dtype: str | None) -> Loaded:
    """A target over what is here, tested; on one device as any other where it fits there. Raises ModelError.

    `device`: `auto`, or `auto:` with limits.
    """
    limits(device)  # what is plainly wrong is told before anything is read
    name = str(embedded("target")) if source is None else source
    option, where = f"--target {name}", found(name, "--target")
    how = spread_over(option, where, device, dtype)
    if not how.library:
        return load(source, "target", str(how.device), dtype)
    with one_line(option):
        tokenizer = plain_tokenizer(where)
    with _quiet():
        model = plain_model(name, "target", how.dtype, where, spread=how.library).requires_grad_(False).eval()
    return proved(model, name, "target", tokenizer, SpreadAdapter)


def spread_over(option: str, where: str, device: str, dtype: str | None) -> Spreading:
    """How a model is spread. Raises ModelError."""
    if Path(where).is_file():
        raise ModelError(
            f"{option}: a GGUF file cannot be spread over devices; give a folder that save_pretrained wrote"
        )
    main = main_of(device)
    with one_line(option):
        kind = pick_dtype(dtype, main, where)
        devices = device_map(option, device, _empty(where, kind))
    if not devices:
        return Spreading(main, kind, {})
    folder = tempfile.mkdtemp(prefix="specviz-")  # what the library cannot read from the model's own files
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Spreading(main, kind, {"device_map": devices, "offload_folder": folder})


@contextmanager
def _quiet() -> Iterator[None]:
    """The library warns of weights that lie on disk: the header tells it."""
    logger = logging.getLogger("accelerate.big_modeling")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _empty(where: str, dtype: torch.dtype) -> Any:
    """The model without weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(where, trust_remote_code=False)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, trust_remote_code=False).to(dtype)
