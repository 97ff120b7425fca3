"""Updates while serving: on copies, of the right weights, measured on held-out places, and never the target's."""

import copy
from dataclasses import replace

import pytest
import torch

from methods.online.stage import lesson, spoken
from methods.specblock.small import network
from methods.specblock.stage import trained
from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.online import update
from specviz.methods.online.batches import RING, TOP, Laws, QueryBatch, ReplayBuffer, Slot
from specviz.methods.online.update import Learner, anew, coverage, lesson_loss, pair_states, shared_storage
from specviz.methods.specblock.growth import Sizes
from specviz.methods.specblock.network import BlockNetwork
from specviz.methods.trained.parts import fingerprint
from specviz.methods.trained.ranks import ranks
from specviz.methods.trained.vocabulary import Vocabulary
from support.models import build

SIZES = Sizes((2, 4, 10, 0), 10)


def unchanged(net: BlockNetwork, before: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(net.state_dict()[name], tensor) for name, tensor in before.items())


def test_a_head_update_learns_and_moves_the_heads_alone() -> None:
    """On a copy: the network in hand is as it was, the made one shares all it did not learn."""
    net = network(std=0.1)
    before = copy.deepcopy(net.state_dict())
    batch, text = lesson()
    slots = spoken(net, batch, text)
    train, held = [s for s in slots if not s.held], [s for s in slots if s.held]
    learner = Learner(net, text.embed)
    weights = learner.head(train, steps=30, rate=2e-2)
    assert set(weights) == {"head.weight", "rank.down.weight", "rank.up.weight"}
    better = learner.built(weights)
    assert unchanged(net, before)
    first, second = coverage(net, train, SIZES), coverage(better, train, SIZES)
    assert first is not None
    assert second is not None
    assert second > first + 0.3
    for name, tensor in better.named_parameters():
        assert (tensor is net.get_parameter(name)) == (name not in weights)
        assert torch.equal(tensor, weights.get(name, before[name]))
    learner.keep(weights, better)
    assert (learner.network, learner.version) == (better, 1)
    assert unchanged(net, before), "whoever drafts with the older network goes on with it"
    assert held


def test_a_full_update_learns_and_not_the_held_out_places() -> None:
    """Every weight moves; what is held out is not learnt, though it could have been."""
    net = network(std=0.1)
    batch, text = lesson(40, sure=9.0)
    learner = Learner(net, text.embed)
    everything = replace(batch, held=torch.zeros_like(batch.held))
    weights = learner.full(batch, steps=60, rate=5e-3)
    assert set(weights) == {name for name, _ in net.named_parameters()}
    other = Learner(net, text.embed)
    peeked = other.built(other.full(everything, steps=60, rate=5e-3))
    better = learner.built(weights)

    def right(net: BlockNetwork, held: bool) -> float:
        chosen = [slot for slot in spoken(net, batch, text) if slot.held == held and slot.slot == 0]
        share = coverage(net, chosen, Sizes((1, 1, 1, 1), 1))
        assert share is not None
        return share

    assert right(better, held=False) > right(net, held=False) + 0.3
    assert right(peeked, held=True) > right(better, held=True) + 0.3


