"""Filters: what they mean, what they refuse, and that going through a run finds every match once."""

from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import SpecvizError
from specviz.runlog.fold import Run, fold
from specviz.runlog.tree import RoundTree
from specviz.trace import read_events
from specviz.view.find.expression import LONGEST, Filter, parsed
from specviz.view.find.fields import FIELDS, FilterSubject, fields
from specviz.view.find.search import FoundPlace, filter_for, matches, search
from support.recordings import RECORDINGS

KNOWN = fields()


@pytest.fixture(scope="module")
def run() -> Run:
    return fold(read_events(RECORDINGS["prose-tree"]))


def found(run: Run, text: str) -> set[tuple[int, int | None]]:
    wanted = filter_for(run, text)
    return {(record.index, node) for record in run.rounds for node in matches(record, wanted)}


def test_it_means_what_the_records_say(run: Run) -> None:
    nodes = {(record.index, i): (RoundTree(record), i) for record in run.rounds for i in RoundTree(record).nodes}
    rejected = {
        key for key, (tree, i) in nodes.items() if (v := tree.record.verdicts.get(i)) and v.status == "rejected"
    }
    assert rejected
    assert found(run, "rejected") == rejected
    deep = {key for key, (tree, i) in nodes.items() if tree.depth[i] > 2}
    assert found(run, "depth>2") == deep
    assert found(run, "rejected and depth > 2") == rejected & deep
    assert found(run, "rejected or depth > 2") == rejected | deep
    assert found(run, "rejected | depth > 2 and depth < 0") == rejected
    assert found(run, "(rejected | depth > 2) & depth < 0") == set()
    few = {(record.index, None) for record in run.rounds if record.end and record.end.n_accepted == 0}
    assert found(run, "n_accepted = 0") == few


def test_ratios_are_those_of_the_screens() -> None:
    run = fold(read_events(RECORDINGS["code-hsd"]))
    ratios = {
        (record.index, i): (tree.p(i), node.logq)
        for record in run.rounds
        for tree in [RoundTree(record)]
        for i, node in tree.nodes.items()
    }
    low = {key for key, (p, logq) in ratios.items() if p is not None and logq is not None and p / exp(logq) < 0.3}
    assert low
    assert found(run, "p/q < .3") == low
    assert found(run, "0 <= p/q < 0.3") == low
    assert found(run, "p < .3*q") == low


def test_what_is_unknown_matches_neither_way(run: Run) -> None:
    known = found(run, "p >= 0")
    every = found(run, "depth >= 0")
    assert known < every
    assert found(run, "not p >= 0") == set()
    assert found(run, "p >= 0 or depth >= 0") == every
    assert found(run, "p >= 0 or p < 0") == known


def test_texts_and_knobs(run: Run) -> None:
    with_e = {
        (record.index, i)
        for record in run.rounds
        for i, node in RoundTree(record).nodes.items()
        if "e" in node.text.lower()
    }
    assert found(run, "text ~ 'E'") == with_e
    assert found(run, "not text ~ 'E'") == found(run, "depth>=0") - with_e
    everything = {(record.index, None) for record in run.rounds}
    assert found(run, "max_new_tokens > 0") == everything


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("dept > 2", "no 'dept'; did you mean 'depth'?"),
        ("depth", "depth is a number; compare it"),
        ("p/q", "is a number; compare it"),
        ("depth >", "at its end: something is missing"),
        ("depth > 2 and", "something is missing"),
        ("(depth > 2", "a bracket is not closed"),
        ("depth > 2)", "not expected"),
        ("depth > 2 p < 3", "join two tests with 'and' or 'or'"),
        ("depth > 'two'", "is no number; '>' compares numbers"),
        ("rejected > 2", "rejected is no number"),
        ("rejected + 1 > 2", "rejected is no number; '\\+' works on numbers"),
        ("text = 3", "a text is compared with a number"),
        ("p ~ 3", "~ looks for a text in a text"),
        ('text ~ "the', "no closing quote"),
        ("'the'", "a text is no test"),
        ("depth > 2 ; rejected", "';' says nothing"),
        ("__import__('os')", "cannot stand here"),
        ("p if p else q", "no 'if'"),
        ("[p for p in q]", "'\\[' says nothing"),
        ("p(q)", "cannot stand here"),
        ("p ** 9 ** 9 > 1", "not expected"),
        ("depth.__class__", "'.' says nothing"),
        ("(" * 60 + "rejected" + ")" * 60, "more than 40 brackets"),
        ("not " * 60 + "rejected", "more than 40 brackets"),
        ("p>1 and " * 60 + "p>1", "400 at most"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, reason: str) -> None:
    with pytest.raises(SpecvizError, match=reason) as caught:
        parsed(text, KNOWN)
    assert "\n" not in str(caught.value)


