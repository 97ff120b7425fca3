"""The proof of the seam: a method, a record, a metric and a panel brought from `tests/toy`, really run, recorded, read
again, counted and painted in terminal, browser, saved page and `specviz stats`, without a change in the packages."""

import base64
import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import toy
from app.conftest import Open, open_page, packages_are_asked_once, server
from specviz import LocalRun, Start, load_pair
from specviz.cli import main, options
from specviz.cli.look.schema import schema
from specviz.engine.model.pair import Pair
from specviz.errors import KnobError, SpecvizError
from specviz.events import NAMES, End, Event, Header, RoundEnd, Warn, decode, encode, register
from specviz.methods import all_methods, get_method
from specviz.metrics import METRICS, measure
from specviz.metrics.registry import RATIOS
from specviz.runlog.fold import fold
from specviz.trace import Recorder, read_events
from specviz.trace import recorder as record_module
from specviz.view import Options, Player
from specviz.view.blocks import TableBlock
from specviz.view.panels import all_panels
from specviz.view.stage.notebook import saved
from specviz_app.server.core import Settings
from specviz_app.ui.pages import all_below
from specviz_tui.common import key_tables, pane
from specviz_tui.common.paint import Painter
from specviz_tui.screens.page import guide_page, help_page, pages
from support.live import WIDE, Script, catalogue, live_app, replay_app, shown
from support.traces import make_events, write_trace
from toy.panel import GuessPanel
from toy.record import Guess

__all__ = ["open_page", "packages_are_asked_once", "server"]

PROMPT = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return"
KNOBS = {"max_new_tokens": 24, "seed": 3}


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair()


