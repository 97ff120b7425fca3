"""Runs with a fault one knows: chains whose probabilities, verdicts and times are written by hand."""

import math
from collections.abc import Sequence
from typing import Any

from specviz import events as ev
from specviz.events import Event
from support.traces import Recipe, make_header

MS = 1_000_000


def chain_round(
    r: int,
    qs: Sequence[float],
    n_kept: int,
    *,
    ps: Sequence[float] | None = None,
    n: int = 10,
    t: int = 0,
    draft_ms: float = 1.0,
    target_ms: float = 2.0,
    probe_ms: float = 0.0,
) -> list[Event]:
    """A round that drafted one token for each of `qs`, kept the first `n_kept`, and closed with one more. `ps`: what
    the target gives them; None: the same."""
    ps = qs if ps is None else ps
    first = r * 100
    records: list[Event] = [ev.RoundStart(r=r, t=t, n=n, root=1, knob_version=0)]
    for k, q in enumerate(qs):
        parent = first + k - 1 if k else -1
        node = ev.Node(
            r=r,
            node=first + k,
            parent=parent,
            depth=k + 1,
            pos=n + k,
            token=1,
            text="a",
            logq=math.log(q),
            mode="sampled",
        )
        records.append(node)
    for k, (q, p) in enumerate(zip(qs, ps, strict=True)):
        status: Any = "accepted" if k < n_kept else "rejected" if k == n_kept else "untested"
        why: Any = {"accepted": "kept", "rejected": "u_above", "untested": "parent_rejected"}[status]
        records.append(
            ev.Verify(
                r=r,
                node=first + k,
                order=k if k <= n_kept else None,
                kind="test",
                logp=math.log(p),
                logq=math.log(q),
                thr=min(1.0, p / q),
                u=0.5,
                status=status,
                why=why,
            )
        )
    end = t + round((draft_ms + target_ms + probe_ms) * MS)
    kinds: list[Any] = ["accepted"] * n_kept + ["bonus" if n_kept == len(qs) else "recovered"]
    count = n_kept + 1
    return [
        *records,
        ev.Commit(r=r, t=end, tokens=[1] * count, texts=["a"] * count, kinds=kinds, n=n + count),
        ev.RoundEnd(
            r=r,
            t=end,
            n_drafted=len(qs),
            n_tested=min(len(qs), n_kept + 1),
            n_accepted=n_kept,
            n_emitted=count,
            n_draft_calls=len(qs),
            n_syncs=1,
            stage_ns={"draft": round(draft_ms * MS), "target": round(target_ms * MS)},
            probe_ns=round(probe_ms * MS),
            draft_end="full" if qs else "low_conf",
            walk_end="leaf" if n_kept == len(qs) else "rejected",
            cut=False,
        ),
    ]


def judged_run(
    rounds: Sequence[Sequence[Event]], calibration: ev.Calibration | None = None, **header: Any
) -> list[Event]:
    """Header, the costs that were measured, a prompt, the rounds one after another, an end; numbered."""
    out: list[Event] = [make_header(Recipe(temperature=0.8), **header)]
    out += [calibration] if calibration is not None else []
    out.append(ev.Prefill(t=0, prompt=[1] * 10, text="p", n_prompt=10, seed=0, dur_ns=10 * MS))
    for records in rounds:
        out += records
    out.append(ev.End(reason="done"))
    for i, event in enumerate(out):
        event.i = i
    return out


def many(count: int, qs: Sequence[float], kept: Sequence[int], **how: Any) -> list[list[Event]]:
    """So many rounds; what is kept of them goes round and round."""
    return [chain_round(r, qs, kept[r % len(kept)], **how) for r in range(1, count + 1)]
