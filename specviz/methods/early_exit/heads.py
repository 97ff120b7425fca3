"""Exit heads of a target, trained ones or the logit lens: what early-exit methods ask after a layer."""

from pathlib import Path
from typing import Protocol

import torch

from specviz.cost.ledger import head_cost
from specviz.engine.model.adapter import Model, ModelAdapter
from specviz.methods.early_exit.exit_head import ExitHead, FinalHead, Tensor, weights_read
from specviz.methods.early_exit.head_files import KIND, ExitHeadConfig, opened
from specviz.methods.trained.part_kind import misshapen


class Heads(Protocol):
    """Logits of intermediate states. `layers`: those with a trained head; any other is read through the logit lens.

    `advised`: the layers that are best tested, if somebody found out.
    """

    layers: tuple[int, ...]
    advised: tuple[int, ...]
    kind: str

    def logits(self, layer: int, hidden: Tensor) -> Tensor:
        """`[n, V]`, float32 or the model's float64, of states `[n, width]` after `layer`."""
        ...


class LogitLens:
    """The model's own final norm and head on any layer: exact as a draft source, weak in the lower half."""

    layers: tuple[int, ...] = ()
    advised: tuple[int, ...] = ()
    kind = "lens"

    def __init__(self, model: Model) -> None:
        self.model = model

    def logits(self, layer: int, hidden: Tensor) -> Tensor:
        """`[n, V]`."""
        return self.model.logits(hidden[None])


class TrainedHeads:
    """Heads for some layers of one target, in its dtype and on its device."""

    def __init__(self, adapter: ModelAdapter, config: ExitHeadConfig, tensors: dict[str, Tensor]) -> None:
        self.config, self.kind, self.layers, self.advised = config, config.kind, config.layers, config.advised
        ids = tensors.get("shortlist")
        self.final = FinalHead(adapter, None if ids is None else ids.to(adapter.device))
        self._lens = LogitLens(adapter)
        self._heads = {layer: self._head(layer, tensors, adapter.dtype) for layer in config.layers}

    def _head(self, layer: int, tensors: dict[str, Tensor], dtype: torch.dtype) -> ExitHead:
        head = ExitHead(self.config.kind, self.final, self.config.rank, like=dtype)  # type: ignore[arg-type]
        own = {name.partition(".")[2]: t for name, t in tensors.items() if name.startswith(f"{layer}.")}
        head.load_state_dict(own)
        return head.requires_grad_(False)

    def logits(self, layer: int, hidden: Tensor) -> Tensor:
        """`[n, V]`; through the logit lens for a layer without a head."""
        head = self._heads.get(layer)
        if head is None:
            return self._lens.logits(layer, hidden)
        out = self.final.spread(head(hidden, self.final))
        return out if out.dtype == torch.float64 else out.float()

    @property
    def weights_read(self) -> int:
        """Weights that one test reads."""
        return weights_read(self.kind, self.final, next(iter(self._heads.values())).n_params)


def tested(heads: Heads, asked: "list[int] | tuple[int, ...]") -> str | None:
    """What to tell about tested layers that have no trained head; None when all have one."""
    bare = [layer for layer in asked if layer not in heads.layers]
    if not bare:
        return None
    where = (
        "no exit heads for this target" if not heads.layers else f"no exit head at layer {', '.join(map(str, bare))}"
    )
    return f"{where}: the logit lens stands in (exact, but weak in the lower half); specviz train exit-heads makes them"


def describe(adapter: ModelAdapter, heads: Heads) -> str:
    """One line for the header and the screen: kind, layers, what a test costs."""
    cost = f"c_h {cost_in_layers(adapter, heads):.1f}: a test reads that many layers' worth of weights"
    if not heads.layers:
        return f"logit lens, no trained exit heads; {cost}"
    named = f"layers {', '.join(map(str, heads.layers))}"
    if isinstance(heads, TrainedHeads) and heads.kind == "tuned":
        return f"tuned lens of {heads.config.target_name} (by name, weights not compared) at {named}; {cost}"
    return f"{heads.kind} exit heads at {named}; {cost}"


def cost_in_layers(adapter: ModelAdapter, heads: Heads) -> float:
    """`c_h`: what one head test reads of weights, in units of one layer (specbound.md 8.2)."""
    layer = sum(int(parameter.numel()) for parameter in adapter.layers[0].parameters())
    if isinstance(heads, TrainedHeads):
        return heads.weights_read / layer
    return head_cost(adapter.vocab, int(adapter.head.weight.shape[1]), layer)


def pick(target: Model, wanted: str | None) -> Heads:
    """The heads to use: `lens`, a folder, or None for those shipped with the target, the lens when there are none.

    Raises ModelError in one line for a folder that is no heads, or not of this target.
    """
    if wanted == "lens" or not isinstance(target, ModelAdapter):
        return LogitLens(target)
    if wanted is not None:
        return load(Path(wanted), target)
    folder = next(KIND.shipped_for(target), None)
    return LogitLens(target) if folder is None else load(folder, target)


def load(folder: Path, adapter: ModelAdapter) -> TrainedHeads:
    """The heads in a folder. Raises ModelError in one line for one that holds none, or none of this target."""
    config, tensors = opened(folder, adapter)
    try:
        return TrainedHeads(adapter, config, tensors)
    except RuntimeError as error:
        raise misshapen(folder, KIND.option, error) from error
