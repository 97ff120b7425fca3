"""Screen *Ranks* from records: badges, buckets, cells, widths, filters, and what may not be told before the verdict."""

from itertools import product
from typing import Any

import pytest

from specviz import events as ev
from specviz.events import Event
from specviz.numerals import prob
from specviz.runlog.fold import Run, fold
from specviz.runlog.run import RoundRecord
from specviz.text import shown
from specviz.view.blocks import twin
from specviz.view.frame.frame import Cursor, Feed, Options
from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.panels.ranks.model import BUCKETS, COSTS, Confusion, RankFilter, RanksModel, RunRanks
from specviz.view.play.build import FrameBuilder
from specviz.view.words.palette import ROOT, Phase
from support.rank_trace import rank_events
from support.traces import make_events, make_header, of_kind

ALL = RankFilter()
PATH = RankFilter(path_only=True)


def ranks(run: Run, index: int = 0, phase: Phase = Phase.COMMIT, step: int = 0, **options: Any) -> RanksModel:
    """The screen of a moment."""
    whole = {name: options.pop(name) for name in ("selected", "folding", "ascii") if name in options}
    chosen = RanksPanel.choose(Options(**whole), **options)
    panel = RanksPanel.of(FrameBuilder(run).frame(Cursor(index, phase, step), chosen, Feed()))
    assert panel is not None
    return panel


@pytest.fixture(scope="module")
def run() -> Run:
    return fold(rank_events(temperature=0.8, new_tokens=40))


@pytest.fixture(scope="module")
def everything(run: Run) -> list[RanksModel]:
    """Every round, pruned nodes shown."""
    return [ranks(run, record.index, folding="none") for record in run.rounds]


# The tree -----------------------------------------------------------------------------------------------------------


def test_every_node_says_where_it_came_from(run: Run, everything: list[RanksModel]) -> None:
    checked = 0
    for record, panel in zip(run.rounds, everything, strict=True):
        assert set(panel.badges) == set(record.nodes)
        for id, born in record.nodes.items():
            src = born.src
            place, *more = panel.badges[id].split(" #")
            assert place == f"b{src['block']}·s{src['slot']}"
            rank, *signs = more[0].split()
            assert int(rank) == src["rank"]
            assert ("◎" in signs) == (src["start"] is not None)
            assert (f"+{len(src['merged'])}" in signs) == bool(src["merged"])
            checked += 1
    assert checked > 200


def test_counts_of_a_tree_agree_with_its_record(run: Run, everything: list[RanksModel]) -> None:
    for record, panel in zip(run.rounds, everything, strict=True):
        if (tree := record.tree) is not None:
            n_kept = sum(node.kept for node in record.nodes.values())
            assert tree.n_raw - tree.n_merged == len(record.nodes)
            assert (
                f"{tree.n_raw} offered · {tree.n_merged} merged · {len(record.nodes) - n_kept} pruned · {n_kept} sent"
                in panel.tree_text
            )


def test_token_text_is_escaped(everything: list[RanksModel]) -> None:
    texts = "".join(
        offer.shown + view.words for panel in everything for view in panel.round_expansions for offer in view.offers
    )
    assert "\x1b" not in texts
    assert shown(" \x1b[31m") in texts


# What may be told ---------------------------------------------------------------------------------------------------


def test_nothing_true_is_told_before_the_verdict(run: Run) -> None:
    drafting = ranks(run, 2, Phase.DRAFT, 1)
    assert drafting.ending == ""
    assert drafting.round_expansions
    for view in drafting.round_expansions:
        assert (view.true_rank, view.emitted_rank, view.true_bucket, view.cost, view.outcome) == (
            None,
            None,
            None,
            None,
            "unknown",
        )
        assert not view.on_path
        assert not any(offer.best or offer.written for offer in view.offers)
        assert "written" not in view.words
    after = ranks(run, 2)
    assert any(view.true_rank is not None for view in after.round_expansions)
    assert ranks(run, 2, Phase.ROOT).round_expansions == ()


# Buckets ------------------------------------------------------------------------------------------------------------


def table(panel: RanksModel) -> list[list[int]]:
    assert panel.confusion is not None
    return [[int(square.text) for square in row] for row in panel.confusion.heat.squares]


def costs(panel: Confusion) -> list[list[str]]:
    """What every square says of being there."""
    words = {text: cost for cost, (_, text) in COSTS.items()}
    return [
        [words[next(line for line in at.note.split("\n") if line in words)] for at in row] for row in panel.heat.squares
    ]


def over_run(run: Run) -> RunRanks:
    panel = ranks(run).over_run
    assert panel is not None
    return panel


