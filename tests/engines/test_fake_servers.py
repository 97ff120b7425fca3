"""Servers of vLLM and SGLang by the shapes of their answers, and addresses where something else answers."""

import base64
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.cli.look.stats import measure_file
from specviz.cli.outside.warned import waited_for
from specviz.engines.rounds import server as servers
from specviz.engines.rounds.attach import rule_of
from specviz.engines.rounds.server import EngineServer
from specviz.events import Commit, RoundEnd
from specviz.runlog.fold import Run, fold
from specviz.trace import RULES, read_events

Captured = pytest.CaptureFixture[str]
Page = tuple[int, str, str]  # status, type, body


def _json(value: Any, status: int = 200) -> Page:
    return status, "application/json", json.dumps(value)


def _stream(*chunks: Any) -> Page:
    return 200, "text/event-stream", "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)


@contextmanager
def served(
    pages: dict[str, Page], otherwise: Page = (404, "text/plain", "no"), asked: list[Any] | None = None
) -> Iterator[str]:
    """A server of these pages; a status of 300 and more goes on to the address in the body. `asked`: who asked what."""
    seen: list[Any] = [] if asked is None else asked

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization")))
            status, kind, body = pages.get(self.path, otherwise)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", body)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _rounds(path: Path) -> tuple[Run, list[tuple[int, int, int]]]:
    run = fold(read_events(path))
    return run, [(e.n_drafted, e.n_accepted, e.n_emitted) for record in run.rounds for e in record.every(RoundEnd)]


def _vllm(counts: dict[str, Any] | None) -> dict[str, Page]:
    texts = (" a", " b c d", " e", " f g")
    chunks: list[dict[str, Any]] = [
        {"choices": [{"text": text, "token_ids": list(range(text.count(" ")))}]} for text in texts
    ]
    chunks[-1]["choices"][0]["finish_reason"] = "length"
    last = {"choices": [], "usage": {"prompt_tokens": 9}, "metrics": {"speculative_decoding": counts} if counts else {}}
    return {
        "/version": _json({"version": "0.32.0"}),
        "/v1/models": _json({"data": [{"id": "big"}]}),
        "/v1/completions": _stream(*chunks, last),
    }


STEPS = {
    "num_spec_steps": 3,
    "num_draft_tokens": 9,
    "num_accepted_draft_tokens": 3,
    "acceptance_histogram": [1, 1, 1, 0],
    "per_step_accepted": [2, 0, 1],
    "per_step_drafted": [3, 3, 3],
}


def test_vllm_by_step(tmp_path: Path, capsys: Captured) -> None:
    with served(_vllm(STEPS)) as url:
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a")]) == 0
    run, counts = _rounds(tmp_path / "a")
    assert counts == [(0, 0, 1), (3, 2, 3), (3, 0, 1), (3, 1, 2)]
    assert run.queries[0].text == capsys.readouterr().out.rstrip("\n") == " a b c d e f g"
    card = measure_file(tmp_path / "a").judgement.card
    assert card is not None
    assert not card.violations
    assert card.title == "vLLM 0.32.0"
    assert main(["stats", str(tmp_path / "a")]) == 0
    assert capsys.readouterr().err == "", "positions are told: counts of chains carry them"


def test_vllm_that_says_nothing_of_steps_says_how_to_start_it(tmp_path: Path, capsys: Captured) -> None:
    with served(_vllm(None)) as url:
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a")]) == 0
    run, counts = _rounds(tmp_path / "a")
    assert not counts
    assert "--per-request-spec-decode-metrics detailed" in run.warnings[0].message
    assert "--per-request-spec-decode-metrics detailed" in capsys.readouterr().err  # where it was asked, too


NEW = {
    "spec_num_correct_drafts": 3,
    "spec_num_proposed_drafts": 9,
    "spec_verify_ct": 3,
    "spec_correct_drafts_histogram": [1, 1, 1],
}
OLD = {"spec_accept_token_num": 3, "spec_draft_token_num": 9, "spec_verify_ct": 3, "spec_accept_histogram": [1, 1, 1]}


