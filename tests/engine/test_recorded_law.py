"""What is recorded of every possible round agrees with what was decided, and recording does not move the law.

Not a sample: the production session with a probe at level full runs under the enumerating draws, so each way a round
can go is seen once, cut rounds and kept end tokens among them.
"""

from typing import Any

import pytest

pytest.importorskip("torch")

from methods.test_family_law import FITS, LAYOUTS, LONG, PROBLEMS
from specviz import events as ev
from specviz.engine.record.probe import Probe
from specviz.probability.table_models import law
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import EnumeratedPath, deviation, law_of
from support.table_session import Letters, session, table_models

TREE = {"shape": "tree", "d_max": 2, "w_max": 2, "k_max": 2, "node_budget": 5}
RUNS = [
    ("H", "draft", "tokenwise", {"gamma": 2}, 6),
    ("H", "draft", "walk", {"gamma": 2}, 5),
    ("H", "draft", "walk", {"gamma": 2, "draft_mode": "shared"}, 6),
    ("H", "draft", "walk", TREE, 6),
    ("H", "draft", "tokenwise", TREE, 6),
    ("H", "ngram", "walk", {"gamma": 3}, 6),
    ("H", "ngram", "tokenwise", {"gamma": 3}, 6),
    ("H", "ar", "walk", {}, 4),
    ("C", "draft", "tokenwise", {"gamma": 2}, 3),
    ("C", "draft", "walk", TREE, 3),
]
RUNS += [
    ("H", "draft", verifier, LAYOUTS[layout], 4 if layout in LONG else 5)
    for layout, verifier in FITS
    if layout != "tree" and not get_verifier(verifier).knobs and layout not in ("drawn tree", "caterpillar")
]
RUNS += [("A", "draft", v, LAYOUTS["caterpillar"], 3) for v in ("multi_hsd", "multi_traversal", "walk")]
RUNS += [
    ("H", "draft", v, {"eos": (), **LAYOUTS[layout]}, 3)
    for layout in ("chains", "caterpillar", "distinct caterpillar", "lean tree")
    for v in ("walk", "tokenwise", "multi_hsd", "multi_traversal")
]
RUNS += [("H", "draft", v, {"eos": (), "gamma": 3}, 4) for v in ("hsd", "hsd_naive", "hsd_ref", "slack")]
RUNS += [("B", "draft", "multi_traversal", LAYOUTS["distinct tree"], 2), ("C", "draft", "hsd", {"gamma": 2}, 3)]


@pytest.mark.parametrize(("case", "method", "verifier", "knobs", "length"), RUNS, ids=str)
def test_every_way_a_round_can_go(case: str, method: str, verifier: str, knobs: dict[str, Any], length: int) -> None:
    problem = PROBLEMS[case]
    models = table_models(problem, (0, 1, 0))
    eos = list(knobs.get("eos", [0] if method != "ar" else []))

    def run(branch: EnumeratedPath) -> tuple[int, ...]:
        seen: list[Any] = []
        probe = Probe(seen.append, Letters(), "full", 3)  # type: ignore[arg-type]
        options = {**knobs, "eos": eos, "max_new_tokens": length, "texts": Letters()}
        running = session(models, branch.keys, method, verifier, sink=probe, **options)
        tokens = tuple(running.generate())
        check_whole(seen, tokens)
        check_carries(seen)
        if get_verifier(verifier).traits.backward:
            assert all(v.implied == (v.order is None) for v in seen if isinstance(v, ev.Verify) and v.why == "kept")
        if verifier in ("blockwise", "hsd"):
            check_chains(seen)
        for node in (e for e in seen if isinstance(e, ev.Node) and e.kept):
            assert node.fed == (node.token not in eos)  # a drafted end token costs no row
        return tokens

    played_law = law_of(run)
    assert sum(played_law.values()) == pytest.approx(1)
    if get_verifier(verifier).lossless:
        assert deviation(played_law, law(problem.p, length, eos)) < 1e-12


