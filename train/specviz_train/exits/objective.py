"""What exit heads learn: the target is frozen, one pass gives the states of all layers and what they should say."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.methods.early_exit.heads import FinalHead
from specviz_train.common.kept_states import KeptStates
from specviz_train.common.loop import Objective, Rated, StepResult, move
from specviz_train.common.optim import learning_rate_share
from specviz_train.common.training_text import Ids, WindowFeed

Labels = Literal["soft", "hard"]
WINDOWS, LENGTH, POSITIONS = 8, 224, 1536  # a step: windows, their length, positions that the heads see of them
RATES = {"gain": 3e-3, "lowrank": 3e-3, "square": 2e-3, "tuned": 1e-3, "full": 2e-4, "factored": 5e-4, "adapter": 2e-3}


@dataclass(frozen=True, slots=True)
class LayerStates:
    """What the target says of windows: states by layer `[rows * length, width]`, final logits `[n, V]` of some."""

    by_layer: dict[int, Tensor]
    final: Tensor

    @classmethod
    @torch.no_grad()
    def of(
        cls, model: Any, windows: Tensor, layers: tuple[int, ...], vocab: int, keep: Tensor | None = None
    ) -> "LayerStates":
        """Run `windows` `[rows, length]`; `keep` picks places of the flattened windows, None: all."""
        out = model(input_ids=windows.to(model.device), output_hidden_states=True, use_cache=False)
        pick = slice(None) if keep is None else keep.to(model.device)
        states = {layer: out.hidden_states[layer].flatten(0, 1) for layer in layers}
        return cls(states, out.logits.flatten(0, 1)[pick][:, :vocab].float())

    @classmethod
    @torch.no_grad()
    def kept(cls, kept: KeptStates, picked: Ids, layers: tuple[int, ...], keep: Tensor) -> "LayerStates":
        """The same of windows that the target wrote, by their numbers, from what is kept of them."""
        kept.ask(picked)
        states = {layer: kept.states(layer, picked).flatten(0, 1) for layer in layers}
        return cls(states, kept.spoken(kept.states(kept.target.n_layers, picked).flatten(0, 1)[keep], None))


def loss_of(scores: Tensor, final: Tensor, labels: Labels, ids: Tensor | None) -> Tensor:
    """Mean cross-entropy of scores `[n, V or K]` with the final distribution (`soft`) or its best token (`hard`).

    With a shortlist, soft labels are those among its tokens, and positions whose best token is off it are left out.
    """
    if labels == "soft":
        wanted = (final if ids is None else final[:, ids]).softmax(-1)
        return F.cross_entropy(scores.float(), wanted)
    best = final.argmax(-1)
    if ids is not None:
        place = torch.full((final.shape[-1],), -100, device=final.device)
        place[ids] = torch.arange(len(ids), device=final.device)
        best = place[best]
    return F.cross_entropy(scores.float(), best, ignore_index=-100)


@dataclass
class HeadObjective(Objective):
    """Exit heads by layer, or adapters, that learn from the same passes of the target.

    `kept`: what is learnt on in place of `feed`, windows of which the target's states are kept.
    """

    model: Any
    final: FinalHead
    heads: Mapping[int, Any]
    feed: WindowFeed
    labels: Labels
    seed: int
    optimizers: Rated = field(init=False)
    kept: KeptStates | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        rate = RATES[next(iter(self.heads.values())).kind]
        parameters = [parameter for head in self.heads.values() for parameter in head.parameters()]
        self.optimizers = [(torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.95), weight_decay=0.0), rate)]

    def step(self, number: int, progress: float) -> StepResult:
        """One step on some positions of some windows; it shows the mean loss of all heads."""
        rng, total = torch.Generator().manual_seed(self.seed * 1_000_003 + number), 0.0
        key = (self.seed, number, 1)
        if self.kept is None:
            windows = self.feed.draw((WINDOWS, LENGTH - 1), key)
            keep = torch.randperm(windows.numel(), generator=rng)[:POSITIONS]
            shape, losses = windows.shape, self.losses(windows, keep)
        else:
            shape = torch.Size((WINDOWS, self.kept.windows.ids.shape[1]))
            keep = torch.randperm(shape.numel(), generator=rng)[:POSITIONS]
            picked = self.kept.windows.picked(WINDOWS, key)
            losses = self.learnt(LayerStates.kept(self.kept, picked, tuple(self.heads), keep), shape, keep)
        for head_loss in losses:
            head_loss.backward()  # type: ignore[no-untyped-call]
            total += head_loss.item()
        move(self.optimizers, learning_rate_share(progress))
        return StepResult((total / len(self.heads),), len(keep), shape.numel())

    def losses(self, windows: Tensor, keep: Tensor) -> Iterator[Tensor]:
        """The loss of every head on positions `keep` `[n]` of the flattened `[rows, length]`, one graph at a time."""
        states = LayerStates.of(self.model, windows, tuple(self.heads), self.final.vocab, keep)
        return self.learnt(states, windows.shape, keep)

    def learnt(self, states: LayerStates, shape: torch.Size, keep: Tensor) -> Iterator[Tensor]:
        """The losses, of what the target said of windows of `shape` `[rows, length]`, at positions `keep`."""
        keep = keep.to(states.final.device)
        for layer, head in self.heads.items():
            scores = head(states.by_layer[layer][keep], self.final)
            yield loss_of(scores, states.final, self.labels, self.final.ids)

    def weights(self) -> dict[str, Any]:
        return {"heads": {str(layer): head.state_dict() for layer, head in self.heads.items()}}

    def load(self, state: dict[str, Any]) -> bool:
        for layer, head in self.heads.items():
            head.load_state_dict(state["heads"][str(layer)])
        return True
