"""The worked trace, the signal's sources, and what a branch round leaves on record."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from methods.branch.sharp import sharp_pair
from methods.branch.watch import Watch, fact, facts
from specviz.engine.decode.context import Observation
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.events import DraftStep, Fork, Match, Posterior, Rollback, Settle, Signal, Span, Warn
from specviz.methods import get_method
from specviz.methods.branch import hrad
from specviz.methods.branch.drafter import Branching, n_kept
from specviz.methods.branch.fork import BranchDrafter
from specviz.methods.branch.hrad import Classifier, Signals, VerdictRecord
from specviz.probability.draft import Draft
from specviz.probability.table_models import Problem
from specviz.verifiers import get_verifier
from support.driver import session as real_session
from support.models import build
from support.table_session import session, table_models

P = 11  # prompt tokens; its last one is the root of the first round
DRAFT = {0: 0.8, 1: 0.6, 2: 0.2, 3: 0.81, 4: 0.66, 5: 0.93, 6: 0.9}  # the top of the draft row, by place in the text
TARGET = {2: 1, 4: 3}  # where the target's best token is not the draft's, which is 0


class ByPlace:
    """Rows told by the length of the text alone."""

    vocab = 6

    def __init__(self, tops: Mapping[int, float], best: Mapping[int, int]) -> None:
        self.tops, self.best = tops, best

    def row(self, prefix: Sequence[int]) -> Any:
        top, best = self.tops.get(len(prefix), 0.5), self.best.get(len(prefix), 0)
        rest = np.array([1.1, 1.05, 1.0, 0.95, 0.9]) * (1 - top) / 5  # the second best comes first
        return np.insert(rest, best, top)

    def in_floats(self) -> Any:
        raise NotImplementedError


def worked() -> tuple[Session, Watch]:
    """The first three rounds of the worked trace: gamma = L = 4, k_max = 6, signals 1, 2 and 0."""
    watch = Watch()
    models = table_models(Problem(6, 4, ByPlace({}, TARGET), ByPlace(DRAFT, {})), (0,) * P)
    run = session(
        models, None, "specbranch", "walk", sink=watch, temperature=0.0, gamma=4, k_max=6, epsilon=0.3, signal="1"
    )
    rounds = run.rounds()
    for signal in ("2", "0", "0"):
        next(rounds)
        run.request("signal", signal)
    return run, watch


def test_the_worked_trace() -> None:
    """Lengths, forwards, counts, fates and reasons of the worked trace, stage by stage."""
    _, watch = worked()
    first, second, third = watch.rounds

    assert [step.conf for step in facts(first, DraftStep) if step.branch is None] == [0.8, 0.6, 0.2]
    fork = fact(first, Fork)
    assert (fork.pos, fork.k, fork.known, fork.reason, fork.branch_len) == (13, 4, True, "low_conf", 4)
    assert fork.k_raw == pytest.approx(4.8)
    assert first.n_draft_calls == 3 + 3  # three in the draft stage, three in the branches
    assert (fact(first, Match).branch, len(first.tokens), first.n_after) == (1, 3, 14)
    assert first.kv_before == {"target": 10, "draft": 0}  # the draft model reads the prompt in its first forward
    assert first.kv_after == {"target": 13, "draft": 16}

    posterior, fork = fact(second, Posterior), fact(second, Fork)
    assert (posterior.s, posterior.n_kept, posterior.known) == (2, 3, False)
    assert (fork.pos, fork.k, fork.known, fork.reason) == (17, 1, False, "after_last")
    assert second.n_draft_calls == 1 + 3
    assert (len(second.tokens), second.n_after) == (2, 16)
    assert second.kv_after == {"target": 15, "draft": 15}
    rollback = fact(second, Rollback)
    assert rollback.cause == "reject"
    assert rollback.node == second.draft.ids[1]
    assert rollback.void == {"rejected": 1, "orphaned": 1, "branch_void": 4}

    assert third.n == 16
    assert not third.draft.pending
    assert fact(third, Signal).s == 0
    assert (fact(third, Fork).reason, fact(third, Fork).pos, fact(third, Fork).known) == ("s0", 16, False)


def test_spans_of_the_worked_trace() -> None:
    """One per draft forward, in order, never two at once; those whose tokens were all void are marked."""
    _, watch = worked()
    names = [[span.name for span in facts(done, Span)] for done in watch.rounds[:2]]
    assert names == [["draft"] * 3 + ["branch x4"] * 3, ["fork", *["branch x1"] * 3]]
    assert [span.void for span in facts(watch.rounds[0], Span)] == [False] * 6
    assert [span.void for span in facts(watch.rounds[1], Span)] == [True] * 4
    for done in watch.rounds:
        spans = [span for span in facts(done, Span) if span.lane == "draft"]
        assert all(a.t0 + a.dur_ns <= b.t0 for a, b in pairwise(spans))


def test_nothing_is_noted_at_level_none() -> None:
    watch = Watch("none")
    models = table_models(Problem(6, 4, ByPlace({}, TARGET), ByPlace(DRAFT, {})), (0,) * P)
    run = session(models, None, "specbranch", "walk", sink=watch, temperature=0.0, max_new_tokens=20, signal="1")
    run.generate()
    assert not [fact for done in watch.rounds for fact in done.facts]


# The signal.


class Always(Classifier):
    """A classifier that answers one class and writes down what it was asked."""

    def __init__(self, s: int, tap: int) -> None:
        self.s, self.taps = s, (tap,)
        self.asked: list[tuple[torch.Tensor, int]] = []

    def classify(self, features: Mapping[int, torch.Tensor], token: int) -> Any:
        self.asked.append((features[self.taps[0]].clone(), token))
        return SimpleNamespace(s=self.s, probs=tuple(float(k == self.s) for k in range(3)))


def asking(prompt: list[int], classifier: Any, **knobs: Any) -> tuple[Session, Watch]:
    """A session on a small model that drafts for itself, with a classifier of our own."""
    model, watch = ModelAdapter(build("llama", seed=1, dtype=torch.float64)), Watch()
    method = get_method("specbranch")
    snapshot = method.table.knobs({"max_new_tokens": 24, "epsilon": 0.0, **knobs})
    models = FactoryModels(model, model, 640)
    parts = SessionConfig(models, Branching(models, "sampled", Signals(classifier)), get_verifier("walk"))
    return Session(parts, prompt, method.table, snapshot, sink=watch), watch


def test_the_classifier_reads_the_row_that_chose_the_newest_token() -> None:
    """Absolute place n - 2, whatever the round before was; the token is the newest committed one."""
    classifier = Always(2, 2)
    run, watch = asking([5, 77, 12, 5], classifier)
    run.generate()
    assert {fact(done, Signal).source for done in watch.rounds if fact(done, Signal)} == {"hrad"}
    asked = [done for done in watch.rounds if fact(done, Signal)]
    assert len(asked) == len(classifier.asked) > 3
    with torch.inference_mode():
        whole = torch.tensor([run.tokens])
        states = run.target.model(whole, use_cache=False, output_hidden_states=True).hidden_states[2][0]
    for done, (row, token) in zip(asked, classifier.asked, strict=True):
        assert token == run.tokens[done.n - 1]
        assert torch.allclose(row[-1], states[done.n - 2], atol=1e-8)


@pytest.mark.parametrize(("s", "most"), [(0, 0), (2, 4)])
def test_the_signal_decides_how_much_is_pending(s: int, most: int) -> None:
    run, watch = asking([5, 77, 12, 5], Always(s, 2))
    run.generate()
    assert max(done.draft.n_fed for done in watch.rounds) == most
    stages = {fact(done, Signal).stage for done in watch.rounds if fact(done, Signal)}
    assert stages == {"draft", "posterior"}


def test_without_a_feature_row_the_signal_falls_back() -> None:
    """A prompt of one token has none; the next round has."""
    run, watch = asking([5], Always(2, 2))
    run.generate()
    sources = [fact(done, Signal).source for done in watch.rounds if fact(done, Signal)]
    assert sources[0] == "fallback"
    assert set(sources[1:]) == {"hrad"}


def test_without_a_classifier_it_is_said_once_and_a_forced_signal_needs_none() -> None:
    run, watch = asking([5, 77, 12], None)
    run.generate()
    assert [w.code for done in watch.rounds for w in facts(done, Warn)] == ["no_hrad"]
    assert {fact(done, Signal).source for done in watch.rounds if fact(done, Signal)} == {"fallback"}
    run, watch = asking([5, 77, 12], None, signal="2")
    run.generate()
    assert not [w for done in watch.rounds for w in facts(done, Warn)]
    assert {fact(done, Signal).source for done in watch.rounds if fact(done, Signal)} == {"forced"}


def unaided(draft: ModelAdapter, **knobs: Any) -> tuple[Branching, Watch]:
    """A finished run of that draft model beside a small target, without a classifier, unsure of everything."""
    target, watch, method = ModelAdapter(build("llama", seed=1, dtype=torch.float64)), Watch(), get_method("specbranch")
    drafter = Branching(FactoryModels(target, draft, 640), "sampled", Signals(None))
    parts = SessionConfig(FactoryModels(target, draft, 640), drafter, get_verifier("walk"))
    snapshot = method.table.knobs({"max_new_tokens": 60, "epsilon": 1.0, **knobs})
    Session(parts, [5, 77, 12], method.table, snapshot, sink=watch).generate()
    return drafter, watch


@pytest.mark.parametrize(("seed", "s", "length"), [(1, 2, 4), (2, 1, 1)], ids=["the target itself", "another model"])
def test_without_a_classifier_the_verdicts_of_the_run_decide(seed: int, s: int, length: int) -> None:
    """Of a draft that the target takes nothing is cut; one that it rejects stops, and its branches are short."""
    _, watch = unaided(ModelAdapter(build("llama", seed=seed, dtype=torch.float64)))
    signals, forks = ([signal for done in watch.rounds for signal in facts(done, kind)] for kind in (Signal, Fork))
    assert signals[0].s == 1, "nothing was judged yet"
    assert {signal.s for signal in signals[4:]} == {s}
    assert {fork.branch_len for fork in forks[5:8]} == {length}


class Everything(VerdictRecord):
    """One that forgets nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[bool] = []

    def add(self, judged: Iterable[tuple[float, bool]], epsilon: float) -> None:
        verdicts = list(judged)
        self.seen += [taken for _, taken in verdicts]
        super().add(verdicts, epsilon)


