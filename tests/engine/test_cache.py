"""`follow`: commit, rollback, branch choice and abort, on a cache whose rows are their own token ids."""

import random

import pytest
import torch

from specviz.engine.model.cache import KVCache


def write(cache: KVCache, layer: int, upto: int) -> None:
    """Fill a layer up to slot `upto` with rows that hold the tokens and the positions of their slots."""
    start = cache.filled[layer]
    rows = torch.tensor([[float(cache.tokens[s]), float(s)] for s in range(start, upto)])
    cache.update(rows[None, None], -rows[None, None], layer)


def held(cache: KVCache, layer: int) -> list[int]:
    """The tokens a layer's rows hold, in slot order."""
    assert cache._buffer is not None
    keys = cache._buffer[0, layer, 0, 0, : cache.filled[layer], 0]
    values = cache._buffer[1, layer, 0, 0, : cache.filled[layer], 0]
    assert torch.equal(keys, -values)
    return [int(k) for k in keys.tolist()]


def grow(cache: KVCache, tokens: list[int], parents: list[int]) -> None:
    """Add slots; parents count from the first new one, -1 is the last committed slot."""
    first = len(cache.tokens)
    for token, parent in zip(tokens, parents, strict=True):
        cache.add(token, first + parent if parent >= 0 else first - 1)


@pytest.fixture
def cache() -> KVCache:
    """Two layers, the text 10 11 12 committed."""
    cache = KVCache(2, 64)
    grow(cache, [10, 11, 12], [-1, 0, 1])
    for layer in (0, 1):
        write(cache, layer, 3)
    assert cache.follow([10, 11, 12]) == []
    return cache


def test_rows_of_padding_are_written_and_not_held(cache: KVCache) -> None:
    """Two tokens in a pass of five rows: three are neither counted nor read, and the next write covers them."""
    grow(cache, [20, 21, 22, 23, 24], [-1, 0, 1, 2, 3])
    cache.padding = 3
    rows = torch.tensor([[float(cache.tokens[s]), float(s)] for s in range(3, 8)])[None, None]
    keys, values = cache.update(rows, -rows, 0)
    assert (cache.filled[0], keys.shape[2], values.shape[2]) == (5, 5, 5)
    assert held(cache, 0) == [10, 11, 12, 20, 21]
    cache.padding = 0
    write(cache, 0, 6)
    assert held(cache, 0) == [10, 11, 12, 20, 21, 22]


def test_branch_choice_gathers_the_path(cache: KVCache) -> None:
    """The second of two branches is kept, its rows move behind the prefix, the rest is gone."""
    grow(cache, [20, 21, 22, 23], [-1, -1, 1, 0])
    for layer in (0, 1):
        write(cache, layer, 7)
    assert cache.follow([10, 11, 12, 21, 22, 99]) == [99]
    assert [held(cache, layer) for layer in (0, 1)] == [[10, 11, 12, 21, 22]] * 2
    assert cache.filled == [5, 5]


def test_a_layer_behind_bounds_what_is_held(cache: KVCache) -> None:
    """After an abort half-way up the layers nothing the top lacks is kept."""
    grow(cache, [20, 21], [-1, 0])
    write(cache, 0, 5)
    write(cache, 1, 4)
    assert cache.follow([10, 11, 12, 20, 21]) == [21]
    assert held(cache, 1) == [10, 11, 12, 20]


def test_other_text_rolls_back_to_the_common_prefix(cache: KVCache) -> None:
    """A new prompt keeps what both texts share."""
    assert cache.follow([10, 11, 77, 12]) == [77, 12]
    assert held(cache, 0) == [10, 11]
    assert cache.follow([5]) == [5]
    assert cache.length == 0


def test_longest_path_among_equal_spellings(cache: KVCache) -> None:
    """Two nodes spell the same token, only the second has the child that the text needs."""
    grow(cache, [20, 20, 30], [-1, -1, 1])
    for layer in (0, 1):
        write(cache, layer, 6)
    assert cache.follow([10, 11, 12, 20, 30]) == []
    assert held(cache, 0) == [10, 11, 12, 20, 30]


def test_random_trees_always_spell_what_was_followed() -> None:
    """Property: whatever was added, every layer's rows afterwards are exactly the kept prefix of the text."""
    rng = random.Random(7)
    for _ in range(200):
        cache, text = KVCache(3, 256), [rng.randrange(4)]
        for _ in range(6):
            grow(cache, text[len(cache.tokens) :], list(range(-1, len(text) - len(cache.tokens) - 1)))
            first, nodes = len(cache.tokens), rng.randrange(0, 9)
            for k in range(nodes):
                cache.add(rng.randrange(4), first - 1 if k == 0 else rng.randrange(first - 1, first + k))
            upto = [rng.randrange(cache.filled[0], len(cache.tokens) + 1)]
            for layer in range(3):
                upto.append(rng.randrange(cache.filled[layer], upto[-1] + 1))
                if upto[-1] > cache.filled[layer]:
                    write(cache, layer, upto[-1])
            text = [*text, *(rng.randrange(4) for _ in range(rng.randrange(1, 5)))]
            rest = cache.follow(text)
            assert cache.tokens + rest == text
            if cache._buffer is not None:
                assert all(held(cache, layer) == cache.tokens for layer in range(3))


def test_a_line_is_lent_as_far_as_the_other_cache_holds_it_and_own_rows_give_way(cache: KVCache) -> None:
    other, text = KVCache(2, 64), [10, 11, 12, 13, 14]
    grow(other, text[:4], [-1, 0, 1, 2])
    for layer in (0, 1):
        write(other, layer, 4)
    assert not other.follow(text[:4])
    grow(cache, [99], [-1])  # a branch that is no part of the text
    for layer in (0, 1):
        cache.filled[layer] = 4
        memory = cache.memory(torch.zeros(1))
        memory[:, layer, 0, 0, :4] = 7.0  # what was computed here is not what the other holds
    cache.borrow(other, text, torch.float32)
    assert (cache.length, cache.tokens, cache.filled) == (4, text[:4], [4, 4])
    assert held(cache, 1) == text[:4]
    assert cache.follow(text) == [14]


def test_what_was_lent_is_copied_once_and_again_behind_a_place_where_the_text_parted() -> None:
    lender, cache, text = KVCache(1, 64), KVCache(1, 64), [10, 11, 12, 13]
    grow(lender, text, [-1, 0, 1, 2])
    write(lender, 0, 4)
    lender.follow(text)
    cache.borrow(lender, text, torch.float32)
    lender.memory(torch.zeros(1))[:] = 5.0
    cache.borrow(lender, text, torch.float32)
    assert held(cache, 0) == text, "copied again"
    lender.follow(text[:2])
    grow(lender, [20], [-1])
    write(lender, 0, 3)
    lender.follow([10, 11, 20])
    cache.borrow(lender, [10, 11, 20], torch.float32)
    assert held(cache, 0) == [10, 11, 20]


def test_a_cache_that_holds_nothing_lends_nothing(cache: KVCache) -> None:
    cache.borrow(KVCache(2, 64), [10, 11, 12, 13], torch.float32)
    assert cache.follow([10, 11, 12, 13]) == [13]
    assert held(cache, 0) == [10, 11, 12]
