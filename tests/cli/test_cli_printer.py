"""What a run prints: text safe for a terminal, one line for a round, and what the narrator says."""

import io
from typing import TextIO

from cli.scripted import Script
from specviz import events
from specviz.cli.printing import Narrator, Sink, TextPrinter, fan_out, terminal_text
from specviz.cli.run.lines import RoundLines
from specviz.runlog.fold import Run
from support.traces import make_events


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def _round_lines(out: TextIO, verbose: bool = False) -> Sink:
    run = Run(whole=False)
    return fan_out(run.apply, RoundLines(run, out, verbose))


def test_a_terminal_gets_safe_text_and_whole_lines() -> None:
    script, screen = Script(), _Screen()
    stream = TextPrinter(screen)
    for event in script.events:
        stream(event)
    stream.finish()
    assert "\x1b" in script.text
    assert screen.getvalue() == terminal_text(script.text) + ("" if script.text.endswith("\n") else "\n")
    assert "\x1b" not in screen.getvalue()
    assert screen.getvalue().count("\n") >= script.text.count("\n")


def test_a_round_line_shows_every_token_of_a_chain_and_how_it_fared() -> None:
    out = io.StringIO()
    lines = _round_lines(out)
    recorded = make_events(new_tokens=24, temperature=1.0, seed=2)
    for event in recorded:
        lines(event)
    by_round = dict(line.split(maxsplit=1) for line in out.getvalue().splitlines())
    for end in (e for e in recorded if isinstance(e, events.RoundEnd)):
        tokens, counts = by_round[f"r{end.r}"].rsplit("  ", 1)
        assert counts.startswith(f"{end.n_accepted} of {end.n_drafted} kept, {end.n_emitted} new, ")
        assert tokens.count("✓") == end.n_accepted
        verdicts = [e for e in recorded if isinstance(e, events.Verify) and e.r == end.r]
        assert tokens.count("✗") == sum(v.status == "rejected" for v in verdicts)
    assert {"✗", "↻", "·", "★"} <= set(out.getvalue())  # the run shows every mark of a chain
    assert "\x1b" not in out.getvalue()


def test_a_round_without_a_draft_shows_its_closing_token_once() -> None:
    out = io.StringIO()
    lines = _round_lines(out)
    recorded = make_events(shape="none", new_tokens=8, level="summary")
    for event in recorded:
        lines(event)
    marks = [line.count("◦") for line in out.getvalue().splitlines()]
    assert marks == [1] * sum(isinstance(e, events.RoundEnd) for e in recorded)


def test_a_tree_shows_tested_tokens_and_counts_the_others() -> None:
    out = io.StringIO()
    lines = _round_lines(out)
    recorded = make_events(shape="tree", new_tokens=16)
    for event in recorded:
        lines(event)
    first = out.getvalue().splitlines()[0]
    verdicts = [e for e in recorded if isinstance(e, events.Verify) and e.r == 1]
    untested = sum(v.order is None and v.status != "pruned" for v in verdicts)
    assert untested
    assert f"(+{untested} never tested)" in first


def test_verbose_rounds_say_why_and_stay_on_their_line() -> None:
    out = io.StringIO()
    lines = _round_lines(out, verbose=True)
    recorded = make_events(new_tokens=12, temperature=1.0)
    for event in recorded:
        lines(event)
    reasons = [line for line in out.getvalue().splitlines() if not line.startswith("r")]
    reached = sum(isinstance(e, events.Verify) and e.order is not None for e in recorded)
    closings = sum(isinstance(e, events.Closing) for e in recorded)
    assert len(reasons) == reached + closings
    assert all(line.startswith("      ") and line.strip() for line in reasons)


def test_a_stream_without_the_glyphs_gets_ascii() -> None:
    raw = io.BytesIO()
    lines = _round_lines(io.TextIOWrapper(raw, encoding="ascii"), verbose=True)
    for event in make_events(new_tokens=12, temperature=1.0):
        lines(event)
    assert b"+" in raw.getvalue()


def test_level_none_shows_what_was_kept() -> None:
    out = io.StringIO()
    lines = _round_lines(out)
    for event in make_events(new_tokens=12, level="none"):
        lines(event)
    first = out.getvalue().splitlines()[0]
    assert "✓" in first
    assert "✗" not in first


def test_what_is_only_said_while_waiting_is_erased_by_the_next_line() -> None:
    screen, pipe = _Screen(), io.StringIO()
    for stream in (screen, pipe):
        narrator = Narrator(stream)
        narrator.wait("loading")
        narrator.say("ready")
    assert screen.getvalue() == "loading\r\x1b[2Kready\n"
    assert pipe.getvalue() == "ready\n"


def test_the_narrator_shows_a_prompt_safely_and_warnings() -> None:
    err = io.StringIO()
    narrator = Narrator(err, prompt="line")
    narrator(events.Prefill(prompt=[1], text="a\x1b[2J\nb", n_prompt=1, seed=0, dur_ns=1))
    narrator(events.Warn(code="disk_full", message="full\x07"))
    assert err.getvalue() == "prompt  a⟨1B⟩[2J⏎b\nspecviz: warning: full⟨07⟩\n"


