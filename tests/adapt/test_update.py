"""Updates while serving: on copies, of the right weights, taken back when they do harm, and never the target's."""

import copy

import pytest
import torch

from blocks.small import VOCAB, Text, network
from blocks.stage import trained
from engine.zoo import build
from specviz.drafters.adapt.update import RING, Learner, Memory, Query, Slot, coverage, shared_storage
from specviz.drafters.blocks.losses import Truth
from specviz.drafters.blocks.vocabulary import Vocabulary
from specviz.drafters.part_files import fingerprint
from specviz.engine.model import ModelAdapter

WIDTHS = (2, 4, 10, 0)


def slots(n: int, seed: int = 0) -> list[Slot]:
    """States of three kinds, each with a token of its own that the target is sure of."""
    rng = torch.Generator().manual_seed(seed)
    kinds = torch.randn(3, 16, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    out = []
    for k in range(n):
        state = kinds[k % 3] + 0.1 * torch.randn(16, generator=rng, dtype=torch.float64)
        token = 5 + 11 * (k % 3)
        law = torch.full((VOCAB,), 0.1 / (VOCAB - 1), dtype=torch.float64)
        law[token] = 0.9
        out.append(Slot(state, token, law))
    return out


def test_a_head_update_learns_and_moves_the_heads_alone() -> None:
    net = network(std=0.1)
    before = copy.deepcopy(net.state_dict())
    learner, data, held = Learner(net, {"head": 2e-2}), slots(60), slots(30, seed=5)
    weights = learner.head(data, steps=30)
    assert set(weights) == {"head.weight", "rank.down.weight", "rank.up.weight"}
    assert all(torch.equal(net.state_dict()[name], each) for name, each in before.items()), "made on a copy"
    start = coverage(net, held, WIDTHS)
    kept, change = learner.tried(weights, held, WIDTHS)
    assert kept
    assert change > 0.3
    assert coverage(net, held, WIDTHS) == pytest.approx(start + change)
    moved = {name for name, each in net.state_dict().items() if not torch.equal(each, before[name])}
    assert moved == set(weights)
    learner.reset("base")
    assert all(torch.equal(net.state_dict()[name], each) for name, each in before.items())


def test_a_full_update_lowers_the_query_s_loss() -> None:
    net, text = network(std=0.1), Text(24)
    logits = torch.zeros(1, 25, VOCAB, dtype=torch.float64)
    logits[0, torch.arange(24), text.tokens[0, 1:]] = 6.0
    query = Query(text.features[0], text.tokens[0], Truth(logits, Vocabulary(VOCAB), 0))
    learner = Learner(net, {"full": 5e-3})
    weights = learner.full(query, text.embed, steps=25)
    assert set(weights) == {name for name, _ in net.named_parameters()}

    def right() -> float:
        from specviz.drafters.blocks.losses import How, block_losses
        from specviz.drafters.blocks.packed import packed

        with torch.no_grad():
            first = torch.arange(24)[None]
            states = packed(net, text.embed, text.features, text.tokens, first[:, :1], ())[0]
            tally = block_losses(net, query.truth, states, first + 1, How()).tally
        return float(tally.right[0] / tally.total[0])

    start = right()
    learner.swap(weights)
    assert right() > start + 0.3


def test_a_harmful_update_is_taken_back() -> None:
    """Coverage more than a point lower, or a value that is not finite: the weights are as they were."""
    net, held = network(std=0.1), slots(60, seed=5)
    learner = Learner(net, {"head": 2e-2})
    learner.swap(learner.head(slots(60), steps=40))
    before, anchor = copy.deepcopy(net.state_dict()), dict(learner.anchor)
    good = coverage(net, held, WIDTHS)
    for spoiled in (
        {"head.weight": -net.head.weight.detach()},
        {"head.weight": torch.full_like(net.head.weight, float("nan"))},
    ):
        kept, change = learner.tried(spoiled, held, WIDTHS)
        assert not kept
        assert change <= 0
        assert all(torch.equal(net.state_dict()[name], each) for name, each in before.items())
    assert coverage(net, held, WIDTHS) == good
    assert all(torch.equal(learner.anchor[name], each) for name, each in anchor.items())


def test_the_anchor_follows_slowly() -> None:
    net = network(std=0.1)
    learner = Learner(net, {"head": 2e-2})
    base = learner.anchor["head.weight"].clone()
    weights = learner.head(slots(60), steps=5)
    assert learner.tried(weights, slots(30, seed=5), WIDTHS)[0]
    want = base + 0.01 * (weights["head.weight"] - base)
    assert torch.equal(learner.anchor["head.weight"], want)
    learner.reset("anchor")
    assert torch.equal(net.head.weight, want)


def test_the_target_is_bit_identical_after_many_updates() -> None:
    """Every weight of the target before and after fifty updates, although the drafter's head began as a copy of its."""
    adapter = ModelAdapter(build("llama", seed=1, dtype=torch.float64).requires_grad_(False))
    made, print_ = trained(adapter), fingerprint(adapter)
    with torch.no_grad():
        made.network.head.weight[:, :16] = adapter.head.weight[:, :16]
    whole = {name: each.clone() for name, each in adapter.model.state_dict().items()}
    learner = Learner(made.network, {"head": 1e-2})
    rng = torch.Generator().manual_seed(0)
    for _ in range(50):
        law = torch.rand(adapter.vocab, generator=rng, dtype=torch.float64).softmax(-1)
        data = [Slot(torch.randn(16, generator=rng, dtype=torch.float64), 3, law) for _ in range(4)]
        learner.swap(learner.head(data, steps=2))
    assert learner.version == 50
    assert all(torch.equal(adapter.model.state_dict()[name], each) for name, each in whole.items())
    assert fingerprint(adapter) == print_
    every = [*made.network.parameters(), *learner.shadows["head"].parameters(), *learner.anchor.values()]
    assert not shared_storage(every, adapter.model.parameters())
    assert shared_storage([adapter.head.weight[:3]], adapter.model.parameters())  # the check sees a view


def test_memory_is_a_ring_with_a_fifth_held_out() -> None:
    """Training batches hold the query's slots and as many older ones; held-out slots are never among them."""
    memory, data = Memory(), slots(700)
    for slot in data[:600]:
        memory.add(slot)
    assert len(memory.slots) == RING
    memory.new = 0
    assert memory.parts()[0] == []
    for slot in data[600:650]:
        memory.add(slot)
    kept, held = memory.parts()
    position = {id(slot): number for number, slot in enumerate(data)}
    numbers, apart = [position[id(slot)] for slot in kept], [position[id(slot)] for slot in held]
    assert numbers == [n for n in range(550, 650) if n % 5]
    assert apart == [n for n in range(650 - RING, 650) if n % 5 == 0]
