"""Every way a branch round can go, on record: what is written agrees with what was decided, and moves no law.

The production session with a probe at level full, under the enumerating draws; the trace's own checker reads along.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from engine.test_recorded_law import check_verdict
from methods.branch.small import THREE
from specviz import events as ev
from specviz.engine.record.probe import Probe
from specviz.probability.table_models import law
from specviz.trace.check import Checker
from specviz_lab.prove.enumerate import EnumeratedPath, deviation, law_of
from support.table_session import HISTORY, Letters, session, table_models


@pytest.mark.parametrize(
    ("problem", "method", "verifier", "length", "knobs"),
    [
        (HISTORY, "specbranch", "tokenwise", 4, {"epsilon": 0.6, "k_max": 8}),
        (HISTORY, "specbranch", "walk", 4, {"epsilon": 0.6, "k_max": 8}),
        (HISTORY, "specbranch", "tokenwise", 4, {"signal": "0", "branch_rule": "swor"}),
        (THREE, "specbranch", "tokenwise", 3, {"epsilon": 0.55, "k_max": 6}),
        (THREE, "specbranch", "walk", 3, {"epsilon": 0.55, "k_max": 6}),
        (HISTORY, "pearl", "tokenwise", 4, {}),
        (HISTORY, "pearl", "walk", 4, {}),
    ],
    ids=lambda value: str(value) if isinstance(value, str | int | dict) else type(value.p).__name__,
)
@pytest.mark.parametrize("eos", [(), (1,)], ids=["no end", "end token"])
def test_every_way_a_round_can_go(
    problem: Any, method: str, verifier: str, length: int, knobs: dict[str, Any], eos: tuple[int, ...]
) -> None:
    models, causes = table_models(problem, (0, 1, 0)), Counter[str]()

    def run(branch: EnumeratedPath) -> tuple[int, ...]:
        seen: list[Any] = []
        probe = Probe(seen.append, Letters(), "full", 3)  # type: ignore[arg-type]
        options = {"gamma": 2, **knobs, "eos": eos, "max_new_tokens": length, "texts": Letters()}
        running = session(models, branch.keys, method, verifier, sink=probe, **options)
        tokens = tuple(running.generate())
        checker = Checker(Path("trace"))
        for line, event in enumerate(seen, 1):
            checker.take(event, line)
        check_text(seen, tokens, eos)
        check_fates(seen)
        causes.update(e.cause for e in seen if isinstance(e, ev.Rollback))
        causes.update("hit" for e in seen if isinstance(e, ev.Match) and e.branch is not None)
        return tokens

    played_law = law_of(run)
    assert deviation(played_law, law(problem.p, length, eos)) < 1e-12
    assert {"hit", "miss"} <= set(causes)


def check_text(seen: list[Any], tokens: tuple[int, ...], eos: tuple[int, ...]) -> None:
    """Commits make the text; accepted nodes are those committed, in their places; end tokens come last."""
    commits = [e for e in seen if isinstance(e, ev.Commit)]
    assert tuple(t for c in commits for t in c.tokens) == tokens
    assert not set(tokens[:-1]) & set(eos)
    nodes = {e.node: e for e in seen if isinstance(e, ev.Node)}
    for commit in commits:
        verdicts = [e for e in seen if isinstance(e, ev.Verify) and e.r == commit.r]
        kept = [nodes[v.node] for v in verdicts if v.status == "accepted"]
        first = commit.n - len(commit.tokens)
        assert [node.token for node in kept] == commit.tokens[: len(kept)]
        assert [node.pos for node in kept] == list(range(first, first + len(kept)))
        for verdict in verdicts:
            check_verdict(verdict)


def check_fates(seen: list[Any]) -> None:
    """Each node is born once and settled once, not before its birth; fates, verdicts and counts agree."""
    born = {e.node: e.r for e in seen if isinstance(e, ev.Node)}
    assert len(born) == sum(isinstance(e, ev.Node) for e in seen)
    fates: dict[int, tuple[str, int]] = {}
    for settle in (e for e in seen if isinstance(e, ev.Settle)):
        for node, fate in settle.fates:
            assert node not in fates
            assert born[node] <= settle.r
            fates[node] = (fate, settle.r)
    assert set(fates) == set(born)
    for verdict in (e for e in seen if isinstance(e, ev.Verify)):
        fate, r = fates[verdict.node]
        assert r == verdict.r
        assert (fate == "accepted") == (verdict.status == "accepted")
        if fate == "rejected":
            assert verdict.status == "rejected"
    ends = [e for e in seen if isinstance(e, ev.RoundEnd)]
    assert sum(e.n_drafted for e in ends) == len(born)
    assert sum(e.n_accepted for e in ends) == sum(fate == "accepted" for fate, _ in fates.values())
    starts = {e.r: e.n_pending for e in seen if isinstance(e, ev.RoundStart)}
    for r, n_pending in starts.items():
        judged = [e.node for e in seen if isinstance(e, ev.Verify) and e.r == r]
        assert sum(born[node] < r for node in judged) == n_pending
