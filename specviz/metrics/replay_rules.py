"""A recorded sampled chain, decided again by three verifiers on the same draft and the same uniforms; no model runs.

Thresholds: tokenwise `a_t = min(1, rho_t)`, forward; capped HSD, which is blockwise,
`h_t = D+/(D+ + 1 - c)`, last position `c`; naive HSD `Dhat+/(Dhat+ + 1 - r)`, last position `min(1, r)`, both
backward. They come from the `chain` records; the uniform of a position is a pure function of the key,
so it is known where no test was made too. The run's own rule keeps its own recorded thresholds, to the last digit.

What a round's counterfactual says is exact for that round. It says nothing of the text a run of its own would have
gone on with: after another stop the next draft is another one.

Over a run three things are kept apart. *Expected*: given a whole draft, only the uniforms are open. A forward rule
keeps at least t tokens with the product of its first t keep chances; a backward scan unless every test from the end
down to t fails, `1 - prod_{j>=t} (1 - h_j)`. *Estimated*: the credit of t tokens, which is the product of min(1, rho)
for tokenwise, c for hsd and blockwise, min(1, r) for naive HSD, is the same chance given the first t tokens alone,
averaged over what is drafted behind them. Its mean is an unbiased and less noisy estimate for drafts as such a run
draws them, and for tokenwise the same number; of the very drafts on record it is no expectation for the other two.
*Replayed*: what each rule would have kept of each draft with the uniforms that were drawn, and the paired difference to
tokenwise.
"""

import math
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

import msgspec

from specviz.events import ZERO, Chain, Node, Verify
from specviz.metrics.estimate import Estimate, Ratio
from specviz.probability.keep import keep_chance
from specviz.probability.philox import uniform
from specviz.traits import CAPPED, NAIVE, RULES, TOKENWISE, Rule


@dataclass(frozen=True, slots=True)
class ChainPosition:
    """Position `t` = 1.. of a chain. Logs are natural, -inf for probability 0; what was not recorded is None."""

    node: int
    t: int
    log_r: float  # joint ratio, uncapped
    cap_at: int  # where the ratio peaked, 0 when it never exceeded 1
    log_c: float  # joint ratio over its running maximum, at most 0
    u: float | None
    keep: Mapping[Rule, float | None]
    credit: Mapping[Rule, float]
    chain: Chain | None = None


def links(
    nodes: Sequence[Node],
    verdicts: Mapping[int, Verify],
    chains: Mapping[int, Chain],
    own: Rule | None,
    key: tuple[int, int] | None,
    ordinals: Mapping[int, int] | None = None,
) -> tuple[ChainPosition, ...]:
    """The links of one chain, `nodes` from the root on. `key`: the query's seed and the round, None when unknown.
    `own`: the rule that the run itself had, if it was one of these.

    `ordinals`: the index of every node's accept draw, where several were drafted for one position; 0 else.

    Without `chain` records (level summary) the ratios are summed from `logp - logq`, and what needs whole rows is None.
    """
    out: list[ChainPosition] = []
    at = _Ratio()
    for t, node in enumerate(nodes, 1):
        verdict, chain = verdicts.get(node.node), chains.get(node.node)
        rho = _log_rho(node, verdict)
        if rho is None:
            break
        at = at.next(t, rho, chain)
        keep: dict[Rule, float | None] = {
            TOKENWISE: math.exp(min(0.0, rho)),
            CAPPED: capped_keep(chain, at.log_c),
            NAIVE: naive_keep(chain, at.log_r),
        }
        if own and verdict is not None and verdict.kind == "test" and verdict.thr is not None:
            keep[own] = verdict.thr
        u = _u(node, verdict, key, 0 if ordinals is None else ordinals.get(node.node, 0))
        out.append(ChainPosition(node.node, t, at.log_r, at.cap_at, at.log_c, u, keep, at.credit(chain), chain))
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Ratio:
    """Log of the joint ratio prod p/q along a chain; a recorded `chain` event takes precedence where there is one."""

    log_r: float = 0.0
    log_c: float = 0.0
    cap_at: int = 0
    peak: float = 0.0
    product: float = 1.0

    def next(self, t: int, rho: float, chain: Chain | None) -> "_Ratio":
        log_r, product = self.log_r + rho, self.product * math.exp(min(0.0, rho))
        peak = max(self.peak, log_r)
        if chain is not None:
            return _Ratio(_log(chain.log_r), _log(chain.log_c), chain.cap_at, peak, product)
        return _Ratio(log_r, min(0.0, self.log_c + rho), t if log_r > self.peak else self.cap_at, peak, product)

    def credit(self, chain: Chain | None) -> dict[Rule, float]:
        """P(at least so many tokens are kept | they were drafted), by rule."""
        if chain is not None:
            return {TOKENWISE: chain.credit_token, CAPPED: chain.credit_hsd, NAIVE: chain.credit_naive}
        return {TOKENWISE: self.product, CAPPED: math.exp(self.log_c), NAIVE: math.exp(min(0.0, self.log_r))}


