"""The sentences on drafted trees: why a width, why this shape, why the walk ended there; and branches and windows."""

from collections.abc import Iterator

import msgspec
import pytest

from specviz import events as ev
from specviz.runlog.fold import Run, fold
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.text import quoted
from specviz.trace import read_events
from specviz.view.frame.frame import Feed, Options
from specviz.view.frame.knob_bar import knob_bar
from specviz.view.panels import remarks
from specviz.view.panels.ranks.text import ending_words, shape_words, truth_words, width_words
from specviz.view.why.closing_text import closing_words
from specviz.view.why.node_context import case
from specviz.view.why.values_text import node_words
from specviz.view.words.palette import CLOSING, ROOT
from support.branch_trace import worked
from support.rank_trace import rank_events
from support.recordings import RECORDINGS
from support.traces import Recipe, make_header, of_kind, plain_run

SETTINGS = (
    {"widths": (2, 4, 6, 0)},
    {"widths": (2, 4, 6, 3), "temperature": 0.9, "new_tokens": 40},
    {"widths": (3, 5, 9, 0), "trims": True, "noise": 0.3, "budget": 30},
)


def closing_text(run: Run, round_tree: RoundTree) -> str:
    """The sentence with what the panels add to it."""
    return closing_words(run, round_tree, remarks(run, round_tree, CLOSING).words)


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [fold(rank_events(**setting)) for setting in SETTINGS]


def rounds(runs: list[Run]) -> Iterator[tuple[Run, RoundRecord]]:
    for run in runs:
        for record in run.rounds:
            if record.tree is not None:
                yield run, record


def test_every_width_has_its_reason(runs: list[Run]) -> None:
    reasons = {"bucket": "this preset gives", "beam": "k_max", "trim": "trimmed to", "give_up": "stopped widening"}
    met = set()
    for run, record in rounds(runs):
        for expansion in record.expansions:
            words = width_words(run, record, expansion)
            first = next(
                e for e in record.expansions if e.start == expansion.start and e.width_reason == expansion.width_reason
            )
            phrase = (
                "stops widening"
                if expansion.width_reason == "give_up" and first is expansion
                else reasons[expansion.width_reason]
            )
            assert phrase in words, (expansion.width_reason, words)
            if expansion.width_reason != "give_up":
                assert f"{expansion.n_children} child" in words
            met.add(expansion.width_reason)
    assert met == set(reasons)


def test_the_truth_names_rank_and_the_width_that_would_have_had_it(runs: list[Run]) -> None:
    covered = missed = unseen = 0
    for run, record in rounds(runs):
        for expansion in record.expansions:
            rank = expansion.true_rank_emitted if expansion.on_path else expansion.true_rank_argmax
            words = truth_words(run, record, expansion, "kept" if (rank or 99) <= expansion.n_children else "outside")
            if expansion.true_bucket is None:
                assert "never looked here" in words
                unseen += 1
            elif rank is not None and rank <= expansion.n_children:
                assert "among the children" in words
                covered += 1
            elif rank is not None:
                assert f"{expansion.n_children} offered, {rank} would have had it" in words
                missed += 1
            assert ("written" in words) == (expansion.on_path and expansion.true_bucket is not None)
    assert min(covered, missed, unseen) > 5


def test_the_written_token_is_named_where_the_distribution_is_not_on_record() -> None:
    run = fold(rank_events(level="summary"))
    named = 0
    for record in run.rounds:
        for expansion in record.expansions:
            if expansion.on_path and record.commit is not None:
                words = truth_words(run, record, expansion, "kept")
                assert any(run.name(token) in words for token in record.commit.tokens)
                named += 1
    assert named


def test_a_tree_says_why_it_has_its_shape(runs: list[Run]) -> None:
    for run, record in rounds(runs):
        words = shape_words(run, record)
        tree = record.tree
        assert tree is not None
        assert f"{tree.n_raw} tokens offered" in words
        assert (f"{tree.n_merged} of them a second time" in words) == (tree.n_merged > 0)
        pruned = tree.n_raw - tree.n_merged - tree.n_kept
        assert (f"{pruned} pruned" in words) == (pruned > 0)
        levels = {block.block for block in record.blocks}
        assert words.startswith(f"{len(levels)} drafter call")
        starts = sum(block.block == 2 for block in record.blocks)
        assert (f"block 2 went on at {starts} node" in words) == (starts > 0)
        assert ("stopped widening" in words) == any(
            expansion.width_reason == "give_up" for expansion in record.expansions
        )


