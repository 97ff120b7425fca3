"""Three verifiers on the same drafts and uniforms, over a run (verification.md 4, 8 and 9; contract.md 6 and 10).

Two things, kept apart. *Exact*: given the drafts, a rule keeps the first t tokens with probability `E[credit_t]`,
where the credit is the product of min(1, rho) for tokenwise, c for hsd and blockwise, min(1, r) for naive HSD; so the
mean credit over the drafts is what survival must look like, without the noise of the uniforms. *Replayed*: what each
rule would have kept of each draft with the uniforms that were drawn, and the paired difference to tokenwise.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from specviz.metrics.chains import RULES, Link, kept
from specviz.metrics.estimate import Estimate, mean_difference, ratio

_QUERIES_AS_UNITS = 8


class Replay(msgspec.Struct, frozen=True):
    """One draft: its length, the tokens every rule keeps of it (None: cannot be told), the credits by position."""

    q: int
    length: int
    kept: dict[str, int | None]
    credits: dict[str, tuple[float, ...]]


class SameDraft(msgspec.Struct, frozen=True, kw_only=True):
    """Per rule: tokenwise, hsd (= blockwise), hsd_naive. Null where it cannot be told from this recording.

    `survival[rule][t]`: mean credit over drafts of at least t tokens. `expected_accepted`: mean sum of credits.
    `accepted`: mean tokens kept in the replay. `gain`: the paired difference of that to tokenwise; `gains` counts the
    drafts by it.
    """

    n_drafts: int
    survival: dict[str, dict[int, float]]
    expected_accepted: dict[str, float]
    accepted: dict[str, Estimate | None]
    gain: dict[str, Estimate | None]
    gains: dict[str, dict[int, int]]


def replay(q: int, links: Sequence[Link]) -> Replay:
    """What every rule does with one draft."""
    credits: dict[str, tuple[float, ...]] = {rule: tuple(link.credit[rule] for link in links) for rule in RULES}
    return Replay(q, len(links), {rule: kept(links, rule) for rule in RULES}, credits)


def same_draft(replays: Sequence[Replay]) -> SameDraft | None:
    """Everything over the drafts of a run; null when none was a sampled chain."""
    drafts = [each for each in replays if each.length]
    if not drafts:
        return None
    lengths = np.fromiter((d.length for d in drafts), np.int64, len(drafts))
    ends = np.cumsum(lengths)
    at = np.arange(1, ends[-1] + 1) - np.repeat(ends - lengths, lengths)  # the position of every credit: 1 2 3, 1 2, ..
    credits = {
        rule: np.fromiter(chain.from_iterable(d.credits[rule] for d in drafts), float, len(at)) for rule in RULES
    }
    return SameDraft(
        n_drafts=len(drafts),
        survival={rule: _by_place(at, credits[rule]) for rule in RULES},
        expected_accepted={rule: float(credits[rule].sum()) / len(drafts) for rule in RULES},
        accepted={rule: _accepted(drafts, rule) for rule in RULES},
        gain={rule: _gain(drafts, rule) for rule in RULES[1:]},
        gains={rule: _gains(drafts, rule) for rule in RULES[1:]},
    )


def _by_place(at: Any, credits: Any) -> dict[int, float]:
    """The mean credit of every position, over the drafts that reach it."""
    means = np.bincount(at, credits)[1:] / np.bincount(at)[1:]
    return dict(enumerate(means.tolist(), 1))


def _accepted(drafts: Sequence[Replay], rule: str) -> Estimate | None:
    counts = _kept(drafts, rule)
    return None if counts is None else ratio(np.array(counts), np.ones(len(counts)), _units(drafts))


def _kept(drafts: Sequence[Replay], rule: str) -> list[int] | None:
    """What a rule keeps of every draft; None when it cannot be told of one: the others would be a biased choice."""
    counts = [d.kept[rule] for d in drafts]
    return None if None in counts else [n for n in counts if n is not None]


def _differences(drafts: Sequence[Replay], rule: str) -> list[int] | None:
    ours, theirs = _kept(drafts, rule), _kept(drafts, "tokenwise")
    return None if ours is None or theirs is None else [a - b for a, b in zip(ours, theirs, strict=True)]


def _gain(drafts: Sequence[Replay], rule: str) -> Estimate | None:
    found = _differences(drafts, rule)
    return None if found is None else mean_difference(np.array(found), _units(drafts))


def _gains(drafts: Sequence[Replay], rule: str) -> dict[int, int]:
    return dict(sorted(Counter(_differences(drafts, rule) or []).items()))


def _units(drafts: Sequence[Replay]) -> Any:
    """Drafts, or queries from 8 on: paired by prompt."""
    queries = np.array([d.q for d in drafts])
    return queries if len(set(queries.tolist())) >= _QUERIES_AS_UNITS else np.arange(len(drafts))
