"""Every number of the why panel against the record, and the record against decisions made again from whole rows.

Random traces of the production session over random tables, under every layout and verifier, and all bundled traces.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from typing import Any

import pytest

pytest.importorskip("torch")

from specviz import events as ev
from specviz.methods import get_method
from specviz.runlog.fold import fold
from specviz.trace import read_events
from specviz.view import Cursor
from specviz.view.frame.parts import Why
from specviz.view.frame.steps import moment
from specviz.view.panels import remarks
from specviz.view.play.build import FrameBuilder
from specviz.view.why.explain import why
from specviz.view.words.palette import Phase
from support.recordings import RECORDINGS
from view.decisions import Judge
from view.random_runs import NO_ZEROS, ZEROS, Setting, events_of
from view.recount import Facts, complaints, rounds

LAYOUTS: list[dict[str, Any]] = [
    {"gamma": 4},
    {"gamma": 3, "draft_mode": "argmax"},
    {"shape": "chains", "gamma": 3, "candidates": 3},
    {"shape": "chains", "gamma": 3, "candidates": 3, "replacement": False},
    {"shape": "caterpillar", "gamma": 3},
    {"shape": "caterpillar", "gamma": 3, "replacement": False},
    {"shape": "drawn_tree", "d_max": 3},
    {"shape": "drawn_tree", "d_max": 3, "replacement": False},
    {"shape": "tree", "d_max": 3, "w_max": 2, "k_max": 3, "node_budget": 9},
]


def fitting() -> Iterator[Setting]:
    method = get_method("draft")
    for k, layout in enumerate(LAYOUTS):
        for n, verifier in enumerate(method.fitting(method.table.knobs({"temperature": 1.0, **layout}).values)):
            for seed in (10 * k + n, 100 + 10 * k + n):
                temperature, zeros = (1.0, 0.6, 1.3)[(seed + n) % 3], (NO_ZEROS, ZEROS)[seed // 100]
                yield Setting(verifier, tuple(layout.items()), seed, temperature, zeros)
    yield Setting("walk", (("gamma", 4), ("draw", "race")), 1)
    yield Setting("walk", (("gamma", 4), ("draft_mode", "shared")), 2)
    yield Setting("walk", (*LAYOUTS[-1].items(), ("draw", "race")), 3, 0.8)
    for seed in range(20, 28):  # alike drafts: many candidates of few tokens
        yield Setting("tokenwise", (("shape", "chains"), ("candidates", 4), ("gamma", 3)), seed, 0.4)
        yield Setting("multi_hsd", (("shape", "chains"), ("candidates", 4), ("gamma", 3)), seed, 0.5)
    yield Setting("walk", tuple(LAYOUTS[-1].items()), 5, 0.0)
    yield Setting("tokenwise", (("ngram_max", 3),), 6, method="ngram")


SETTINGS = list(fitting())


@cache
def recorded(setting: Setting) -> list[ev.Event]:
    """The records of a setting, made once."""
    return events_of(setting)


def test_the_settings_reach_what_is_asked() -> None:
    """Later siblings, later candidates, twins, tokens that the target cannot give: all of it comes up."""
    seen = dict.fromkeys(("left", "judged", "zero", "nothing left", "draw after siblings", "implied"), 0)
    for setting in SETTINGS:
        for v in recorded(setting):
            if isinstance(v, ev.Verify):
                seen["left"] += v.log_left is not None
                seen["judged"] += v.judged is not None
                seen["zero"] += v.why == "target_zero"
                seen["nothing left"] += v.log_left == ev.ZERO and v.logp != ev.ZERO
                seen["draw after siblings"] += v.kind == "draw" and (v.order or 0) > 0
                seen["implied"] += v.implied
    assert min(seen.values()) > 2, seen


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_every_number_of_a_random_trace(setting: Setting) -> None:
    events = recorded(setting)
    faults = complaints(events, panels(events))
    assert not faults, "\n".join(faults[:10])


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.temperature > 0 and s.method == "draft"], ids=str)
def test_every_record_of_a_random_trace(setting: Setting) -> None:
    """Rows, masses, keep chances, uniforms, and which node was judged: as the rule must have made them."""
    committed: list[int] = []
    for facts, commit in zip(rounds(events := recorded(setting)), commits(events), strict=True):
        check_rows(setting, facts, tuple(committed))
        if facts.header.verifier != "walk":
            check_tests(setting, facts, tuple(committed))
        committed += commit.tokens


def panels(events: list[ev.Event]) -> Callable[[int, int], Why]:
    """The panel of a node at the end of a round."""
    run = fold(events)
    builder = FrameBuilder(run)

    def panel(index: int, node: int) -> Why:
        round_tree = builder.round_tree(index)
        return why(
            run,
            round_tree,
            node,
            moment(round_tree, Cursor(index, Phase.COMMIT)),
            remark=remarks(run, round_tree, node),
        )

    return panel


def commits(events: list[ev.Event]) -> list[ev.Commit]:
    return [e for e in events if isinstance(e, ev.Commit)]


def check_rows(setting: Setting, facts: Facts, before: tuple[int, ...]) -> None:
    """`logp` is p of the target's own row, whatever failed before."""
    for i, v in facts.verdicts.items():
        if v.status != "pruned":
            p = setting.row("p", (*before, *facts.texts[i][:-1]))[facts.nodes[i].token]
            assert v.logp == pytest.approx(ev.log6(p), rel=2e-5, abs=2e-6)
            assert (v.why == "target_zero") == (p == 0 and v.status == "rejected")
            if v.interval is not None:
                assert v.interval[1] - v.interval[0] == pytest.approx(p, abs=1e-9)


def check_tests(setting: Setting, facts: Facts, before: tuple[int, ...]) -> None:
    nodes = [facts.nodes[i] for i in sorted(facts.nodes) if facts.nodes[i].kept]
    judge = Judge(
        nodes,
        lambda text: setting.row("p", (*before, *text)),
        lambda text: setting.row("q", (*before, *text)),
        facts.prefill.seed,
        facts.r,
        distinct=not dict(setting.knobs).get("replacement", True),
    )
    outcome = judge.run(setting.verifier)
    assert len(outcome) == len(facts.tests)
    for test, v in zip(outcome, facts.tests, strict=True):
        assert (v.node if v.judged is None else v.judged) == test.node
        assert v.u == test.u
        assert v.thr == pytest.approx(test.thr, rel=1e-6, abs=1e-9)
        assert test.passed == (v.status == "accepted")
        assert (v.log_left is None) == (test.left is None)
        if test.left is not None:
            left = ev.prob(v.log_left)
            assert left == pytest.approx(test.left, rel=1e-4, abs=1e-9)
        assert facts.texts[v.node] == facts.texts[test.node]


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_every_number_of_a_bundled_trace(name: str) -> None:
    """Up to 12 rounds of each; some were written by an older version, and are told as truly."""
    events = read_events(RECORDINGS[name])
    rest = {key for key, _ in groupby((e.q, e.r) for e in events if e.r) if key[1] <= 12 and key[0] < 2}
    events = [e for e in events if not e.r or (e.q, e.r) in rest]
    faults = complaints(events, panels(events))
    assert not faults, "\n".join(faults[:10])
