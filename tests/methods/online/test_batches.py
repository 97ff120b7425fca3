"""What one query shows of its drafter: the slots on its path with their states, laws, tokens, and the signal."""

import math
from typing import Any

import pytest
import torch

from methods.specblock.stage import Hearsay, session, trained
from specviz.engine.decode.session import Session
from specviz.engine.model.adapter import ModelAdapter
from specviz.events import Expansion
from specviz.methods.online.batches import HELD_OUT, MOST_PAIRS, QueryBatch
from specviz.methods.online.trainer import OnlineTrainer
from specviz.methods.online.update import anew, coverage
from specviz.methods.specblock import grower as drafting
from specviz.methods.specblock.drafter import SpecBlock
from specviz.methods.specblock.growth import Sizes
from support.driver import session as plain_session
from support.models import build

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=1, dtype=torch.float64).requires_grad_(False))


class Ear:
    """A sink at full level that keeps the expansions of every round."""

    level = "full"

    def __init__(self) -> None:
        self.rounds: list[tuple[Any, list[Expansion]]] = []

    def prefilled(self, session: Any, dur_ns: int) -> None: ...
    def knob(self, event: Any) -> None: ...
    def aborted(self, begun: Any, why: str) -> None: ...
    def round(self, done: Any) -> None:
        self.rounds.append((done, [fact for fact in done.facts if isinstance(fact, Expansion)]))


def learning(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, prompt: list[int] = PROMPT, right: float = 0.7, **knobs: Any
) -> tuple[Session, SpecBlock, Ear]:
    """A whole query of a drafter that learns and often knows the text."""
    ear = Ear()
    batch = trained(target)
    run = session(target, prompt, batch, sink=ear, **knobs)
    law = {name: value for name, value in knobs.items() if name in ("temperature", "max_new_tokens")}
    truth = [*prompt, *plain_session(target, None, prompt, method="ar", **law).generate()]
    drafter = SpecBlock(batch, target, tutor=OnlineTrainer(batch.network, target.embedding))
    run.drafter = drafter
    object.__setattr__(run.parts, "drafter", drafter)
    with monkeypatch.context() as patch:
        if right:
            patch.setattr(drafting, "offers", Hearsay(truth, right))
        run.generate()
    return run, drafter, ear


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_slots_of_the_path(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, temperature: float) -> None:
    """Exactly the expansions on the path, with the token written there and the target's law at that place."""
    run, drafter, ear = learning(target, monkeypatch, temperature=temperature)
    notes = drafter.notes
    assert notes is not None
    slots = notes.lesson(PROMPT[0])
    want = [
        (fact.block, fact.slot, fact.true_rank_emitted is not None)
        for done, facts in ear.rounds
        for fact in facts
        if fact.on_path and depth_of(done, fact) < len(done.tokens)
    ]
    assert [(slot.block, slot.slot, slot.token >= 0) for slot in slots] == want
    assert {slot.block for slot in slots} == {1, 2}
    lesson = slots[0].lesson
    assert lesson.n_pairs == len(run.tokens) - 1
    assert lesson.tokens.tolist() == run.tokens
    assert lesson.first == len(PROMPT) - 1
    logits = target_logits(target, run.tokens)
    for slot in slots:
        place = slot.row + lesson.first
        assert slot.token == run.tokens[place + 1]
        if slot.block == 1:
            assert place == slot.pair + 1 + slot.slot
        torch.testing.assert_close(lesson.laws.probs[slot.row], logits[place].softmax(-1), rtol=0, atol=1e-9)
        assert slot.held == (slot.row % HELD_OUT == 0)
    assert not any(slot.state.is_inference() for slot in slots), "training could not save them"