def test_lesson_loss_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slot k of pair i answers for row i + 1 + k; a wrong slot silences those behind it in its pair."""
    net = network(std=0.3)
    batch, text = lesson(10, first=3)
    with torch.no_grad():
        states = pair_states(net, text.embed, batch)
        total = 0.0
        alive = [True] * 10
        for slot in range(4):
            losses = []
            for pair in range(10):
                row = pair + 1 + slot - batch.first
                if not alive[pair] or not 0 <= row < len(batch.laws):
                    alive[pair] = False
                    continue
                logits = net.head_logits(states[pair, slot])[0]
                if not batch.held[row]:
                    losses.append(float(-(batch.laws.probs[row] * logits.log_softmax(-1)).sum()))
                alive[pair] = int(logits.argmax()) == int(batch.laws.best[row])
            total += 0.8**slot * (sum(losses) / len(losses) if losses else 0.0)
        whole = float(lesson_loss(net, text.embed, batch))
        monkeypatch.setattr(update, "rank_loss", lambda kind, logits, true, counted: logits[0].new_zeros(()))
        assert float(lesson_loss(net, text.embed, batch)) == pytest.approx(total, abs=1e-9)
    assert whole > total


def test_coverage_by_hand() -> None:
    """The root's slot offers as many as the root has children, others by the bucket their rank head says."""
    net = network(std=0.3)
    batch, text = lesson()
    slots = spoken(net, batch, text)
    inside = []
    for slot in slots:
        logits, rank_logits, _ = net.head_logits(slot.state)
        width = 3 if slot.slot == 0 else max(1, (1, 5, 7, 0)[int(rank_logits.argmax())])
        inside.append(int(ranks(logits, torch.tensor(slot.token))) <= width)
    assert coverage(net, slots, Sizes((1, 5, 7, 0), 3)) == pytest.approx(sum(inside) / len(inside))
    assert 0 < sum(inside) < len(inside)
    assert coverage(net, [replace(slot, token=-1) for slot in slots], SIZES) == 0.0
    assert coverage(net, [], SIZES) is None


def test_states_are_worked_out_anew_where_they_can_be() -> None:
    """Root blocks as the network makes them now; later blocks grew from a tree that is gone."""
    net, other = network(seed=0), network(seed=1)
    batch, text = lesson()
    slots = spoken(net, batch, text)
    later = [replace(slot, block=2) for slot in slots[:5]]
    again = anew(other, text.embed, [*later, *slots])
    want = spoken(other, batch, text)
    assert len(again) == len(want) == len(slots)
    for ours, theirs in zip(again, want, strict=True):
        assert torch.equal(ours.state, theirs.state)
        assert (ours.row, ours.token, ours.held) == (theirs.row, theirs.token, theirs.held)


def test_moments_of_a_trial_leave_no_trace() -> None:
    """An update after a trial is the one that would have been made without it."""
    net = network(std=0.1)
    batch, text = lesson()
    slots = spoken(net, batch, text)
    plain, tried = Learner(net, text.embed), Learner(net, text.embed)
    for learner in (plain, tried):
        learner.head(slots, steps=3)
        learner.full(batch, steps=2)
    with tried.trial("head"), tried.trial("full"):
        tried.head(slots, steps=5, rate=0.5)
        tried.full(batch, steps=5, rate=0.5)
    for first, second in ((plain.head(slots, 2), tried.head(slots, 2)), (plain.full(batch, 2), tried.full(batch, 2))):
        assert all(torch.equal(second[name], tensor) for name, tensor in first.items())


def test_the_anchor_follows_slowly_and_resets_go_where_they_say() -> None:
    net = network(std=0.1)
    batch, text = lesson()
    learner = Learner(net, text.embed)
    base = learner.anchor["head.weight"].clone()
    for _ in range(2):
        before = learner.anchor["head.weight"].clone()
        weights = learner.head(spoken(net, batch, text), steps=5)
        learner.keep(weights, learner.built(weights))
        want = before + 0.01 * (weights["head.weight"] - before)
        assert torch.equal(learner.anchor["head.weight"], want)
    learner.reset("anchor")
    assert torch.equal(learner.network.head.weight, want)
    assert not torch.equal(want, base)
    learner.reset("base")
    assert learner.network is net
    assert learner.version == 4
    assert all(torch.equal(tensor, learner.anchor[name]) for name, tensor in net.named_parameters())


