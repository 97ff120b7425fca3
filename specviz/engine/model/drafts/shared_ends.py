"""Draft models that share the embedding and lm_head of their target: the folder holds only the layers between.

Most weights of a small model belong to its vocabulary. A draft model whose layers started as the target's keeps the
target's embedding and head unchanged, so they are neither stored nor loaded twice. `drafts_for.json` in its folder
names the target; a draft made of the target's own layers stores only their low-rank corrections (`corrected`). On a CPU
in bfloat16 its head is read in four bits and the best tokens are scored again in full (`sharp_head`).
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
from specviz.engine.model.few_bits.sharp_head import RescoredInt4Head
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
        stored_facts = json.loads((Path(where) / FILE).read_text(encoding="utf-8"))
        ends = Ends(str(stored_facts["target"]), str(stored_facts["target_name"]))
        return (
            replace(ends, layers=tuple(map(int, stored_facts.get("layers", ()))))
            if stored_facts["ends"] == "target"
            else None
        )
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
    stored_facts = {"target": ends.target, "target_name": ends.target_name, "ends": "target"}
    return {**stored_facts, "layers": list(ends.layers)} if ends.layers else stored_facts


def own_weights(model: Any) -> dict[str, Any]:
    """The weights of a model by name, without its ends."""
    ends = {id(end.weight) for end in (model.get_input_embeddings(), model.get_output_embeddings())}
    named = dict(model.named_parameters(remove_duplicate=False))
    return {name: weight.detach() for name, weight in named.items() if id(weight) not in ends}


def lend(option: str, model: Any, missing: set[str], target: Any) -> set[str]:
    """Put the target's ends into a model that lacks them; what is `missing` besides. Raises ModelError."""
    own = {name for name, _ in model.named_parameters(remove_duplicate=False)} - set(own_weights(model))
    target_shape, wanted = target.get_input_embeddings().weight.shape, model.get_input_embeddings().weight.shape
    if target_shape != wanted:
        raise ModelError(
            f"{option}: it takes the embedding of its target, {list(wanted)}; this target's is {list(target_shape)}"
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
    drafting.head = RescoredInt4Head(adapter.head.weight.detach(), None if bias is None else bias.detach())
    return drafting.with_backend(TorchBackend(drafting))
