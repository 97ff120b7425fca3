"""`specviz export --html`: one file with everything in it, from every recording; what it refuses and how."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import specviz
from cli.conftest import Cli
from specviz.errors import TraceError
from specviz.events import Closing, Commit, End, Event, Header, Node, Prefill
from support.recordings import RECORDINGS
from support.traces import make_events, write_trace

_MOST = 1_500_000  # bytes of a page with 64 rounds of a tree
_LONG = {"stream-specblock"}  # more rounds than that, which take a while


def _held(page: str) -> dict[str, Any]:
    """The run that lies in a page."""
    match = re.search(r'<script id="run" type="text/plain">([A-Za-z0-9+/=]*)</script>', page)
    assert match, "no run in the page"
    run: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(match[1])))
    return run


@pytest.mark.parametrize("name", [name for name in RECORDINGS if name not in _LONG])
def test_a_recording_becomes_one_file(name: str, cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = cli("export", "--html", RECORDINGS[name], "-o", out)
    assert (done.code, done.out) == (0, f"{out}\n")
    page = out.read_text("utf-8")
    recording = _held(page)
    n = len(recording["rounds"])
    assert n == len(recording["head"]["points"]) > 0
    assert f"{n} rounds" in done.err
    assert len(page) * min(1, 64 / n) <= _MOST
    assert not re.search(r"https?:|src=|href=|@import|url\((?!#)", page), "it asks for something from elsewhere"


def test_the_same_trace_gives_the_same_bytes(cli: Cli, tmp_path: Path) -> None:
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        assert cli("export", "--html", RECORDINGS["code-draft"], "-o", page, "--quiet") == (0, f"{page}\n", "")
    assert pages[0].read_bytes() == pages[1].read_bytes()


_BREAKS_OUT = "</script><script>window.broken=1</script><!--"


def test_no_token_can_end_the_script(cli: Cli, tmp_path: Path) -> None:
    """Tokens, prompt and the trace's own name are nowhere in the page but packed, or escaped."""
    events = [_spelled(event) for event in make_events(temperature=0.8, new_tokens=20)]
    trace = write_trace(tmp_path / "<img src=x onerror=alert(1)>", events)
    page = specviz.show(trace).html
    assert page.count("</script>") == 2
    assert "window.broken" not in page
    assert "<img" not in page
    assert _BREAKS_OUT in json.dumps(_held(page))


def _spelled(event: Event) -> Event:
    if isinstance(event, Node | Closing | Prefill):
        return msgspec.structs.replace(event, text=_BREAKS_OUT)
    if isinstance(event, Commit):
        return msgspec.structs.replace(event, texts=[_BREAKS_OUT] * len(event.texts))
    return event


def test_a_notebook_shows_it_in_a_frame_of_its_own() -> None:
    shown = specviz.show(RECORDINGS["code-draft"], height=500)
    frame = shown._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts"' in frame
    assert 'height="500"' in frame
    assert "<script" not in frame


def test_without_a_name_it_lies_here_by_the_name_of_the_trace(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("export", "--html", RECORDINGS["sums-ar"]).out == "sums-ar.html\n"
    assert (tmp_path / "sums-ar.html").is_file()


def test_one_that_comes_with_the_package_goes_by_its_name(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.trace.bundled.all_bundled", lambda: RECORDINGS)
    monkeypatch.chdir(tmp_path)
    assert cli("export", "--html", "sums-draft").code == 0
    assert "no trace sums-drift" in cli("export", "--html", "sums-drift").line


def test_a_file_that_is_there_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "mine.html"
    out.write_text("mine")
    assert "--force" in cli("export", "--html", RECORDINGS["sums-ar"], "-o", out).line
    assert out.read_text() == "mine"
    assert cli("export", "--html", RECORDINGS["sums-ar"], "-o", out, "--force").code == 0
    assert out.read_text() != "mine"


def test_the_trace_is_not_written_over(cli: Cli, tmp_path: Path) -> None:
    trace = tmp_path / "run.sv.jsonl.gz"
    trace.write_bytes(RECORDINGS["sums-ar"].read_bytes())
    assert "is what is read" in cli("export", "--html", trace, "-o", trace, "--force").line
    assert trace.read_bytes() == RECORDINGS["sums-ar"].read_bytes()


@pytest.mark.parametrize(
    ("out", "message"),
    [("no/such/page.html", "there is no folder"), (".", "it is a folder"), ("/dev/null", "no plain file")],
)
def test_a_place_where_no_file_can_be(cli: Cli, out: str, message: str, tmp_path: Path) -> None:
    assert message in cli("export", "--html", RECORDINGS["sums-ar"], "-o", tmp_path / out).line


def test_what_is_no_trace_is_refused(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("no trace\n")
    assert "not a specviz trace" in cli("export", "--html", other, "-o", tmp_path / "x.html").line
    assert not (tmp_path / "x.html").exists()


def test_a_run_without_a_round_has_nothing_to_play(tmp_path: Path) -> None:
    begun = [event for event in make_events(new_tokens=4) if isinstance(event, Header | Prefill | End)]
    trace = write_trace(tmp_path / "empty", begun)
    with pytest.raises(TraceError, match="nothing to play"):
        specviz.show(trace)