def test_the_table_is_predicted_by_row_and_true_by_column(run: Run) -> None:
    panel = ranks(run)
    known = [expansion for record in run.rounds for expansion in record.expansions if expansion.true_bucket is not None]
    assert table(panel) == [
        [sum((e.bucket, e.true_bucket) == (p, t) for e in known) for t in range(4)] for p in range(4)
    ]
    assert panel.confusion is not None
    assert panel.confusion.n == len(known)
    assert panel.confusion.n_unknown == sum(len(record.expansions) for record in run.rounds) - len(known)
    right = [sum(e.bucket == e.true_bucket == b for e in known) for b in range(4)]
    for b in range(4):
        predicted, true = sum(e.bucket == b for e in known), sum(e.true_bucket == b for e in known)
        assert panel.confusion.heat.right[b][0] == prob(right[b] / predicted if predicted else None)
        assert panel.confusion.heat.foot[0][b + 1] == prob(right[b] / true if true else None)
    assert costs(panel.confusion)[1] == ["wide", "right", "narrow", "narrow"]


def test_blocks_and_slots_share_out_the_table(run: Run) -> None:
    whole = ranks(run)
    assert (whole.blocks, whole.slots) == ((1, 2), (0, 1, 2))
    for path_only in (False, True):
        parts = [
            ranks(run, filter=RankFilter(block, slot, path_only)) for block, slot in product(whole.blocks, whole.slots)
        ]
        sums = [[0] * 4 for _ in range(4)]
        for part in parts:
            for p, t in product(range(4), range(4)):
                sums[p][t] += table(part)[p][t] if part.confusion else 0
        assert sums == table(ranks(run, filter=RankFilter(path_only=path_only)))
    assert sum(map(sum, table(whole))) > sum(map(sum, table(ranks(run, filter=PATH)))) > 0


def test_figures_on_the_path_say_that_they_are_conditional(run: Run) -> None:
    on_path, every = ranks(run, filter=PATH), ranks(run)
    assert on_path.confusion is not None
    assert every.confusion is not None
    assert "every token before was right" in on_path.confusion.basis
    assert "on the path or not" in every.confusion.basis
    assert on_path.filter_text.endswith("on the path")


def test_the_two_ways_to_be_wrong_are_counted_apart(run: Run) -> None:
    panel = ranks(run).confusion
    assert panel is not None
    counts = table(ranks(run))
    narrow, too_wide, gave_up = panel.findings
    n_narrow = sum(counts[p][t] for p, t in product(range(4), range(4)) if t > p)
    assert narrow.startswith(f"{n_narrow} too narrow; ")
    known = [e for record in run.rounds for e in record.expansions if e.true_bucket is not None]
    early = [e for e in known if e.width_reason == "give_up"]
    assert early
    assert gave_up.startswith(f"{len(early)} slots stopped widening")
    wide = sum(e.true_bucket < e.bucket for e in known if e not in early)  # type: ignore[operator]
    assert wide
    assert too_wide.startswith(f"{wide} too wide: ")
    given_up = ["gave_up", "gave_up", "gave_up", "right"]
    assert costs(panel)[3] == given_up, "no siblings there, so nothing is too wide"
    missed = [e for e in known if e.true_bucket > e.bucket and (e.true_rank_argmax or 99) > e.n_children]  # type: ignore[operator]
    assert f"; in {len(missed)} of them the token was not offered" in narrow


@pytest.mark.parametrize("wanted", [ALL, PATH, RankFilter(block=2)])
def test_a_cell_lists_its_expansions_and_where_they_are(run: Run, wanted: RankFilter) -> None:
    listed = 0
    for pred, true in product(range(4), range(4)):
        panel = ranks(run, filter=wanted, cell=(pred, true), entry=0)
        cell = panel.cell
        assert cell is not None
        assert len(cell.rows) == table(panel)[pred][true]
        assert cell.title.endswith(f"({len(cell.rows)})")
        places = [place for place in cell.places if place is not None]
        assert [place.index for place in places] == sorted((p.index for p in places), reverse=True)
        columns = (cell.column(head) for head in ("round", "rank", "", "on the path"))
        for place, at, shown_rank, covered, on_path in zip(places, *columns, strict=True):
            assert place.node == ROOT or place.node in run.rounds[place.index].nodes
            slot = (place.node, str(at).split()[-1])
            (expansion,) = [
                e for e in run.rounds[place.index].expansions if (e.parent, f"b{e.block}·s{e.slot}") == slot
            ]
            assert (expansion.bucket, expansion.true_bucket) == (pred, true)
            rank = expansion.true_rank_emitted if wanted.path_only else expansion.true_rank_argmax
            assert shown_rank == ("not in the draft's vocabulary" if rank is None else rank)
            assert covered == (rank is not None and rank <= expansion.n_children)
            assert not wanted.path_only or on_path
            listed += 1
        assert cell.cursor == (0 if cell.rows else None)
        assert panel.confusion is not None
        assert panel.confusion.heat.cursor == (pred, true)
    assert listed


