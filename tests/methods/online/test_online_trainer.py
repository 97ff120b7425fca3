"""What is done when a query is over: decided, tried on a copy, kept or taken back, and told in full."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from methods.online.stage import Ticks, Told, ended, lesson, spoken
from methods.specblock.small import network
from specviz.events import Adapt
from specviz.methods.online.trainer import OnlineTrainer
from specviz.methods.online.update import coverage
from specviz.methods.specblock.growth import Sizes

SIZES = Sizes((2, 4, 10, 0), 10)
ALWAYS: dict[str, Any] = {
    "adapt_budget": 1.0,
    "adapt_caution": 0.0,
    "adapt_steps": 8,
    "adapt_lr_head": 1e-2,
    "adapt_cost_scale": 0.0,
}


class Stage:
    """A tutor, and queries that all leave the same slots."""

    def __init__(self, seed: int = 0, step: int = 1_000_000) -> None:
        self.net = network(seed=seed, std=0.1)
        batch, self.text = lesson(30, seed=seed + 1, period=3)
        self.slots = spoken(self.net, batch, self.text)
        self.clock = Ticks(step)
        self.tutor = OnlineTrainer(self.net, self.text.embed, clock=self.clock)
        self.n = 0

    def query(self, surprise: float = 0.05, rejections: int = 15, tau: float = 2.0, **changes: Any) -> Adapt:
        signals = Told(self.slots, [surprise] * rejections, 20)
        record = self.tutor.over(signals, ended(self.n, tau, **changes), SIZES)
        self.n += 1
        return record


def test_a_record_has_everything() -> None:
    """The query, what was thought of every action, what was done and what came of it."""
    stage = Stage()
    first = stage.query(**ALWAYS)
    assert (first.n_rounds, first.n_tokens, first.accepted_histogram, first.domain) == (20, 40, [20], "code")
    assert (first.mean_acceptance_length, first.length_before, first.length_after) == (2.0, None, 2.0)
    assert (first.n_rejections, first.s) == (15, pytest.approx(first.S / 20, rel=1e-5))
    assert (first.action, first.reason) == ("head", "explore")  # both untried: the cheaper one
    assert [arm.action for arm in first.arms] == ["head", "full"]
    assert [(arm.n, arm.ucb) for arm in first.arms] == [(0, None), (0, None)]
    taken = first.arms[0]
    assert (first.gain, first.se, first.save, first.cost) == (taken.gain, taken.se, taken.save, taken.cost)
    assert (first.lcb, first.ucb) == (taken.lcb, None)
    assert first.spent == taken.cost
    assert first.budget == pytest.approx(2.0)
    assert first.coverage_before is not None
    assert first.coverage_after is not None
    assert first.measured_gain == pytest.approx((first.coverage_after - first.coverage_before) * 15 / 20, rel=1e-4)
    assert (first.version_before, first.version_after, first.reverted) == (0, int(not first.reverted), first.reverted)
    assert first.update_s is not None
    assert 0 < first.update_s < first.dur_ns / 1e9
    assert first.n_events == len(stage.slots)
    assert first.n_held == sum(slot.held for slot in stage.slots)
    second = stage.query(tau=3.0, **ALWAYS)
    assert (second.length_before, second.length_after) == (2.0, pytest.approx(2.1))
    assert second.arms[0].n == 1
    assert second.version_before == first.version_after


def test_same_seed_same_records() -> None:
    """With the clock given, everything follows from the inputs."""
    first, second, other = Stage(), Stage(), Stage(step=3_000_000)
    ours = [stage.query(**ALWAYS) for stage in (first, second) for _ in range(4)]
    assert ours[:4] == ours[4:]
    assert any(weights.action != "skip" for weights in ours)
    assert [other.query(**ALWAYS) for _ in range(4)] != ours[:4], "the clock is looked at"


def test_nothing_is_updated_that_costs_too_much() -> None:
    """Costs weighed up: looked at, skipped, the network untouched."""
    stage = Stage()
    for _ in range(5):
        record = stage.query(**{**ALWAYS, "adapt_cost_scale": 1e6})
        assert (record.action, record.reason, record.version_after, record.spent) == ("skip", "skip", 0, 0.0)
        assert len(record.arms) == 2
    assert stage.tutor.network is stage.net
    assert stage.query(**ALWAYS).action == "head"


def test_too_few_rejections_or_events() -> None:
    stage = Stage()
    assert stage.query(rejections=1, **ALWAYS).action == "skip"
    stage = Stage()
    stage.slots = stage.slots[:20]
    record = stage.query(**ALWAYS)
    assert (record.action, record.n_events, record.arms) == ("skip", 20, [])


def test_actions_may_be_left_out() -> None:
    stage = Stage()
    for _ in range(3):
        record = stage.query(**ALWAYS, adapt_actions="full")
        assert [arm.action for arm in record.arms] == ["full"]
    assert record.action == "full"


def spoiling(stage: Stage, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Every update of the heads comes out spoiled."""
    head = stage.tutor.learner.head

    def spoiled(*args: Any) -> Any:
        return {name: spoil(weights) for name, weights in head(*args).items()}

    monkeypatch.setattr(stage.tutor.learner, "head", spoiled)


