"""A recorded round under a rule that is not lossless and is not run here: its chain judged by what is on record.

No row is completed: the rule asks for numbers of the target's row, which a recording of level full holds, or it cannot
be told.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specviz.events import prob
from specviz.probability.draft import ROOT, Draft
from specviz.probability.philox import uniform
from specviz.traits import TOKENWISE
from specviz.verifiers import all_verifiers
from specviz.verifiers._scan import nodes_of
from specviz.verifiers.lossy import LossyRule, RowComparison
from specviz.whatif.decision import RoundAgain, Status
from specviz.whatif.recorded import UNKNOWN_TOKEN, CannotTell, RecordedRound, cut_at, follows

ROUNDED = 1e-4  # relative: sums of numbers with six figures each


@dataclass(frozen=True, slots=True)
class RecordedToken:
    """A drafted token of a recorded chain, by its number in the recorded draft. `u`: set by hand."""

    of: RecordedRound
    node: int
    seed: int | None
    u: float | None

    @property
    def name(self) -> str:
        return f"n{self.of.draft.ids[self.node]}"

    @property
    def certain(self) -> bool:
        return self.of.certain

    @property
    def drawn(self) -> bool:
        return self.of.draft.row_of[self.node] >= 0 or self.of.draft.shared

    def mass(self) -> float:
        if self.certain:
            return float(self.of.verdict(self.node).logp == 0)
        return prob(self._on_record(self.of.verdict(self.node).logp, "mass")) or 0.0

    def entropy(self) -> float:
        return 0.0 if self.certain else float(self._on_record(self.of.verdict(self.node).entropy_p, "entropy"))

    def rank(self) -> int:
        rank = self._on_record(self.of.verdict(self.node).rank_p, "rank")
        # Of two tokens of one mass the record ranks both alike; at temperature 0 one of them is the target's.
        return 2 if self.certain and rank == 1 and not self.mass() else int(rank)

    def masses(self, n: int) -> tuple[float, ...]:
        logs = [log for _, log in self._on_record(self.of.verdict(self.node).top, "likeliest tokens")]
        listed = tuple(prob(log) or 0.0 for log in logs[:n])
        if len(listed) < n and sum(listed) < 1 - ROUNDED:
            raise CannotTell(f"the {n} likeliest tokens before {self.name} are asked for, {len(listed)} are on record")
        return listed

    def likely(self, least: float) -> tuple[float, bool]:
        if not self.certain:
            return self.mass(), True
        top = self._on_record(self.of.verdict(self.node).top, "likeliest tokens")
        token = self.of.draft.tokens[self.node]
        mass = next((prob(log) for listed, log in top if listed == token), None)
        if mass is not None:
            return mass, True
        most = min((prob(log) or 0.0 for _, log in top), default=1.0)
        if most * (1 + ROUNDED) >= least:
            raise CannotTell(f"the mass of {self.name} in the target's row is not on record")
        return most, False

    def exact(self) -> RowComparison:
        if self.certain:
            kept = self.mass() == 1
            return RowComparison("rank", self.rank(), "≤" if kept else ">", 1, kept)
        p, draft = self.mass(), self.of.draft
        q = self.of.law(self.node).known[draft.tokens[self.node]] if self.of.draft.row_of[self.node] >= 0 else 1.0
        threshold = min(1.0, p / q) if q > 0 else 0.0
        u = self._uniform()
        if abs(u - threshold) <= ROUNDED * threshold and threshold < 1:
            raise CannotTell(f"the u of {self.name} falls upon its threshold, in the digits that are on record")
        return RowComparison("u", u, "<" if u < threshold else "≥", threshold, u < threshold)

    def reaches(self, value: float, bound: float) -> bool:
        if abs(value - bound) <= ROUNDED * max(abs(value), abs(bound)):
            raise CannotTell(f"what decides about {self.name} falls upon its bound, in the digits that are on record")
        return value > bound

    def _uniform(self) -> float:
        """That of the lossless rule: the recorded one where it is on record, else what its key gives."""
        if self.u is not None:
            return self.u
        verdict = self.of.verdict(self.node)
        own = verdict.u if self.seed is None and verdict.kind == "test" and verdict.judged is None else None
        if own is not None:
            return own
        seed = self.of.seed if self.seed is None else self.seed + self.of.record.q
        return uniform(seed, "accept", self.of.record.r, self.of.n - 1 + self.of.draft.depths[self.node])

    def _on_record(self, value: Any, what: str) -> Any:
        if value is None:
            row = what if what == "mass" else f"{what} of the target's row"
            raise CannotTell(f"the {row} at {self.name} is not on record")
        return value


def loosened(
    of: RecordedRound, draft: Draft, rule: LossyRule, knobs: dict[str, Any], us: Mapping[int, float], seed: int | None
) -> RoundAgain:
    """The round under the rule, over `draft`, that of the record or its beginning. Raises CannotTell."""
    back = {i: k for k, i in enumerate(of.draft.ids)}
    chain = nodes_of(draft)
    places = [RecordedToken(of, back[draft.ids[node]], seed, us.get(draft.ids[node])) for node in chain]
    judged = rule.judge(places, rule.asked(knobs))
    stop = chain[judged.kept - 1] if judged.kept else ROOT
    tokens = [draft.tokens[node] for node in chain[: judged.kept]]
    whole = judged.kept == len(chain)
    if draft.has_row(stop):
        tokens.append(
            _closing(of, stop if stop == ROOT else back[draft.ids[stop]], tokens, judged.residual and not whole, seed)
        )
    left = cut_at(of.record, tokens)
    kept = chain[: judged.kept][:left]
    marks: dict[int, Status] = {draft.ids[node]: "untested" for node in range(len(draft))}
    marks |= {draft.ids[node]: "accepted" for node in kept}
    if not whole:
        marks[draft.ids[chain[judged.kept]]] = "rejected"
    return RoundAgain(
        accepted=tuple(draft.ids[node] for node in kept),
        marks=marks,
        tests=(),
        tokens=tuple(tokens[:left]),
        kind="none" if min(left, len(tokens)) == len(kept) else "bonus" if whole else "recovered",
        compared={draft.ids[node]: test for node, test in zip(chain, judged.compared, strict=False)},
        moved=None if judged.moved is None else sum(judged.moved[: len(kept)]),
        unmoved=judged.why,
    )


def _closing(of: RecordedRound, stop: int, tokens: list[int], residual: bool, seed: int | None) -> int:
    """The token drawn behind the kept ones, where it is on record; UNKNOWN_TOKEN where it is not.

    A row of the target's is drawn from by position alone, so a recorded draw of it gives the same.
    """
    if of.certain:
        return of.likeliest(stop)
    header, closing = of.run.header, of.record.closing
    if seed is not None or header is None:
        return UNKNOWN_TOKEN
    text = follows(of.record)
    if header.keeps_tokens and not residual and not of.run.mixed:
        at = len(tokens)
        return text[at] if tuple(tokens) == text[:at] and at < len(text) else UNKNOWN_TOKEN
    if closing is None or closing.token is None or of.stop != stop:
        return UNKNOWN_TOKEN
    own = all_verifiers().get(header.verifier)
    as_recorded = own is not None and own.traits.replays_as == TOKENWISE if residual else closing.kind == "bonus"
    return closing.token if as_recorded else UNKNOWN_TOKEN
