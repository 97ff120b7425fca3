"""A real server of llama.cpp: its rounds from its answers, from its log and from its counters are the same."""

import json
import re
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from app.browser.acts import WAIT_MS, settled
from app.served import free_port, served
from specviz.cli import main
from specviz.engines.proxy import ProxyDoor
from specviz.engines.rounds.attach import ServerRequest, open_trace
from specviz.engines.rounds.server import find_server
from specviz.engines.watch import ServerWatcher, read_history
from specviz.events import Commit, Node, RoundEnd
from specviz.runlog.fold import Run, fold
from specviz.trace import read_events
from specviz.trace.files import resolve
from specviz.view.stage.chromium import chromium, executable
from support.llama_server import LlamaServer

PROMPT = "abab hello abab hello"
N = 48


def _counts(run: Run) -> list[tuple[int, int, int]]:
    return [(end.n_drafted, end.n_accepted, end.n_emitted) for r in run.rounds for end in r.every(RoundEnd)]


def _counter(url: str, name: str) -> int:
    text = urllib.request.urlopen(f"{url}/metrics").read().decode()
    match = re.search(rf"^llamacpp:spec_decode_num_{name}_total (\d+)", text, re.MULTILINE)
    assert match is not None
    return int(match[1])


@pytest.fixture(scope="module")
def traces(llama: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One prompt: the trace of its answer, and that of the log."""
    folder = tmp_path_factory.mktemp("answered")
    answers = str(folder / "told")
    assert main(["attach", llama.url, PROMPT, "-o", answers, "--max-new-tokens", str(N)]) == 0
    log = folder / "server.log"
    log.write_text(llama.settled())
    assert main(["import", str(log), "-o", str(folder / "log")]) == 0
    return resolve(folder / "told"), resolve(folder / "log")


@pytest.fixture(scope="module")
def answered(traces: tuple[Path, Path]) -> tuple[Run, Run]:
    answers, logged = traces
    return fold(read_events(answers)), fold(read_events(logged))


def test_answer_and_log_and_counters_tell_the_same_rounds(answered: tuple[Run, Run], llama: LlamaServer) -> None:
    answers, logged = answered
    assert _counts(answers) == _counts(logged)
    drafted, accepted, emitted = (sum(column) for column in zip(*_counts(answers), strict=True))
    assert emitted == N
    assert accepted > 0
    assert (drafted, accepted) == (_counter(llama.url, "draft_tokens"), _counter(llama.url, "accepted_tokens"))
    assert sum(d > 0 for d, *_ in _counts(answers)) == _counter(llama.url, "drafts")


def test_the_text_is_that_of_the_same_model_in_the_library(answered: tuple[Run, Run], llama: LlamaServer) -> None:
    """Greedy, so the draft may change nothing: ids from the answer and from the log are the library's own."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel

    ids = [[token for record in run.rounds for c in record.every(Commit) for token in c.tokens] for run in answered]
    assert ids[0] == ids[1]
    index = {char: place for place, char in enumerate(sorted(ByteLevel.alphabet()))} | {"ab": 259}
    words = [index[piece] for piece in re.findall("ab|.", PROMPT.replace(" ", "Ġ"))]
    model: Any = llama.target
    with torch.no_grad():
        out = model.generate(torch.tensor([words]), max_new_tokens=N, do_sample=False, eos_token_id=None)
    assert ids[0] == out[0, len(words) :].tolist()


def test_the_log_holds_what_was_drafted(answered: tuple[Run, Run]) -> None:
    _, logged = answered
    for record in logged.rounds:
        assert len(record.every(Node)) == record.every(RoundEnd)[0].n_drafted
    assert any(record.every(Node) for record in logged.rounds)


def test_a_log_that_was_cut_keeps_what_was_read(llama: LlamaServer, answered: Any, tmp_path: Path) -> None:
    text = llama.settled()
    (tmp_path / "cut.log").write_text(text[: text.rindex("add accepted tokens")])
    assert main(["import", str(tmp_path / "cut.log"), "-o", str(tmp_path / "cut")]) == 0
    run = fold(read_events(tmp_path / "cut"))
    assert run.warnings[-1].code == "cut_short"
    assert _counts(run) == _counts(answered[1])[: len(run.rounds)]


@pytest.mark.parametrize("path", ["/completion", "/v1/completions"])
def test_a_client_behind_the_proxy_leaves_the_same_rounds(
    llama: LlamaServer, answered: tuple[Run, Run], tmp_path: Path, path: str
) -> None:
    server = find_server(llama.url)
    trace = open_trace(server, tmp_path / "proxied", ServerRequest(PROMPT), None)
    body = json.dumps({"prompt": PROMPT, "n_predict": N, "max_tokens": N, "temperature": 0.0}).encode()
    notices: list[str] = []
    with ProxyDoor(server, trace, 0, True, notices.append) as door:
        threading.Thread(target=door.serve_forever, args=(0.01,), daemon=True).start()
        request = urllib.request.Request(door.url + path, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            assert answer.read()
        door.shutdown()
    trace.close()
    assert not notices
    assert _counts(fold(read_events(trace.path))) == _counts(answered[0])


def _without_errors(page: Any) -> None:
    settled(page)
    for box in ("stException", "stAlertContentError"):
        assert page.locator(f"[data-testid={box}]").all_inner_texts() == []


def test_its_runs_and_its_counters_are_seen_in_the_browser(
    llama: LlamaServer, traces: tuple[Path, Path], tmp_path: Path
) -> None:
    """Of an answer counts are known, and the card says by what rule; the log draws trees; Watch looks at the server."""
    pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
    if executable() is None:
        pytest.skip("no chromium on this machine")
    answers, logged = traces
    port = free_port()  # for one server after the other: a browser keeps what it fetched by the address
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(WAIT_MS)
        with served(logged, port) as server:
            page.goto(f"{server.url}/stage?at=r3")
            page.locator("svg.tree .node").nth(2).wait_for()
            _without_errors(page)
        with served(answers, port) as server:
            page.goto(f"{server.url}/stage?at=r3")
            page.get_by_text("counts only").first.wait_for()
            _without_errors(page)
            page.goto(f"{server.url}/overview")
            page.locator(".sv-card", has_text="the target's own sample").wait_for()
            assert "all agree" in page.locator(".sv-card").inner_text()
            _without_errors(page)
            page.goto(f"{server.url}/watch")
            page.get_by_role("textbox", name="Address").fill(llama.url)
            page.get_by_role("button", name="Watch", exact=True).click()
            page.locator(".sv-card", has_text="llama.cpp").wait_for()
            with page.expect_download() as coming:
                page.get_by_role("button", name="Keep the history").click()
            coming.value.save_as(tmp_path / "kept.sv.jsonl.gz")
            page.get_by_role("button", name="Stop").click()
            page.get_by_role("button", name="Close").wait_for()
            _without_errors(page)
    (kept, *_) = read_history(tmp_path / "kept")
    assert (kept.engine, kept.n_accepted) == ("llama.cpp", _counter(llama.url, "accepted_tokens"))


async def test_its_runs_and_its_counters_are_seen_in_the_terminal(
    llama: LlamaServer, traces: tuple[Path, Path]
) -> None:
    pytest.importorskip("textual", reason="textual is not installed (extra tui)")
    from specviz_tui.watch.app import WatchApp
    from support.live import WIDE, replay_app, shown

    for trace, words in zip(traces, ("counts only", "▕"), strict=True):
        app = replay_app(trace, at="r3")
        async with app.run_test(size=WIDE) as pilot:
            await pilot.pause()
            assert words in shown(app)
            assert "walk (llama.cpp)" in shown(app)
    watcher = ServerWatcher(llama.url)
    watcher.look()
    watching = WatchApp(None, [watcher], 60.0)
    async with watching.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert "position 1" in str(watching.screen.query_one("#watched").render())
