"""Draft models that speak through their target's own embedding and head: their folder holds what lies between.

Most of a small model is its vocabulary. A draft model that begins as its target's layers keeps the target's embedding
and head as they are, so nobody has to store, fetch or hold them twice. `drafts_for.json` in its folder names the
target; one that is made of the target's layers holds their corrections alone (`corrected`). On a CPU in bfloat16 its
head is read in four bits with the best tokens scored again (`sharp_head`): a draft may be rough.
"""

import json
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from specviz import model_folder
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.backend import TorchBackend
from specviz.engine.model.few_bits.quantised import QuantisedAdapter
from specviz.engine.model.few_bits.sharp_head import SharpHead
from specviz.engine.model.few_bits.weight_only import DTYPE
from specviz.errors import ModelError

FILE = model_folder.BORROWS


@dataclass(frozen=True, slots=True)
class Ends:
    """Whose embedding and head a draft model takes. `target`: the fingerprint of its weights.

    `layers`: those of the target, from 0, that it corrects; none where its own lie in the folder.
    """

    target: str
    target_name: str
    layers: tuple[int, ...] = ()


def ends_of(where: str | Path) -> Ends | None:
    """Whose ends the model in a folder takes; None: it has its own."""
    try:
        said = json.loads((Path(where) / FILE).read_text(encoding="utf-8"))
        ends = Ends(str(said["target"]), str(said["target_name"]))
        return replace(ends, layers=tuple(map(int, said.get("layers", ())))) if said["ends"] == "target" else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def needs(option: str, where: str | Path, target: object) -> Ends | None:
    """As `ends_of`. Raises ModelError where it takes a target's and there is none beside it."""
    ends = ends_of(where)
    if ends is not None and target is None:
        raise ModelError(
            f"{option}: it speaks through its target's embedding, so it is no model by itself; give it as --draft "
            f"beside {ends.target_name}"
        )
    return ends


def facts(ends: Ends) -> dict[str, Any]:
    """What `FILE` says."""
    said = {"target": ends.target, "target_name": ends.target_name, "ends": "target"}
    return {**said, "layers": list(ends.layers)} if ends.layers else said


def own_weights(model: Any) -> dict[str, Any]:
    """The weights of a model by name, without its ends."""
    ends = {id(end.weight) for end in (model.get_input_embeddings(), model.get_output_embeddings())}
    named = dict(model.named_parameters(remove_duplicate=False))
    return {name: weight.detach() for name, weight in named.items() if id(weight) not in ends}


def lend(option: str, model: Any, missing: set[str], target: Any) -> set[str]:
    """Put the target's ends into a model that lacks them; what is `missing` besides. Raises ModelError."""
    own = {name for name, _ in model.named_parameters(remove_duplicate=False)} - set(own_weights(model))
    given, wanted = target.get_input_embeddings().weight.shape, model.get_input_embeddings().weight.shape
    if given != wanted:
        raise ModelError(
            f"{option}: it takes the embedding of its target, {list(wanted)}; this target's is {list(given)}"
        )
    model.set_input_embeddings(target.get_input_embeddings())
    model.set_output_embeddings(target.get_output_embeddings())
    return missing - own


def lightened(adapter: ModelAdapter, ends: Ends) -> ModelAdapter:
    """As it drafts where there are kernels for it: head and corrected layers in four bits, the best tokens exactly."""
    if adapter.device.type != "cpu" or adapter.dtype != DTYPE or not isinstance(adapter.head, nn.Linear):
        return adapter
    if ends.layers:
        light = QuantisedAdapter(adapter)
        light.name = adapter.name
        return light
    bias, drafting = adapter.head.bias, copy(adapter)
    drafting.head = SharpHead(adapter.head.weight.detach(), None if bias is None else bias.detach())
    return drafting.with_backend(TorchBackend(drafting))