def test_the_end_of_a_walk_has_its_reason(runs: list[Run]) -> None:
    """Pruned, not offered, nothing below: told from the records, not from the words."""
    met = set()
    for run, record in rounds(runs):
        round_tree, closing = RoundTree(record), record.closing
        words = ending_words(run, round_tree)
        if closing is None or closing.token is None:
            assert words == ""
            continue
        here = [expansion for expansion in record.expansions if expansion.parent == round_tree.stop]
        spelled = [
            n for i in round_tree.children.get(round_tree.stop, ()) if (n := round_tree.nodes[i]).token == closing.token
        ]
        if spelled:
            assert not spelled[0].kept
            assert "but pruned" in words
            met.add("pruned")
        elif here:
            best = min(expansion.true_rank_emitted or 99 for expansion in here)
            assert f"a width of {best} would have had it" in words
            met.add("outside")
        elif closing.kind == "bonus":
            deep = round_tree.depth.get(round_tree.stop, 0) >= round_tree.n_levels
            assert ("deepest level" in words) == deep
            met.add("deepest" if deep else "leaf")
        assert closing_text(run, round_tree).endswith(words)
    assert {"pruned", "outside", "leaf"} <= met


def test_a_token_outside_the_draft_vocabulary_is_said_to_be() -> None:
    events = rank_events(temperature=0.8, new_tokens=40)
    for event in events:
        if isinstance(event, ev.Expansion) and event.on_path and (event.true_rank_emitted or 0) > event.n_children:
            event.true_rank_emitted = None
    run = fold(events)
    sentences = [ending_words(run, RoundTree(record)) for record in run.rounds]
    assert any("not in the draft's vocabulary" in words for words in sentences)


def test_pruned_nodes_name_what_was_sent_and_their_chance() -> None:
    events = rank_events()
    events[0].knobs["node_budget"] = -1  # type: ignore[attr-defined]
    run = fold(events)
    record = next(r for r in run.rounds if r.tree and r.tree.n_kept < len(r.nodes))
    assert record.tree is not None
    node = next(i for i, born in record.nodes.items() if not born.kept)
    words = node_words(case(run, RoundTree(record), node))
    assert f"({record.tree.n_kept})" in words
    assert "The draft gave its path" in words


@pytest.mark.parametrize("method", ["eagle3", "static_tree", "medusa"])
def test_trees_without_expansions_are_explained_by_their_levels(method: str) -> None:
    events = [event for event in rank_events(temperature=0.9) if not isinstance(event, ev.Expansion)]
    of_kind(events[0], method)  # type: ignore[arg-type]
    run = fold(events)
    record = run.rounds[1]
    words = shape_words(run, record)
    phrase = {"eagle3": "likeliest nodes", "static_tree": "fixed tree of ranks", "medusa": "One call of all heads"}
    assert phrase[method] in words
    sentences = [ending_words(run, RoundTree(sentence)) for sentence in run.rounds]
    assert any("was the draft's" in sentence or "not among" in sentence for sentence in sentences)


# Branches and windows -----------------------------------------------------------------------------------------------


def test_a_hit_says_that_the_branch_goes_on() -> None:
    events = [event for records in worked() for event in records]
    run = fold([make_header(Recipe(temperature=0.0), method="specbranch", verifier="walk"), *events])
    hits = [record for record in run.rounds if (m := next(iter(record.every(ev.Match)), None)) and m.branch is not None]
    assert hits
    for record in hits:
        if record.closing is not None:
            record.closing.kind, record.closing.token = "none", None
        words = closing_text(run, RoundTree(record))
        match = record.every(ev.Match)[0]
        assert f"branch {match.branch}" in words
        assert "no target row" not in words
        rest = sum(n.branch == match.branch for n in record.nodes.values()) - 1
        assert str(rest) in words or rest < 2


