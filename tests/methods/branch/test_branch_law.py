"""Whole decoders by enumeration: the production session, every random decision of it.

Draft stage, soft stop, adaptive branch count, match rules, posterior drafting, caps and end tokens, over several rounds
with a cache of token ids in between: the law of the text is the target's, exactly.
"""

from typing import Any

import pytest

pytest.importorskip("torch")

from methods.branch.small import THREE
from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session
from specviz.probability.table_models import law
from specviz_lab.prove.enumerate import deviation, law_of
from support.table_session import HISTORY, Letters, session, session_law, table_models

EXACT = 1e-12


def own_law(method: str, verifier: str, length: int = 4, problem: Any = THREE, **knobs: Any) -> Any:
    """How far the law of a generation is from the target's."""
    played_law = session_law(problem, method, verifier, max_new_tokens=length, **{"gamma": 2, **knobs})
    return deviation(played_law, law(problem.p, length, knobs.get("eos", ())))


@pytest.mark.parametrize("eos", [(), (1,)], ids=["no end", "end token"])
@pytest.mark.parametrize(
    ("rule", "signal", "k_max", "epsilon"),
    [
        ("topk", "auto", 6, 0.55),
        ("topk", "2", 6, 0.0),
        ("topk", "0", 4, 0.0),
        ("topk", "auto", 1, 1.0),
        ("hybrid", "auto", 6, 0.55),
        ("hybrid", "2", 4, 0.0),
        ("hybrid", "0", 6, 0.55),
        ("hybrid", "auto", 1, 1.0),
        ("swor", "auto", 4, 0.55),
        ("swor", "2", 1, 0.0),
    ],
)
def test_law_of_a_generation(rule: str, signal: str, k_max: int, epsilon: float, eos: tuple[int, ...]) -> None:
    knobs = {"branch_rule": rule, "signal": signal, "k_max": k_max, "epsilon": epsilon}
    assert own_law("specbranch", "tokenwise", eos=eos, **knobs) < EXACT


@pytest.mark.parametrize(
    "knobs",
    [
        {"gamma": 3, "branch_len": 2},
        {"gamma": 3, "epsilon": 0.0, "k_max": 1},
        {"gamma": 1, "epsilon": 0.9, "length": 5},
        {"gamma": 2, "soft_min_keep": 1, "epsilon": 0.95},
        {"gamma": 0},
        {"draft_mode": "argmax", "length": 5},
    ],
    ids=str,
)
def test_law_with_a_history_of_two_tokens(knobs: dict[str, Any]) -> None:
    """Other lengths of draft and branch, drafts that are not drawn, and no draft at all."""
    assert own_law("specbranch", "tokenwise", problem=HISTORY, **knobs) < EXACT


@pytest.mark.parametrize("mode", ["sampled", "shared", "argmax"])
def test_law_under_walk(mode: str) -> None:
    assert own_law("specbranch", "walk", problem=HISTORY, draft_mode=mode, epsilon=0.55) < EXACT


@pytest.mark.parametrize("eos", [(), (0,), (1,)], ids=str)
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_law_of_pearl(gamma: int, eos: tuple[int, ...]) -> None:
    assert own_law("pearl", "tokenwise", 5 if gamma < 3 else 4, HISTORY, gamma=gamma, eos=eos) < EXACT


def test_law_with_stop_texts() -> None:
    played_law = session_law(
        HISTORY, "specbranch", "tokenwise", max_new_tokens=5, gamma=3, epsilon=0.6, stop=["ab"], texts=Letters()
    )
    whole: dict[tuple[int, ...], Any] = {}
    for text, prob in law(HISTORY.p, 5).items():
        at = "".join("ab"[t] for t in text).find("ab")
        cut = text if at < 0 else text[: at + 2]
        whole[cut] = whole.get(cut, 0) + prob
    assert deviation(played_law, whole) < EXACT


def redraw(session: Session, done: RoundResult | None) -> None:
    """Every knob moves before every round, told by the text so far: signals are mixed, epsilon and k_max jump."""
    mark = session.number + sum(session.new_tokens)
    session.request("signal", ("0", "1", "2", "auto")[mark % 4])
    session.request("epsilon", (0.0, 0.55, 1.0, 0.65)[(mark + 1) % 4])
    session.request("k_max", (1, 6, 4)[mark % 3])
    session.request("gamma", (2, 1, 3)[(mark + session.number) % 3])
    session.request("branch_rule", ("hybrid", "topk", "auto", "swor")[(mark * 3) % 4])


@pytest.mark.parametrize("eos", [(), (2,)], ids=["no end", "end token"])
def test_law_with_knobs_redrawn_before_every_round(eos: tuple[int, ...]) -> None:
    played_law = session_law(THREE, "specbranch", "tokenwise", steer=redraw, max_new_tokens=4, eos=eos)
    assert deviation(played_law, law(THREE.p, 4, eos)) < EXACT


def test_a_new_temperature_needs_no_flush() -> None:
    """Pending tokens keep the laws they were drawn from; what follows the change has the target's law at T = 1/2."""
    models = table_models(HISTORY)

    def run(branch: Any) -> tuple[int, tuple[int, ...]]:
        running = session(models, branch.keys, "specbranch", "tokenwise", gamma=2, epsilon=0.0, max_new_tokens=4)
        rounds = running.rounds()
        first = len(next(rounds).tokens)
        running.request("temperature", 0.5)
        list(rounds)
        return first, tuple(running.new_tokens)

    ours, want = law_of(run), {}
    for first, text in ours:
        chance = sum(prob for (n, other), prob in ours.items() if n == first and other[:first] == text[:first])
        for at in range(first, 4):
            row = [float(x) ** 2 for x in HISTORY.p.row(text[:at])]
            chance *= row[text[at]] / sum(row)
        want[first, text] = chance
    assert {first for first, _ in ours} == {1, 2, 3}
    assert deviation(ours, want) < EXACT