def _sglang(meta: dict[str, Any], ends: tuple[int, ...], device: str = "cuda") -> dict[str, Page]:
    words = ["", "a", "b", "c", "d", "e", "f", "g"][1:]
    chunks: list[dict[str, Any]] = [
        {"text": "".join(f" {w}" for w in words[:n]), "output_ids": [*range(n)], "meta_info": {"completion_tokens": n}}
        for n in ends
    ]
    chunks[-1]["meta_info"] |= {"prompt_tokens": 9, "finish_reason": {"type": "length"}, **meta}
    info = {"speculative_algorithm": "EAGLE3", "version": "0.5.23", "model_path": "org/big", "device": device}
    return {"/server_info": _json(info), "/generate": _stream(*chunks)}


@pytest.mark.parametrize("meta", [NEW, OLD])
def test_sglang_by_new_and_old_names(tmp_path: Path, meta: dict[str, Any]) -> None:
    with served(_sglang(meta, (1, 4, 5, 7))) as url:
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a")]) == 0
    _, counts = _rounds(tmp_path / "a")
    assert counts == [(0, 0, 1), (3, 2, 3), (3, 0, 1), (3, 1, 2)]


def test_merged_chunks_are_no_rounds(tmp_path: Path) -> None:
    """Five tokens in a chunk could be two rounds: the histogram says that chunks are none, so none is shown."""
    with served(_sglang(NEW, (1, 5, 7), device="cpu")) as url:
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a")]) == 0
    run, counts = _rounds(tmp_path / "a")
    assert not counts
    assert run.reported[0].n_accepted == 3
    assert run.header is not None
    assert run.header.outside is not None
    assert run.header.outside.promise == "changed"  # argmax at any temperature, on a processor


@pytest.mark.parametrize(
    ("server_settings", "rule", "promise"),
    [
        ({}, "target only", "same law"),
        ({"speculative_use_rejection_sampling": True}, "p/q", "same law"),
        (
            {"speculative_use_rejection_sampling": True, "speculative_use_block_verification": True},
            "block",
            "same law",
        ),
        ({"speculative_accept_threshold_single": 0.9, "speculative_accept_threshold_acc": 1.0}, "thresholds", "lossy"),
        (
            {"speculative_accept_threshold_single": 1.0, "speculative_accept_threshold_acc": 1.0},
            "target only",
            "same law",
        ),
        ({"device": "xpu", "speculative_accept_threshold_acc": 0.5}, "argmax", "changed"),
    ],
)
def test_what_sglang_tells_of_its_settings_names_the_rule(
    server_settings: dict[str, Any], rule: str, promise: str
) -> None:
    name, setting = rule_of(EngineServer("http://x", "SGLang", None, None, facts={"device": "cuda", **server_settings}))
    assert (name, RULES[name].promise) == (rule, promise)
    assert setting


@pytest.mark.parametrize(
    ("pages", "otherwise", "words"),
    [
        ({}, (404, "text/plain", "no"), "is no server of llama.cpp, vLLM or SGLang"),
        ({}, (401, "text/plain", "no"), "wants a key (401)"),
        ({}, (200, "text/html", "<html>hello</html>"), "answers with web pages (HTML), but is no server of llama.cpp"),
        ({"/api/version": _json({"version": "0.9"})}, None, "is Ollama, whose answers say nothing of speculation"),
        ({"/version": _json({"version": "1"}), "/v1/completions": (200, "text/html", "<p>")}, None, "a page (HTML)"),
        (
            {"/version": _json({"version": "1"}), "/v1/completions": _json({"error": {"message": "too long"}}, 400)},
            None,
            "HTTP 400: too long",
        ),
    ],
)
def test_what_is_no_such_server_is_said_in_a_line(
    tmp_path: Path, capsys: Captured, pages: dict[str, Page], otherwise: Page | None, words: str
) -> None:
    with served(pages, otherwise or (404, "text/plain", "no")) as url:
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert words in error
    assert not error.startswith("Traceback")


def test_no_address_and_nobody_there(tmp_path: Path, capsys: Captured) -> None:
    for url in ("ftp://x", "http://127.0.0.1:1"):
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a")]) == 2
    assert capsys.readouterr().err.count("\n") == 2


