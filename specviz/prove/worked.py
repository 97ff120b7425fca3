"""Case D: one draft followed position by position (verification.md 7.6), modelled on the published GSM8K example.

Not an enumeration over drafts: the draft is given (id 0 six times), and what is shown is the arithmetic of the joint
rules on it, with the production code, in fractions, against the golden numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from specviz.probability.draft import Draft
from specviz.probability.plan import Verifier
from specviz.probability.table_models import exact_row
from specviz.verifiers import _joint

GAMMA = 6
_Q = ("0.50 0.30 0.20", "0.41 0.19 0.40", "0.515 0.285 0.2", "0.159 0.441 0.4", "0.3 0.5 0.2", "0.5 0.25 0.25")
_P = (
    "0.41 0.39 0.20",
    "0.515 0.2475 0.2375",
    "0.795 0.105 0.1",
    "0.612 0.188 0.2",
    "0 0.75 0.25",
    "0.5 0.3 0.2",
    "0.2 0.3 0.5",
)
# Of the branches below t = 0..5, and the keep chances of t = 0..6.
GOLDEN_LACK = "0.09 0.02525 0.28 0.453 0.3 0"
GOLDEN_OVER = "0.09 0.20525 0.28 0.453 0.3 1"
GOLDEN_KEEP = "1 101/821 1 1 1 0 0"
GOLDEN_STOPS = {"blockwise": {4: "1"}, "hsd": {4: "1"}, "hsd_naive": {4: "1"}, "tokenwise": {0: "0.18", 4: "0.82"}}


@dataclass(frozen=True, slots=True)
class WorkedBranch:
    """The prefix of t tokens and the branch below it. `None` where there is nothing to say at an end."""

    t: int
    rho: Any | None
    r: Any
    cap_at: int
    c: Any
    lack: Any | None  # D+
    over: Any | None  # D-
    h: Any
    residual: tuple[Any, ...] | None


def draft() -> Draft:
    """The drafted tokens with their laws."""
    nodes = tuple(range(GAMMA))
    laws = np.stack([exact_row(row.split()) for row in _Q])
    return Draft((0,) * GAMMA, (-1, *nodes[:-1]), nodes, GAMMA, GAMMA, law_rows=laws, row_of=nodes)


def target_rows() -> Any:
    """`[gamma + 1, V]`."""
    return np.stack([exact_row(row.split()) for row in _P])


def branches() -> list[WorkedBranch]:
    """Every position of the trace, t = 0..gamma."""
    drafted = draft()
    part = _joint.chain(drafted, range(GAMMA), target_rows())
    capped, plain = _joint.weigh(part), _joint.weigh(part, capped=False)
    assert capped.w is not None, "rows are Fractions"
    assert plain.w is not None, "rows are Fractions"
    out, peak, cap_at = [], Fraction(1), 0
    for t in range(GAMMA + 1):
        rho = part.rows[t - 1][0] / drafted.law_rows[t - 1][0] if t else None
        if plain.w[t] > peak:
            peak, cap_at = plain.w[t], t
        inner = t < GAMMA
        residual = tuple(_joint.residual(part, capped, t)) if inner and capped.lack[t] > 0 else None
        out.append(
            WorkedBranch(
                t,
                rho,
                plain.w[t],
                cap_at,
                capped.w[t],
                capped.lack[t] if inner else None,
                capped.over(t) if inner else None,
                capped.keep(t),
                None if residual is None else tuple(x / sum(residual) for x in residual),
            )
        )
    return out


def stop_law(verifier: Verifier) -> dict[int, Any]:
    """The law of the accepted length on this draft."""
    out: dict[int, Any] = {}
    for (kept, _), prob in verifier.plan(draft(), target_rows()).law().items():
        out[len(kept)] = out.get(len(kept), 0) + prob
    return dict(sorted(out.items()))


def agrees(found: Sequence[WorkedBranch], stops: dict[str, dict[int, Any]]) -> bool:
    """Whether the golden numbers came out."""
    columns = [(GOLDEN_LACK, [b.lack for b in found[:-1]]), (GOLDEN_OVER, [b.over for b in found[:-1]])]
    columns.append((GOLDEN_KEEP, [b.h for b in found]))
    same = all([Fraction(x) for x in text.split()] == values for text, values in columns)
    known = {name: {t: Fraction(x) for t, x in law.items()} for name, law in GOLDEN_STOPS.items() if name in stops}
    return same and all(stops[name] == law for name, law in known.items())


def as_object(found: Sequence[WorkedBranch], stops: dict[str, dict[int, Any]], good: bool) -> dict[str, Any]:
    """The object of `--json`, numbers as fractions in text."""
    return {
        "case": "D",
        "gamma": GAMMA,
        "positions": [
            {
                "t": b.t,
                "rho": _text(b.rho),
                "r": _text(b.r),
                "cap_at": b.cap_at,
                "c": _text(b.c),
                "d_pq": _text(b.lack),
                "d_qp": _text(b.over),
                "h": _text(b.h),
                "residual": None if b.residual is None else [str(x) for x in b.residual],
            }
            for b in found
        ],
        "stop_laws": {name: {str(t): str(x) for t, x in law.items()} for name, law in stops.items()},
        "golden_agrees": good,
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