def test_a_round_of_lookahead_without_guesses_kept_no_path() -> None:
    """Its nodes are the window: nothing was judged, so nothing was kept to its end."""
    window = ev.Node(node=0, parent=ROOT, depth=1, pos=3, token=2, text="x", src={"window": 1})
    events = plain_run([_lookahead(window)], method="lookahead", level="summary")
    run = fold(events)
    words = closing_text(run, RoundTree(run.rounds[0]))
    assert "no guess" in words
    assert "kept to its end" not in words


def _lookahead(node: ev.Node) -> list[ev.Event]:
    node.r = 1
    closing = ev.Closing(r=1, node=ROOT, kind="bonus", token=1, text="a", u=None)
    end = ev.RoundEnd(
        r=1,
        n_drafted=0,
        n_tested=0,
        n_accepted=0,
        n_emitted=1,
        n_draft_calls=0,
        n_syncs=1,
        stage_ns={"target": 1},
        probe_ns=0,
        draft_end="full",
        walk_end="leaf",
        cut=False,
    )
    window = ev.Window(r=1, n_window=1, n_guesses=0, pool=0, added=0)
    commit = ev.Commit(r=1, tokens=[1], texts=["a"], kinds=["bonus"], n=4)
    return [ev.RoundStart(r=1, n=3, root=1, knob_version=0), node, window, closing, commit, end]


# The knob bar -------------------------------------------------------------------------------------------------------


def test_values_that_stand_for_others_say_so() -> None:
    from specviz.methods import get_method

    def texts(method: str, parts: dict[str, str]) -> dict[str, str]:
        table = get_method(method).table
        models = ev.Models(target=ev.ModelInfo(name="t"), parts=parts)
        header = make_header(
            method=method, knobs=dict(table.knobs({}).values), knob_specs=list(table.specs), models=models
        )
        return {item.name: item.text for item in knob_bar(fold([header]), None, Options(), Feed()).items}

    block = texts("specblock", {})
    assert {name: block[name] for name in ("node_budget", "d_max", "slots_used", "widths", "drafter")} == {
        "node_budget": "auto",
        "d_max": "all levels",
        "slots_used": "all",
        "widths": "preset",
        "drafter": "shipped",
    }
    assert texts("specbranch", {"hrad": "none (signal 1)"})["hrad"] == "none"
    trained = texts("specbranch", {"hrad": "trained on rounds of gamma 4"})
    assert (trained["hrad"], trained["branch_len"]) == ("shipped", "likely")
    named = texts("specbranch", {"hrad": "γ7 T0.7: trained on rounds of gamma 7 at temperature 0.7"})
    assert named["hrad"] == "shipped, γ7 T0.7"  # two are shipped: which one answered
    assert texts("specbranch", {"hrad": "none: signal 1"})["hrad"] == "none"


@pytest.mark.parametrize(
    ("asked", "used", "shown"),
    [
        (0, 4, "γ: 4"),
        (-1, 3, "auto: 3"),
        (-2, 3, "likely: 3"),
        (8, 4, "8: 4"),
        (4, 4, "4"),
        (0, None, "γ"),
        (-1, None, "auto"),
    ],
)
def test_the_length_of_branches_is_the_one_of_the_round(asked: int, used: int | None, shown: str) -> None:
    """The knob may be a rule, or more than gamma: the fork of the round says what came of it."""
    from specviz.methods import get_method

    table = get_method("specbranch").table
    knobs = {**table.knobs({}).values, "branch_len": asked}
    header = make_header(method="specbranch", knob_specs=list(table.specs), knobs=knobs)
    run = fold([header, ev.Prefill(prompt=[1], text="a", n_prompt=1, seed=0, dur_ns=1)])
    record = RoundRecord(0, ev.RoundStart(r=1, n=1, root=1, knob_version=0), run.queries[0], 0, knobs)
    fork = ev.Fork(
        r=1,
        pos=1,
        conf=0.5,
        k_raw=1.0,
        k=0 if used is None else 2,
        k_max=6,
        known=False,
        reason="low_conf",
        branch_len=used or 0,
    )
    record.take(fork)
    items = {item.name: item.text for item in knob_bar(run, record, Options(), Feed()).items}
    assert items["branch_len"] == shown


