"""The conversation of `specviz run`: what is typed, what comes back, and how it ends."""

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specviz.cli import BAD_INPUT, main
from specviz.cli.request import wants_conversation
from support.gguf_files import TEMPLATE
from support.models import build, save, tokenizer

Talk = Callable[..., str]
NOTHING = {"stdin": None, "prompt": None, "prompt_file": None, "example": None, "stream": None, "as_json": False}


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> str:
    tokens = tokenizer()
    tokens.chat_template = TEMPLATE
    return save(build("llama", seed=3), tmp_path_factory.mktemp("chatty") / "model", tokens)


@pytest.fixture
def talk(chatty: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Talk:
    """Type these lines, then leave; what was written on both streams."""

    def typed(*lines: object, options: tuple[str, ...] = ()) -> str:
        left: Iterator[object] = iter(lines)

        def line(_prompt: str) -> str:
            said = next(left, EOFError())
            if isinstance(said, BaseException):
                raise said
            return str(said)

        monkeypatch.setattr("builtins.input", line)
        monkeypatch.setattr("specviz.cli.run.run.wants_conversation", lambda given: True)
        options = ("--max-new-tokens", "5", "--dtype", "float32", *options)
        code = main(["run", "--target", chatty, *options])
        out = capsys.readouterr()
        assert code == 0, out.err
        return out.out + out.err

    return typed


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_prompt_in_a_terminal_is_a_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {**NOTHING, "chat": None, "target": "smollm2"}
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr(sys, "stdout", _Terminal())
    assert wants_conversation(asked)
    assert wants_conversation({**asked, "target": None, "chat": True})
    assert not wants_conversation({**asked, "target": None}), "the embedded pair goes on with texts"
    assert not wants_conversation({**asked, "chat": False})
    assert not wants_conversation({**asked, "prompt": "hi"})


def test_without_a_terminal_it_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--chat"]) == BAD_INPUT
    assert "no prompt, and a conversation needs a terminal: give --prompt TEXT" in capsys.readouterr().err


def test_answers_come_one_after_another_with_what_was_said(talk: Talk) -> None:
    said = talk("ab ab ab", "and?")
    assert said.count("tokens in ") == 2
    assert said.count("ngram: ") == 2, "without a draft model it is the method that needs none"


def test_a_knob_and_a_method_change_the_next_answer(talk: Talk) -> None:
    said = talk("/gamma 6", "/max-new-tokens 3", "ab", "/method ar", "ab", "/help")
    assert "gamma 6 from the next answer on" in said
    assert "without gamma, which it lacks" in said
    assert "ngram: 3 tokens" in said
    assert "ar: 3 tokens" in said
    assert "/why" in said


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("/gama 6", "did you mean 'gamma'?"),
        ("/gamma", "/gamma needs a value ["),
        ("/gamma none", "knob gamma: 'none'"),
        ("/method ngrm", "did you mean 'ngram'?"),
        ("/method eagle3", "eagle3 cannot run here: no EAGLE-3 drafter"),
        ("/method draft", "needs its draft model"),
        ("/why", "nothing was answered yet"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_and_the_conversation_goes_on(line: str, says: str, talk: Talk) -> None:
    said = talk(line, "ab")
    assert says in said
    assert "ngram: 5 tokens" in said, "nothing of it was kept"


def test_why_tells_the_sentences_of_a_round(talk: Talk) -> None:
    said = talk("ab ab ab ab", "/why 1", "/why 99")
    assert "r1 " in said
    assert "no round '99': the last answer has rounds 1 to " in said


def test_an_interrupt_ends_the_answer_and_not_the_conversation(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    from specviz.engine.decode.session import Session

    whole = Session._round
    interrupted = []

    def once(self: Session) -> object:
        if not interrupted:
            interrupted.append(os.kill(os.getpid(), signal.SIGINT))
        return whole(self)

    monkeypatch.setattr(Session, "_round", once)
    said = talk("ab", KeyboardInterrupt(), "ab")
    assert "(stopped)" in said
    assert "/quit ends the conversation" in said
    assert said.count("ngram: ") == 2


def test_quit_ends_it(talk: Talk) -> None:
    assert "tokens in" not in talk("/quit", "ab")


def test_hostile_tokens_cannot_steer_the_terminal(talk: Talk) -> None:
    said = talk("ab")
    assert "⟨08⟩" in said, "this model writes control characters"
    assert all(letter.isprintable() or letter == "\n" for letter in said)


def test_a_model_without_a_template_has_no_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("specviz.cli.run.run.wants_conversation", lambda given: True)
    assert main(["run", "--target", save(build("llama"), tmp_path / "plain")]) == BAD_INPUT
    assert "has no chat template to hold a conversation by" in capsys.readouterr().err


def test_a_recording_keeps_one_run(chatty: str, tmp_path: Path, talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError, match="--record keeps one run"):
        talk("ab", options=("--record", str(tmp_path / "x.sv.jsonl")))
