"""Whatever bytes a token is made of, what is shown is visible, one line, and of known width."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from specviz import text

HOSTILE = st.one_of(
    st.text(),
    st.text(
        alphabet=st.sampled_from(
            "\x00\x1b[2J\x9b\r\n\t \x7f\u200b\u200d\u202e\u2066\ufeff\u0301\u0489\ufe0f\u2028\u3164é猫🙂⟨▁"
        )
    ),
    st.binary(max_size=12).map(lambda b: b.decode("utf-8", "surrogateescape")),
)
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def unseen(shown: str, spaces: bool = False) -> list[str]:
    """Characters that a terminal obeys or hides."""
    return [
        c
        for c in shown
        if unicodedata.category(c) in UNSEEN or (unicodedata.category(c) == "Zs" and not (spaces and c == " "))
    ]


@given(HOSTILE)
def test_everything_shown_can_be_seen(token: str) -> None:
    assert unseen(text.shown(token)) == []
    assert unseen(text.running(token), spaces=True) == []
    assert unseen(text.quoted(token)) == []


@given(HOSTILE)
def test_no_token_is_invisible(token: str) -> None:
    assert cell_len(text.shown(token)) >= 1
    assert not unicodedata.combining(text.shown(token)[0])


@given(HOSTILE)
@example("\u0300" * 32 + "0\b\b\b")  # few characters, and more than fit once each is told by its code
def test_shown_again_stays_the_same(token: str) -> None:
    once = text.shown(token)
    assert text.shown(once) == once


@given(HOSTILE, st.integers(0, 30))
def test_clip_never_exceeds_and_pad_hits_the_width(token: str, cells: int) -> None:
    shown = text.shown(token)
    assert cell_len(text.clip(shown, cells)) <= cells
    assert cell_len(text.pad(shown, cells)) == cells
    if cell_len(shown) <= cells:
        assert text.clip(shown, cells) == shown


@given(HOSTILE)
def test_ascii_is_ascii(token: str) -> None:
    plain = text.ascii_only(text.shown(token))
    assert plain.isascii()
    assert unseen(plain, spaces=True) == []


@given(st.binary(min_size=1, max_size=8))
def test_bytes_are_shown_whether_or_not_they_are_utf8(raw: bytes) -> None:
    """The lossy text beside the bytes is never used when the bytes are there."""
    shown = text.shown("\ufffd", raw.hex())
    assert unseen(shown) == []
    try:
        assert shown == text.shown(raw.decode())
    except UnicodeDecodeError:
        assert "⟨" in shown


@given(HOSTILE)
def test_html_holds_no_tag_and_no_quote(token: str) -> None:
    assert not set(text.html(token)) & set("<>\"'")


@pytest.mark.parametrize(
    ("token", "raw", "shown"),
    [
        (" mat", None, "▁mat"),
        ("\n\n    ", None, "⏎⏎▁▁▁▁"),
        ("\t", None, "→"),
        ("", None, "∅"),
        ("\x1b[31mred", None, "⟨1B⟩[31mred"),
        ("\x9b31m", None, "⟨9B⟩31m"),
        ("a\u202egpj.exe", None, "a⟨202E⟩gpj.exe"),
        ("\u200b", None, "⟨200B⟩"),
        ("\u0301x", None, "◌\u0301x"),
        ("Z" + "\u0335" * 5, None, "Z" + "\u0335" * 3 + "⟨0335⟩⟨0335⟩"),
        ("a\u00a0b", None, "a⟨A0⟩b"),
        ("\u2800", None, "⟨2800⟩"),
        ("猫", None, "猫"),
        ("[red]", None, "[red]"),
        ("\ufffd", "e2", "⟨E2⟩"),
        ("ok\ufffd", "6f6bff", "ok⟨FF⟩"),
        ("x", "not hex", "x"),
    ],
)
def test_marks(token: str, raw: str | None, shown: str) -> None:
    assert text.shown(token, raw) == shown


def test_sentences_name_words_bare_and_the_rest_in_quotes() -> None:
    assert [text.quoted(t) for t in (" mat", "(", "\n", "def", "猫", "[red]")] == [
        "▁mat",
        "“(”",
        "⏎",
        "def",
        "猫",
        "“[red]”",
    ]


def test_running_text_keeps_its_spaces() -> None:
    assert text.running(" the cat\n") == " the cat⏎"
    assert text.running("") == ""


def test_a_wide_character_is_never_cut_in_half() -> None:
    assert text.clip("猫猫猫", 4) == "猫…"
    assert text.pad("猫猫猫", 4) == "猫… "


def test_an_ascii_terminal_gets_words_it_can_print() -> None:
    assert text.ascii_only("▁mat ⏎ “(” p ≥ q → 3.4× ⟨1B⟩ 猫") == '^mat \\n "(" p >= q \\t 3.4x <1B> \\u732b'