def test_coverage_ranks_tokens_as_they_were_offered(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a penalty and a ban: the drafter in hand covers exactly the tokens that stood among its offers."""
    _, drafter, ear = learning(
        target, monkeypatch, right=0.0, repetition_penalty=1.8, ban=["id:31"], widths=["1,1,1,1"]
    )
    assert drafter.notes is not None
    slots = drafter.notes.lesson(PROMPT[0])
    written = [
        (fact, done.tokens[depth_of(done, fact)])
        for done, facts in ear.rounds
        for fact in facts
        if fact.on_path and depth_of(done, fact) < len(done.tokens)
    ]
    assert len(slots) == len(written) > 20
    reordered = 0
    for slot, (fact, token) in zip(slots, written, strict=True):
        tokens = [offered for offered, _ in fact.top or ()]
        assert coverage(drafter.network, [slot], Sizes((5,) * 4, 5)) == float(token in tokens[:5])
        logits = drafter.network.head_logits(slot.state)[0]
        reordered += logits.topk(5).indices.tolist() != tokens[:5]
    assert reordered > 10


def depth_of(done: Any, expansion: Expansion) -> int:
    ids = [-1, *(done.draft.ids[node] for node in done.outcome.accepted)]
    return ids.index(expansion.parent)


def target_logits(target: ModelAdapter, tokens: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = target.model(torch.tensor([tokens])).logits[0].double()
    return logits


def test_states_are_those_of_the_packed_pass(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """What training and replay will work out anew is what the drafter said while it served."""
    _, drafter, _ = learning(target, monkeypatch)
    assert drafter.notes is not None
    slots = [slot for slot in drafter.notes.lesson(PROMPT[0]) if slot.block == 1]
    again = anew(drafter.network, target.embedding, slots)
    assert len(slots) > 20
    for ours, theirs in zip(slots, again, strict=True):
        torch.testing.assert_close(ours.state, theirs.state, rtol=0, atol=1e-10)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_signal_is_the_surprise_where_rounds_ended(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """By the newest expansion of the node where a round ended, from what was recorded of it; a bonus is none."""
    _, drafter, ear = learning(target, monkeypatch, temperature=temperature)
    total, count = 0.0, 0
    for done, facts in ear.rounds:
        accepted = done.outcome.accepted
        stop = done.draft.ids[accepted[-1]] if accepted else -1
        at = [fact for fact in facts if fact.parent == stop]
        if not at or len(done.tokens) <= len(accepted) or done.outcome.kind != "recovered":
            continue
        count += 1
        shares = dict(at[-1].top or ())
        if done.tokens[-1] in shares:
            total -= math.log(max(math.exp(shares[done.tokens[-1]]), 1e-4))
        else:  # outside the best twenty: between the floor and the twentieth
            total = math.nan
            break
    assert drafter.notes is not None
    signal = drafter.notes.signal()
    if not math.isnan(total):
        assert signal.total == pytest.approx(total, rel=1e-3)
        assert signal.rejections == count
    assert signal.rounds == len(ear.rounds)
    assert 0 < signal.rejections <= signal.rounds


def test_held_out_places_wander(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second query holds out other places, by the tokens that came before it."""
    _, drafter, _ = learning(target, monkeypatch, max_new_tokens=12)
    assert drafter.notes is not None
    drafter.notes.phase = 3
    slots = drafter.notes.lesson(PROMPT[0])
    assert {slot.row for slot in slots if slot.held} <= {2, 7, 12}
    assert any(slot.held for slot in slots)


def test_rounds_without_a_draft_count_and_leave_no_slot(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing drafted, or a prompt of one token: rounds without rejections, and no lesson where no slot spoke."""
    run, drafter, _ = learning(target, monkeypatch, right=0.0, node_budget=0)
    assert drafter.notes is not None
    assert drafter.notes.lesson(PROMPT[0]) == []
    assert (drafter.notes.signal().rounds, drafter.notes.signal().rejections) == (run.number, 0)
    run, drafter, _ = learning(target, monkeypatch, prompt=[5])
    assert drafter.notes is not None
    batch = drafter.notes.lesson(5)[0].lesson
    assert (batch.first, batch.tokens.tolist()) == (0, run.tokens)


def test_long_queries_keep_their_last_pairs(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs beyond 512 are left out, and places are counted from the first that stays."""
    import specviz.methods.online.batches as collect

    run, drafter, _ = learning(target, monkeypatch)
    assert drafter.notes is not None
    whole = drafter.notes.lesson(PROMPT[0])
    monkeypatch.setattr(collect, "MOST_PAIRS", 20)
    slots = drafter.notes.lesson(PROMPT[0])
    batch: QueryBatch = slots[0].lesson
    assert (batch.n_pairs, batch.first, MOST_PAIRS) == (20, 0, 512)
    assert batch.tokens.tolist() == run.tokens[-21:]
    later = whole[len(whole) - len(slots) :]
    for ours, theirs in zip(slots, later, strict=True):
        assert torch.equal(ours.state, theirs.state)
        assert ours.token == theirs.token
        assert torch.equal(batch.laws.probs[ours.row], theirs.lesson.laws.probs[theirs.row])
        assert int(batch.tokens[ours.pair + 1]) == int(theirs.lesson.tokens[theirs.pair + 1])
