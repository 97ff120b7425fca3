"""What is recorded of every possible round agrees with what was decided, and recording does not move the law.

Not a sample: the production session with a probe at level full runs under the enumerating draws, so each way a round
can go is seen once, cut rounds and kept end tokens among them.
"""

from typing import Any

import pytest

pytest.importorskip("torch")

from law.enumerate import Branch, deviation, law_of
from law.table_model import HISTORY, Letters, session, table_models
from specviz import events as ev
from specviz.engine.probe import Probe
from specviz.tables import CASE_C, law

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


@pytest.mark.parametrize(("case", "method", "verifier", "knobs", "length"), RUNS, ids=str)
def test_every_way_a_round_can_go(case: str, method: str, verifier: str, knobs: dict[str, Any], length: int) -> None:
    problem = {"H": HISTORY, "C": CASE_C}[case]
    models = table_models(problem, (0, 1, 0))
    eos = [0] if method != "ar" else []

    def run(branch: Branch) -> tuple[int, ...]:
        seen: list[Any] = []
        probe = Probe(seen.append, Letters(), "full", 3)  # type: ignore[arg-type]
        options = {"eos": eos, "max_new_tokens": length, "texts": Letters(), **knobs}
        running = session(models, branch.keys, method, verifier, sink=probe, **options)
        tokens = tuple(running.generate())
        check_whole(seen, tokens)
        for node in (e for e in seen if isinstance(e, ev.Node) and e.kept):
            assert node.fed == (node.token not in eos)  # a drafted end token costs no row
        return tokens

    assert deviation(law_of(run), law(problem.p, length, eos)) < 1e-12


def check_whole(seen: list[Any], tokens: tuple[int, ...]) -> None:
    """All events of one generation."""
    assert [e.i for e in seen] == list(range(len(seen)))
    commits = [e for e in seen if isinstance(e, ev.Commit)]
    assert tuple(t for c in commits for t in c.tokens) == tokens
    assert "".join(text for c in commits for text in c.texts) == "".join("abcd"[t] for t in tokens)
    assert [c.finish is not None for c in commits] == [False] * (len(commits) - 1) + [True]
    for r in range(1, len(commits) + 1):
        check_round([e for e in seen if e.r == r])


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
        return
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
