"""AdaEDL: the entropy stop keeps the law, the threshold moves as the source says, the discarded forward is counted."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from methods.branch.habits import problem
from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session
from specviz.errors import SpecvizError
from specviz.events import DraftStep
from specviz.methods import get_method, pick_verifier
from specviz.methods.common.runner import laws
from specviz.methods.draft_model.adaedl import AdaEdl, EntropyThreshold
from specviz.probability.draft import ROOT, Draft
from specviz.probability.table_models import CASE_B, CASE_C, Iid, Problem, exact_row, law
from specviz_lab.prove.enumerate import deviation
from support.driver import session as real_session
from support.models import blurred, build
from support.table_session import HISTORY, session, session_law, table_models

EXACT = 1e-12
CASES = {"H": HISTORY, "B": CASE_B, "C": CASE_C}
LIVELY = {"lambda0": 0.6, "entropy_gain": 0.3, "entropy_step": 0.4}  # stops come and go within a few rounds


@pytest.mark.parametrize("verifier", ["walk", "tokenwise"])
@pytest.mark.parametrize(
    ("case", "length", "knobs"),
    [
        ("H", 4, {"gamma": 3}),
        ("H", 4, {"gamma": 3, **LIVELY}),
        ("H", 4, {"gamma": 3, **LIVELY, "entropy_decrease": "full"}),
        ("H", 4, {"gamma": 3, **LIVELY, "draft_mode": "argmax"}),
        ("B", 3, {"gamma": 2, **LIVELY}),
        ("C", 3, {"gamma": 2, "lambda0": 0.5}),
    ],
)
def test_law_of_a_generation(verifier: str, case: str, length: int, knobs: dict[str, Any]) -> None:
    chosen = CASES[case]
    played_law = session_law(chosen, "adaedl", verifier, max_new_tokens=length, **knobs)
    assert deviation(played_law, law(chosen.p, length)) < EXACT


@pytest.mark.parametrize("eos", [0, 1])
def test_law_with_an_end_token(eos: int) -> None:
    played_law = session_law(HISTORY, "adaedl", "tokenwise", max_new_tokens=5, eos=[eos], gamma=3, **LIVELY)
    assert deviation(played_law, law(HISTORY.p, 5, [eos])) < EXACT


def steer(session: Session, done: RoundResult | None) -> None:
    """Other knobs every round, told by the text so far."""
    session.request("gamma", 1 + (session.number + sum(session.new_tokens)) % 3)
    session.request("entropy_gain", (0.1, 0.9, 0.4)[session.number % 3])
    session.request("target_rate", (0.2, 0.9)[len(session.tokens) % 2])


@pytest.mark.parametrize(("case", "length"), [("H", 4), ("B", 3)])
def test_law_with_knobs_changed_every_round(case: str, length: int) -> None:
    chosen = CASES[case]
    played_law = session_law(chosen, "adaedl", "tokenwise", steer=steer, max_new_tokens=length, **LIVELY)
    assert deviation(played_law, law(chosen.p, length)) < EXACT


def test_a_stop_that_looks_at_the_drawn_token_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control, off the law on q = (.8, .2), p = (.5, .5), threshold .3 on q of the drawn token."""

    def propose(self: AdaEdl, ctx: Context) -> Draft:
        tree, node = DraftTree(ctx), ROOT
        while len(tree) < min(ctx.knobs["gamma"], ctx.reach):
            logits = self.drafts.begin(ctx) if node == ROOT else self.drafts.expand(ctx, tree, [node])
            row = laws(ctx, tree, [node], logits)[0]
            token = ctx.draw("draft", tree.depth(node) + 1, row).token
            if float(row[token]) < 0.3:
                break
            node = tree.add(token, node, row, None, "sampled")
        return tree.draft()

    wrong = Problem(2, 1, Iid(exact_row([".5", ".5"])), Iid(exact_row([".8", ".2"])))
    monkeypatch.setattr(AdaEdl, "propose", propose)
    played_law = session_law(wrong, "adaedl", "tokenwise", gamma=1, max_new_tokens=2)
    first = sum(prob for text, prob in played_law.items() if text[0] == 0)
    assert float(first) == pytest.approx(0.6)  # .8 of it was drafted and kept at .5/.8; what was dropped drew from p


def run(temperature: float = 1.0, level: str = "full", **knobs: Any) -> list[RoundResult]:
    """Rounds over the two tables of habits, with a sink of that level."""
    sink = Sink(level)
    session(
        table_models(problem()),
        None,
        "adaedl",
        "tokenwise" if temperature else "walk",
        sink=sink,
        temperature=temperature,
        max_new_tokens=40,
        **knobs,
    ).generate()
    return sink.rounds


