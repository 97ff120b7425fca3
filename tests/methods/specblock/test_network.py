"""The block forward: packed = incremental = batched starts, and exactly what a row may depend on."""

import itertools
from typing import Any

import pytest
import torch

from methods.specblock.small import SHAPE, Text, network
from specviz.methods.specblock.network import BlockNetwork, packed
from specviz.methods.trained.calls import BlockSlot, BlockStart, CallCache
from specviz.methods.trained.layers import turned

K, N_PAIRS = SHAPE.slots, 16
CUTS = [(1, 1), (1, 4), (2, 3), (3, 1), (4, 2), (4, 4)]
CLOSE = {"rtol": 0.0, "atol": 1e-10}


def opened(net: BlockNetwork, text: Text, upto: int, pieces: tuple[int, ...] = (5, 1, 3)) -> CallCache:
    """The calls of a text whose last pair is number `upto`, its pairs fed in pieces as rounds would."""
    calls, at = CallCache(net, text.embed), 0
    for piece in itertools.chain(pieces, itertools.repeat(2)):
        end = min(at + piece, upto + 1)
        calls.first(text.features[0, at:end], text.tokens[0, at + 1 : end + 1].tolist())
        at = end
        if at == upto + 1:
            return calls
    raise AssertionError


def chains(calls: CallCache, text: Text, anchor: int, cuts: list[tuple[int, int]]) -> list[torch.Tensor]:
    """Two levels of starts, all of a level in one call: h `[K, width]` of blocks 2 and 3 for every pair of cuts."""
    root = calls.first_row
    level = [
        BlockStart(int(text.tokens[0, anchor + 1 + first]), first, (BlockSlot(1, root, first - 1),))
        for first, _ in cuts
    ]
    two, rows = calls.later(level)
    last = [
        BlockStart(
            int(text.tokens[0, anchor + 1 + first + second]), first + second, (*s.chain, BlockSlot(2, row, second - 1))
        )
        for (first, second), s, row in zip(cuts, level, rows, strict=True)
    ]
    three, _ = calls.later(last)
    return [torch.stack([two[k], three[k]]) for k in range(len(cuts))]


@pytest.mark.parametrize(
    "changes", [{}, {"rope_mode": "repeat"}, {"n_layers": 3}, {"shift": False}, {"broadcast": False}]
)
def test_packed_is_incremental_is_batched(changes: dict[str, Any]) -> None:
    """Three blocks with different cuts: training, decoding round by round, and all starts of a level at once."""
    net, text, anchor = network(**changes), Text(N_PAIRS), 4
    calls = opened(net, text, anchor)
    assert calls.pairs == anchor + 1
    together = chains(calls, text, anchor, CUTS)
    for cuts, batched in zip(CUTS, together, strict=True):
        where = torch.tensor([[anchor]])
        whole = packed(net, text.embed, text.features, text.tokens, where, cuts)
        assert calls.states is not None
        torch.testing.assert_close(calls.states[:K], whole[0][0, anchor], **CLOSE)
        torch.testing.assert_close(batched[0], whole[1][0, 0], **CLOSE)
        torch.testing.assert_close(batched[1], whole[2][0, 0], **CLOSE)
        alone = chains(opened(net, text, anchor, (1,)), text, anchor, [cuts])[0]
        torch.testing.assert_close(alone, batched, **CLOSE)


def test_windows_and_anchors_do_not_see_each_other() -> None:
    """A batch of windows with several anchors each says what every anchor says alone."""
    net, text, cuts = network(), Text(N_PAIRS, windows=3), (2, 3)
    anchors = torch.tensor([[0, 3, 5], [1, 2, 7], [6, 0, 4]])
    whole = packed(net, text.embed, text.features, text.tokens, anchors, cuts)
    for w, a in itertools.product(range(3), range(3)):
        one = packed(
            net, text.embed, text.features[w : w + 1], text.tokens[w : w + 1], anchors[w : w + 1, a : a + 1], cuts
        )
        for block in (1, 2):
            torch.testing.assert_close(whole[block][w, a], one[block][0, 0], **CLOSE)


def test_the_checks_above_can_fail() -> None:
    """Repeated and offset positions differ, as do cuts, and the shift matters: equality is no accident."""
    text, where = Text(N_PAIRS), torch.tensor([[4]])

    def last(cuts: tuple[int, int], **changes: Any) -> torch.Tensor:
        return packed(network(**changes), text.embed, text.features, text.tokens, where, cuts)[2]

    usual = last((2, 3))
    for other in (last((2, 3), rope_mode="repeat"), last((3, 2)), last((2, 3), broadcast=False)):
        assert (usual - other).abs().max() > 0.05
    net = network()
    with torch.no_grad():
        net.shifts[0].weight[:, SHAPE.layer.width :] = 0
    other = packed(net, text.embed, text.features, text.tokens, where, (2, 3))[2]
    assert (usual - other).abs().max() > 0.05


