"""Recorded rounds as the counters of a server would have told them: added up, looked at now and then."""

from datetime import datetime
from itertools import pairwise
from typing import Any

from specviz.events import Counted
from specviz.runlog.fold import Run


def counts_of_rounds(run: Run, every_s: float = 1.0) -> list[Counted]:
    """Totals of a run at its begin, and after every `every_s` seconds of it; empty for a run without two rounds.

    What rounds tell and counters do not (tokens, probabilities, trees) is lost on the way.
    """
    header, n = run.header, len(run.rounds)
    if header is None or n < 2:
        return []
    offset = datetime.fromisoformat(header.wall).timestamp() - header.t / 1e9  # of the trace's clock to the calendar
    began = [offset + run.rounds.began(index) / 1e9 for index in range(n)]
    gaps = sorted(after - before for before, after in pairwise(began))
    ends = [*began[1:], began[-1] + gaps[len(gaps) // 2]]  # the last one took as long as others
    target = header.models.target
    same: dict[str, Any] = {
        "engine": "specviz",
        "models": [target.name] if target is not None else [],
        "settings": {"method": header.method, "verifier": header.verifier, **_temperature(run)},
    }
    rounds = drafted = accepted = generated = answers = empty = 0
    kept: list[int] = []
    looks = [
        Counted(**same, wall=began[0], n_rounds=0, n_drafted=0, n_accepted=0, n_generated=0, n_answers=0, n_empty=0)
    ]
    due = began[0] + every_s
    points = run.rounds.points()
    for point, end in zip(points, ends, strict=True):
        rounds += 1
        drafted, accepted = drafted + (point.n_drafted or 0), accepted + (point.n_accepted or 0)
        generated += point.n_emitted or 0
        kept += [0] * ((point.n_accepted or 0) - len(kept))
        for position in range(point.n_accepted or 0):
            kept[position] += 1
        if rounds == n or points[rounds].q != point.q:
            commit = run.rounds[rounds - 1].commit
            finish = commit.finish if commit is not None else None
            answers += finish is not None
            empty += point.r == 1 and point.n_emitted == 1 and finish in ("eos", "stop")
        if end < due and rounds < n:
            continue
        due = max(due, end - every_s) + every_s
        looks.append(
            Counted(
                **same,
                wall=end,
                n_rounds=rounds,
                n_drafted=drafted,
                n_accepted=accepted,
                n_generated=generated,
                n_answers=answers,
                n_empty=empty,
                per_position=list(kept),
            )
        )
    return looks


def _temperature(run: Run) -> dict[str, str]:
    """As a setting; nothing where it is not told."""
    value = run.knobs.get("temperature", run.header.sampling.get("temperature") if run.header is not None else None)
    return {"temperature": f"{value:g}"} if isinstance(value, int | float) else {}
