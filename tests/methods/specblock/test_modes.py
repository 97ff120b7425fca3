"""Runs told by their records: widths by the true ranks, what is clamped, what a round is worth, what is counted."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from methods.specblock.recorded import Run, by_round, knowing, of
from specviz.engine.decode.sampling import Warper
from specviz.engine.model.adapter import ModelAdapter
from specviz.events import Commit, Expansion, Header, Node, RoundEnd, TreeMade, Warn
from specviz.methods.specblock.grower import TargetRanks
from specviz.methods.specblock.spec import METHOD as SPECBLOCK
from specviz.metrics.ranks import confusion, seen
from support.models import build


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_oracle_widths_are_those_of_the_true_ranks(
    run: Run, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """Every slot whose parent the target ran on is as wide as its true bucket says, whatever the rank head said."""
    knowing(run, monkeypatch, 0.5, temperature=temperature)
    widths, judged, other = (3, 4, 6, 0), 0, 0
    plain, _ = run("ar", temperature=temperature)
    for mode in ("oracle", "rank"):
        whole_run, events = run("specblock", width_mode=mode, widths=["3,4,6,0"], blocks=3, temperature=temperature)
        assert whole_run.tokens == plain.tokens
        assert [warn.code for warn in of(events, Warn)] == (["oracle_widths"] if mode == "oracle" else [])
        for expansion in of(events, Expansion):
            if expansion.true_bucket is None or (expansion.block, expansion.slot) == (1, 0):
                continue
            if mode == "rank":
                other += expansion.width_reason == "bucket" and expansion.width != widths[expansion.true_bucket]
                continue
            judged += 1
            if expansion.width_reason == "override":
                assert expansion.width == widths[expansion.true_bucket]
            else:
                assert (expansion.width_reason, expansion.width) == ("give_up", 0)
                above = [
                    e
                    for e in of(events, Expansion)
                    if (e.r, e.start) == (expansion.r, expansion.start) and e.id <= expansion.id
                ]
                assert any(e.true_bucket in (3, None) for e in above)
    assert judged > 30
    assert other > 10, "the rank head was right by itself: nothing is shown"


def test_a_depth_of_zero_is_no_tree_and_not_all_levels(run: Run) -> None:
    """-1 stands for all levels; 0 is a number like the others."""
    plain, _ = run("ar", temperature=0.9)
    whole_run, events = run("specblock", d_max=0, temperature=0.9)
    assert whole_run.tokens == plain.tokens
    assert {(end.n_drafted, end.n_draft_calls, end.draft_end) for end in of(events, RoundEnd)} == {(0, 0, "depth")}
    deep, events = run("specblock", d_max=-1, temperature=0.9)
    assert sum(end.n_drafted for end in of(events, RoundEnd)) > 0
    assert deep.tokens == plain.tokens


def test_what_is_clamped_is_said_once(run: Run) -> None:
    """Drafts are those of the greatest value there is, and a person is told."""
    _, usual = run("specblock", node_budget=60)
    for knobs, code in (
        ({"slots_used": 9}, "slots_clamped"),
        ({"d_max": 30}, "depth_clamped"),
        ({"blocks": 4}, "blocks_beyond_training"),
    ):
        _, events = run("specblock", node_budget=60, **knobs)
        assert [warn.code for warn in of(events, Warn)] == [code]
        assert str(next(iter(knobs.values()))) in of(events, Warn)[0].message
        same = [node.token for node in of(events, Node)] == [node.token for node in of(usual, Node)]
        assert same == (code != "blocks_beyond_training")
    assert not of(usual, Warn)


@pytest.mark.parametrize("method", ["specblock", "eagle3"])
def test_modelled_speedup_by_hand(run: Run, method: str) -> None:
    """Tokens of the round over one pass and the drafter's calls, by weights read."""
    whole_run, events = run(method)
    drafter, model = whole_run.session.drafter, whole_run.session.target.model
    own = sum(parameter.numel() for parameter in drafter.trained.network.parameters())
    share = own / (sum(p.numel() for p in model.model.layers.parameters()) + model.lm_head.weight.numel())
    trees = 0
    for events_ in by_round(events).values():
        for tree in of(events_, TreeMade):
            end, tokens = of(events_, RoundEnd)[0], of(events_, Commit)[0].tokens
            assert tree.modelled_speedup == pytest.approx(len(tokens) / (1 + end.n_draft_calls * share), rel=1e-5)
            trees += 1
    assert trees > 5


def test_the_header_tells_what_drafts(run: Run) -> None:
    for method, what in (("specblock", "block drafter, "), ("eagle3", "EAGLE-3 drafter, ")):
        _, events = run(method, max_new_tokens=2)
        part = of(events, Header)[0].models.parts["drafter"]
        assert part.startswith(what)
        assert "made for" in part


def test_confusion_counts_every_expansion_whose_parent_the_target_saw(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The totals of true by predicted bucket are the expansions of the root and of kept nodes, no more, no fewer."""
    knowing(run, monkeypatch, 0.6)
    _, events = run("specblock", node_budget=12, widths=["2,4,5,3"])
    there = pruned = 0
    for events_ in by_round(events).values():
        kept = {node.node for node in of(events_, Node) if node.kept} | {-1}
        for expansion in of(events_, Expansion):
            there += expansion.parent in kept
            pruned += expansion.parent not in kept
    cells = confusion(seen(expansion) for expansion in of(events, Expansion))
    assert sum(sum(row.values()) for row in cells.values()) == there
    assert pruned > 10
    assert all(sum(cells[true].values()) > 10 for true in (0, 3))


def test_true_ranks_are_told_of_paths_that_no_block_went_before() -> None:
    """A drawn or merged token leads off the best ones: what lies on the way to it is asked for, too."""
    target = build("llama", seed=2, dtype=torch.float64)
    ctx: Any = SimpleNamespace(tokens=[5, 77, 12], warper=Warper.of(SPECBLOCK.table.knobs({}), frozenset()))
    ranks = TargetRanks(ModelAdapter(target), 16, 16)
    ranks.open(ctx)
    paths = [(), (9, 4, 7), (9, 4), (3,)]
    by_rank = ranks.best(paths)
    for path, best in zip(paths, by_rank, strict=True):
        assert best == int(target(torch.tensor([[*ctx.tokens, *path]])).logits[0, -1].argmax())