@pytest.mark.parametrize(
    ("asked", "help_", "shown"),
    [
        (-1, None, "auto: 4"),
        (60, None, "60"),
        (-1, "nodes sent to the target; -1: the preset's", "preset: 4"),  # as traces of before say
    ],
)
def test_a_tree_that_is_as_large_as_pays_says_how_large_it_was(asked: int, help_: str | None, shown: str) -> None:
    from specviz.methods import get_method

    table = get_method("eagle3").table
    knobs = {**table.knobs({}).values, "node_budget": asked}
    specs = list(table.specs)
    if help_ is not None:
        specs = [msgspec.structs.replace(spec, help=help_) if spec.name == "node_budget" else spec for spec in specs]
    header = make_header(method="eagle3", knob_specs=specs, knobs=knobs)
    run = fold([header, ev.Prefill(prompt=[1], text="a", n_prompt=1, seed=0, dur_ns=1)])
    record = RoundRecord(0, ev.RoundStart(r=1, n=1, root=1, knob_version=0), run.queries[0], 0, knobs)
    record.take(ev.TreeMade(n_raw=30, n_merged=0, n_kept=4, widths=[], buckets=[]))
    items = {item.name: item.text for item in knob_bar(run, record, Options(), Feed()).items}
    assert items["node_budget"] == shown


def test_one_call_and_one_node_are_told_as_one() -> None:
    header = make_header(method="eagle3")
    run = fold([header, ev.Prefill(prompt=[1], text="a", n_prompt=1, seed=0, dur_ns=1)])
    record = RoundRecord(0, ev.RoundStart(r=1, n=1, root=1, knob_version=0), run.queries[0], 0, {})
    record.take(ev.Block(start=0, node=-1, chain=[], kv_len=1, batch=1, dur_ns=1))
    record.take(ev.TreeMade(n_raw=10, n_merged=0, n_kept=1, widths=[], buckets=[]))
    assert shape_words(run, record) == (
        "1 drafter call, at the root. 10 tokens offered; 9 pruned, the one with the likeliest path was sent."
    )


def test_known_knobs_that_a_method_lacks_are_named_with_the_reason() -> None:
    from specviz.methods import get_method

    table = get_method("specblock").table
    header = make_header(method="specblock", knob_specs=list(table.specs), knobs=dict(table.knobs({}).values))
    absent = dict(knob_bar(fold([header]), None, Options(), Feed()).absent)
    assert set(absent) == {"ε", "α", "τ"}
    assert all("specblock has no" in reason for reason in absent.values())


def test_knobs_of_queries_can_be_moved_while_a_stream_has_more() -> None:
    from specviz.methods import get_method

    table = get_method("specblock").table
    events = rank_events(queries=2)
    events[0].knob_specs, events[0].env = list(table.specs), {"stream": {"n_queries": 2}}  # type: ignore[attr-defined]
    first_end = next(i for i, event in enumerate(events) if isinstance(event, ev.Prefill) and event.q == 1)
    feed = Feed(steerable=True)

    def disabled(run: Run) -> str | None:
        bar = knob_bar(run, run.rounds[-1], Options(), feed)
        return next(item.disabled for item in bar.items if item.name == "adapt")

    assert disabled(fold(events[:first_end])) is None
    assert disabled(fold(events[:-1])) is not None, "the last query: nothing comes after it"


def test_names_of_tokens_are_quoted_and_safe(runs: list[Run]) -> None:
    """No control character of a token reaches a sentence."""
    for run, record in rounds(runs):
        round_tree = RoundTree(record)
        words = closing_text(run, round_tree) + shape_words(run, record)
        words += "".join(truth_words(run, record, expansion, "pruned") for expansion in record.expansions)
        assert "\x1b" not in words
    assert "\x1b" not in quoted(" \x1b[31m", None)


def test_recordings_of_branches_and_windows_read_well() -> None:
    """Every closing sentence: no empty one, none about rows for a branch."""
    for name in ("code-lookahead", "code-specbranch"):
        run = fold(read_events(RECORDINGS[name]))
        for record in run.rounds:
            words = closing_text(run, RoundTree(record))
            assert words
            match = next(iter(record.every(ev.Match)), None)
            if match is not None and match.branch is not None:
                assert "has no target row" not in words
