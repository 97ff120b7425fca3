"""Three verifiers on the same drafts and uniforms, over a run (verification.md 4, 8 and 9; contract.md 6 and 10).

Two things, kept apart. *Exact*: given the drafts, a rule keeps the first t tokens with probability `E[credit_t]`,
where the credit is the product of min(1, rho) for tokenwise, c for hsd and blockwise, min(1, r) for naive HSD; so the
mean credit over the drafts is what survival must look like, without the noise of the uniforms. *Replayed*: what each
rule would have kept of each draft with the uniforms that were drawn, and the paired difference to tokenwise.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from specviz.metrics.estimate import Estimate
from specviz.metrics.replay_rules import Link, kept
from specviz.metrics.sums import Ratio
from specviz.traits import RULES, TOKENWISE

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


class DraftTally:
    """Give it every replay in order; `summary` has the numbers of those so far."""

    def __init__(self) -> None:
        self._n = 0
        self._reached: list[int] = []  # drafts of at least 1, 2, .. tokens
        self._credit: dict[str, list[float]] = {rule: [] for rule in RULES}  # their credits there, added up
        self._kept: dict[str, Ratio | None] = {rule: Ratio() for rule in RULES}  # None: cannot be told of one of them
        self._gain: dict[str, Ratio] = {rule: Ratio() for rule in RULES[1:]}
        self._gains: dict[str, Counter[int]] = {rule: Counter() for rule in RULES[1:]}

    def add(self, draft: Replay) -> None:
        """Take in one draft; an empty one says nothing."""
        if not draft.length:
            return
        self._n += 1
        for missing in range(len(self._reached), draft.length):
            self._reached.append(0)
            for rule in RULES:
                assert len(self._credit[rule]) == missing
                self._credit[rule].append(0.0)
        for t in range(draft.length):
            self._reached[t] += 1
            for rule in RULES:
                self._credit[rule][t] += draft.credits[rule][t]
        for rule in RULES:
            self._note_kept(rule, draft)

    def _note_kept(self, rule: str, draft: Replay) -> None:
        """What a rule keeps of it. Where that cannot be told of one draft, the others would be a biased choice."""
        ours, theirs, sums = draft.kept[rule], draft.kept[TOKENWISE], self._kept[rule]
        if ours is None or sums is None:
            self._kept[rule] = None
            return
        sums.add(self._n, draft.q, ours, 1)
        if rule in self._gain and theirs is not None:
            self._gain[rule].add(self._n, draft.q, ours - theirs, 1)
            self._gains[rule][ours - theirs] += 1

    def summary(self) -> SameDraft | None:
        """Everything over the drafts of a run; null when none was a sampled chain."""
        if not self._n:
            return None
        told = {rule: self._kept[rule] is not None and self._kept[TOKENWISE] is not None for rule in RULES}
        return SameDraft(
            n_drafts=self._n,
            survival={rule: self._means(rule) for rule in RULES},
            expected_accepted={rule: math.fsum(self._credit[rule]) / self._n for rule in RULES},
            accepted={rule: self._told(self._kept[rule]) for rule in RULES},
            gain={rule: self._paired(self._gain[rule]) if told[rule] else None for rule in RULES[1:]},
            gains={rule: dict(sorted(self._gains[rule].items())) if told[rule] else {} for rule in RULES[1:]},
        )

    @staticmethod
    def _told(sums: Ratio | None) -> Estimate | None:
        """Over drafts, or over queries from 8 on."""
        return None if sums is None else sums.estimate(sums.n_queries >= _QUERIES_AS_UNITS)

    @staticmethod
    def _paired(sums: Ratio) -> Estimate | None:
        """The same of a difference, which may be negative: paired by prompt from 8 queries on."""
        return sums.signed(sums.n_queries >= _QUERIES_AS_UNITS)

    def _means(self, rule: str) -> dict[int, float]:
        """The mean credit of every position, over the drafts that reach it."""
        return {t: c / n for t, (c, n) in enumerate(zip(self._credit[rule], self._reached, strict=True), 1)}


def same_draft(replays: Iterable[Replay]) -> SameDraft | None:
    """Everything over some drafts."""
    tally = DraftTally()
    for each in replays:
        tally.add(each)
    return tally.summary()