def _log(value: float) -> float:
    return -math.inf if value <= ZERO else value


def _log_rho(node: Node, verdict: Verify | None) -> float | None:
    if verdict is None or verdict.logp is None or node.logq is None or node.logq <= ZERO:
        return None
    return _log(verdict.logp) - node.logq


def _u(node: Node, verdict: Verify | None, key: tuple[int, int] | None, ordinal: int) -> float | None:
    """The recorded uniform of the accept test; else the one its key gives."""
    if verdict is not None and verdict.kind == "test" and verdict.u is not None:
        return verdict.u
    return None if key is None else uniform(key[0], "accept", key[1], node.pos, ordinal)


def capped_keep(chain: Chain | None, log_c: float) -> float | None:
    """The keep chance of capped HSD, which is that of blockwise."""
    return _keep(log_c, chain, None if chain is None else chain.d_pq)


def naive_keep(chain: Chain | None, log_r: float) -> float | None:
    """The keep chance of naive HSD."""
    return _keep(log_r, chain, None if chain is None else chain.dhat_pq)


def _keep(log_weight: float, chain: Chain | None, lack: float | None) -> float | None:
    """None where it hangs on sums over whole rows, which only a `chain` record has."""
    weight = math.exp(min(0.0, log_weight))
    return None if chain is None and 0 < weight < 1 else float(keep_chance(weight, lack if weight else 0.0))


def passed(link: ChainPosition, rule: Rule) -> bool | None:
    """Whether the test of this position would pass by itself; None when it cannot be told."""
    keep = link.keep[rule]
    return None if keep is None or link.u is None else link.u < keep


def kept(chain: Sequence[ChainPosition], rule: Rule) -> int | None:
    """How many tokens a rule keeps of a chain: up to the first failed test for tokenwise, up to the last passed
    one for the others."""
    tests = [passed(link, rule) for link in chain]
    if rule == TOKENWISE:
        if None in tests[: tests.index(False) if False in tests else None]:
            return None
        return tests.index(False) if False in tests else len(tests)
    stop = max((t for t, test in enumerate(tests, 1) if test), default=0)
    return None if None in tests[stop:] else stop


def survival(chain: Sequence[ChainPosition], rule: Rule) -> tuple[float, ...] | None:
    """Per t the chance that a rule keeps at least t tokens of exactly this draft; None when it cannot be told."""
    keep = [link.keep[rule] for link in chain]
    known = [chance for chance in keep if chance is not None]
    if len(known) < len(keep):
        return None
    if rule == TOKENWISE:
        return tuple(accumulate(known, operator.mul))
    failed = list(accumulate((1 - chance for chance in reversed(known)), operator.mul))
    return tuple(1 - chance for chance in reversed(failed))


def single_chain(nodes: Sequence[Node], root_pos: int) -> tuple[Node, ...]:
    """The drafted nodes of a round when they are one sampled chain below the root, root to leaf; else empty."""
    ordered = _one_line(nodes, root_pos)
    return ordered if all(n.mode == "sampled" and n.logq is not None for n in ordered) else ()


def argmax_chain(nodes: Sequence[Node], root_pos: int) -> tuple[Node, ...]:
    """The same of the draft's likeliest tokens, whose q counts as 1: every lossless rule keeps the same of them."""
    ordered = _one_line(nodes, root_pos)
    return ordered if all(n.mode == "argmax" for n in ordered) else ()


def _one_line(nodes: Sequence[Node], root_pos: int) -> tuple[Node, ...]:
    ordered = sorted((node for node in nodes if node.kept), key=lambda node: node.pos)
    places = [node.pos for node in ordered]
    return tuple(ordered) if places == list(range(root_pos + 1, root_pos + 1 + len(places))) else ()


_QUERIES_AS_UNITS = 8


class DraftReplay(msgspec.Struct, frozen=True):
    """One draft: its length, and by rule the tokens kept of it, their survival and their credits by position.

    None where it cannot be told.
    """

    q: int
    length: int
    kept: dict[str, int | None]
    survival: dict[str, tuple[float, ...] | None]
    credits: dict[str, tuple[float, ...]]


