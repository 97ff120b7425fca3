"""Calls of drafters by programs: near what torch says, the same however rows come, out of use once weights change."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from engine.test_program import on as on
from methods.specblock.small import Text
from specviz.engine.model.few_bits.grids import four_bits
from specviz.methods.eagle3.drafter import EagleNetwork, EagleShape
from specviz.methods.mtp.network import MtpNetwork
from specviz.methods.specblock.network import BlockNetwork, BlockShape
from specviz.methods.trained.calls import BlockSlot, BlockStart, CallCache
from specviz.methods.trained.layers import LayerShape, RowCache, compile_network, fill_normal
from specviz.methods.trained.programs import compile_programs, programs_of
from specviz.methods.trained.ranks import N_SUMMARY, summary

LAYER, FEATURES, VOCAB = LayerShape(64, 4, 2, 32, 96), 96, 64
SHAPE = BlockShape(LAYER, FEATURES, 64, VOCAB, rank_width=32)
DTYPES = (torch.float32, torch.bfloat16)
NEAR = {torch.float32: 1e-5, torch.bfloat16: 0.04}  # of what is said by weights that four bits can hold, relative
Network = BlockNetwork | EagleNetwork | MtpNetwork
Make = Callable[[], Network]


def block(**changes: object) -> BlockNetwork:
    return BlockNetwork(replace(SHAPE, **changes))  # type: ignore[arg-type]


def eagle() -> EagleNetwork:
    return EagleNetwork(EagleShape(LAYER, FEATURES, VOCAB))


def mtp() -> MtpNetwork:
    network = MtpNetwork(LAYER)
    network.head = torch.randn(VOCAB, 64, generator=torch.Generator().manual_seed(9)) * 0.12
    return network


def filled(net: Network, dtype: torch.dtype) -> Network:
    fill_normal(net, torch.Generator().manual_seed(3), std=0.12)
    return net.to(dtype).requires_grad_(False)


def on_grids(net: Network) -> Network:
    """With the weights that its programs multiply by in bfloat16."""
    if net.dtype == torch.bfloat16:
        with torch.no_grad():
            for name, weight in [*net.named_parameters(), *net.named_buffers()]:
                if weight.dim() == 2 and name != "queries" and not name.startswith("rank"):
                    worked_out = name == "fuse.weight" and isinstance(net, BlockNetwork)  # what it makes of the queries
                    read = 128 if worked_out else weight.shape[1]
                    weight[:, :read] = four_bits(weight[:, :read]).weight()[: len(weight), :read]
    return net


class Story(Text):
    """As wide as these networks."""

    def __init__(self, dtype: torch.dtype, n_features: int = FEATURES) -> None:
        super().__init__(12, n_features=n_features)
        self.features = self.features.to(dtype)
        self.table = torch.randn(VOCAB, 64, generator=torch.Generator().manual_seed(2)).to(dtype)


def told(net: Network, dtype: torch.dtype, pieces: list[int]) -> list[torch.Tensor]:
    """h of the last pair, of two levels of starts behind it, and what is said of the first."""
    text, at, root = Story(dtype, 64 if isinstance(net, MtpNetwork) else FEATURES), 0, torch.empty(0)
    calls = CallCache(net, text.embed)
    with torch.inference_mode():
        for n in pieces:
            root = calls.first(text.features[0, at : at + n], text.tokens[0, at + 1 : at + n + 1].tolist())
            at += n
        place = BlockSlot(1, calls.first_row, net.slots - 1)
        level, rows = calls.later([BlockStart(5, net.slots, (place,)), BlockStart(9, 1, (replace(place, slot=0),))])
        chain = (place, BlockSlot(2, rows[0], 0))
        deeper, _ = calls.later([BlockStart(7, net.slots + 1, chain)])
        normed, logits = calls.norm_and_head(root, net.norm_and_head)
    return [root, level, deeper, normed, logits.float()]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "make", [block, lambda: block(n_layers=3, slots=3), lambda: block(rope_mode="repeat"), eagle, mtp]
)
def test_calls_are_near_those_of_torch(make: Make, dtype: torch.dtype) -> None:
    plain, ours = on_grids(filled(make(), dtype)), filled(make(), dtype)
    compile_network(ours)
    compile_programs(ours)
    with torch.inference_mode():
        assert programs_of(ours) is not None
    for rows, wanted in zip(told(ours, dtype, [5, 1, 2]), told(plain, dtype, [5, 1, 2]), strict=True):
        assert rows.shape == wanted.shape
        assert 0 < float((rows - wanted).float().norm() / wanted.float().norm()) < NEAR[dtype]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("make", [block, eagle, mtp])
def test_calls_say_the_same_however_pairs_come(make: Make, dtype: torch.dtype) -> None:
    """Rows that were wanted for their keys alone left the same keys behind."""
    net = filled(make(), dtype)
    compile_network(net)
    compile_programs(net)
    whole, apart = (told(net, dtype, pieces) for pieces in ([8], [3, 1, 4]))
    assert all(map(torch.equal, whole, apart))


@pytest.mark.parametrize("make", [lambda: block(shift=False), lambda: block(broadcast=False), lambda: block(vocab=50)])
def test_what_has_no_program_runs_as_it_stands(make: Make) -> None:
    plain, ours = filled(make(), torch.float32), filled(make(), torch.float32)
    compile_network(ours)
    compile_programs(ours)
    with torch.inference_mode():
        assert programs_of(ours) is None
    for rows, wanted in zip(told(ours, torch.float32, [4]), told(plain, torch.float32, [4]), strict=True):
        torch.testing.assert_close(rows, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [block, eagle, mtp])
def test_weights_that_changed_are_used_as_they_are(make: Make) -> None:
    net, dtype = filled(make(), torch.float32), torch.float32
    compile_network(net)
    compile_programs(net)
    assert programs_of(net) is None, "with gradients"
    before = told(net, dtype, [4])
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(0.5)
    fresh = filled(make(), dtype)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.mul_(0.5)
        assert programs_of(net) is None
    for rows, wanted, old in zip(told(net, dtype, [4]), told(fresh, dtype, [4]), before, strict=True):
        torch.testing.assert_close(rows, wanted, rtol=1e-4, atol=1e-5)
        assert not torch.allclose(rows, old, rtol=1e-2)


def test_a_network_in_other_numbers_than_the_embedding_runs_as_it_stands() -> None:
    net = filled(block(), torch.float32)
    compile_network(net)
    compile_programs(net)
    text = Story(torch.float32)
    calls = CallCache(net, lambda ids: text.table[ids].double())
    with torch.inference_mode():
        assert calls._found(calls.embed(torch.tensor([1]))) is None


def test_weights_that_are_elsewhere_have_no_programs() -> None:
    for dtype in DTYPES:
        net = filled(block(), dtype).to("meta")
        compile_network(net)
        compile_programs(net)
        with torch.inference_mode():
            assert programs_of(net) is None
            assert programs_of(net.rank) is None  # type: ignore[arg-type]


def test_another_head_of_the_target_counts_as_another_weight() -> None:
    net = filled(mtp(), torch.float32)
    compile_network(net)
    compile_programs(net)
    with torch.inference_mode():
        assert programs_of(net) is not None
        net.head = torch.randn(VOCAB, 64, generator=torch.Generator().manual_seed(4))
        assert programs_of(net) is None


def test_a_round_that_begins_again_speaks_by_the_weights_there_are() -> None:
    net, text = filled(block(), torch.float32), Story(torch.float32)
    compile_network(net)
    compile_programs(net)
    calls = CallCache(net, text.embed)
    with torch.inference_mode():
        calls.first(text.features[0, :4], text.tokens[0, 1:5].tolist())
        net.head.weight.data = net.head.weight * 2  # type: ignore[union-attr]
        row = calls.norm_and_head(calls.again(), net.norm_and_head)[1]
        assert torch.equal(row, net.norm_and_head(calls.states)[1])  # type: ignore[arg-type]


def test_rows_that_grew_in_one_layer_alone_are_caught_up() -> None:
    """A round was interrupted between the two: the next one asks for less, and all keys must lie alike."""
    cache, heads = RowCache(2), (2, 32)
    like = torch.empty(0)
    cache.filing(10, heads, like)
    cache._room(0, 600, like.new_empty(1, 2, 0, 32))
    filed = cache.filing(12, heads, like)
    assert {pair[0].shape for pair in filed.buffers} == {(1, 2, 1024, 32)}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rank_width", [32, 24, 40])
def test_ranks_are_judged_near_torch(dtype: torch.dtype, rank_width: int) -> None:
    """What the one product gives in whole blocks is not what the other takes with 40: there torch judges."""
    plain, ours = (filled(block(rank_width=rank_width), dtype) for _ in range(2))
    assert isinstance(plain, BlockNetwork)
    assert isinstance(ours, BlockNetwork)
    with torch.no_grad():
        for tensor in plain.rank.parameters() if dtype == torch.bfloat16 and rank_width != 40 else ():
            filled_up = torch.cat([tensor, tensor[:, -1:].expand(-1, -tensor.shape[1] % 32)], 1)
            tensor.copy_(four_bits(filled_up).weight()[:, : tensor.shape[1]])
    compile_network(ours)
    compile_programs(ours)
    rng = torch.Generator().manual_seed(5)
    normed, logits = torch.randn(2, 4, 64, generator=rng).to(dtype), torch.randn(2, 4, VOCAB, generator=rng)
    summaries = summary(logits)
    assert summaries.shape[-1] == N_SUMMARY
    with torch.inference_mode():
        assert (programs_of(ours.rank) is None) == (rank_width == 40)
        rows, wanted = ours.judged(normed, summaries), plain.judged(normed, summaries)
    assert rows.shape == wanted.shape == (2, 4, 4)
    assert float((rows.float() - wanted.float()).norm() / wanted.float().norm()) < NEAR[dtype]
