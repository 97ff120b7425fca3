"""What a run prints: text safe for a terminal, one line for a round, and what the narrator says."""

import io

from cli.scripted import Script
from specviz import events
from specviz.cli.printer import Narrator, RoundLines, TextStream, terminal_text
from trace_factory import make_events


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_safe_text_and_whole_lines() -> None:
    script, screen = Script(), _Screen()
    stream = TextStream(screen)
    for event in script.events:
        stream(event)
    stream.finish()
    assert "\x1b" in script.text
    assert screen.getvalue() == terminal_text(script.text) + ("" if script.text.endswith("\n") else "\n")
    assert "\x1b" not in screen.getvalue()
    assert screen.getvalue().count("\n") >= script.text.count("\n")


def test_a_round_line_shows_every_token_of_a_chain_and_how_it_fared() -> None:
    out = io.StringIO()
    lines = RoundLines(out)
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
    lines = RoundLines(out)
    recorded = make_events(shape="none", new_tokens=8, level="summary")
    for event in recorded:
        lines(event)
    marks = [line.count("★") for line in out.getvalue().splitlines()]
    assert marks == [1] * sum(isinstance(e, events.RoundEnd) for e in recorded)


def test_a_tree_shows_tested_tokens_and_counts_the_others() -> None:
    out = io.StringIO()
    lines = RoundLines(out)
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
    lines = RoundLines(out, verbose=True)
    recorded = make_events(new_tokens=12, temperature=1.0)
    for event in recorded:
        lines(event)
    said = [line for line in out.getvalue().splitlines() if not line.startswith("r")]
    reached = sum(isinstance(e, events.Verify) and e.order is not None for e in recorded)
    closings = sum(isinstance(e, events.Closing) for e in recorded)
    assert len(said) == reached + closings
    assert all(line.startswith("      ") and line.strip() for line in said)


def test_a_stream_without_the_glyphs_gets_ascii() -> None:
    raw = io.BytesIO()
    lines = RoundLines(io.TextIOWrapper(raw, encoding="ascii"), verbose=True)
    for event in make_events(new_tokens=12, temperature=1.0):
        lines(event)
    assert b"+" in raw.getvalue()


def test_level_none_shows_what_was_kept() -> None:
    out = io.StringIO()
    lines = RoundLines(out)
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
