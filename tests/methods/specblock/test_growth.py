"""Growing trees: widths, trims, give-up, merging, starts, pruning; by hand and under random offers."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.methods.specblock.growth import PRESETS, GrowingTree, GrowthKnobs, Widths
from specviz.methods.trained.ranks import SlotCandidates
from specviz.probability.draft import ROOT

PAPER = PRESETS["paper"]


def offer(*tokens: int, p: float = 0.5, bucket: int = 0, share: float = 0.5) -> SlotCandidates:
    """Best token first with probability `p`, each further one `share` of the one before."""
    return SlotCandidates(tokens, tuple(math.log(p * share**k) for k in range(len(tokens))), bucket)


def widths(*by_bucket: int, beam: int = 10, **rest: Any) -> Widths:
    """A rule."""
    a, b, c, d = by_bucket or PAPER.widths
    return Widths((a, b, c, d), beam, **rest)


def growth(deepest: int = 8, **changes: Any) -> GrowingTree:
    """A tree under the paper's sizes unless told otherwise."""
    rule = changes.pop("widths", widths())
    ends = changes.pop("ends", lambda token: False)
    return GrowingTree(GrowthKnobs(rule, deepest, **changes), ends)


def spelled(tree: GrowingTree) -> set[tuple[int, ...]]:
    """The text of every node."""
    out = set()
    for node in range(len(tree.nodes)):
        path: list[int] = []
        while node != ROOT:
            path.insert(0, tree.nodes[node].token)
            node = tree.nodes[node].parent
        out.add(tuple(path))
    return out


def test_presets_are_the_published_tables() -> None:
    assert (PAPER.widths, PAPER.beam, PAPER.budget, PAPER.trims) == ((2, 4, 10, 0), 10, 60, False)
    fast, toy = PRESETS["reference-fast"], PRESETS["toy"]
    assert (fast.widths, fast.beam, fast.budget, fast.trims) == ((2, 4, 6, 4), 10, 90, True)
    assert (toy.widths, toy.beam, toy.budget, toy.trims) == ((2, 4, 10, 4), 10, 24, False)


@pytest.mark.parametrize(
    ("p", "at_root", "below"),
    [
        (0.97, 3, 2),
        (0.95, 3, 2),
        (0.92, 3, 3),
        (0.9, 3, 3),
        (0.86, 5, 3),
        (0.85, 5, 3),
        (0.81, 5, 10),
        (0.8, 5, 10),
        (0.7, 8, 10),
        (0.6, 8, 10),
        (0.59, 10, 10),
    ],
)
def test_trims(p: float, at_root: int, below: int) -> None:
    """Confident slots are narrower; a trim never widens."""
    sure = SlotCandidates((1,), (math.log(p) + 1e-12,), 2)
    rule = widths(trims=True)
    assert rule.of(sure, is_root=True).n == at_root
    assert rule.of(sure, is_root=False).n == below
    assert rule.of(sure, is_root=True).reason == ("beam" if at_root == 10 else "trim")
    assert widths(trims=True, beam=2).of(sure, is_root=True).n == 2
    assert widths().of(sure, is_root=False).n == 10  # off


def test_width_by_bucket_cap_and_fixed() -> None:
    offers = [offer(1, bucket=b) for b in range(4)]
    assert [widths().of(o, False).n for o in offers] == [2, 4, 10, 0]
    assert [widths().of(o, False).reason for o in offers] == ["bucket", "bucket", "bucket", "give_up"]
    assert [widths(cap=3).of(o, False).n for o in offers] == [2, 3, 3, 0]
    assert [widths(fixed=4).of(o, False).n for o in offers] == [4] * 4
    assert widths(cap=3).of(offers[3], True).n == 10  # the root's slot 0 knows neither bucket nor cap


def test_one_block_by_hand() -> None:
    """Spine 10, 20, 30, 40; siblings by width; scores add up down the spine."""
    tree = growth(widths=widths(2, 4, 10, 0, beam=3))
    block = [offer(10, 11, 12, 13), offer(20, 21, 22), offer(30, 31, 32, 33, 34, bucket=1), offer(40, 41)]
    tree.expand(ROOT, 0, 1, block)
    assert spelled(tree) == {
        (10,),
        (11,),
        (12,),
        (10, 20),
        (10, 21),
        (10, 20, 30),
        (10, 20, 31),
        (10, 20, 32),
        (10, 20, 33),
        (10, 20, 30, 40),
        (10, 20, 30, 41),
    }
    half = math.log(0.5)
    assert [round(node.cum / half, 9) for node in tree.nodes] == [1, 2, 3, 2, 3, 3, 4, 5, 6, 4, 5]
    assert [node.is_spine for node in tree.nodes] == [
        True,
        False,
        False,
        True,
        False,
        True,
        False,
        False,
        False,
        True,
        False,
    ]
    assert [len(e.children) for e in tree.expansions] == [3, 2, 4, 2]
    assert len(tree.starts()) == 10  # of 11 candidates
    assert tree.starts() == []


