"""Mistakes that the law tests must see, each made in the production drafter, with about its stated size."""

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session
from specviz.methods.branch import drafter, fork
from specviz.methods.branch.fork import BranchChoice
from specviz.methods.branch.round import BranchRound
from specviz.methods.common.runner import DraftSampler
from specviz.probability.draws import Tested
from specviz.probability.table_models import Iid, Problem, exact_row, law
from specviz_lab.prove.enumerate import BranchKeys, EnumeratedPath, Law, law_of, total_variation
from support.table_session import session, session_law, table_models


def iid(p: str, q: str) -> Problem:
    """Two tables that always say the same."""
    target, draft = Iid(exact_row(p.split())), Iid(exact_row(q.split()))
    return Problem(target.vocab, 2, target, draft)


def first_tokens(whole: Law, n: int) -> Law:
    """The law of the first n tokens."""
    out: Law = {}
    for text, prob in whole.items():
        out[text[:n]] = out.get(text[:n], 0) + prob
    return out


def off(problem: Problem, method: str = "specbranch", n: int = 3, length: int = 4, **knobs: Any) -> float:
    """Total variation of the first n tokens from the target."""
    played_law = session_law(problem, method, "tokenwise", max_new_tokens=length, **{"gamma": 2, **knobs})
    return float(total_variation(first_tokens(played_law, n), law(problem.p, n)))


SKEWED = iid("1/2 1/2", "4/5 1/5")


def test_a_stop_that_looks_at_the_drawn_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """q = (.8, .2), p = (.5, .5), epsilon .3: only draws of token 0 are kept, and (.6, .4) comes out."""
    knobs = {"gamma": 1, "epsilon": 0.3, "signal": "1", "n": 1, "length": 3}
    assert off(SKEWED, **knobs) < 1e-12
    stage = drafter.Branching._draft_stage

    def peeking(self: drafter.Branching, flight: BranchRound) -> Any:
        end = stage(self, flight)
        last = flight.pending[-1] if flight.pending else None
        if last is None or float(flight.drawn[last].law[flight.tree.token(last)]) >= 0.3:
            return end
        fresh = self._flight = BranchRound(
            flight.ctx, drafter.DraftTree(flight.ctx), self.mode
        )  # the draw is thrown away
        fresh.point = flight.drawn[last].look
        for name in ("tree", "pending", "drawn", "fates", "costs", "point"):
            setattr(flight, name, getattr(fresh, name))
        self._flight = flight
        self.rows.open(flight.ctx, [])
        flight.point = None
        return "low_conf"

    monkeypatch.setattr(drafter.Branching, "_draft_stage", peeking)
    played_law = session_law(SKEWED, "specbranch", "tokenwise", gamma=1, epsilon=0.3, signal="1", max_new_tokens=3)
    assert first_tokens(played_law, 1) == pytest.approx({(0,): 0.6, (1,): 0.4})


def test_a_cut_that_reads_a_drafted_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Posterior drafting that keeps a continuation for what it says."""
    knobs = {"method": "pearl", "n": 2, "length": 4}
    assert off(SKEWED, **knobs) < 1e-12
    monkeypatch.setattr(drafter, "n_kept", lambda rest, s, knobs: 0 if rest and rest[0].node.token == 1 else len(rest))
    assert 0.02 < off(SKEWED, **knobs) < 0.2


def test_argmax_drafts_judged_by_their_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = {"epsilon": 0.0, "n": 3, "length": 3}
    assert off(SKEWED, **knobs) < 1e-12
    monkeypatch.setattr(DraftSampler, "token", lambda self, depth, law: int(law.argmax()))
    assert off(SKEWED, **knobs) > 0.1


def test_deterministic_branches_judged_by_their_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    """The k best tokens said to be drawn from q, then tested in turn: up to .75 at one position."""
    problem = iid("1/10 1/5 7/10", "1/2 2/5 1/10")
    knobs = {"signal": "0", "branch_rule": "topk", "k_max": 6, "n": 1, "length": 2}
    assert off(problem, **knobs) < 1e-12
    choose = fork.choose

    def said_drawn(rule: Any, scores: Any, law_: Any, k: int, draw: Any) -> list[BranchChoice]:
        return [replace(choice, law=law_) for choice in choose(rule, scores, law_, k, draw)]

    monkeypatch.setattr(fork, "choose", said_drawn)
    assert off(problem, **knobs) > 0.15


def raise_epsilon(session: Session, done: RoundResult | None) -> None:
    if done is not None:
        session.request("epsilon", 0.95)


def test_pending_tokens_retracted_by_a_raised_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A continuation is dropped because its own token was unlikely: decided after the draw."""
    knobs = {"epsilon": 0.9, "n": 3, "length": 4}
    assert off(SKEWED, steer=raise_epsilon, **knobs) < 1e-12

    def retracting(rest: Any, s: int, knobs: Any) -> int:
        bound = knobs["epsilon"] / 2
        return next((j for j, held in enumerate(rest) if float(held.law[held.node.token]) < bound), len(rest))

    monkeypatch.setattr(drafter, "n_kept", retracting)
    assert off(SKEWED, steer=raise_epsilon, **knobs) > 0.02


class SharedUniform(BranchKeys):
    """The authors' PEARL: a token judged beforehand and the one behind it are tested with the same uniform."""

    def passes(self, pos: int, threshold: Any, index: int = 0) -> Tested:
        key = ("accept", 0, 1, 0)
        if self.branch.known.get(key, (0, 1))[0] > 0:  # the first was rejected: the next one begins anew
            return super().passes(pos, threshold, index)
        drawn = self.branch.cut(key, lambda: [0, threshold, 1]).drawn
        return Tested(drawn.token == 0, float(drawn.u or 0))


def pearl_law(problem: Problem, kind: type[BranchKeys]) -> Law:
    """Two tokens of PEARL with gamma 2, when the third may still follow."""
    models = table_models(problem)

    def run(path: EnumeratedPath) -> tuple[int, ...]:
        running = session(models, lambda r: kind(path, r), "pearl", "tokenwise", gamma=2, max_new_tokens=3)
        rounds = running.rounds()
        while len(running.new_tokens) < 2:
            next(rounds)
        return tuple(running.new_tokens[:2])

    return law_of(run)


def test_pearl_with_a_uniform_of_its_own_per_decision() -> None:
    assert float(total_variation(pearl_law(SKEWED, BranchKeys), law(SKEWED.p, 2))) < 1e-12


def test_pearl_with_a_shared_uniform_is_biased() -> None:
    """Up to .15 over two tokens."""
    problem = iid("2/5 3/5", "9/10 1/10")
    assert float(total_variation(pearl_law(problem, BranchKeys), law(problem.p, 2))) < 1e-12
    assert 0.05 < float(total_variation(pearl_law(problem, SharedUniform), law(problem.p, 2))) < 0.25