def _drafted(node: int, parent: int, token: int, **more: int) -> events.Node:
    return events.Node(node=node, parent=parent, depth=1, pos=4 + node, token=token, text=f"t{node}", **more)


def _judged(node: int, status: str, order: int | None) -> events.Verify:
    why = {"accepted": "kept", "rejected": "not_drawn", "untested": "sibling_kept"}[status]
    return events.Verify(
        node=node,
        order=order,
        kind="draw",
        logp=0.0,
        logq=None,
        thr=1.0,
        u=0.5,
        status=status,
        why=why,  # type: ignore[arg-type]
    )


def _ended(accepted: int, drafted: int, new: int) -> events.RoundEnd:
    return events.RoundEnd(
        n_drafted=drafted,
        n_tested=accepted,
        n_accepted=accepted,
        n_emitted=new,
        n_draft_calls=1,
        n_syncs=1,
        stage_ns={"target": 2_000_000},
        probe_ns=0,
        draft_end="full",
        walk_end="open",
        cut=False,
    )


def _fork(*nodes: int) -> events.Fork:
    branches = [events.BranchToken(branch=k, node=n, token=n, rank=k + 1, kind="top") for k, n in enumerate(nodes)]
    return events.Fork(
        pos=6, conf=0.5, k_raw=2.0, k=len(nodes), k_max=4, known=True, reason="low_conf", branches=branches
    )


def test_a_round_that_works_ahead_says_what_it_was_and_how_its_fork_came_out() -> None:
    """Draft stage, then the branch that went on: its pending token was born a round earlier, and then it is voided."""
    first: list[events.Event] = [
        events.RoundStart(n=5, root=1, knob_version=0),
        events.Signal(stage="draft", s=1, source="hrad"),
        _drafted(0, -1, 0),
        _drafted(1, 0, 1, branch=0),
        _drafted(2, 0, 2, branch=1),
        _drafted(3, 2, 3, branch=1),
        _judged(0, "accepted", 0),
        _judged(1, "rejected", 1),
        _judged(2, "accepted", 2),
        _fork(1, 2),
        events.Match(rule="topk", branch=1, token=2),
        _ended(2, 4, 2),
    ]
    second: list[events.Event] = [
        events.RoundStart(n=7, root=2, knob_version=0, n_pending=1),
        events.Signal(stage="posterior", s=2, source="hrad"),
        _judged(3, "rejected", 0),
        _drafted(4, 3, 4, branch=0),
        _judged(4, "untested", None),
        _fork(4),
        events.Rollback(cause="reject", node=3, void={"branch_void": 1}),
        events.Closing(node=-1, kind="recovered", token=9, text="new", u=0.1),
        _ended(0, 1, 1),
    ]
    out = io.StringIO()
    lines = _round_lines(out)
    header = make_events(new_tokens=1)[0]
    for number, event in enumerate([header, *first, *second]):
        event.i, event.r = number, 0 if event is header else 1 if event in first else 2
        lines(event)
    one, two = (" ".join(line.split()) for line in out.getvalue().splitlines())
    assert one == "r1 D s1 ✓t0 [✗t1 ✓t2] +1 ahead 2 of 3 judged kept, 4 drafted, 2 new, 2 ms, fork 2 hit 1"
    assert two.startswith("r2 B s2 ✗t3 [·t4] → ↻new 0 of 2 judged kept, 1 drafted, 1 new, 2 ms, fork 1")
    assert two.endswith("rollback (reject)")


def test_the_narrator_says_the_trained_parts_and_the_lanes() -> None:
    """With what a probe measured, when there was one; serial lanes without a probe go without saying."""
    header = make_events(new_tokens=1)[0]
    assert isinstance(header, events.Header)
    header.models.parts = {"heads": "low rank\x1b[2J"}
    for lanes, env, says in (
        ("serial", {}, None),
        ("streams", {}, "lanes streams"),
        ("threads", {"lanes_ms": {"serial": 9.12, "threads": 7.9}}, "lanes threads (serial 9.1 ms, threads 7.9 ms)"),
    ):
        header.lanes, header.env = lanes, env
        err = io.StringIO()
        Narrator(err)(header)
        setting, heads = err.getvalue().splitlines()
        assert heads.startswith("heads: low rank")
        assert "\x1b" not in heads
        assert setting.endswith(f" · {says}") if says else "lanes" not in setting


def test_tokens_that_no_verdict_is_about_are_counted() -> None:
    """A window that only shapes later drafts: fed, and judged by nobody."""
    recorded: list[events.Event] = [
        make_events(new_tokens=1)[0],
        events.RoundStart(n=5, root=1, knob_version=0),
        _drafted(0, -1, 0),
        _drafted(1, -1, 1),
        _drafted(2, 1, 2),
        _judged(0, "accepted", 0),
        _ended(1, 1, 1),
    ]
    out = io.StringIO()
    lines = _round_lines(out)
    for number, event in enumerate(recorded):
        event.i, event.r = number, min(number, 1)
        lines(event)
    assert " ".join(out.getvalue().split()).startswith("r1 ✓t0 (+2 not judged) 1 of 1 kept, 1 new")