def test_starts_are_nodes_of_widened_slots_and_the_spine_s_end() -> None:
    tree = growth(widths=widths(1, 4, 10, 0, beam=2))
    tree.expand(ROOT, 0, 1, [offer(10, 11, bucket=2), offer(20, 21), offer(30, 31, 32, bucket=1), offer(40, 41)])
    starts = {(c.start, c.slot, tree.nodes[c.node].token) for c in tree.starts()}
    assert starts == {(0, 0, 10), (0, 0, 11), (0, 2, 30), (0, 2, 31), (0, 2, 32), (0, 3, 40)}


@pytest.mark.parametrize("slot", [0, 1, 2, 3])
def test_giving_up(slot: int) -> None:
    """That slot and the later ones keep the spine only and start nothing; at the root's slot 0 it is ignored."""
    for block in (1, 2):
        tree = growth()
        offers = [offer(10 * k + 10, 10 * k + 11, bucket=3 if k == slot else 0) for k in range(4)]
        at = ROOT
        if block == 2:
            tree.expand(ROOT, 0, 1, [offer(7, 8)])
            tree.starts()
            at = 0
        before = len(tree.nodes)
        tree.expand(at, block - 1, block, offers)
        given_up = 4 if block == 1 and slot == 0 else slot
        assert len(tree.nodes) - before == 2 * given_up + (4 - given_up)
        assert len(tree.starts()) == 2 * given_up
        reasons = [e.width.reason for e in tree.expansions[-4:]]
        assert [r == "give_up" for r in reasons] == [k >= given_up for k in range(4)]


def test_merging() -> None:
    """A later block's slot 0 offers what the spine had: one node, the better score, children shared, both on record."""
    for merge in (True, False):
        tree = growth(merge=merge, widths=widths(2, 4, 10, 0, beam=2))
        tree.expand(ROOT, 0, 1, [offer(10, 11, p=0.5), offer(20, 21, p=0.3), offer(30, 31, p=0.5)])
        tree.starts()
        n = len(tree.nodes)
        tree.expand(0, 1, 2, [offer(20, 22, p=0.9), offer(30, 33, p=0.5)])
        same = [node for node in tree.nodes if node.token == 20]
        assert len(same) == (1 if merge else 2)
        assert len(tree.nodes) - n == (2 if merge else 4)
        assert tree.n_offered == n + 4
        if merge:
            assert same[0].cum == pytest.approx(math.log(0.5 * 0.9))
            assert same[0].merged == [3]
            assert spelled(tree) >= {(10, 20, 33), (10, 20, 31), (10, 22)}


def test_a_worse_offer_leaves_the_score() -> None:
    tree = growth(widths=widths(beam=2))
    tree.expand(ROOT, 0, 1, [offer(10, 11, p=0.5), offer(20, 21, p=0.9)])
    tree.expand(0, 1, 2, [offer(20, 21, p=0.1)])
    assert tree.nodes[2].cum == pytest.approx(math.log(0.45))


def test_a_node_starts_once_and_keeps_the_better_place() -> None:
    """Offered twice in a level it continues from the better offer; once started it does not start again."""
    tree = growth(widths=widths(beam=2))
    tree.expand(ROOT, 0, 1, [offer(10, 11, p=0.6), offer(20, 21, p=0.6)])
    first = {tree.nodes[c.node].token: c for c in tree.starts()}
    assert set(first) == {10, 11, 20, 21}
    tree.expand(first[10].node, 1, 2, [offer(20, 22, p=0.7), offer(30, 31, p=0.9)])
    tree.expand(first[20].node, 2, 2, [offer(30, 32, p=0.95)])
    again = {tree.nodes[c.node].token: (c.start, c.slot) for c in tree.starts()}
    assert again == {22: (1, 0), 30: (2, 0), 31: (1, 1), 32: (2, 0)}


def test_start_cap_takes_the_best() -> None:
    tree = growth(start_cap=2)
    tree.expand(ROOT, 0, 1, [offer(10, 11, 12, p=0.5), offer(20, 21, p=0.9)])
    assert [tree.nodes[c.node].token for c in tree.starts()] == [10, 20]
    none = growth(start_cap=0)
    none.expand(ROOT, 0, 1, [offer(10, 11)])
    assert none.starts() == []


