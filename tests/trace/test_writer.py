"""Traces of loops that are not ours: what is told of them is what they said."""

import itertools
import random
from pathlib import Path

import pytest

from specviz.errors import SpecvizError, TraceError
from specviz.events import Node, Verify, Warn
from specviz.metrics import Tally
from specviz.probability.draws import Keys
from specviz.runlog.fold import Run, fold
from specviz.trace import RULES, Writer, read_events
from specviz.trace.check import Checker
from specviz.traits import VerifierTraits
from specviz.verifiers import get_verifier
from support.table import TEXTS, Recipe, draft_of, target_rows
from support.table import Run as TableRun


def read(writer: Writer) -> Run:
    """The run, with every rule on what records may say checked."""
    events, checker = list(read_events(writer.path)), Checker(writer.path)
    for line, event in enumerate(events, 1):
        checker.take(event, line)
    return fold(events)


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_verdicts_are_those_of_the_rule_that_decided(tmp_path: Path, shape: str) -> None:
    """A loop that the real verifiers decide: what the writer tells from the text alone is what they did."""
    rule = "tokenwise" if shape == "chain" else "walk"
    table = TableRun(Recipe(shape=shape, verifier=rule, temperature=1.0, new_tokens=400))
    table.tokens = [1, 2, 3]
    kept = []
    with Writer(tmp_path / "loop", "loop", rule=rule, text=TEXTS.__getitem__, temperature=1.0) as writer:
        writer.request(table.tokens)
        for r in range(1, 60):
            table.next_id = 0
            keys, n = Keys(0, r, "cdf"), len(table.tokens)
            draft, _ = draft_of(table, keys, 8)
            outcome = get_verifier(rule).plan(draft, target_rows(table, draft)).walk(keys, n)
            writer.round()
            chances = []
            for token, parent in zip(draft.tokens, draft.parents, strict=True):
                chances.append(writer.drafted(token, parent=chances[parent] if parent >= 0 else None, first=parent < 0))
            new = [draft.tokens[i] for i in outcome.accepted]
            assert outcome.closing is not None
            writer.committed([*new, outcome.closing])
            table.tokens += [*new, outcome.closing]
            kept.append([chances[i].id for i in outcome.accepted])
    run = read(writer)
    assert [[v.node for v in record.every(Verify) if v.status == "accepted"] for record in run.rounds] == kept
    assert run.queries[0].text == "".join(TEXTS[token] for token in table.tokens[3:])
    assert any(kept)
    assert not all(kept)


def test_a_verdict_that_is_not_the_rules_is_said_and_the_trace_opens(tmp_path: Path) -> None:
    with Writer(tmp_path / "loop", "loop", rule="p/q") as writer:
        writer.round()
        writer.drafted(7, q=0.5, p=0.1, u=0.9)
        writer.committed([7, 3])
    run = read(writer)
    assert [w.code for w in run.rounds[0].every(Warn)] == ["rule_violated"]
    assert run.rounds[0].verdicts[0].thr is None
    assert run.rounds[0].verdicts[0].status == "accepted"


def test_what_is_not_known_is_not_filled_in(tmp_path: Path) -> None:
    """Counts alone: no node, no time of a part, no number that somebody would have had to make up."""
    with Writer(tmp_path / "counts", "engine", known="counts", clock=lambda: 0) as writer:
        for kept in (0, 2, 4):
            writer.round(n_drafted=4)
            writer.committed([-1] * (kept + 1), n_accepted=kept)
    tally = Tally().add_all(read_events(writer.path))
    metrics = tally.summary()
    run = read(writer)
    assert (metrics.n_drafted, metrics.n_accepted, metrics.n_emitted) == (12, 6, 9)
    for name in ("drafting_share", "overhead", "tokens_per_second", "time_to_first_token_s", "n_draft_calls"):
        assert metrics[name] is None, name
    assert not run.rounds[1].every(Node)
    assert "counts only" in (run.missing(run.rounds[0]) or "")


@pytest.mark.parametrize("timed", [False, True])
def test_the_first_token_took_as_long_as_somebody_timed_its_prompt(tmp_path: Path, timed: bool) -> None:
    """When its answer was read is no beginning of a prompt's pass."""
    ticks = itertools.count(1_000_000, 1_000)
    with Writer(tmp_path / "a", "engine", known="counts", clock=lambda: next(ticks)) as writer:
        writer.request(dur_ns=500_000 if timed else 0)
        writer.round(n_drafted=1)
        writer.committed([-1], n_accepted=0)
    seconds = Tally().add_all(read_events(writer.path)).summary().time_to_first_token_s
    assert seconds is None if not timed else seconds is not None and seconds.value > 0.0005


def test_other_rules_are_asked_of_whole_drafts_alone(tmp_path: Path) -> None:
    """Drafts whose p ends at the failed test are cut short by the rule itself, and say nothing of another one."""
    draw = random.Random(1)
    for whole in (True, False):
        with Writer(tmp_path / str(whole), "loop", rule="p/q", temperature=1.0) as writer:
            writer.round()
            for k in range(3):
                writer.drafted(k, q=0.5, p=draw.random() if whole or k == 0 else None, u=0.99 if k == 0 else None)
            writer.committed([9])
        paired = Tally().add_all(read_events(writer.path)).summary().same_draft
        assert (paired is not None) == whole


def test_calls_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "loop", "loop")
    with pytest.raises(TraceError, match="call round"):
        writer.drafted(1)
    writer.round(n_drafted=2)
    with pytest.raises(TraceError, match="at most one more"):
        writer.committed([1, 2, 3], n_accepted=1)
    with pytest.raises(TraceError, match="'done': one of eos, stop, length, context"):
        writer.committed([1, 2, 3], n_accepted=2, finish="done")  # type: ignore[arg-type]
    writer.committed([1, 2, 3], n_accepted=2)
    writer.close()
    assert len(read(writer).rounds) == 1
    with pytest.raises(SpecvizError, match="did you mean 'exact match'"):
        Writer(tmp_path / "other", "loop", rule="exact mach")


def test_every_rule_writes_a_trace_that_opens(tmp_path: Path) -> None:
    for name, rule in RULES.items():
        assert rule.traits == (get_verifier(rule.verifier).traits if rule.verifier else VerifierTraits())
        with Writer(tmp_path / name.replace("/", "-"), "loop", rule=name, temperature=1.0) as writer:
            writer.round()
            writer.drafted(1)
            writer.drafted(2)
            writer.committed([1, 5])
        assert read(writer).rounds[0].end is not None