# Widths, slots, blocks ----------------------------------------------------------------------------------------------


def test_other_widths_cover_what_the_true_ranks_say(run: Run) -> None:
    """Counted anew, from the records alone."""
    seen = [e for record in run.rounds for e in record.expansions if e.true_bucket is not None]
    curve = over_run(run).other_widths
    for row in curve.rows:
        mine = [e.true_rank_argmax for e in seen if BUCKETS[e.bucket] == row[0].text]
        assert row[1].value == len(mine) > 0
        for head, cell in zip(curve.heads[4:], row[4:], strict=True):
            covered = sum(rank is not None and rank <= int(head) for rank in mine) / len(mine)
            assert cell.value == pytest.approx(covered)


def test_widths_spent_and_useful(run: Run) -> None:
    widths = over_run(run).widths
    rows = dict(zip(map(int, widths.xs), twin(widths).rows, strict=True))
    known = [e for record in run.rounds for e in record.expansions if e.true_bucket is not None]
    assert set(rows) == {e.width for e in known}
    for width, row in rows.items():
        mine = [e for e in known if e.width == width]
        useful = [e.true_rank_argmax for e in mine if e.true_rank_argmax and e.true_rank_argmax <= e.n_children]
        spent = sum(e.n_children for e in mine)
        wanted = (width, len(mine), spent, len(useful), len(useful) / len(mine))
        assert tuple(cell.value for cell in row[:5]) == wanted
        assert row[6].value == (sum(useful) / len(useful) if useful else None)
        at = widths.xs.index(str(width))
        assert [curve.ys[at] for curve in widths.curves] == [spent, len(useful)]


def test_wider_covers_no_less(run: Run) -> None:
    reach = over_run(run).reach
    shares = [share or 0.0 for share in reach.curves[0].ys]
    assert reach.xs == tuple(range(1, 21))
    assert shares == sorted(shares)
    assert shares[0] < shares[-1] == 1.0


def test_budget_is_shared_out_by_block(run: Run) -> None:
    blocks = over_run(run)
    table = twin(blocks.blocks)
    assert blocks.blocks.xs == ("block 1", "block 2") == tuple(table.column(""))
    assert sum(map(float, table.column("of all sent"))) == pytest.approx(1)
    assert sum(map(float, table.column("sent"))) == sum(r.end.n_drafted for r in run.rounds if r.end)
    assert table.column("starts a call")[0] == 1
    every = [sum(curve.ys[at] or 0 for curve in blocks.blocks.curves) for at in range(2)]
    assert every == table.column("offered")


def test_summary_has_the_numbers_of_the_run(run: Run) -> None:
    labels = [row.label for row in over_run(run).summary.rows]
    assert labels == ["tok/round", "drafter calls", "drafting share", "speed-up", "bucket right"]


# Which expansions ---------------------------------------------------------------------------------------------------


def test_a_node_shows_what_was_offered_behind_it_else_what_offered_it(run: Run) -> None:
    record = run.rounds[2]
    parents = {expansion.parent for expansion in record.expansions}
    leaf = next(i for i in record.nodes if i not in parents and record.nodes[i].kept)
    inner = next(i for i in record.nodes if i in parents)
    behind = ranks(run, 2, selected=inner)
    assert {view.parent for view in behind.expansions} == {inner}
    assert behind.expansions_title.startswith("offered after")
    above = ranks(run, 2, selected=leaf)
    assert {view.parent for view in above.expansions} == {record.nodes[leaf].parent}
    assert above.expansions_title.startswith("that offered")
    offering = {view.id for view in above.expansions}
    assert offering >= set(record.nodes[leaf].src["merged"])
    ended = next(
        r for r in run.rounds if r.closing and r.closing.node in {expansion.parent for expansion in r.expansions}
    )
    assert ended.closing is not None
    there = {view.parent for view in ranks(run, ended.index).expansions}
    assert there == {ended.closing.node}, "nobody chose: where the round ended"


def test_views_hold_the_records(run: Run) -> None:
    for view, expansion in zip(ranks(run, 2).round_expansions, run.rounds[2].expansions, strict=True):
        assert (view.id, view.bucket, view.width, view.n_children) == (
            expansion.id,
            expansion.bucket,
            expansion.width,
            expansion.n_children,
        )
        assert (view.true_rank, view.emitted_rank, view.true_bucket) == (
            expansion.true_rank_argmax,
            expansion.true_rank_emitted,
            expansion.true_bucket,
        )
        assert [offer.child for offer in view.offers].count(True) == expansion.n_children
        assert len(view.phi) == 15
        assert view.bucket_text == BUCKETS[expansion.bucket]


