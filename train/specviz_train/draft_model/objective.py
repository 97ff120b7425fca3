"""What a draft model learns: its target's law at the places the target wrote (forward KL, which it must cover).

As wide as its target it speaks through the target's own embedding and head, which stay as they are. Then what it says
of a token follows from its last state alone, so the loss need not look at a whole vocabulary: it compares laws over the
tokens that the text holds most of, and draws the last state to the target's, which places all the others. A narrower
one learns its embedding too, by the whole vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.engine.model.adapter import ModelAdapter
from specviz_train.common.kept_states import KeptStates
from specviz_train.common.own_text import OwnWindows
from specviz_train.trees.objective import PartResult

STATES = 1.0  # what a state's distance from the target's weighs beside the divergence


@dataclass(frozen=True, slots=True)
class Distilled:
    """The loss of a part of a step. `tokens` `[n]`: those that laws are compared over; None: all."""

    target: ModelAdapter
    draft: Any  # the library's causal LM
    windows: OwnWindows
    seed: int
    batch: int
    tokens: Tensor | None = None
    kept: KeptStates | None = None

    def __call__(self, step: int, part: int = 0, progress: float = 0.0) -> PartResult:
        picked = self.windows.picked(self.batch, (self.seed, step, 1 + 2 * part))
        ids, written = (tensor.to(self.target.device) for tensor in self.windows.at(picked))
        decided = written[:, 1:]
        states, wanted, best = (tensor[:, :-1][decided] for tensor in self._said(ids, picked))
        drafted = self.draft.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][decided]
        rows = self.draft.lm_head.weight
        scores = F.linear(drafted, rows if self.tokens is None else rows[self.tokens]).float()
        apart = F.kl_div(scores.log_softmax(-1), wanted.log_softmax(-1), reduction="batchmean", log_target=True)
        loss = apart
        if self.tokens is not None:
            near = (drafted.float() - states.float()).square().mean() / states.float().square().mean()
            loss = apart + STATES * near
        right = float((self._token(scores.detach().argmax(-1)) == best).float().mean())
        return PartResult(loss, float(apart.detach()), (right, right), int(decided.sum()))

    def _token(self, place: Tensor) -> Tensor:
        return place if self.tokens is None else self.tokens[place]

    @torch.no_grad()
    def _said(self, ids: Tensor, picked: Any) -> tuple[Tensor, Tensor, Tensor]:
        """The target's last states `[W, T, width]`, its logits over `tokens`, and its best tokens `[W, T]`."""
        if self.kept is not None:
            self.kept.ask(picked)
            last = self.kept.states(self.target.n_layers, picked)
            return last, self.kept.logits(picked, self.tokens), self.kept.best(picked)
        with torch.autocast(ids.device.type, enabled=False):
            out = self.target.model(input_ids=ids, output_hidden_states=True, use_cache=False)
        logits = out.logits[..., : self.target.vocab]
        some = logits if self.tokens is None else logits[..., self.tokens]
        return out.hidden_states[-1], some.float(), logits.argmax(-1)


def between_ends(draft: Any) -> nn.Module:
    """What stands between the embedding and the head of a draft model."""
    return nn.ModuleDict({"layers": draft.model.layers, "norm": draft.model.norm})
