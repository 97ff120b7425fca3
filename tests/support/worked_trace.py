"""Case D as a recorded run: a chain of six, judged by a rule with uniforms by hand.

Rows are worked out by hand, V = 3 a position, the drafted token first. Tokens get ids and texts of their own
position by position, so that the screen reads like the published example. Every record is made by the production
arithmetic; what it must come to stands in the tests.
"""

from typing import Any

import numpy as np

from specviz import events as ev
from specviz.events import Event
from specviz.probability.draft import Draft
from specviz.probability.plan import DrawResult, Test, TestResult
from specviz.verifiers import _joint, get_verifier
from support.traces import Recipe, make_header

TEXTS = ("she", " work", "ed", " 45", "-", " 40")
OTHERS = (
    (" he", " they"),
    (" walk", " sing"),
    ("s", "ing"),
    (" 40", " 50"),
    (" hours", " h"),
    (" 30", " 20"),
    (" a", " b"),
)
Q = (
    (0.50, 0.30, 0.20),
    (0.41, 0.19, 0.40),
    (0.515, 0.285, 0.2),
    (0.159, 0.441, 0.4),
    (0.3, 0.5, 0.2),
    (0.5, 0.25, 0.25),
)
P = (
    (0.41, 0.39, 0.20),
    (0.515, 0.2475, 0.2375),
    (0.795, 0.105, 0.1),
    (0.612, 0.188, 0.2),
    (0, 0.75, 0.25),
    (0.5, 0.3, 0.2),
    (0.2, 0.3, 0.5),
)
US = (0.90, 0.35, 0.71, 0.27, 0.44, 0.08)
N, ROUND = 20, 37


class _ByHand:
    """Uniforms of the accept tests as given; every draw at .5."""

    def __init__(self, us: tuple[float, ...]) -> None:
        self.us = us

    def passes(self, pos: int, threshold: float, index: int = 0) -> Any:
        from specviz.probability.draws import Tested

        u = self.us[pos - N]
        return Tested(u < threshold, u)

    def draw(self, stream: str, pos: int, row: Any, index: int = 0) -> Any:
        from specviz.probability.draws import invert

        return invert(row, 0.5)


def worked_events(
    verifier: str = "hsd",
    us: tuple[float, ...] = US,
    p: Any = P,
    q: Any = Q,
    texts: tuple[str, ...] = TEXTS,
    level: str = "full",
    round_: int = ROUND,
) -> list[Event]:
    """A run of one round: these rows, these uniforms, that rule."""
    rows, laws, gamma = np.array(p), np.array(q), len(q)
    draft = Draft(
        tokens=(0,) * gamma,
        parents=tuple(range(-1, gamma - 1)),
        ids=tuple(range(gamma)),
        n_judged=gamma,
        n_fed=gamma,
        law_rows=laws,
        row_of=tuple(range(gamma)),
    )
    plan = get_verifier(verifier).plan(draft, rows)
    outcome = plan.walk(_ByHand(us), N)
    nodes = [
        ev.Node(
            node=t,
            parent=t - 1,
            depth=t + 1,
            pos=N + t,
            token=_token(t, 0),
            text=_text(t, 0, texts),
            logq=ev.log6(laws[t][0]),
            log_conf=ev.log6(laws[t][0]),
            mode="sampled",
        )
        for t in range(gamma)
    ]
    records = _joint.records(_joint.chain(draft, tuple(range(gamma)), rows))
    chains = [
        ev.Chain(node=t, cap_at=r.cap_at, log_r=ev.six(r.log_r), log_c=ev.six(r.log_c), **_six(r))
        for t, r in enumerate(records)
    ]
    stop = len(outcome.accepted)
    last = outcome.steps[-1]
    assert isinstance(last, DrawResult)
    closing = _closing(last, rows, laws, stop, texts)
    tokens = [_token(t, 0) for t in range(stop)] + [closing.token or 0]
    kinds: list[Any] = [*["accepted"] * stop, closing.kind]
    words = [_text(t, 0, texts) for t in range(stop)] + [closing.text or ""]
    verdicts = [_verdict(t, plan, outcome, us, rows, laws) for t in range(gamma)]
    out: list[Event] = [
        ev.RoundStart(n=N, root=6, knob_version=0),
        _pieces(texts),
        *nodes,
        *verdicts,
        *chains,
        closing,
        ev.Commit(tokens=tokens, texts=words, kinds=kinds, n=N + len(tokens)),
        ev.RoundEnd(
            n_drafted=gamma,
            n_tested=sum(v.order is not None for v in verdicts),
            n_accepted=stop,
            n_emitted=len(tokens),
            n_draft_calls=gamma,
            n_syncs=1,
            stage_ns={"target": 2_000_000},
            probe_ns=0,
            draft_end="full",
            walk_end="rejected" if closing.kind == "recovered" else "leaf",
            cut=False,
        ),
    ]
    recipe = Recipe(temperature=1.0, verifier=verifier, gamma=gamma, level=level)
    start = [make_header(recipe), ev.Prefill(prompt=[6] * N, text="Every week", n_prompt=N, seed=0, dur_ns=1000)]
    for event in out:
        event.r = round_
    events = [*start, *out, ev.End(reason="done", r=round_)]
    kept = [e for e in events if ev.LEVELS[e.written_at] <= ev.LEVELS[level]]
    for i, event in enumerate(kept):
        event.i, event.t = i, 1_000_000 * (i + 1)
        if level != "full" and isinstance(event, ev.Closing):
            event.row = None
        if level != "full" and isinstance(event, ev.Verify):
            event.tv_pq = None
    return kept