def test_whether_a_token_was_offered_is_told_by_the_nodes_not_by_its_rank() -> None:
    """Tokens are offered in the order of what is allowed (bans, repetition penalty), which need not be that of the
    draft's law: an accepted child is among the children whatever rank is on record."""
    events = rank_events(temperature=0.8, new_tokens=40)
    for event in events:
        if isinstance(event, ev.Expansion) and event.true_rank_emitted is not None:
            event.true_rank_emitted += 30
    odd, n_told = fold(events), 0
    for record in odd.rounds:
        accepted = {v.node for v in record.verdicts.values() if v.status == "accepted"}
        ways = {record.nodes[i].parent: record.nodes[i] for i in accepted}
        for view in ranks(odd, record.index).round_expansions:
            child = ways.get(view.parent)
            if child is not None and view.id in (*child.src["merged"], _maker(record, child)):
                assert view.outcome == "kept"
                assert "among the children" in view.words
                n_told += 1
    assert n_told > 10


def _maker(record: RoundRecord, node: ev.Node) -> int:
    place = (node.parent, node.src["block"], node.src["slot"])
    return next(
        expansion.id for expansion in record.expansions if (expansion.parent, expansion.block, expansion.slot) == place
    )


def test_level_summary_has_no_distributions_and_says_no_token() -> None:
    panel = ranks(fold(rank_events(level="summary")), 1)
    assert panel.round_expansions
    assert not any(view.offers or view.probs or view.phi for view in panel.round_expansions)
    assert panel.confusion is not None


# Where there is nothing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["eagle3", "static_tree", "medusa"])
def test_other_trees_show_what_applies_and_say_what_does_not(method: str) -> None:
    events = [other_tree(event, method) for event in rank_events() if not isinstance(event, ev.Expansion)]
    panel = ranks(fold(events), 1)
    assert panel.missing is None
    assert len(panel.notes) == 1
    assert method in panel.notes[0]
    assert panel.badges
    assert all(badge.startswith("head" if method == "medusa" else "level") for badge in panel.badges.values())
    assert panel.confusion is None
    assert panel.over_run is not None
    assert not panel.over_run.depths.missing
    assert not panel.over_run.blocks.missing


def other_tree(event: Event, method: str) -> Event:
    """The records of the run as a drafter without blocks would have left them."""
    if isinstance(event, ev.Header):
        of_kind(event, method)
    if isinstance(event, ev.Node):
        rank, cum = event.src["rank"], event.src["cum"]
        event.src = {"rank": rank, "cum": cum} | ({"head": event.depth - 1} if method == "medusa" else {})
    return event


def test_methods_without_ranks_are_told_which_have_them() -> None:
    panel = ranks(fold(make_events(shape="tree")))
    assert panel.missing is not None
    assert "specblock" in panel.missing
    assert "eagle3" in panel.missing


def test_level_none_says_how_to_record() -> None:
    panel = ranks(fold(rank_events(level="none")))
    assert panel.missing is not None
    assert "--level" in panel.missing


def test_imported_counts_have_no_ranks() -> None:
    header = make_header(imported="vllm", method="specblock", level="none")
    panel = ranks(fold([header, *rank_events(level="none")[1:]]))
    assert panel.missing is not None
    assert panel.missing.startswith("vllm")


def test_before_the_first_round() -> None:
    frame = FrameBuilder(fold(rank_events()[:2])).frame(Cursor(), Options(shown=("ranks",)), Feed())
    panel = RanksPanel.of(frame)
    assert panel is not None
    assert panel.missing == "waiting for the first round"


def test_a_run_that_grows_is_counted_as_it_grows() -> None:
    """The same builder over a growing run ends with what a fresh one counts."""
    events, run = rank_events(queries=2), Run()
    builder = FrameBuilder(run)
    for event in events:
        run.apply(event)
        if isinstance(event, ev.RoundEnd):
            builder.frame(Cursor(len(run.rounds) - 1, Phase.COMMIT, 0), Options(shown=("ranks",)), Feed())
    grown = RanksPanel.of(builder.frame(Cursor(0, Phase.COMMIT, 0), Options(shown=("ranks",)), Feed()))
    assert grown == ranks(fold(events))


@pytest.mark.parametrize(
    ("reason", "words"),
    [("length", "There is room for one token only"), ("no_match", "The drafter had nothing to go on")],
)
def test_a_round_without_a_tree_says_why(reason: str, words: str) -> None:
    """No block drafter looks for words in the text, so a round that drafted nothing must not say that none matched."""
    events = rank_events(temperature=0.0, new_tokens=1)
    for event in events:
        if isinstance(event, ev.RoundEnd):
            event.draft_end = reason  # type: ignore[assignment]
    panel = ranks(fold(events))
    assert not panel.round_expansions
    assert panel.ending.startswith(words)
