"""The page Servers: one by its counters, a history that was kept, what was pasted, and the example until then."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app import barred
from app.conftest import Open
from app.fakes import until
from specviz.cli import main
from specviz.engines.watch.history import begin_history, read_history
from specviz.events import Counted
from specviz.trace.bundled import assets
from specviz_app.server.core import Settings
from specviz_app.server.watching import WatchedServer

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

SAMPLES = Path(__file__).parents[1] / "engines" / "samples"


def _counted(k: int) -> Counted:
    kept = [80 * k, 30 * k, 0]
    return Counted(
        engine="vLLM",
        wall=1e9 + k,
        models=["<b>m"],
        n_rounds=100 * k,
        n_drafted=300 * k,
        n_accepted=sum(kept),
        n_generated=100 * k + sum(kept),
        per_position=kept,
    )


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recorder = begin_history(tmp_path_factory.mktemp("watched") / "watched.sv.jsonl", _counted(1))
    for k in range(2, 6):
        recorder.write(_counted(k))
    recorder.close("stopped")
    return recorder.path


@pytest.fixture
def address() -> Iterator[str]:
    class Counters(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"vllm:spec_decode_num_drafts_total 7\nvllm:spec_decode_num_accepted_tokens_total 14\n")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Counters)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("page", ["servers", "watch", "stage", "overview"])
def test_a_history_is_shown_where_there_are_no_rounds(open_page: Open, history: Path, page: str) -> None:
    at = open_page(Settings(replay=history), page)
    assert not at.exception
    assert not at.error
    metrics = {metric.label: metric.value for metric in at.metric}
    assert (metrics["tokens a round"], metrics["rounds"], metrics["accepted"]) == ("2.10", "400", "440")


def test_a_history_opens_in_the_terminal_with_the_same_numbers(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tui", str(history)]) == 0
    out = capsys.readouterr().out
    assert "2.100" in out
    assert "a cliff at position 3" in out


def test_a_wrong_address_is_said_and_the_form_stays(open_page: Open, history: Path) -> None:
    at = open_page(Settings(replay=history), "servers")
    at.text_input(key="watch-url").set_value("ftp://x")
    next(button for button in at.button if button.label == "Watch").click().run()
    assert not at.exception
    assert "no address" in at.session_state["problem"]  # which the page says next


def test_a_server_is_looked_at_beside_the_page_until_it_is_closed(address: str) -> None:
    watched = WatchedServer(address, None, 0.01)
    until(lambda: watched.picture is not None and watched.picture.n_looks > 1, "it is not looked at")
    assert watched.problem is None
    watched.close()
    nobody = WatchedServer("127.0.0.1:1", None, 0.01)
    until(lambda: nobody.problem is not None, "nothing is said")
    assert nobody.picture is None
    nobody.close()


def test_several_addresses_stand_in_one_table(open_page: Open, address: str) -> None:
    at = open_page(Settings(), "servers")
    at.text_input(key="watch-url").set_value(f"{address} 127.0.0.1:1")
    next(button for button in at.button if button.label == "Watch").click().run()
    held = at.session_state["watched-servers"]
    try:
        until(lambda: held[0].picture is not None and held[1].problem is not None, "they are not looked at")
        at.run()
        assert not at.exception
        table = at.dataframe[0].value
        assert [*table["server"]] == [address, "127.0.0.1:1"]
    finally:
        for server in held:
            server.close()


def test_an_example_plays_until_something_is_given(open_page: Open) -> None:
    at = open_page(Settings(), "servers")
    assert not at.exception
    first = {metric.label: metric.value for metric in at.metric}
    assert int(first["rounds"].replace(",", "")) > 0
    assert len(barred.charts(at)) == 3
    assert all(barred.charts(at))
    at.session_state["example-began"] -= 1000.0
    at.run()
    last = {metric.label: metric.value for metric in at.metric}
    whole = read_history(assets("histories") / "example.sv.jsonl.gz")[-1]
    assert last["rounds"] == f"{whole.n_rounds:,}"


def _paste(at: "AppTest", text: str) -> None:
    at.text_area(key="pasted").set_value(text)
    at.button(key="read-pasted").click().run()
    assert not at.exception


def test_a_pasted_log_is_read_and_what_was_read_is_said(open_page: Open) -> None:
    at = open_page(Settings(), "servers")
    log = (SAMPLES / "vllm.txt").read_text("utf-8")
    _paste(at, f"It is slow, see below:\n```\n{log}```\n")
    assert at.selectbox(key="src").value.startswith("pasted")
    assert any("vLLM" in caption.value and "read" in caption.value for caption in at.caption)
    metrics = {metric.label: metric.value for metric in at.metric}
    assert metrics["drafted"] != "—"
    at.selectbox(key="src").set_value("code-draft").run()
    assert not any("vLLM" in caption.value and "read" in caption.value for caption in at.caption)


def test_a_text_that_holds_nothing_is_refused_in_a_line_and_stays(open_page: Open) -> None:
    at = open_page(Settings(), "servers")
    _paste(at, "it is slow")
    assert ["pasted is none of the files that are read" in problem.value for problem in at.error] == [True]
    assert at.text_area(key="pasted").value == "it is slow"
    assert at.selectbox(key="src").value == "code-draft"


def test_a_log_may_be_dropped_where_traces_are(open_page: Open) -> None:
    at = open_page(Settings(), "stage")
    at.file_uploader(key="upload").upload("server.log", (SAMPLES / "vllm.txt").read_bytes())
    at.run()
    assert not at.exception
    assert at.selectbox(key="src").value.startswith("server")
    assert at.metric, "the stage shows the counts"