@pytest.mark.parametrize(
    "command", [["attach", "hello"], ["watch", "--plain", "--looks", "1"]], ids=lambda words: words[0]
)
def test_a_key_goes_to_the_named_server_alone(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("SPECVIZ_SERVER_KEY", "secret")
    elsewhere: list[Any] = []
    named: list[Any] = []
    with served({}, asked=elsewhere) as other, served({}, (307, "text/plain", other), named) as url:
        assert main([command[0], url, *command[1:], "-o", str(tmp_path / "a")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert named
    assert {key for _, key in named} == {"Bearer secret"}
    assert not elsewhere
    assert f"points to {other}: give that address" in error


def test_half_a_stream_keeps_what_was_told(tmp_path: Path, capsys: Captured) -> None:
    timings = {"prompt_n": 4, "predicted_n": 1, "predicted_ms": 0.1}
    chunks = [
        {"content": " a", "tokens": [7], "timings": timings},
        {
            "content": " b",
            "tokens": [8],
            "timings": {**timings, "predicted_n": 2, "predicted_ms": 3.0, "draft_n": 4, "draft_n_accepted": 0},
        },
    ]
    pages = {"/props": _json({"default_generation_settings": {}}), "/completion": _stream(*chunks)}
    with served(pages) as url:
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a")]) == 2
    server_settings = capsys.readouterr()
    assert server_settings.out == " a b\n"
    assert "broke off its answer: is it still up?; 2 rounds in " in server_settings.err.splitlines()[-1]
    run, counts = _rounds(tmp_path / "a")
    assert counts == [(0, 0, 1), (4, 0, 1)]
    assert [warning.code for warning in run.warnings] == ["cut_short"]


def _half(pages: dict[str, Page], path: str) -> dict[str, Page]:
    """That server, whose answer ends before its last chunk."""
    status, kind, body = pages[path]
    chunks = body.split("\n\n")
    return {**pages, path: (status, kind, "\n\n".join(chunks[:2]) + "\n\n" + chunks[2][:9])}


def test_half_a_stream_of_those_that_tell_rounds_at_its_end(tmp_path: Path, capsys: Captured) -> None:
    """No round is known then, and nothing is said of how the server was started: that is not what is wrong."""
    halves = (_half(_vllm(STEPS), "/v1/completions"), _half(_sglang(NEW, (1, 4, 5, 7)), "/generate"))
    for n, pages in enumerate(halves):
        with served(pages) as url:
            assert main(["attach", url, "hello", "-o", str(tmp_path / str(n))]) == 2
        assert capsys.readouterr().err.count("broke off its answer") == 1
        run, counts = _rounds(tmp_path / str(n))
        assert not counts
        assert [warning.code for warning in run.warnings] == ["cut_short"]
        assert run.end is not None
        assert run.end.reason == "error"


@pytest.mark.parametrize(
    ("pages", "path", "chunk"),
    [
        (_vllm(STEPS), "/v1/completions", {"choices": 7}),
        (_vllm(STEPS), "/v1/completions", {"choices": [{"text": "a", "token_ids": ["x"], "finish_reason": "stop"}]}),
        (_sglang(NEW, (1, 4)), "/generate", {"text": "a", "meta_info": {"completion_tokens": "many"}}),
        (
            {"/props": _json({"default_generation_settings": {}})},
            "/completion",
            {"content": "a", "tokens": ["x"], "timings": {"predicted_n": "two", "predicted_ms": None}},
        ),
    ],
)
def test_an_answer_of_another_form_is_said_in_a_line(
    tmp_path: Path, capsys: Captured, pages: dict[str, Page], path: str, chunk: Any
) -> None:
    with served({**pages, path: _stream(chunk)}) as url:
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a")]) == 2
    assert "of another version?" in capsys.readouterr().err.splitlines()[-1]
    run, _ = _rounds(tmp_path / "a")
    assert run.end is not None


LLAMA = {"/props": _json({"default_generation_settings": {}})}
TIMED = '{"content": "a", "tokens": [7], "stop": true, "timings": {"predicted_ms": 0.1, "prompt_n": 4, %s}}'


def _raw(line: str) -> Page:
    return 200, "text/event-stream", f"data: {line}\n\n"


DEEP = "[" * 200_000
ODD: list[dict[str, Page]] = [
    {"/props": (200, "application/json", DEEP)},
    {"/version": _json({"version": "1"}), "/v1/models": _json({"data": [5]})},
    {**LLAMA, "/completion": _raw(f'{{"content": "a", "b": {DEEP}')},
    *(
        {**LLAMA, "/completion": _raw(TIMED % f'"predicted_n": 1, "{name}": {value}')}
        for name in ("predicted_n", "prompt_n", "cache_n", "draft_n", "draft_n_accepted")
        for value in ("1e999", "-1", "1000000000000000000", "NaN", "true", "[]")
    ),
    {**_vllm(STEPS), "/v1/completions": _stream({"usage": {"prompt_tokens": 1 << 40}, "choices": []})},
    {**_sglang(NEW, (1, 4)), "/generate": _stream({"text": "a", "meta_info": {"completion_tokens": 1 << 40}})},
]


@pytest.mark.parametrize("pages", ODD, ids=range(len(ODD)))
def test_json_that_is_odd_is_a_line_and_leaves_a_trace_that_ends(
    tmp_path: Path, capsys: Captured, pages: dict[str, Page]
) -> None:
    with served(pages) as url:
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a")]) == 2
    assert "out of memory" not in (error := capsys.readouterr().err)
    assert "Traceback" not in error
    if "/completion" in pages:
        run, _ = _rounds(tmp_path / "a")
        assert run.end is not None


def test_half_a_character_in_a_text_is_a_mark_in_the_trace(tmp_path: Path, capsys: Captured) -> None:
    pages = {**LLAMA, "/completion": _raw((TIMED % '"predicted_n": 1').replace('"a"', '"x\\ud800y"'))}
    with served(pages) as url:
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a")]) == 0
    commits = [event for event in read_events(tmp_path / "a") if isinstance(event, Commit)]
    assert [commit.texts for commit in commits] == [["x\ufffdy"]]


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
@pytest.mark.parametrize("drips", [False, True])
def test_a_server_that_says_nothing_or_drips_is_given_up(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, sent: bytes, drips: bool
) -> None:
    """Each drop would begin the wait of a socket anew."""
    over = threading.Event()

    class Slow(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.request.sendall(sent)
                while not over.wait(0.05):
                    self.request.sendall(b"x" if drips else b"")

    monkeypatch.setattr(servers, "_FIND_S", 0.3)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Slow) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        assert main(["attach", f"127.0.0.1:{server.server_address[1]}", "hello", "-o", str(tmp_path / "a")]) == 2
        over.set()
        server.shutdown()
    assert capsys.readouterr().err.count("\n") == 1


def test_a_stream_that_never_ends_a_line_is_given_up(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "LONGEST", 1 << 12)
    pages = {**LLAMA, "/completion": (200, "text/event-stream", "data: " + "x" * (1 << 20))}
    with served(pages) as url:
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a")]) == 2
    assert "has not ended a line of its answer" in capsys.readouterr().err


def test_who_waits_is_told_so(capsys: Captured) -> None:
    with waited_for("it") as timer:
        timer.join()
    assert "waits for it (Ctrl-C ends it)" in capsys.readouterr().err
    with waited_for("it") as timer:
        timer.cancel()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "command", [["attach", "hello"], ["watch", "--plain", "--looks", "1"]], ids=lambda words: words[0]
)
def test_user_and_password_go_to_the_server_and_nowhere_else(
    tmp_path: Path, capsys: Captured, command: list[str]
) -> None:
    requests: list[Any] = []
    with served({}, asked=requests) as url:
        address = url.replace("//", "//me:p%40ss@")
        assert main([command[0], address, *command[1:], "-o", str(tmp_path / "a")]) == 2
    assert {key for _, key in requests} == {"Basic " + base64.b64encode(b"me:p@ss").decode()}
    assert main([command[0], "http://me:p%40ss@host:x", *command[1:], "-o", str(tmp_path / "a")]) == 2
    assert "p%40ss" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give a PROMPT to send, or --proxy PORT"),
        (["hello", "--proxy", "0"], "one of them"),
        (["hello", "--ask"], "--ask changes the requests"),
        (["--proxy", "0", "--tui"], "--tui goes with a PROMPT"),
    ],
)
def test_what_does_not_go_together_is_said_before_anybody_is_asked(
    capsys: Captured, words: list[str], message: str
) -> None:
    assert main(["attach", "127.0.0.1:1", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_screen_that_cannot_open_leaves_a_whole_trace(tmp_path: Path, capsys: Captured) -> None:
    timings = {"prompt_n": 4, "predicted_n": 1, "predicted_ms": 0.1}
    pages = {
        "/props": _json({"default_generation_settings": {}}),
        "/completion": _stream({"content": " a", "tokens": [7], "timings": timings, "stop": True}),
    }
    with served(pages) as url:
        assert main(["attach", url, "hello", "-o", str(tmp_path / "a"), "--tui"]) == 2
    assert "no terminal" in capsys.readouterr().err
    run, _ = _rounds(tmp_path / "a")
    assert run.end is not None