class Sink:
    """Keeps the rounds."""

    def __init__(self, level: str) -> None:
        self.level, self.rounds = level, list[RoundResult]()

    def prefilled(self, session: Any, dur_ns: int) -> None: ...
    def round(self, done: RoundResult) -> None:
        self.rounds.append(done)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_look_is_recorded_and_counted(temperature: float) -> None:
    """One forward a look; the one that stopped the chain drew nothing and counts all the same."""
    q, stopped = problem().q, 0
    text = [0]
    for done in run(temperature, gamma=4, lambda0=0.8):
        steps = [fact for fact in done.facts if isinstance(fact, DraftStep)]
        assert done.n_draft_calls == len(steps)
        assert [step.node for step in steps if step.node is not None] == list(done.draft.ids)
        assert [step.stopped for step in steps[:-1]] == [False] * (len(steps) - 1) if steps else True
        for step in steps:
            prefix = [*text, *done.draft.tokens][1 : step.pos]
            row = q.row(prefix)
            entropy = -float((row * np.log(row)).sum())  # T is 0 or 1: the raw law both times
            assert step.entropy == pytest.approx(entropy)
            assert step.conf == pytest.approx(1 - math.sqrt(0.2 * entropy))
            first = step.pos == done.n
            assert (step.bound is None) == first
            assert step.stopped == (not first and step.bound is not None and step.conf < step.bound)
        if steps and steps[-1].stopped:
            stopped += 1
            assert (done.draft.draft_end, steps[-1].node) == ("low_conf", None)
            assert len(done.draft) == len(steps) - 1 >= 1
        else:
            assert done.draft.draft_end in ("full", "length")
        text += done.tokens
    assert stopped > 1


def test_the_threshold_moves_as_the_source_says() -> None:
    """The controller written out again, from what the rounds drafted and kept."""
    for decrease in ("not_full", "full"):
        knobs = {"gamma": 3, "lambda0": 0.6, "entropy_step": 0.05, "target_rate": 0.7, "entropy_decrease": decrease}
        rounds = run(1.0, **knobs)
        lam, rate, moves = 0.6, 0.7, set()
        for done in rounds:
            bounds = [fact.bound for fact in done.facts if isinstance(fact, DraftStep) and fact.bound is not None]
            assert bounds == pytest.approx([lam] * len(bounds))
            d, a = len(done.draft), done.n_accepted
            if not d:
                continue
            rate = 0.5 * rate + 0.5 * a / d
            if rate < 0.7:
                moved = lam + 0.05
            elif (a != 3) if decrease == "not_full" else (a == 3):
                moved = lam - 0.05
            else:
                moved = lam
            moves.add(round(moved - lam, 3))
            lam = 0.9 * lam + 0.1 * moved
        assert moves == {0.05, -0.05, 0.0}  # every branch was taken


def test_the_controller_by_hand() -> None:
    knobs = get_method("adaedl").table.knobs()
    control = EntropyThreshold(0.7, 0.9)
    control.learn(4, 1, 4, knobs)
    assert (control.rate, control.threshold) == (pytest.approx(0.575), pytest.approx(0.9 * 0.7 + 0.1 * 0.71))
    before = control.threshold
    for _ in range(6):
        control.learn(2, 2, 4, knobs)  # good, and not full: falls once the rate is back
    assert control.rate > 0.9
    assert control.threshold < before + 0.1 * 0.01 * 3


def test_the_first_token_is_always_drafted() -> None:
    for done in run(1.0, gamma=4, lambda0=1.0, entropy_gain=1.0, entropy_step=0.0)[:-1]:
        assert len(done.draft) == 1
        assert done.n_draft_calls == 2


def test_a_gain_of_zero_is_plain_speculative_sampling() -> None:
    models = table_models(problem())
    knobs: dict[str, Any] = {"gamma": 4, "max_new_tokens": 30, "seed": 5}
    plain = session(models, None, "sps", "tokenwise", **knobs).generate()
    assert session(models, None, "adaedl", "tokenwise", entropy_gain=0.0, **knobs).generate() == plain


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_text_is_that_of_plain_decoding(temperature: float) -> None:
    model = build("llama", seed=4, dtype=torch.float64)
    draft = blurred(build("llama", seed=4, dtype=torch.float64))
    for seed in range(3):
        knobs: dict[str, Any] = {"temperature": temperature, "seed": seed, "max_new_tokens": 30, "eos": (7, 11)}
        plain = real_session(model, draft, [5, 77, 12], "ar", **knobs).generate()
        for own in ({"gamma": 5}, {"gamma": 5, "draft_mode": "shared"}, {"gamma": 3, "lambda0": 0.2}):
            assert real_session(model, draft, [5, 77, 12], "adaedl", **knobs, **own).generate() == plain


def test_at_temperature_zero_the_raw_law_is_looked_at() -> None:
    """The law of greedy decoding has no entropy and would never stop a chain."""
    ends = {done.draft.draft_end for done in run(0.0, gamma=6, lambda0=0.6)}
    assert "low_conf" in ends


def test_a_backward_scan_is_refused() -> None:
    """The stop tells how long the chain is; only rules that judge from the front are offered."""
    method = get_method("adaedl")
    with pytest.raises(SpecvizError, match="takes no verifier"):
        pick_verifier(method, "hsd", method.table.knobs({"temperature": 1.0}))
    assert pick_verifier(method, None, method.table.knobs()).name == "walk"
    assert pick_verifier(method, None, method.table.knobs({"temperature": 1.0})).name == "tokenwise"