@pytest.fixture(scope="module")
def recorded(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run of the toy, as a file."""
    toy.bring()
    recorder = Recorder(tmp_path_factory.mktemp("toy") / "run")
    for _ in LocalRun(pair, Start(prompt=PROMPT, method="echo", knobs={"most": 3, **KNOBS}), recorder.write).rounds():
        pass
    recorder.close()
    toy.take_back()
    return recorder.path


@pytest.fixture
def brought() -> Iterator[None]:
    toy.bring()
    yield
    toy.take_back()


@pytest.fixture
def events(brought: None, recorded: Path) -> list[Event]:
    return read_events(recorded, check=True)


# Run and recorded -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("brought")
def test_the_method_is_listed_and_its_knob_checked() -> None:
    assert "echo" in all_methods()
    assert list(all_methods()) == sorted(all_methods())
    assert "echo: draft what followed the last token before" in options.method_help()
    assert any("echo" in names.split(", ") for title, names in options.method_rows() if title == "run")
    assert [info.name for info in catalogue().methods] == list(all_methods())
    assert options.given_knobs(get_method("echo"), {"most": "5"}) == {"most": 5}
    with pytest.raises(KnobError, match="most"):
        options.given_knobs(get_method("echo"), {"most": "17"})
    with pytest.raises(KnobError, match="methods that have it: echo"):
        options.given_knobs(get_method("ar"), {"most": "5"})


def test_the_command_line_has_its_flag_where_it_was_brought_first(tmp_path: Path) -> None:
    """In a fresh interpreter, which imports no torch although all parts of the toy are there."""
    code = (
        "import sys, toy; toy.bring()\n"
        "from specviz.cli import main\n"
        "assert main(['run', '--help']) == 0\n"
        "assert main(['run', '--prompt', 'a', '--method', 'echo', '--most', '99']) == 2\n"
        "assert 'torch' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--most" in done.stdout
    assert "echo: draft what followed the last token before" in " ".join(done.stdout.split())
    assert done.stderr == "specviz: knob most: '99' is not a whole number in 1..16 (default 3)\n"


@pytest.mark.usefixtures("brought")
def test_the_command_line_runs_and_records_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--record", str(tmp_path / "run"), "--json", "--quiet"]
    assert main(["run", "--prompt", PROMPT, "--method", "echo", "--max-new-tokens", "6", *where]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "echo"
    events = read_events(tmp_path / "run", check=True)
    assert isinstance(events[0], Header)
    assert (events[0].method, events[0].knobs) == ("echo", {"most": 3})
    assert any(isinstance(event, Guess) for event in events)


@pytest.mark.usefixtures("brought")
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_it_gives_the_tokens_of_plain_decoding(temperature: float, pair: Pair) -> None:
    texts = []
    for method in ("ar", "echo"):
        start = Start(prompt=PROMPT, method=method, verifier="walk", knobs={**KNOBS, "temperature": temperature})
        run = LocalRun(pair, start, lambda event: None)
        n_rounds = sum(1 for _ in run.rounds())
        texts.append((run.tokens, run.text))
    assert texts[0] == texts[1]
    assert len(texts[0][0]) == KNOBS["max_new_tokens"] > n_rounds, "nothing that was drafted was ever kept"


def test_the_file_gives_the_record_back(events: list[Event]) -> None:
    guesses, ends = ([e for e in events if isinstance(e, kind)] for kind in (Guess, RoundEnd))
    assert [guess.r for guess in guesses] == [end.r for end in ends]
    assert len({guess.n for guess in guesses}) > 1
    assert isinstance(events[-1], End)
    assert all(decode(encode(event)) == event for event in events)
    run = fold(events)
    assert [record.first(Guess) for record in run.rounds] == guesses


def test_a_round_with_the_record_is_one_write(
    events: list[Event], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, real = Recorder(tmp_path / "run"), os.write
    writes: list[int] = []
    monkeypatch.setattr(record_module.os, "write", lambda fd, data: writes.append(len(data)) or real(fd, data))
    for event in events[:-1]:
        recorder.write(event)
    assert len(writes) == sum(not event.inside_round for event in events[:-1])
    assert not any(isinstance(event, Warn) and event.code != "kernel" for event in events)
    recorder.close()


@pytest.mark.parametrize("level", ["none", "summary"])
def test_the_recorder_heeds_the_level_the_record_names(level: str, events: list[Event], tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", level=level)  # type: ignore[arg-type]
    for event in events:
        recorder.write(event)
    assert any(isinstance(event, Guess) for event in read_events(recorder.path)) is (level == "summary")


@pytest.mark.usefixtures("brought")
def test_the_schema_knows_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert "n" in schema("guess")["$defs"]["Guess"]["properties"]
    assert {"$ref": "#/$defs/Guess"} in schema()["oneOf"]
    assert main(["doctor", "--schema", "--list"]) == 0
    assert "guess        file  How many tokens of its draft" in capsys.readouterr().out


def test_a_tag_that_is_taken_is_refused() -> None:
    class Impostor(Event, tag="commit"):
        pass

    with pytest.raises(SpecvizError, match="there is a record 'commit' already"):
        register(Impostor)
    assert NAMES["commit"] is not Impostor


# Counted --------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("brought")
def test_stats_prints_the_metric(recorded: Path, events: list[Event], capsys: pytest.CaptureFixture[str]) -> None:
    rounds = list(fold(events).rounds)
    right = sum(record.every(Guess)[0].n == record.end.n_accepted for record in rounds if record.end)
    assert main(["stats", str(recorded), "--check", "--json"]) == 0
    guessed = json.loads(capsys.readouterr().out)["metrics"]["guessed_right"]
    assert (guessed["value"], guessed["n"]) == (pytest.approx(right / len(rounds)), len(rounds))
    assert main(["stats", str(recorded)]) == 0
    printed = capsys.readouterr().out
    assert "rounds whose guess came true" in printed or "guessed_right" in printed
    below = [line.split() for line in printed.partition("Guessed and kept")[2].splitlines()]
    assert [line for line in below if line and line[0].isdigit()] == [[str(n), str(k)] for n, k in pairs(events)]
    assert measure(make_events(new_tokens=8))["guessed_right"] is None


# Seen -----------------------------------------------------------------------------------------------------------------


def test_the_view_shows_a_panel_it_has_never_heard_of(events: list[Event]) -> None:
    player = Player(fold(events), animate=False)
    assert GuessPanel in all_panels()
    player.seek_index(2)
    frame = player.frame(Options(shown=("guess",)))
    guessed = GuessPanel.of(frame)
    first = player.run.rounds[:3]
    assert guessed is not None
    (table,) = guessed.blocks
    assert isinstance(table, TableBlock)
    kept = [(record.every(Guess)[0].n, record.end.n_accepted) for record in first if record.end]
    assert list(zip(table.column("guessed"), table.column("kept"), strict=True)) == kept
    assert set(frame.panels) == {"guess"}
    chosen = GuessPanel.choose(Options(), loud=True)
    louder = GuessPanel.of(player.frame(chosen))
    assert louder is not None
    (again,) = louder.blocks
    assert isinstance(again, TableBlock)
    assert again.column("") == ["!"] * len(kept)


def test_it_adds_to_the_reasons_of_a_node(events: list[Event]) -> None:
    player = Player(fold(events), animate=False)
    player.seek_index(0)
    record = player.run.rounds[0]
    why = player.frame(Options(selected=next(iter(record.nodes)))).why
    assert why is not None
    assert why.words.endswith("A guess was made.")
    assert ("guessed", str(record.every(Guess)[0].n)) in {(row.label, row.value) for row in why.rows}


def pairs(events: list[Event]) -> list[tuple[int, int]]:
    rounds = fold(events).rounds
    return [(record.every(Guess)[0].n, record.end.n_accepted) for record in rounds if record.end]


async def test_the_terminal_paints_the_file_under_its_own_keys(recorded: Path, events: list[Event]) -> None:
    app = replay_app(recorded, at=f"r{len(pairs(events))}")
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause(0.3)
        await pilot.press("9")
        await pilot.pause()
        assert "[9 Guess]" in shown(app)
        assert "Guessed and kept" in shown(app)
        wanted = [[str(n), str(kept)] for n, kept in pairs(events)]
        lines = [line.strip("│ ").split() for line in shown(app).splitlines()]
        assert ["guessed", "kept"] in lines
        assert sum(line in wanted for line in lines) >= len(wanted)
        await pilot.press("l")
        await pilot.pause()
        lines = [line.strip("│ ").split() for line in shown(app).splitlines()]
        assert not [line for line in lines if line in wanted]
        assert sum(line[:-1] in wanted and line[-1] == "!" for line in lines if line) >= len(wanted)
        await pilot.press("f1")
        await pilot.pause()
        assert "It guesses how much of a draft will be kept." in shown(app)
        assert f"of {len(pages())}" in shown(app)


async def test_the_terminal_paints_it_live(events: list[Event]) -> None:
    script = Script()
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        script.play([catalogue(), *events])
        await pilot.pause(0.3)
        await pilot.press("escape", "9")
        await pilot.pause()
        assert "Guessed and kept" in shown(app)


@pytest.mark.usefixtures("brought")
def test_help_and_guide_know_its_keys_and_pages() -> None:
    assert "guess.loud" in {key.id for table in key_tables.key_tables() for key in table}
    assert ("9", "Guess", "guess") in key_tables.screens()
    assert guide_page("guess")[0] == "Guess"
    assert help_page(Painter(), 80) is not None


@pytest.mark.usefixtures("brought")
async def test_a_run_without_such_records_gets_the_panels_reason() -> None:
    script = Script()
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        script.play([catalogue(), *make_events(new_tokens=20)])
        await pilot.pause(0.3)
        await pilot.press("escape", "9")
        await pilot.pause()
        assert "This method guesses nothing." in shown(app)


def test_the_browser_paints_it_below_the_stage(recorded: Path, events: list[Event], open_page: Open) -> None:
    at = open_page(Settings(replay=recorded), "stage", at=f"r{len(pairs(events))}", panel="guess")
    assert not at.exception
    assert [(row["guessed"], row["kept"]) for row in at.dataframe[0].value.to_dict("records")] == pairs(events)


@pytest.mark.usefixtures("brought")
def test_the_browser_says_why_there_is_nothing(tmp_path: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=write_trace(tmp_path / "run", make_events(new_tokens=8))), "stage", panel="guess")
    assert not at.exception
    assert [info.value for info in at.info] == ["This method guesses nothing\\."]


def test_the_saved_page_holds_it(recorded: Path, events: list[Event]) -> None:
    packed = re.search(r'<script id="run" type="text/plain">([^<]*)<', saved(recorded).html)
    assert packed is not None
    document = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    (panel,) = [panel for panel in document["head"]["panels"] if panel["title"] == "Guess"]
    (part,) = panel["parts"]
    assert (panel["title"], part["title"], part["heads"][:2]) == ("Guess", "Guessed and kept", ["guessed", "kept"])
    assert [tuple(map(int, row[:2])) for row in part["rows"]] == pairs(events)


def test_a_drafter_with_a_record_and_a_panel_is_six_files() -> None:
    """The metric is an extra; the package's own file brings the others."""
    files = {path.name for path in Path(toy.__file__).parent.glob("*.py")}
    assert files == {"__init__.py", "spec.py", "drafter.py", "record.py", "panel.py", "metric.py"}


# Gone -----------------------------------------------------------------------------------------------------------------


def test_what_was_brought_is_gone_afterwards(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its file is read as ever; the record that nobody knows any more is passed over."""
    assert GuessPanel not in all_panels()
    assert GuessPanel not in [known.PANEL for known in pane.all_panes()]
    assert "guess" not in [panel.id for panel in all_below()]
    assert "echo" not in all_methods()
    assert "most" not in options.knob_specs()
    assert "guess" not in NAMES
    assert not {"guessed_right"} & {*METRICS, *RATIOS}
    assert "echo" not in options.method_help()
    assert decode(encode(Guess(n=1))) is None
    events = read_events(recorded)
    assert not any(isinstance(event, Guess) for event in events)
    assert len(fold(events).rounds) > 3
    assert main(["stats", str(recorded), "--check"]) == 0
    assert "guess" not in capsys.readouterr().out
    with pytest.raises(SpecvizError, match="no method 'echo'"):
        get_method("echo")