class SameDraft(msgspec.Struct, frozen=True, kw_only=True):
    """Per rule: tokenwise, hsd (= blockwise), hsd_naive. Null where it cannot be told from this recording.

    `survival[rule][t]`: the chance that at least t tokens of these drafts are kept, mean over those of at least t.
    `expected_accepted`: the sum of that, tokens kept per draft, over the uniforms alone. `estimated_accepted`: the same
    for drafts as such a run draws them, of which these are a sample: mean sum of credits. `accepted`: mean tokens kept
    in the replay. `gain`: the paired difference of that to tokenwise; `gains` counts the drafts by it.
    """

    n_drafts: int
    survival: dict[str, dict[int, float] | None]
    expected_accepted: dict[str, float | None]
    estimated_accepted: dict[str, float]
    accepted: dict[str, Estimate | None]
    gain: dict[str, Estimate | None]
    gains: dict[str, dict[int, int]]


def replay(q: int, links: Sequence[ChainPosition]) -> DraftReplay:
    """What every rule does with one draft."""
    return DraftReplay(
        q,
        len(links),
        {rule: kept(links, rule) for rule in RULES},
        {rule: survival(links, rule) for rule in RULES},
        {rule: tuple(link.credit[rule] for link in links) for rule in RULES},
    )


class DraftTally:
    """Give it every replay in order; `summary` has the numbers of those so far."""

    def __init__(self) -> None:
        self._n = 0
        self._biased = False  # drafts were left out
        self._reached: list[float] = []  # drafts of at least 1, 2, .. tokens
        self._survival: dict[str, list[float] | None] = {rule: [] for rule in RULES}  # added up there; None as below
        self._credit: dict[str, float] = dict.fromkeys(RULES, 0.0)  # of all drafts, added up
        self._kept: dict[str, Ratio | None] = {rule: Ratio() for rule in RULES}  # None: unknown for at least one draft
        self._gain: dict[str, Ratio] = {rule: Ratio() for rule in RULES[1:]}
        self._gains: dict[str, Counter[int]] = {rule: Counter() for rule in RULES[1:]}

    def leave_out(self) -> None:
        """Note that a draft cannot be replayed: the rest would be a biased sample, so no result is given any more."""
        self._biased = True

    def add(self, draft: DraftReplay) -> None:
        """Take in one draft; an empty one says nothing."""
        if not draft.length:
            return
        self._n += 1
        self._reached = _added(self._reached, (1,) * draft.length)
        for rule in RULES:
            sums, own = self._survival[rule], draft.survival[rule]
            self._survival[rule] = None if sums is None or own is None else _added(sums, own)
            self._credit[rule] += math.fsum(draft.credits[rule])
            self._note_kept(rule, draft)

    def _note_kept(self, rule: str, draft: DraftReplay) -> None:
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
        if not self._n or self._biased:
            return None
        known = {rule: self._kept[rule] is not None and self._kept[TOKENWISE] is not None for rule in RULES}
        return SameDraft(
            n_drafts=self._n,
            survival={rule: self._means(rule) for rule in RULES},
            expected_accepted={
                rule: None if sums is None else math.fsum(sums) / self._n for rule, sums in self._survival.items()
            },
            estimated_accepted={rule: self._credit[rule] / self._n for rule in RULES},
            accepted={rule: self._told(self._kept[rule]) for rule in RULES},
            gain={rule: self._paired(self._gain[rule]) if known[rule] else None for rule in RULES[1:]},
            gains={rule: dict(sorted(self._gains[rule].items())) if known[rule] else {} for rule in RULES[1:]},
        )

    @staticmethod
    def _told(sums: Ratio | None) -> Estimate | None:
        """Over drafts, or over queries from 8 on."""
        return None if sums is None else sums.estimate(sums.n_queries >= _QUERIES_AS_UNITS)

    @staticmethod
    def _paired(sums: Ratio) -> Estimate | None:
        """The same of a difference, which may be negative: paired by prompt from 8 queries on."""
        return sums.signed(sums.n_queries >= _QUERIES_AS_UNITS)

    def _means(self, rule: str) -> dict[int, float] | None:
        """The mean survival of every position, over the drafts that reach it."""
        sums = self._survival[rule]
        return None if sums is None else {t: c / n for t, (c, n) in enumerate(zip(sums, self._reached, strict=True), 1)}


def _added(sums: list[float], more: Sequence[float]) -> list[float]:
    """Place by place; the longer one goes on alone."""
    return [a + b for a, b in zip_longest(sums, more, fillvalue=0)]


def same_draft(replays: Iterable[DraftReplay]) -> SameDraft | None:
    """Everything over some drafts."""
    tally = DraftTally()
    for replayed in replays:
        tally.add(replayed)
    return tally.summary()