def check_whole(seen: list[Any], tokens: tuple[int, ...]) -> None:
    """All events of one generation."""
    assert [e.i for e in seen] == list(range(len(seen)))
    commits = [e for e in seen if isinstance(e, ev.Commit)]
    assert tuple(t for c in commits for t in c.tokens) == tokens
    assert "".join(text for c in commits for text in c.texts) == "".join("abcd"[t] for t in tokens)
    assert [c.finish is not None for c in commits] == [False] * (len(commits) - 1) + [True]
    for r in range(1, len(commits) + 1):
        check_round([e for e in seen if e.r == r])


def check_carries(seen: list[Any]) -> None:
    """A round is carried after one that stopped short of its planned end, and drafts nothing."""
    starts = {e.r: e for e in seen if isinstance(e, ev.RoundStart)}
    for end in (e for e in seen if isinstance(e, ev.RoundEnd)):
        if starts[end.r].carry is not None:
            assert (end.n_drafted, end.n_draft_calls, end.n_emitted) == (0, 1, 1)
            assert starts[end.r].carry > 0  # R > 1 along a carried path


def check_chains(seen: list[Any]) -> None:
    """The joint ratios of a chain against the masses and the tests of its nodes."""
    chains = {e.node: e for e in seen if isinstance(e, ev.Chain)}
    drawn = [e for e in seen if isinstance(e, ev.Verify) and e.logq is not None]
    assert set(chains) == {v.node for v in drawn}
    parent = {e.node: e.parent for e in seen if isinstance(e, ev.Node)}
    for v in drawn:
        at, before = chains[v.node], chains.get(parent[v.node])
        log_r = v.logp - v.logq + (before.log_r if before else 0.0)
        assert at.log_r == pytest.approx(log_r, abs=5e-5) or at.log_r <= ev.ZERO / 2
        assert at.log_c == pytest.approx(min(0.0, v.logp - v.logq + (before.log_c if before else 0.0)), abs=5e-5) or (
            at.log_c <= ev.ZERO / 2
        )
        assert at.credit_token <= at.credit_hsd + 1e-6 <= at.credit_naive + 2e-6
        if at.d_pq is not None:
            assert at.d_qp - at.d_pq == pytest.approx(1 - at.credit_hsd, abs=1e-5)
            assert at.dhat_qp - at.dhat_pq == pytest.approx(1 - ev.prob(at.log_r), rel=1e-4, abs=1e-5)
        if v.thr is not None:
            assert at.h == v.thr  # what hsd decided by, all digits


def check_round(events: list[Any]) -> None:
    """The records of one round among themselves."""
    nodes = {e.node: e for e in events if isinstance(e, ev.Node)}
    verdicts = [e for e in events if isinstance(e, ev.Verify)]
    [commit], [end] = [[e for e in events if isinstance(e, kind)] for kind in (ev.Commit, ev.RoundEnd)]
    [closing] = [e for e in events if isinstance(e, ev.Closing)]
    kept = [v.node for v in verdicts if v.status == "accepted"]
    tokens = [nodes[i].token for i in kept]
    assert end.n_accepted == len(kept)
    assert end.n_emitted == len(commit.tokens)
    assert commit.tokens == tokens + ([] if closing.kind == "none" else [closing.token])
    assert [nodes[i].parent for i in kept] == [-1, *kept][: len(kept)]
    assert end.cut or closing.node == (kept[-1] if kept else -1)
    for verdict in verdicts:
        check_verdict(verdict)
    asked = [v for v in verdicts if v.order is not None]
    assert sorted(v.order for v in asked) == list(range(len(asked)))
    assert {v.node for v in verdicts} <= set(nodes)


def check_verdict(v: Any) -> None:
    """Outcome, number and comparison say the same."""
    if v.order is None:
        assert v.status in ("untested", "pruned", "accepted")
        assert v.implied or v.status != "accepted"
        assert v.thr is None or v.implied
        return
    assert not v.implied
    assert 0 <= v.thr <= 1
    passed = v.u < v.thr if v.kind == "test" else v.interval[0] <= v.u < v.interval[1]
    if v.status == "accepted":
        assert passed
        assert v.why == "kept"
    elif v.status == "rejected":
        assert not passed
        assert v.why == ("target_zero" if v.logp <= ev.log6(0) else "u_above" if v.kind == "test" else "not_drawn")
    else:
        assert v.why in ("after_stop", "length")