def test_every_judged_place_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the fates and matches on record say; a hit behind a branch other than the first is a miss of its token."""
    monkeypatch.setattr(hrad, "VerdictRecord", Everything)
    drafter, watch = unaided(sharp_pair()[1], k_max=8, epsilon=0.25)
    record = drafter.signals.verdicts
    assert isinstance(record, Everything)
    fates = [fate for done in watch.rounds for settle in facts(done, Settle) for _, fate in settle.fates]
    hits = [match.branch for done in watch.rounds for match in facts(done, Match)]
    assert record.seen.count(True) == fates.count("accepted") - len([h for h in hits if h is not None]) + hits.count(0)
    assert record.seen.count(False) == fates.count("rejected") + len(hits) - hits.count(0)
    assert {True, False} == set(record.seen)


def test_what_a_record_of_verdicts_decides() -> None:
    record = VerdictRecord()
    assert (record.signal, record.likely_len(6)) == (1, 6)
    record.add([(0.9, False), (0.1, True)], 0.3)
    assert record.signal == 2, "the sure one is not asked about"
    record.add([(0.1, False)] * 2, 0.3)
    assert (record.signal, record.likely_len(6)) == (1, 2), "2 in 5, with one for the beginning: .4, .16"
    record.add([(0.1, True)] * VerdictRecord.SPAN, 0.3)
    assert (record.signal, record.likely_len(6)) == (2, 6), "only the newest count"


class Elsewhere(Always):
    """One that learned from rounds of gamma 4 at temperature 0."""

    learned = (4, 0.0)

    def mismatch(self, gamma: int, temperature: float) -> str | None:
        return None if (gamma, temperature) == (4, 0) else f"not for {gamma} and {temperature:g}"


def test_a_classifier_used_elsewhere_than_it_learned_says_so_once() -> None:
    def told(watch: Watch) -> list[tuple[str, str]]:
        return [(warn.code, warn.message) for done in watch.rounds for warn in facts(done, Warn)]

    run, watch = asking([5, 77, 12], Elsewhere(2, 2), gamma=3)
    run.generate()
    assert told(watch) == [("other_hrad", "not for 3 and 0")]
    run, watch = asking([5, 77, 12], Elsewhere(2, 2), gamma=4)
    assert run.drafter is not None
    assert run.drafter.parts() == {"hrad": "γ4 T0: trained on rounds of gamma 4 at temperature 0"}  # type: ignore[attr-defined]
    rounds = run.rounds()
    next(rounds)
    run.request("gamma", 2)
    list(rounds)
    assert told(watch) == [("other_hrad", "not for 2 and 0")], "only from the change on"
    run, watch = asking([5, 77, 12], Elsewhere(2, 2), gamma=3, signal="2")
    run.generate()
    assert told(watch) == [], "it is not asked"


def test_the_cut_of_a_surviving_branch() -> None:
    """Signal 1 keeps what stands before the first unsure row, from the first or the second one on."""

    def kept(s: int, least: int, epsilon: float, *confs: float) -> int:
        rest: Any = [SimpleNamespace(look=SimpleNamespace(conf=conf)) for conf in confs]
        return n_kept(rest, s, get_method("specbranch").table.knobs({"epsilon": epsilon, "soft_min_keep": least}))

    assert kept(0, 0, 0.5, 0.9, 0.9) == 0
    assert kept(2, 0, 0.5, 0.1, 0.1) == 2
    assert kept(1, 0, 0.5, 0.9, 0.4, 0.9) == 1
    assert kept(1, 0, 0.5, 0.4, 0.9) == 0
    assert kept(1, 1, 0.5, 0.4, 0.9, 0.3) == 2
    assert kept(1, 0, 0.5, 0.5, 0.6) == 2
    assert kept(1, 0, 0.0, 0.0, 0.0) == 2


def test_an_observation_of_the_prefill_alone_settles_nothing() -> None:
    signals = Signals(Always(1, 2))
    model = ModelAdapter(build("llama", seed=1))
    drafter = Branching(FactoryModels(model, model, 64), "sampled", signals)
    drafter.observe(Observation((7,), Draft(), None, {2: torch.zeros(1, 4)}))
    assert drafter.cached() == 0


def test_the_record_of_a_match() -> None:
    """The tests are those of the verdict, in order; the mass is the target's share of all branch tokens."""
    watch = Watch()
    model = ModelAdapter(build("llama", seed=1, dtype=torch.float64))
    run = real_session(
        model, model, [5, 77, 12], "specbranch", "tokenwise", sink=watch, temperature=1.0, epsilon=0.0, k_max=9
    )
    run.generate()
    seen = 0
    for done in watch.rounds:
        match, fork = fact(done, Match), fact(done, Fork)
        if match is None:
            continue
        row = done.target_probs[len(done.draft.judged) - fork.k]
        assert match.mass == pytest.approx(float(sum(row[b.token] for b in fork.branches)), rel=1e-5)
        assert [t.token for t in match.tests] == [b.token for b in fork.branches][: len(match.tests)]
        assert [t.ok for t in match.tests] == [False] * (len(match.tests) - 1) + [match.branch is not None]
        assert all((t.u < t.thr) == t.ok for t in match.tests)
        assert done.tokens[-1] == match.token
        seen += match.branch is not None
    assert seen > 2
    assert all(fact(done, Settle) for done in watch.rounds if done.draft.nodes)


@pytest.mark.parametrize(
    ("asked", "known", "free", "want"),
    [
        (-1, True, 900, 4),
        (-1, False, 900, 3),
        (0, True, 900, 8),
        (5, True, 900, 5),
        (20, True, 900, 8),
        (0, True, 4, 3),
        (-2, True, 900, 6),
        (-2, True, 4, 3),
    ],
)
def test_length_of_branches(asked: int, known: bool, free: int, want: int) -> None:
    """By knob, room (8), what fits beside a target pass of 7 at 2 a forward, what is likely to be kept (6), and slots:
    two branches share 4."""
    rows: Any = SimpleNamespace(typical_ns=lambda width: 2.0, free=lambda pending: free)
    flight: Any = SimpleNamespace(
        ctx=SimpleNamespace(knobs=get_method("specbranch").table.knobs({"branch_len": asked})), tree=None, pending=[]
    )
    assert BranchDrafter(flight, rows, 7.0, lambda most: min(most, 6))._length(8, 2, known) == want
    if asked == -1:
        assert BranchDrafter(flight, rows, None, lambda most: 1)._length(8, 2, known) == 8  # nothing measured yet