def test_starts_are_ordered_by_the_score_of_the_node_and_then_by_its_number() -> None:
    """A node that an earlier level scored higher keeps that score; equals are taken in the order they were made."""
    tree = growth(start_cap=1, widths=widths(2, 4, 10, 0, beam=2))
    tree.expand(ROOT, 0, 1, [offer(10, 11, p=0.5, share=1.0), offer(20, 21, p=0.9)])
    (first,) = tree.starts()
    assert tree.nodes[first.node].token == 10  # as likely as 11, and born before it
    tree.expand(first.node, 1, 2, [offer(22, 20, p=0.6, share=0.1), offer(30, 31, p=0.9)])
    (second,) = tree.starts()  # 20: .45 from before, though this level gives it .03; 22 .3, 30 .27
    assert tree.nodes[second.node].token == 20


def test_nothing_follows_an_end_token() -> None:
    tree = growth(ends=lambda token: token == 20)
    tree.expand(ROOT, 0, 1, [offer(10, 11), offer(20, 21), offer(30, 31)])
    assert spelled(tree) == {(10,), (11,), (10, 20), (10, 21)}
    assert {tree.nodes[c.node].token for c in tree.starts()} == {10, 11, 21}


def test_deepest_level() -> None:
    tree = growth(deepest=2)
    tree.expand(ROOT, 0, 1, [offer(10, 11), offer(20, 21), offer(30, 31)])
    assert max(node.depth for node in tree.nodes) == 2
    assert {tree.nodes[c.node].token for c in tree.starts()} == {10, 11}


@pytest.mark.parametrize("budget", [0, 1, 3, 10_000])
def test_pruning_by_score_then_depth_then_number(budget: int) -> None:
    tree = growth(budget=budget, widths=widths(beam=3))
    tree.expand(ROOT, 0, 1, [offer(10, 11, 12, p=0.5), offer(20, 21, p=1.0), offer(30, 31, p=1.0, share=0.25)])
    order = sorted(range(len(tree.nodes)), key=lambda n: (-tree.nodes[n].cum, tree.nodes[n].depth, n))
    assert [tree.nodes[n].token for n in order] == [10, 20, 30, 11, 21, 12, 31]
    assert tree.kept() == sorted(order[:budget])


LOGS = st.lists(st.floats(-9, 0), min_size=1, max_size=6).map(lambda logs: tuple(sorted(logs, reverse=True)))


@st.composite
def made_offers(draw: Any) -> SlotCandidates:
    logs = draw(LOGS)
    tokens = draw(st.permutations(range(8)))[: len(logs)]
    return SlotCandidates(tuple(tokens), logs, draw(st.integers(0, 3)))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_invariants(data: Any) -> None:
    """Parents first, depths right, siblings apart when merging, closed under parents, within the budget."""
    merge, cap, budget = data.draw(st.booleans()), data.draw(st.integers(0, 5)), data.draw(st.integers(0, 40))
    slots, blocks, deepest = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 12))
    rule = widths(*data.draw(st.lists(st.integers(0, 6), min_size=4, max_size=4)), beam=data.draw(st.integers(1, 6)))
    tree = growth(deepest, widths=rule, merge=merge, start_cap=cap, budget=budget, ends=lambda token: token == 7)
    block = st.lists(made_offers(), min_size=slots, max_size=slots)
    tree.expand(ROOT, 0, 1, data.draw(block))
    number = 0
    for level in range(2, blocks + 1):
        for candidate in tree.starts():
            number += 1
            tree.expand(candidate.node, number, level, data.draw(block))
    assert len(tree.starts()) <= cap
    for k, node in enumerate(tree.nodes):
        assert node.parent < k
        assert 1 <= node.depth == tree.depth(node.parent) + 1 <= min(slots * blocks, deepest)
        assert node.cum <= tree.cum(node.parent)
        assert node.parent == ROOT or tree.nodes[node.parent].token != 7
    keys = [(node.parent, node.token) for node in tree.nodes]
    assert len(set(keys)) == len(keys) or not merge
    kept = tree.kept()
    assert len(kept) == min(budget, len(tree.nodes))
    assert all(tree.nodes[k].parent in {ROOT, *kept} for k in kept)
    for number, expansion in enumerate(tree.expansions):
        for child in expansion.children:
            assert tree.nodes[child].parent == expansion.parent
            assert number == tree.nodes[child].expansion or number in tree.nodes[child].merged
