"""What a header says of its method and its verifier, and what a reader makes of a header that says nothing yet."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from specviz import events as ev
from specviz.events import decode, encode
from specviz.methods import all_methods
from specviz.runlog.fold import fold
from specviz.trace.migrate import METHODS, VERIFIERS
from specviz.trace.reader import Trace, read_events
from specviz.traits import RULES, MethodTraits, VerifierTraits
from specviz.verifiers import all_verifiers, get_verifier
from support.recordings import RECORDINGS
from support.traces import make_events, make_header

TRAITS = ("method_traits", "verifier_traits")


def older(path: Path, *left_out: str, **changes: Any) -> Path:
    """A trace of a header alone, as version 1.1 wrote it: without these fields."""
    line = json.loads(encode(make_header())) | changes | {"v": [1, 1]}
    path.write_text(json.dumps({name: value for name, value in line.items() if name not in left_out}) + "\n")
    return path


def header_of(path: Path) -> ev.Header:
    with Trace(path) as trace:
        assert trace.header is not None
        return trace.header


@pytest.mark.parametrize("name", all_methods())
def test_the_name_in_an_old_trace_stands_for_what_the_method_says(name: str, tmp_path: Path) -> None:
    header = header_of(older(tmp_path / "a.sv.jsonl", *TRAITS, method=name))
    assert header.method_traits == all_methods()[name].traits == METHODS.get(name, MethodTraits())


@pytest.mark.parametrize("name", all_verifiers())
def test_the_name_in_an_old_trace_stands_for_what_the_verifier_says(name: str, tmp_path: Path) -> None:
    header = header_of(older(tmp_path / "a.sv.jsonl", *TRAITS, verifier=name))
    assert header.verifier_traits == get_verifier(name).traits == VERIFIERS.get(name, VerifierTraits())


def test_what_a_header_says_goes_before_its_name(tmp_path: Path) -> None:
    """A method of later, or of somebody else, may bear any name."""
    traits = msgspec.to_builtins(MethodTraits(learns=True))
    header = header_of(
        older(tmp_path / "a.sv.jsonl", "verifier_traits", method="ar", verifier="hsd", method_traits=traits)
    )
    assert header.method_traits == MethodTraits(learns=True)
    assert header.verifier_traits == get_verifier("hsd").traits, "the other one is filled in by itself"


def test_a_name_that_nobody_knows_is_the_plainest_kind(tmp_path: Path) -> None:
    header = header_of(older(tmp_path / "a.sv.jsonl", *TRAITS, method="of-others", verifier="of-others"))
    assert (header.method_traits, header.verifier_traits) == (MethodTraits(), VerifierTraits())


def test_traits_go_through_a_line_as_they_are() -> None:
    for method in all_methods().values():
        for verifier in all_verifiers().values():
            header = make_header(method=method.name, verifier=verifier.name)
            again = decode(encode(header))
            assert isinstance(again, ev.Header)
            assert (again.method_traits, again.verifier_traits) == (method.traits, verifier.traits)


def test_bundled_traces_know_what_ran() -> None:
    for name, path in RECORDINGS.items():
        header = header_of(path)
        assert header.method_traits == all_methods()[header.method].traits, name
        assert header.verifier_traits == get_verifier(header.verifier).traits, name


def test_traits_out_of_range_are_refused_by_line(tmp_path: Path) -> None:
    from specviz.errors import TraceError

    path = older(tmp_path / "a.sv.jsonl", method_traits={"replay_depth": 7.0})
    with pytest.raises(TraceError, match=r"line 1.*replay_depth"):
        read_events(path)


def test_words_in_traits_are_escaped() -> None:
    header = make_header()
    header.method_traits = MethodTraits(threshold_symbol="\x1b[2J")
    header.verifier_traits = VerifierTraits(same_rule_as="\x1b[2J")
    run = fold([header, *make_events()[1:]])
    assert "\x1b" not in run.method_traits.threshold_symbol
    assert "\x1b" not in run.rule.same_rule_as


def test_a_method_of_others_is_shown_by_what_it_says() -> None:
    """The name of no method at all: screens go by the traits alone."""
    header, *rest = make_events(verifier="hsd", temperature=0.8)
    assert isinstance(header, ev.Header)
    header.method, header.verifier = "of-others", "a-rule-of-others"
    header.method_traits = MethodTraits(exits="tested", tree="levels", learns=True)
    run = fold([header, *rest])
    assert run.backward
    assert run.rule.replays_as in RULES
    header.verifier_traits = VerifierTraits()
    assert not fold([header, *rest]).backward


def test_a_rule_of_two_names_is_alike_under_both() -> None:
    """What is called the same rule is one in whatever decides what a reader is told of it; letters may differ."""
    for verifier in all_verifiers().values():
        if verifier.traits.same_rule_as:
            other = get_verifier(verifier.traits.same_rule_as)
            same = [(t.direction, t.order, t.capped, t.last_capped, t.draws) for t in (verifier.traits, other.traits)]
            assert same[0] == same[1], verifier.name
            assert verifier.lossless == other.lossless