@pytest.mark.parametrize(
    "spoil", [lambda batch: -batch, lambda batch: torch.full_like(batch, float("nan"))], ids=["worse", "not finite"]
)
def test_a_harmful_update_is_taken_back_and_still_charged(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """The weights are as they were, the version too; the bandit learns a gain of nothing and a true cost."""
    stage = Stage()
    while stage.query(**ALWAYS, adapt_actions="head").reverted:
        pass  # a good drafter, so that there is something to lose
    before, anchor = stage.tutor.network, dict(stage.tutor.learner.anchor)
    state = {name: weights.clone() for name, weights in before.named_parameters()}
    spoiling(stage, monkeypatch, spoil)
    arm = stage.tutor.bandit.arms["head"]
    taken, explored = arm.n, stage.tutor.bandit.explored_s
    record = stage.query(**ALWAYS, adapt_actions="head")
    assert (record.action, record.reverted) == ("head", True)
    assert record.version_after == record.version_before
    assert stage.tutor.network is before
    assert all(torch.equal(weights, state[name]) for name, weights in before.named_parameters())
    assert all(stage.tutor.learner.anchor[name] is weights for name, weights in anchor.items())
    assert arm.n == taken + 1
    assert record.update_s is not None
    assert record.update_s > 0
    assert stage.tutor.bandit.explored_s >= explored
    if record.coverage_after is not None:
        assert record.measured_gain is not None
        assert record.measured_gain < 0


def test_moments_that_are_not_finite_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that blows up is taken back, and the next one is a healthy one again."""
    stage = Stage()
    stage.query(**ALWAYS, adapt_actions="head")
    good = list(stage.slots)
    stage.slots = [replace(slot, state=slot.state * float("nan")) for slot in good]
    assert stage.query(**ALWAYS, adapt_actions="head").reverted
    stage.slots, stage.tutor.memory.slots = good, []
    record = stage.query(**ALWAYS, adapt_actions="head")
    assert (record.action, record.reverted, record.version_after) == ("head", False, record.version_before + 1)


def test_inference_mode_around_it_does_no_harm() -> None:
    """Whoever decodes may do it inside inference mode: what is learnt is made outside of it."""
    plain, inside = Stage(), Stage()
    with torch.inference_mode():
        records = [inside.query(**ALWAYS) for _ in range(3)]
    assert records == [plain.query(**ALWAYS) for _ in range(3)]


def test_frozen_shows_and_does_nothing() -> None:
    stage = Stage()
    record = stage.query(**ALWAYS, adapt_do="freeze")
    assert (record.action, record.frozen, record.version_after) == ("skip", True, 0)
    assert len(record.arms) == 2
    assert stage.query(**ALWAYS).action == "head"


@pytest.mark.parametrize("to", ["anchor", "base"])
def test_a_reset_is_done_once_at_the_boundary(to: str) -> None:
    """No update beside it; states in memory are those of the weights in hand."""
    stage = Stage()
    for _ in range(4):
        stage.query(**ALWAYS)
    record = stage.query(**ALWAYS, adapt_do=f"reset_to_{to}")
    assert (record.reset, record.reason, record.action) == (to, "skip", "skip")
    assert record.spent == pytest.approx(stage.tutor.bandit.explored_s, rel=1e-4)
    assert record.spent > 0
    assert record.budget == pytest.approx(stage.tutor.bandit.served.seconds * ALWAYS["adapt_budget"])
    assert record.version_after == record.version_before + 1
    learner = stage.tutor.learner
    want = learner.anchor if to == "anchor" else dict(stage.net.named_parameters())
    assert all(torch.equal(weights, want[name]) for name, weights in learner.network.named_parameters())
    states = torch.stack([slot.state for slot in stage.tutor.memory.slots[-20:]])
    again = torch.stack([slot.state for slot in spoken(learner.network, stage.slots[0].lesson, stage.text)[-20:]])
    assert torch.equal(states, again)


def test_the_guard_falls_back_to_an_anchor_that_is_better() -> None:
    """Five queries on end under 95 % of the anchor's length, and the anchor would have covered more: its weights."""
    stage = Stage()
    for _ in range(6):
        stage.query(**ALWAYS, adapt_actions="head")
    learner = stage.tutor.learner
    learner.anchor = dict(learner.weights)  # as after many good updates
    with torch.no_grad():
        learner._put(
            {**learner.weights, "head.weight": -learner.weights["head.weight"]},
            learner.built({"head.weight": -learner.weights["head.weight"]}),
        )
    stage.tutor.bandit.served.tau = stage.tutor.anchor.tau = 3.0
    dear: dict[str, Any] = {"adapt_cost_scale": 1e9, "tau": 1.0}
    records = [stage.query(**dear) for _ in range(7)]
    assert [weights.reason for weights in records if weights.reset] == ["guard"]
    fell = next(weights for weights in records if weights.reset)
    assert (fell.reset, fell.action) == ("anchor", "skip")
    assert torch.equal(learner.network.head.weight, learner.anchor["head.weight"])


def test_harder_texts_alone_bring_no_fall_back() -> None:
    """The anchor covers no more of the same places: what was learnt of them stays."""
    stage = Stage()
    for _ in range(6):
        stage.query(**ALWAYS, adapt_actions="head")
    network = stage.tutor.network
    records = [stage.query(tau=1.0, adapt_cost_scale=1e9) for _ in range(30)]
    assert all(weights.reset is None for weights in records)
    assert stage.tutor.network is network
    assert stage.tutor.anchor.tau == pytest.approx(stage.tutor.bandit.served.tau, rel=0.1)


def test_a_tensor_in_the_target_is_refused() -> None:
    """With a borrowed head an update would rewrite the target unseen."""
    net = network()
    _, text = lesson()
    with pytest.raises(AssertionError, match="target's memory"):
        OnlineTrainer(net, text.embed, [net.head.weight])


def test_replays_try_every_action_and_leave_no_trace() -> None:
    """Regret as it is: by coverage and by the next query; what happens besides is what would have happened anyway."""
    plain, replayed = Stage(), Stage()
    lengths = {"skip": 2.0, "head": 2.4, "full": 1.5}

    def decode(drafter: Any) -> float:
        same = drafter is replayed.tutor.network
        heads_only = drafter.fuse.weight is replayed.tutor.network.fuse.weight
        return lengths["skip" if same else "head" if heads_only else "full"]

    for _ in range(3):
        want = plain.query(**ALWAYS)
        signals = Told(replayed.slots, [0.05] * 15, 20)
        query = ended(replayed.n, 2.0, **ALWAYS, adapt_regret="replay")
        query = replace(query, next_length=decode)
        as_it_is: Any = lambda net: net  # noqa: E731
        got = replayed.tutor.over(signals, query, SIZES, as_it_is)
        replayed.n += 1
        assert (got.action, got.measured_gain) == (want.action, want.measured_gain)
        assert got.version_after == want.version_after
        assert got.replays is not None
        by_action = {weights.action: weights for weights in got.replays}
        assert list(by_action) == ["skip", "head", "full"]
        assert by_action["skip"].next_length == 2.0
        assert by_action["skip"].profit == by_action["skip"].next_profit == 0.0
        assert by_action[got.action].measured_gain == pytest.approx(0.0 if got.reverted else got.measured_gain)
        profits = [weights.profit for weights in got.replays if weights.profit is not None]
        assert got.replay_regret == pytest.approx(max(profits) - (by_action[got.action].profit or 0.0), abs=1e-4)
        assert got.next_regret is not None
        assert got.next_regret >= 0
        if by_action["head"].next_length == 2.4:
            saved = replayed.tutor.bandit.served.saves(0.4, 20)
            assert by_action["head"].next_profit == pytest.approx(saved - by_action["head"].seconds, rel=1e-4)
    for name, weights in plain.tutor.network.named_parameters():
        assert torch.equal(weights, replayed.tutor.network.get_parameter(name))


def test_replays_are_measured_at_the_same_places() -> None:
    """A full update has no states for later blocks: what is told of the others leaves those places out too."""
    stage = Stage()
    stage.slots = [replace(slot, block=2, token=-1) if n % 2 else slot for n, slot in enumerate(stage.slots)]
    still = {"adapt_lr_head": 1e-9, "adapt_lr_full": 1e-9, "adapt_regret": "replay"}
    record = stage.query(**ALWAYS | still)
    assert record.replays is not None
    assert [weights.action for weights in record.replays] == ["skip", "head", "full"]
    first, whole = ([s for s in stage.slots if s.held and s.block <= most] for most in (1, 2))
    shares = {weights.coverage for weights in record.replays}
    assert shares == {coverage(stage.net, first, SIZES)}
    assert shares != {coverage(stage.net, whole, SIZES)}