@settings(max_examples=400, deadline=None)
@given(text=st.text(max_size=60) | st.text(alphabet="pqu<>=!&|()+-*/~. 0139'\"depthnot", max_size=80))
def test_whatever_is_typed_it_answers(text: str) -> None:
    reason = None
    try:
        assert isinstance(parsed(text, KNOWN), Filter)
    except SpecvizError as error:
        reason = str(error)
    assert reason is None or len(reason.splitlines()) == 1


def expressions() -> st.SearchStrategy[str]:
    """Filters with every operator, on names that there are."""
    numbers = st.sampled_from([field.name for field in FIELDS if field.kind == "number"]) | st.sampled_from(
        ["0", ".3", "1e-3", "2", "17.5"]
    )
    sums = st.recursive(
        numbers,
        lambda inner: (
            st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
            | inner.map(lambda x: f"-{x}")
        ),
        max_leaves=4,
    )
    flags = st.sampled_from([field.name for field in FIELDS if field.kind == "truth"])
    tests = flags | st.tuples(sums, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), sums).map(" ".join)
    logic = st.recursive(
        tests,
        lambda inner: (
            st.tuples(inner, st.sampled_from([" and ", " or ", " & ", "|"]), inner).map("".join).map(lambda t: f"({t})")
            | inner.map(lambda x: f"not {x}")
        ),
        max_leaves=5,
    )
    return logic.filter(lambda text: 3 * len(text) + 20 <= LONGEST)  # the test writes it three times over


@settings(max_examples=120, deadline=None)
@given(text=expressions())
def test_logic_holds_for_every_filter(run: Run, text: str) -> None:
    """A filter and its negation share no match; with itself it is itself; what it finds is found by `search` too."""
    wanted, other = parsed(text, KNOWN), parsed(f"not ({text})", KNOWN)
    twice = parsed(f"({text}) and ({text}) or ({text})", KNOWN)
    for record in run.rounds[:3]:
        tree = RoundTree(record)
        for node in [None, *list(tree.nodes)[:6]]:
            at = FilterSubject(tree, node)
            assert not (wanted.matches(at) and other.matches(at))
            assert wanted.matches(at) == twice.matches(at)


@pytest.mark.parametrize("text", ["rejected", "p/q < .3", "n_accepted = 0", "depth > 3 and untested", "depth > 99"])
@pytest.mark.parametrize("by", [1, -1])
def test_a_search_finds_every_match_once_and_comes_round(run: Run, text: str, by: int) -> None:
    wanted = filter_for(run, text)
    every = found(run, text)
    place = sorted(every, key=lambda spot: (spot[0], -1 if spot[1] is None else spot[1]))
    start = place[len(place) // 2] if place else (3, None)
    order = [match for match in search(run, wanted, *start, by) if match is not None]
    assert {(match.index, match.node) for match in order} == every
    assert len(order) == len(every)
    if order:
        assert (order[-1].index, order[-1].node) == start
        assert all(isinstance(match, FoundPlace) and 1 <= match.number <= match.of for match in order)
