"""Which tokens begin the branches, and how many (specbranch.md 4.3, 5.2).

The set is fixed by what is known before anything is drawn there, or drawn from a law that is put on record; the
verifier then judges the tokens as siblings in this order, with no rule of its own:

* `topk`    the k likeliest, point masses: a hit iff the target's own token is among them.
* `hybrid`  the k - 1 likeliest, and one drawn from the draft law restricted to the others and renormalised.
* `swor`    k draws without replacement, each with the law that the ones before left.

Counts come from the raw softmax, draws from the processed law; mixing the two breaks greedy forks (section 1).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from specviz.engine.model.rows import Tensor
from specviz.events.branch import Rule
from specviz.methods.common.draft_sampler import LEAST, without
from specviz.probability.rows import Certain, Row

DrawFrom = Callable[[Row], int]


@dataclass(frozen=True, slots=True)
class Choice:
    """One branch token. `law` None: it was fixed, not drawn."""

    token: int
    law: Row | None


def choose(rule: Rule, scores: Tensor, law: Row, k: int, draw: DrawFrom) -> list[Choice]:
    """At most k branch tokens. `scores` `[V]` rank the allowed tokens (banned: -inf), `law` `[V]` is the draft law."""
    if rule == "swor":
        return _drawn(law, k, draw)
    fixed = _best(scores, k if rule == "topk" else k - 1)
    out = [Choice(token, None) for token in fixed]
    if rule == "hybrid":
        out += _drawn(_without_all(law, fixed) if fixed else law, 1, draw)
    return out


def _best(scores: Tensor, k: int) -> list[int]:
    if k <= 0:
        return []
    top = scores.topk(min(k, len(scores)))
    return [token for token, score in zip(top.indices.tolist(), top.values.tolist(), strict=True) if score > -1e300]


def _drawn(law: Row | None, k: int, draw: DrawFrom) -> list[Choice]:
    """Draws without replacement, one after the other, until nothing is left."""
    out: list[Choice] = []
    while law is not None and len(out) < k:
        token = draw(law)
        out.append(Choice(token, law))
        law = without(law, token)
    return out


def _without_all(law: Row, tokens: list[int]) -> Row | None:
    """The law once several tokens are struck out, renormalised; None when nothing is left."""
    if isinstance(law, Certain):
        return None if law.token in tokens else law
    left: torch.Tensor = law.clone()
    left[tokens] = 0.0
    mass = left.sum()
    return left / mass if float(mass) > LEAST else None
