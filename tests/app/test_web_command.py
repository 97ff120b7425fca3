"""`specviz web`: what it refuses in one line, what it says on the way, and what it hands to the server."""

import socket
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz_app.server.core import ServedRun, Settings


class Asked:
    """What `serve` was called with."""

    settings: Settings
    host: str
    port: int
    opens: bool


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    answers = Asked()

    def serve(server: Any, host: str, port: int, open_browser: bool, ready: Any) -> None:
        answers.settings, answers.host, answers.port, answers.opens = server.settings, host, port, open_browser
        ready(f"http://{host}:{port}")

    monkeypatch.setattr("specviz_app.launcher.serve", serve)
    return answers


def test_the_address_is_the_standard_output(
    asked: Asked, chain_trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["web", str(chain_trace), "--port", "0"]) == 0
    out, err = capsys.readouterr()
    assert out == f"http://127.0.0.1:{asked.port}\n"
    assert asked.port > 0
    assert "Ctrl-C" in err
    assert asked.settings == Settings(replay=chain_trace)
    assert not asked.opens  # no desktop behind a captured output


def test_a_port_in_use_is_said_and_the_next_one_taken(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["web", "--port", str(port)]) == 0
    assert asked.port > port
    assert f"port {port} is in use, using {asked.port}" in capsys.readouterr().err


def test_another_host_is_warned_about(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--host", "0.0.0.0", "--port", "0"]) == 0
    assert "whoever reaches it" in capsys.readouterr().err


def test_prompt_method_and_knobs_become_a_live_run(asked: Asked, tmp_path: Path) -> None:
    words = [
        "web",
        "--prompt",
        "def f(",
        "--method",
        "ngram",
        "--temperature",
        "0.5",
        "--paused",
        "--no-auto",
        "--open",
    ]
    record = tmp_path / "run.sv.jsonl"
    assert main([*words, "--record", str(record), "--target", str(_folder(tmp_path)), "--port", "0"]) == 0
    start = asked.settings.start
    assert start is not None
    assert (start.prompt, start.method, start.knobs, start.paused) == ("def f(", "ngram", {"temperature": 0.5}, True)
    assert start.auto is ServedRun(asked.settings).auto is False
    assert asked.settings.live
    assert asked.settings.record == record
    assert asked.settings.argv == ("--target", str(_folder(tmp_path)))
    assert asked.opens


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir(exist_ok=True)
    for name, text in (
        ("config.json", '{"model_type":"llama","architectures":["LlamaForCausalLM"]}'),
        ("tokenizer.json", "{}"),
    ):
        (folder / name).write_text(text)
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--replay", "nothing.sv.jsonl"], "no trace nothing.sv.jsonl"),
        (["nothing.sv.jsonl"], "no trace nothing.sv.jsonl"),
        (["TRACE", "--replay", "TRACE"], "two traces"),
        (["--replay", "TRACE", "--gamma", "3"], "--replay shows a recording"),
        (["--method", "draf"], "did you mean 'draft'"),
        (["--prompt", "x", "--gamma", "99"], "gamma"),
        (["--host", "no-such-host.invalid"], "no host 'no-such-host.invalid'"),
        (["--port", "70000"], "70000"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_code_2(
    words: list[str], message: str, asked: Asked, chain_trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["web", *(str(chain_trace) if word == "TRACE" else word for word in words)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err


def test_without_the_extra_the_install_line_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["web"]) == 2
    assert "pip install 'specviz-llm[web]'" in capsys.readouterr().err