def test_the_target_is_bit_identical_after_many_updates() -> None:
    """Every weight of the target before and after fifty updates, although the drafter's head began as a copy of its."""
    adapter = ModelAdapter(build("llama", seed=1, dtype=torch.float64))  # its parameters ask for gradients
    batch, print_ = trained(adapter), fingerprint(adapter)
    with torch.no_grad():
        batch.network.head.weight[:, :16] = adapter.head.weight[:, :16]
    whole = {name: tensor.clone() for name, tensor in adapter.model.state_dict().items()}
    learner, rng = Learner(batch.network, adapter.embedding), torch.Generator().manual_seed(0)
    for k in range(25):
        n = 12
        features = torch.randn(n, batch.config.shape.n_features, generator=rng, dtype=torch.float64)
        tokens = torch.randint(adapter.vocab, (n + 1,), generator=rng)
        laws = Laws.of(torch.randn(n, adapter.vocab, generator=rng, dtype=torch.float64), batch.vocabulary)
        query = QueryBatch(features, tokens, laws, 0, torch.arange(n) % 5 == 0)
        state = torch.randn(16, generator=rng, dtype=torch.float64)
        slots = [Slot(query, state, 0, 1, 0, row, 3, False) for row in range(n)]
        for weights in (learner.head(slots, steps=2), learner.full(query, steps=1)):
            learner.keep(weights, learner.built(weights))
        assert learner.version == 2 * (k + 1)
    assert all(torch.equal(adapter.model.state_dict()[name], tensor) for name, tensor in whole.items())
    assert all(tensor.grad is None for tensor in adapter.model.parameters())
    assert fingerprint(adapter) == print_
    assert not shared_storage(learner.tensors(), adapter.model.parameters())
    assert shared_storage([adapter.head.weight[:3]], adapter.model.parameters())  # the check sees a view


def test_memory_is_a_ring_and_its_batch_half_old() -> None:
    """Held-out slots are measured on and never trained on; a batch has the query's slots and as many older ones."""
    net = network()
    batches, text = lesson(30)
    slots = spoken(net, batches, text)
    memory = ReplayBuffer()
    assert memory.batch == memory.held == []
    for _ in range(9):
        memory.add(slots)
    assert len(memory.slots) == RING
    new = [replace(slot) for slot in slots[:20]]
    memory.add(new)
    kept = [slot for slot in new if not slot.held]
    batch = memory.batch
    assert all(a is b for a, b in zip(batch[len(batch) - len(kept) :], kept, strict=True))
    assert len(batch) == 2 * len(kept)
    assert not any(slot.held for slot in batch)
    assert {id(slot) for slot in memory.held} == {id(slot) for slot in memory.slots if slot.held}
    memory.add([])
    assert memory.batch == []


def test_cut_laws_lump_their_tail() -> None:
    """The cross-entropy over the 64 likeliest and one lump; whole laws give the usual one."""
    rng = torch.Generator().manual_seed(0)
    target, draft = torch.randn(7, 300, generator=rng), torch.randn(7, 300, generator=rng)
    whole, cut = Laws.of(target, Vocabulary(300)), Laws.of(target, Vocabulary(300), whole=100)
    usual = torch.nn.functional.cross_entropy(draft, target.softmax(-1), reduction="none")
    torch.testing.assert_close(whole.cross_entropy(draft), usual)
    assert cut.ids is not None
    assert cut.ids.shape == (7, TOP)
    for k in range(7):
        p, q = target[k].double().softmax(-1), draft[k].double().softmax(-1)
        top = p.topk(TOP).indices
        lump = -(1 - p[top].sum()) * torch.log(1 - q[top].sum())
        want = -(p[top] * q[top].log()).sum() + lump
        assert float(cut.cross_entropy(draft)[k]) == pytest.approx(float(want), rel=1e-4)
    some = Vocabulary.most_frequent(torch.arange(300), 200)  # the upper two hundred
    best = target.argmax(-1)
    mapped = Laws.of(target, some)
    assert mapped.known.tolist() == (best >= 100).tolist()
    assert mapped.best[mapped.known].tolist() == (best[best >= 100] - 100).tolist()
    assert mapped.probs.sum(-1).tolist() == pytest.approx([1.0] * 7)
    both = Laws.cat([cut[[0, 1]], cut[2:]])
    torch.testing.assert_close(both.cross_entropy(draft), cut.cross_entropy(draft))