def test_a_level_of_gathered_last_links_would_be_wrong() -> None:
    """A start must carry its whole chain: without the second link block 3 says something else."""
    net, text, anchor = network(), Text(N_PAIRS), 4
    right = chains(opened(net, text, anchor), text, anchor, [(2, 3)])[0][1]
    calls = opened(net, text, anchor)
    first = BlockStart(int(text.tokens[0, anchor + 3]), 2, (BlockSlot(1, calls.first_row, 1),))
    _, (row,) = calls.later([first])
    short = BlockStart(int(text.tokens[0, anchor + 6]), 5, (BlockSlot(2, row, 2),))
    assert (calls.later([short])[0][0] - right).abs().max() > 0.05


def test_slots_see_only_earlier_slots() -> None:
    """Slot k stands still when a later slot's query moves, and every slot from the moved one on changes."""
    text = Text(1)
    for slot in range(K):
        plain, moved = network(), network()
        with torch.no_grad():
            moved.queries[slot] += torch.randn(SHAPE.layer.width, generator=torch.Generator().manual_seed(3))
        rows = [
            CallCache(net, text.embed).first(text.features[0], text.tokens[0, 1:].tolist()) for net in (plain, moved)
        ]
        change = (rows[0] - rows[1]).abs().amax(-1)
        assert (change[:slot] == 0).all()
        assert (change[slot:] > 1e-3).all()


def test_the_shift_is_the_only_way_from_one_slot_to_the_next_when_attention_is_off() -> None:
    """With silent attention slot k hears of slot k - 1 through S_1 alone: one slot further a layer, never more."""
    for shift in (True, False):
        text = Text(1)
        rows = []
        for moved in (False, True):
            net = network(shift=shift)
            with torch.no_grad():
                for layer in net.layers:
                    layer.o.weight.zero_()
                net.queries[1] += float(moved)
                net.queries[1, 0] -= 3.0 * moved
            rows.append(CallCache(net, text.embed).first(text.features[0], text.tokens[0, 1:].tolist()))
        change = (rows[0] - rows[1]).abs().amax(-1) > 1e-9
        assert change.tolist() == [False, True, shift, False]


def test_the_shift_by_hand() -> None:
    """With silent layers `h_k = S [x_k ; x_(k-1)]`, and slot 0 is paired with itself."""
    net, text = network(), Text(1)
    with torch.no_grad():
        for layer in net.layers:
            layer.o.weight.zero_()
            layer.down.weight.zero_()
    embedded = text.embed(text.tokens[:, 1:])
    x = net.begin(net.conditions(text.features), embedded)[0, 0]
    h = CallCache(net, text.embed).first(text.features[0], text.tokens[0, 1:].tolist())
    pairs = torch.cat([x, torch.cat([x[:1], x[:-1]])], -1)
    torch.testing.assert_close(h, pairs @ net.shifts[0].weight.T)


def test_discarded_blocks_leave_no_trace() -> None:
    """The rows of later blocks are dropped: the next round's root block is as if they had never been."""
    net, text = network(), Text(N_PAIRS)
    quiet, busy = opened(net, text, 6), opened(net, text, 6)
    chains(busy, text, 6, CUTS)
    rows = [calls.first(text.features[0, 7:9], text.tokens[0, 8:10].tolist()) for calls in (quiet, busy)]
    assert torch.equal(rows[0], rows[1])


def test_a_root_block_spoken_again_forgets_the_levels_below_it() -> None:
    """An interrupted round may begin anew with other starts."""
    net, text = network(), Text(N_PAIRS)
    calls = opened(net, text, 5)
    chains(calls, text, 5, CUTS[3:])
    calls.again()
    fresh = chains(opened(net, text, 5), text, 5, CUTS[:2])
    torch.testing.assert_close(torch.stack(chains(calls, text, 5, CUTS[:2])), torch.stack(fresh), **CLOSE)


def test_a_start_says_the_same_whoever_starts_beside_it() -> None:
    net, text = network(), Text(N_PAIRS)
    whole = chains(opened(net, text, 5), text, 5, CUTS)
    for cuts, rows in zip(CUTS, whole, strict=True):
        torch.testing.assert_close(chains(opened(net, text, 5), text, 5, [cuts])[0], rows, **CLOSE)


def test_a_long_prompt_is_run_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    net, text = network(), Text(N_PAIRS)
    whole = opened(net, text, N_PAIRS - 1, (N_PAIRS,)).states
    monkeypatch.setattr("specviz.methods.trained.calls.MOST_PAIRS", 3)
    pieces = opened(net, text, N_PAIRS - 1, (N_PAIRS,)).states
    assert whole is not None
    torch.testing.assert_close(pieces, whole, **CLOSE)


def test_rotary_angles_are_the_library_s() -> None:
    """The same cosines and sines as a Llama's own module, and the same turn."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = LlamaConfig(hidden_size=32, num_attention_heads=4, head_dim=8)
    rows = torch.randn(1, 4, 7, 8, generator=torch.Generator().manual_seed(0))
    positions = torch.tensor([[0, 1, 2, 5, 9, 200, 901]])
    cos, sin = LlamaRotaryEmbedding(config)(rows, positions)
    want, _ = apply_rotary_pos_emb(rows, rows, cos, sin)
    torch.testing.assert_close(turned(rows, network().rope.at(positions, rows)), want, rtol=1e-5, atol=1e-5)


def test_networks_need_two_layers() -> None:
    with pytest.raises(AssertionError, match="two layers"):
        network(n_layers=1)