def _pieces(texts: tuple[str, ...]) -> ev.Pieces:
    return ev.Pieces(pieces=[(_token(t, k), _text(t, k, texts), None) for t in range(7) for k in range(3)])


def _token(t: int, k: int) -> int:
    return 100 * (t + 1) + k


def _text(t: int, k: int, texts: tuple[str, ...]) -> str:
    return (texts[t] if t < len(texts) else " and") if k == 0 else OTHERS[min(t, len(OTHERS) - 1)][k - 1]


def _six(record: _joint.Position) -> dict[str, Any]:
    names = ("d_pq", "d_qp", "dhat_pq", "dhat_qp", "h", "credit_token", "credit_hsd", "credit_naive")
    return {name: None if (value := getattr(record, name)) is None else ev.six(value) for name in names}


def _verdict(t: int, plan: Any, outcome: Any, us: tuple[float, ...], rows: Any, laws: Any) -> ev.Verify:
    tests = {s.step.node: (k, s) for k, s in enumerate(outcome.steps) if isinstance(s, TestResult)}
    order, result = tests.get(t, (None, None))
    thr: float | None
    if result is not None:
        thr, u, implied = float(result.step.threshold), result.u, False
        status, why = ("accepted", "kept") if result.passed else ("rejected", "u_above" if thr > 0 else "target_zero")
    elif t in outcome.accepted:
        step = plan.step(("scan", t + 1))
        assert isinstance(step, Test)
        thr, u, implied, status, why = float(step.threshold), us[t], True, "accepted", "implied"
    else:
        thr, u, implied, status, why = None, None, False, "untested", "parent_rejected"
    gap = ev.six(float(np.abs(rows[t] - laws[t]).sum() / 2))
    return ev.Verify(
        node=t,
        order=order,
        kind="test",
        logp=ev.log6(rows[t][0]),
        logq=ev.log6(laws[t][0]),
        thr=thr,
        u=u,
        status=status,
        implied=implied,
        why=why,
        tv_pq=gap,  # type: ignore[arg-type]
    )


def _closing(last: DrawResult, rows: Any, laws: Any, stop: int, texts: tuple[str, ...]) -> ev.Closing:
    row, drawn = last.step.row(), last.drawn
    law = laws[stop] if stop < len(laws) else None
    table = [
        (
            _token(stop, k),
            float(rows[stop][k]),
            None if law is None else float(law[k]),
            float(row[k]),
            float(row[k] / row.sum()),
        )
        for k in sorted(range(3), key=lambda k: -row[k])
        if row[k] > 0
    ]
    return ev.Closing(
        node=stop - 1,
        kind=last.step.kind,
        token=_token(stop, drawn.token),
        text=_text(stop, drawn.token, texts),
        u=drawn.u,
        interval=(drawn.lo or 0.0, drawn.hi or 1.0),
        logp=ev.log6(rows[stop][drawn.token]),
        mass=1.0 if last.step.mass is None else float(last.step.mass),
        equals_drafted=drawn.token == 0 and stop < len(laws),
        fallback=last.step.fallback,
        row=table,
    )
