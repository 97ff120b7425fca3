"""The law a token is drawn from: penalties, bans, temperature, top-k, top-p, min-p, in the library's order.

The same `Warper` serves target and draft, so the two laws differ only by the models. Order and edge cases equal
`transformers`' logits processors (tested); at temperature 0 a row is certain and no uniform is spent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from specviz.engine.model.host import to_device
from specviz.errors import SpecvizError
from specviz.knobs import Knobs
from specviz.probability.draws import NOT_FINITE
from specviz.probability.host import fetch, off_host
from specviz.probability.rows import CertainRows, Rows

Tensor = torch.Tensor
COLD = 1e-6  # below it, temperatures are applied to differences
MOST = 1e30  # largest penalised score
NUCLEUS = 1024  # sort this many first; the whole vocabulary only when they do not hold the mass


@dataclass(frozen=True, slots=True)
class Warper:
    """Logits to laws. Immutable; one per knob version."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    banned: tuple[int, ...] = ()

    @classmethod
    def of(cls, knobs: Knobs, banned: tuple[int, ...] = ()) -> "Warper":
        """The warper of a knob snapshot. `banned`: the ids that its knob `ban` names."""
        return cls(
            knobs["temperature"], knobs["top_k"], knobs["top_p"], knobs["min_p"], knobs["repetition_penalty"], banned
        )

    @property
    def greedy(self) -> bool:
        """Temperature 0."""
        return self.temperature == 0

    @property
    def needs_prefix(self) -> bool:
        """Whether a row depends on its own prefix beyond the model's logits."""
        return self.repetition_penalty != 1.0

    def laws(self, logits: Tensor, prefixes: Sequence[Sequence[int]] | None = None) -> Rows:
        """Rows `[n, V]` that sum to 1 (float32, float64 for float64 logits), or `CertainRows` at temperature 0.

        `prefixes[i]`: all tokens before the one row i decides; needed with a repetition penalty only. Nothing waits
        for rows on a device: a row of scores that `allowed` would refuse is NaN there, and refused where it is read.
        """
        if self.greedy:
            scores = self.scores(logits, prefixes)
            return CertainRows(_best(scores), scores.shape[-1])
        if off_host(logits):
            scores = self.scores(logits, prefixes)
            laws = self._filtered(self._tempered(scores)).softmax(-1)
            return laws.masked_fill(~finite(scores)[:, None], float("nan"))
        return self._filtered(self._tempered(self.allowed(logits, prefixes))).softmax(-1)

    def allowed(self, logits: Tensor, prefixes: Sequence[Sequence[int]] | None = None) -> Tensor:
        """The scores `[n, V]` that tokens are ranked by, of logits `[n, V]`.

        Raises SpecvizError for rows that no token can be drawn from: a NaN or +infinity anywhere, or nothing above
        minus infinity. Single tokens at minus infinity are never drawn, which is what masks are for.
        """
        scores = self.scores(logits, prefixes)
        require(fetch(finite(scores))[0])
        return scores

    def scores(self, logits: Tensor, prefixes: Sequence[Sequence[int]] | None = None) -> Tensor:
        """The same scores `[n, V]`, unchecked, for drafters that draft nothing where a number is not finite.

        They are penalised, and banned tokens are at minus infinity.
        """
        scores = logits
        if self.needs_prefix:
            assert prefixes is not None, "a repetition penalty needs each row's prefix"
            scores = self._penalised(logits, prefixes)
        if self.banned:
            scores = scores.index_fill(-1, to_device(self.banned, scores.device), float("-inf"))
        return scores

    def _tempered(self, scores: Tensor) -> Tensor:
        if self.temperature >= COLD:
            return scores / self.temperature
        # The plain quotient overflows: from the top score on down it cannot, and the law is the same.
        return (scores - scores.amax(-1, keepdim=True)) / max(self.temperature, torch.finfo(scores.dtype).tiny)

    def _penalised(self, logits: Tensor, prefixes: Sequence[Sequence[int]]) -> Tensor:
        out = logits.clone()
        for row, prefix in enumerate(prefixes):
            used = to_device(sorted(set(prefix)), logits.device)
            values = logits[row, used]
            out[row, used] = torch.where(values < 0, values * self.repetition_penalty, values / self.repetition_penalty)
        # Far more than any logit and far from overflow, also behind a temperature of COLD. What came without being a
        # finite number stays as it is: clamped it would pass for one.
        return torch.where(logits.isfinite(), out.clamp(-MOST, MOST), logits)

    def _filtered(self, scores: Tensor) -> Tensor:
        if 0 < self.top_k < scores.shape[-1]:
            floor = scores.topk(self.top_k, -1).values[..., -1:]
            scores = scores.masked_fill(scores < floor, float("-inf"))
        if self.top_p < 1:
            scores = nucleus(scores, self.top_p)
        if self.min_p > 0:
            probs = scores.softmax(-1)
            scores = scores.masked_fill(probs < self.min_p * probs.amax(-1, keepdim=True), float("-inf"))
        return scores


def finite(scores: Tensor) -> Tensor:
    """`[n]`: of which rows of scores `[n, V]` a token can be drawn."""
    return scores.amax(-1).isfinite()  # the largest entry of a row is NaN if any is


def require(sound: Sequence[bool]) -> None:
    """Raises SpecvizError unless all rows are, as `finite` said of them."""
    if not all(sound):
        raise SpecvizError(NOT_FINITE)


def _best(scores: Tensor) -> tuple[int, ...]:
    """The first largest entry of every row, in one copy off the device. Raises SpecvizError for rows with NaN."""
    if not off_host(scores):  # ten times as fast as torch, which reads a row for values and places
        table = scores.detach().numpy()
        indices = table.argmax(-1)  # the first NaN where there is one
        if not np.isfinite(table[np.arange(len(table)), indices]).all():
            raise SpecvizError(NOT_FINITE)
        return tuple(indices.tolist())
    best = scores.max(-1)
    (tokens,) = fetch(best.indices.masked_fill(~best.values.isfinite(), -1))
    if -1 in tokens:
        raise SpecvizError(NOT_FINITE)
    return tuple(tokens)


def nucleus(scores: Tensor, top_p: float) -> Tensor:
    """Scores `[n, V]` with -inf where the tokens before, by falling score, hold `top_p` or more; the first is kept."""
    probs = scores.softmax(-1)
    out, whole = _nucleus(scores, probs, top_p, min(NUCLEUS, scores.shape[-1]))
    if off_host(scores):  # on a device a full sort costs less than reading back whether it is needed
        wide = _nucleus(scores, probs, top_p, scores.shape[-1])[0] if scores.shape[-1] > NUCLEUS else out
        return torch.where(whole[:, None], out, wide)
    if not bool(whole.all()):
        # Row by row: which of level tokens are dropped depends on how many were sorted, and no row on the others.
        wide = ~whole
        out[wide] = _nucleus(scores[wide], probs[wide], top_p, scores.shape[-1])[0]
    return out


def _nucleus(scores: Tensor, probs: Tensor, top_p: float, size: int) -> tuple[Tensor, Tensor]:
    """Of the `size` best tokens those in the nucleus; and which rows have all of it among them."""
    kept, order = probs.topk(size, -1)
    before = kept.cumsum(-1) - kept
    drop = before >= top_p
    drop[..., 0] = False
    out = torch.full_like(scores, float("-inf"))
    out = out.scatter(-1, order, scores.gather(-1, order).masked_fill(drop, float("-inf")))
    return out, before[..., -1] + kept[..., -1] >= top_p
