"""The joint-ratio arithmetic of one drawn chain. Not a verifier.

With r_t the joint ratio of the first t drafted tokens, everything rests on a weight w_t: capped, c_t = r_t divided by
its running maximum (blockwise, HSD), or r_t itself (naive HSD). The branch below position t is compared with weights
`a_t = min(1, w_t)` on the target row and `b_t = min(1, 1/w_t)` on the draft row, so that nothing overflows:

    lack_t = sum_y (a_t p_{t+1}(y) - b_t q_{t+1}(y))+       over_t = sum_y (b_t q_{t+1}(y) - a_t p_{t+1}(y))+

(in units of max(1, w_t); both rows sum to one, so lack - over = a - b). A prefix is kept with `lack / (lack + 1 - a)`,
the last one with a.

Floats are handled in log space, parallel over positions, on the device the rows are on, and one copy brings all
numbers to the host. Rows of Fractions are handled without logs, exactly. The sums form `a p - b q` elementwise: written
as a ratio times q, tokens with q = 0 would be lost.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from specviz.probability.arrays import np
from specviz.probability.draft import Draft
from specviz.probability.keep import keep_chance
from specviz.probability.rows import Certain, CertainRows, Row, Rows, namespace
from specviz.probability.surplus import SURPLUS
from specviz.verifiers import _candidates

# A log weight this near to 0 is one that came back to it: far below the precision of any row, and the law moves by no
# more. Without it, coinciding rows behind such a prefix show a keep chance of 0 where it is 1.
ROUNDING = 1e-10


@dataclass(frozen=True, slots=True)
class JointChain:
    """Drafted tokens in a row. `rows[t]` `[gamma, V]` is required where `tokens[t]` was drawn from `laws[t]`."""

    tokens: tuple[int, ...]
    rows: Rows
    laws: Any  # [gamma, V]; None: point masses

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def exact(self) -> bool:
        """Whether numbers are Fractions."""
        return any(_candidates.kind(x) == "O" for x in (self.rows, self.laws))


@dataclass(frozen=True, slots=True)
class WeighedChain:
    """A chain under a joint rule, on the host. Lists run over t = 0..gamma; `p`, `q` from 1, `lack` to gamma - 1.

    `log_r`: the uncapped log ratio; `log_w`: log of the weight. `r`, `w`: themselves, where rows are Fractions.
    `spare`: what the draft has too much of, where it was summed by the way.
    """

    p: list[Any]
    q: list[Any]
    log_r: list[float]
    log_w: list[float]
    a: list[Any]
    b: list[Any]
    lack: list[Any]
    spare: list[float] | None = None
    r: list[Any] | None = None
    w: list[Any] | None = None

    def reach(self, t: int) -> Any:
        """`min(1, r_t)`, the uncapped chance."""
        return min(1, self.r[t]) if self.r else math.exp(min(0.0, self.log_r[t]))

    def keep(self, t: int) -> Any:
        """The chance `h_t` to keep the first t tokens, given that no longer prefix was kept."""
        return keep_chance(self.a[t], None if t == len(self.p) else self.lack[t])

    def over(self, t: int) -> Any:
        """Mass that the draft has too much of in the branch below position t."""
        return self.lack[t] + self.b[t] - self.a[t]


def chain(draft: Draft, nodes: Sequence[int], target_probs: Rows, first: Row | None = None) -> JointChain:
    """The chain of some nodes, each the parent of the next. `first`: required in place of the first target row."""
    numbers = [draft.parents[node] + 1 for node in nodes]
    if first is None:
        rows = _candidates.taken(target_probs, numbers)
    else:
        rows = _candidates.headed(first, _candidates.taken(target_probs, numbers[1:]))
    return JointChain(tuple(draft.tokens[node] for node in nodes), rows, _laws(draft, nodes))


def below(rows: Rows, laws: Rows) -> JointChain:
    """A chain of one position with nothing drafted there: its required row and draft law, both the first of theirs."""
    law = laws[0]
    first = rows if isinstance(rows, CertainRows) else rows[:1]
    return JointChain((law.token,), first, None) if isinstance(law, Certain) else JointChain((0,), first, laws[:1])


def law_at(part: JointChain, t: int) -> Row:
    """The law of the token behind the first t."""
    return Certain(part.tokens[t], len(part.rows[t])) if part.laws is None else part.laws[t]


def _laws(draft: Draft, nodes: Sequence[int]) -> Any:
    """The laws `[n, V]`; None when all are point masses. A point mass among drawn ones becomes a one-hot row."""
    numbers = [draft.row_of[node] for node in nodes]
    if all(number < 0 for number in numbers):
        return None
    laws = _candidates.taken(draft.law_rows, [max(number, 0) for number in numbers])
    points = [i for i, number in enumerate(numbers) if number < 0]
    if points:
        laws = laws * 1
        laws[points] *= 0
        laws[points, [draft.tokens[nodes[i]] for i in points]] += 1
    return laws


def weigh(part: JointChain, *, capped: bool = True, start: Any = None) -> WeighedChain:
    """All numbers of a chain. `start`: the weight w_0 <= 1 (exact), or its log (floats); None: 1."""
    if part.exact:
        return _weigh_exactly(part, capped, 1 if start is None else start)
    begin = 0.0 if start is None else float(start)
    if not len(part):
        return WeighedChain([], [], [begin], [begin], [math.exp(begin)], [1.0], [])
    here = _weigh_here(part, capped, begin)
    if here is not None:
        return here
    p, q = _masses(part)
    xp = namespace(p)
    with np.errstate(divide="ignore", invalid="ignore"):  # of log 0
        # A token the draft law cannot give breaks the contract: it counts as rejected.
        step = xp.where(q > 0, xp.log(p) - xp.log(q), -math.inf)
    log_r = begin + xp.cumsum(step, 0)
    peak = np.maximum.accumulate(log_r) if xp is np else log_r.cummax(0).values
    log_w = log_r - peak.clip(0) if capped else log_r
    log_w = xp.where(abs(log_w) < ROUNDING, 0 * p, log_w)
    first = 0 * p[:1] + begin
    a, b = (xp.exp(xp.concatenate([sign * first, sign * log_w]).clip(None, 0)) for sign in (1, -1))
    lack = _lack(part, a[:-1], None if capped else b[:-1])
    # One copy. The weights come along, so that a residual made later has the very entries that were summed here.
    columns = xp.concatenate([a, b, xp.stack([p, q, log_r, log_w, lack]).reshape(-1)]).tolist()
    n = len(part)
    a, b, rest = columns[: n + 1], columns[n + 1 : 2 * n + 2], columns[2 * n + 2 :]
    p, q, log_r, log_w, lack = (rest[i * n : (i + 1) * n] for i in range(5))
    return WeighedChain(p, q, [begin, *log_r], [begin, *log_w], a, b, lack)


def _weigh_here(part: JointChain, capped: bool, begin: float) -> WeighedChain | None:
    """The same by plain numbers, where a kernel reads such rows; None elsewhere.

    A chain is short, and one operation on an array takes as long as all of these.
    """
    tables = (part.rows, part.laws)
    types = [getattr(table, "dtype", None) for table in tables]  # certain rows have none
    if SURPLUS.kernel is None or any(table is None or table.itemsize != 4 for table in types):
        return None
    rows, laws = map(_candidates.in_memory, tables)
    if not _candidates.kind(rows) == _candidates.kind(laws) == "f":
        return None
    picks = list(range(len(part))), list(part.tokens)
    p, q = rows[picks].tolist(), laws[picks].tolist()
    log_r, log_w, total, peak = [begin], [begin], 0.0, 0.0
    for mass, law in zip(p, q, strict=True):
        # A token the draft law cannot give breaks the contract: it counts as rejected.
        total += math.log(mass) - math.log(law) if mass > 0 and law > 0 else -math.inf
        log_r.append(begin + total)
        peak = max(peak, log_r[-1])
        log_w.append(log_r[-1] - peak if capped else log_r[-1])
        if abs(log_w[-1]) < ROUNDING:
            log_w[-1] = 0.0
    a, b = ([math.exp(min(0.0, sign * log)) for log in log_w] for sign in (1, -1))
    masses = SURPLUS.masses(rows, laws, a[:-1], None if capped else b[:-1])
    return None if masses is None else WeighedChain(p, q, log_r, log_w, a, b, *masses)


def _weigh_exactly(part: JointChain, capped: bool, start: Any) -> WeighedChain:
    p, q = (list(x) for x in _masses(part))
    r, w = [start], [start]
    for mass, law in zip(p, q, strict=True):
        rho = Fraction(mass) / law if law > 0 else Fraction(0)
        r.append(r[-1] * rho)
        w.append(min(1, w[-1] * rho) if capped else r[-1])
    a, b = [min(1, x) for x in w], [min(1, 1 / Fraction(x)) if x else 1 for x in w]
    lack = list(_lack(part, _candidates.objects(a[:-1]), _candidates.objects(b[:-1]))) if p else []
    return WeighedChain(
        p, q, [_candidates.log_of(x) for x in r], [_candidates.log_of(x) for x in w], a, b, lack, None, r, w
    )


def _masses(part: JointChain) -> tuple[Any, Any]:
    """What the required rows and the laws give the drafted tokens: two vectors `[gamma]`, wide floats or exact."""
    picks = [list(range(len(part))), list(part.tokens)]
    if isinstance(part.rows, CertainRows):
        hits = [float(g == x) for g, x in zip(part.rows.tokens, part.tokens, strict=True)]
        p = np.array(hits) if part.laws is None else _candidates.like(part.laws, hits)
    else:
        p = part.rows[picks[0], picks[1]]
    q = p * 0 + 1 if part.laws is None else part.laws[picks[0], picks[1]]
    return (p, q) if part.exact else (_candidates.wide(p), _candidates.wide(q))


def _lack(part: JointChain, a: Any, b: Any) -> Any:
    """`sum_y (a p - b q)+` of every position `[gamma]`."""
    if not isinstance(part.rows, CertainRows):
        return _candidates.masses(_candidates.surplus(part.rows, part.laws, part.tokens, a, b))
    share = a * 0 + 1 if b is None else b
    if part.laws is None:
        law = a * 0 + _candidates.like(a, [float(g == x) for g, x in zip(part.rows.tokens, part.tokens, strict=True)])
    else:
        law = part.laws[list(range(len(part))), list(part.rows.tokens)]
    return (a - share * law).clip(0) if not part.exact else np.maximum(a - share * law, 0)


def residual(part: JointChain, weighed: WeighedChain, t: int) -> Row:
    """The row `(a_t p_{t+1} - b_t q_{t+1})+` below the first t tokens, its mass as it is."""
    row = part.rows[t]
    if isinstance(row, Certain):
        return row
    laws = None if part.laws is None else part.laws[t : t + 1]
    a, b = ([x[t]] if part.exact else np.array([x[t]]) for x in (weighed.a, weighed.b))
    return _candidates.surplus(part.rows[t : t + 1], laws, part.tokens[t : t + 1], a, b)[0]


@dataclass(frozen=True, slots=True)
class Position:
    """What is worth recording of position t = 1..gamma. Divergences are of the branch below it.

    `d_pq` lacks, `d_qp` is too much, relative to the capped prefix; `dhat_*` the same with the uncapped ratio. None at
    the last position. `h`: the chance capped HSD keeps the prefix with. `cap_at`: where the ratio peaked, 0 = nowhere
    above 1. An uncapped ratio that no float holds is shown as the largest that one does.
    """

    log_r: float
    cap_at: int
    log_c: float
    d_pq: float | None
    d_qp: float | None
    dhat_pq: float | None
    dhat_qp: float | None
    h: float
    credit_token: float
    credit_hsd: float
    credit_naive: float


LARGEST = 700.0  # exp of it still is a float


def records(part: JointChain) -> list[Position]:
    """The record of every position, `D-` summed by itself and not worked out from `D+`."""
    capped, plain = weigh(part), weigh(part, capped=False)
    over, over_hat = _over(part, capped), _over(part, plain)
    out: list[Position] = []
    credit, cap_at, peak = 1.0, 0, 0.0
    for t in range(1, len(part) + 1):
        credit *= min(1.0, float(plain.p[t - 1]) / float(plain.q[t - 1])) if plain.q[t - 1] > 0 else 0.0
        if plain.log_r[t] > peak:
            cap_at, peak = t, plain.log_r[t]
        unit = math.exp(min(LARGEST, max(0.0, plain.log_r[t])))
        inner = t < len(part)
        out.append(
            Position(
                log_r=plain.log_r[t],
                cap_at=cap_at,
                log_c=capped.log_w[t],
                d_pq=float(capped.lack[t]) if inner else None,
                d_qp=over[t] if inner else None,
                dhat_pq=float(plain.lack[t]) * unit if inner else None,
                dhat_qp=over_hat[t] * unit if inner else None,
                h=float(capped.keep(t)),
                credit_token=credit,
                credit_hsd=float(capped.a[t]),
                credit_naive=float(plain.a[t]),
            )
        )
    return out


def _over(part: JointChain, weighed: WeighedChain) -> list[float]:
    """`sum_y (b q - a p)+` of the branches below t = 0..gamma - 1."""
    if weighed.spare is not None:
        return weighed.spare
    if part.laws is None or isinstance(part.rows, CertainRows) or not len(part):
        return [float(weighed.over(t)) for t in range(len(part))]
    a, b = (_candidates.objects(x[:-1]) if part.exact else np.array(x[:-1]) for x in (weighed.a, weighed.b))
    left = _candidates.surplus(part.laws, part.rows, part.tokens, b, a)
    return [float(x) for x in _candidates.masses(left).tolist()]
