"""Loading a target whose layers are parted over processes, by the library's own tensor parallelism.

Every process does the same until the adapter has passed its self-test: weights, reference and test are sums over all of
them. Embedding, last norm and head stay whole in each, so laws, exit heads and drafters need no other process.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from specviz import model_folder
from specviz.engine.model.files.dtypes import pick_dtype
from specviz.engine.model.files.loading import (
    Loaded,
    embedded,
    found,
    pick_device,
    plain_model,
    plain_tokenizer,
    proved,
)
from specviz.engine.model.files.quiet import one_line
from specviz.engine.model.parted.follower import Follower
from specviz.engine.model.parted.leader import LeadingAdapter
from specviz.errors import ModelError, SpecvizError

OPTION = "--tensor-parallel"
_KEYS = ("k_proj", "qkv_proj", "query_key_value")
_PARTING = ("colwise", "rowwise", "packed_colwise")
_ENDS = ("colwise_gather_output", "colwise_rep", "embedding_rowwise", "embedding_colwise")


@dataclass(frozen=True, slots=True)
class Ranks:
    """Which process this is, of how many that torchrun started."""

    rank: int
    count: int

    @property
    def leads(self) -> bool:
        """Whether this is the process that decodes; the others follow."""
        return self.rank == 0


def ranks(wanted: int) -> Ranks:
    """The processes that were started. Raises ModelError where they are not as many as wanted."""
    try:
        count, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    except ValueError:
        raise ModelError(f"{OPTION}: WORLD_SIZE and RANK are no numbers; start it with torchrun") from None
    if count != wanted:
        raise ModelError(
            f"{OPTION} {wanted}: {count} process{'es were' if count > 1 else ' was'} started; "
            f"start it without torchrun, or with torchrun --nproc-per-node {wanted} -m specviz"
        )
    return Ranks(rank, count)


def check_heads(source: str | None, count: int) -> None:
    """Raises ModelError for a target that cannot be parted so, before a process is started for it."""
    name = str(embedded("target")) if source is None else source
    where = found(name, "--target")
    if Path(where).is_file():
        raise ModelError(f"--target {name}: a GGUF file cannot be parted; give a folder that save_pretrained wrote")
    with one_line(f"--target {name}"):
        _spread(f"--target {name}", where, count)


def load_parted(source: str | None, device: str | None, dtype: str | None, wanted: Ranks) -> Loaded:
    """This process's part of a target, tested together with the others. Raises ModelError, in every process alike."""
    name = str(embedded("target")) if source is None else source
    option = f"--target {name}"
    where = found(name, "--target")
    place = _place(device)
    with one_line(option):
        tokenizer = plain_tokenizer(where)
        spread = _spread(option, where, wanted.count)
    model = plain_model(name, "target", pick_dtype(dtype, place, where), where, spread=spread)
    loaded = proved(model.requires_grad_(False).eval(), name, "target", tokenizer, parted=True)
    return replace(loaded, exact=f"up to rounding (the target is parted over {wanted.count} processes)")


def _place(device: str | None) -> torch.device:
    """Where this process computes: the device of that kind which is its own."""
    if device is not None and ":" in device:
        raise ModelError(
            f"{OPTION}: every process takes a device of its own; leave the number out of --device {device}"
        )
    place = pick_device(device)
    here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    if here is not None and place.type != here.type:
        raise ModelError(f"{OPTION}: the library takes this machine's {here.type}; give --device {here.type}")
    return pick_device(f"{place.type}:{os.environ.get('LOCAL_RANK', '0')}") if place.type == "cuda" else place


def _spread(option: str, where: str, count: int) -> dict[str, Any]:
    """What the library must know. Raises ModelError for a model that has no such plan, or too few heads for it."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.distributed import DistributedConfig

    config = AutoConfig.from_pretrained(where, trust_remote_code=False)
    text = config.get_text_config()
    with torch.device("meta"):
        plan = AutoModelForCausalLM.from_config(config, trust_remote_code=False).tp_plan
    if not any(style in _PARTING for style in plan.values()):
        kind = model_folder.shown(str(config.model_type))
        raise ModelError(f"{option}: the library has no plan to part a '{kind}' over processes; use one process")
    if any(name.rsplit(".", 1)[-1] in _KEYS and style == "colwise" for name, style in plan.items()):
        _refuse_heads(option, text.num_attention_heads, text.num_key_value_heads or text.num_attention_heads, count)
    ends = {name: "replicate" for name, style in plan.items() if style in _ENDS}
    return {"distributed_config": DistributedConfig(tp_size=count, tp_plan=ends or None)}


def _refuse_heads(option: str, n_heads: int, n_kv_heads: int, count: int) -> None:
    """Raises ModelError for heads that cannot be shared out evenly: a cache holds whole ones."""
    for kind, number in (("KV", n_kv_heads), ("attention", n_heads)):
        if number % count:
            fit = [n for n in range(2, n_kv_heads + 1) if n_heads % n == n_kv_heads % n == 0]
            advice = f"{OPTION} {' or '.join(map(str, fit))} would do" if fit else "use one process"
            many = f"{number} {kind} head{'s' if number > 1 else ''}"
            raise ModelError(f"{option}: its {many} cannot be parted over {count} processes; {advice}")


@contextmanager
def leading(loaded: Loaded) -> Iterator[Loaded]:
    """The target for the leading process; the others end with it, however it ends."""
    adapter = LeadingAdapter(loaded.adapter)
    try:
        yield replace(loaded, adapter=adapter)
    except SpecvizError as error:
        cause = error.__cause__
        if isinstance(cause, RuntimeError) and _lost(cause):
            raise ModelError(f"{OPTION}: another process ended during the run") from error
        adapter.stop()
        raise
    except RuntimeError as error:
        if not _lost(error):
            raise
        raise ModelError(f"{OPTION}: another process ended during the run") from error
    else:
        adapter.stop()


def follow(loaded: Loaded) -> None:
    """Serve the leading process until it ends. Raises ModelError where it was lost."""
    try:
        Follower(loaded.adapter).serve()
    except RuntimeError as error:
        if not _lost(error):
            raise
        raise ModelError(f"{OPTION}: the leading process ended during the run") from error


def _lost(error: RuntimeError) -> bool:
    """Whether a process of the group is gone; torch has a kind of error for some of the cases."""
    words = str(error).lower()
    return isinstance(error, torch.distributed.DistError) or "connection" in words or "gloo" in words
