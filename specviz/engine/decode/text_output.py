"""`TextOutput`: the text of a session as it grows, and `StopCriteria`: where it must end.

Token ids to text: single tokens for display, and a stream of committed ids whose pieces concatenate to the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers.decoders import DecodeStream

from specviz.errors import KnobError
from specviz.events.round import Finish


class Texts:
    """Display text of single tokens, remembered. Ids outside the tokenizer show as `<id>`."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._known: dict[int, tuple[str, str | None]] = {}
        self._bytes = _byte_table()
        fast = getattr(tokenizer, "backend_tokenizer", None)
        self._byte_level = fast is not None and "ByteLevel" in str(getattr(fast, "decoder", ""))

    def piece(self, token: int) -> tuple[str, str | None]:
        """`(text, bytes)` of one token; bytes in hex when it is no valid UTF-8 by itself, else None."""
        if token not in self._known:
            self._known[token] = self._look_up(token)
        return self._known[token]

    def _look_up(self, token: int) -> tuple[str, str | None]:
        word = self.tokenizer.convert_ids_to_tokens(token)
        if word is None:
            return f"<{token}>", None
        if token in self.tokenizer.all_special_ids:
            return word, None
        if self._byte_level and all(c in self._bytes for c in word):
            raw = bytes(self._bytes[c] for c in word)
        elif word.startswith("<0x") and word.endswith(">") and len(word) == 6:  # byte fallback of sentencepiece
            raw = bytes([int(word[3:5], 16)])
        else:
            return word.replace("\u2581", " "), None
        try:
            return raw.decode(), None
        except UnicodeDecodeError:
            return raw.decode(errors="replace"), raw.hex()

    def token_of(self, text: str) -> int:
        """The one token that spells `text`: as the tokenizer splits it, or a word of its vocabulary. Raises KnobError.

        A text of several tokens is refused, with their ids.
        """
        ids = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        if len(ids) == 1:
            return int(ids[0])
        word = self.tokenizer.get_vocab().get(text)
        if word is not None:
            return int(word)
        shown = " ".join(f"id:{token}" for token in ids[:8]) + (" .." if len(ids) > 8 else "")
        raise KnobError(f"knob ban: {text!r} is {len(ids)} tokens ({shown}) and only single tokens can be banned")

    def stream(self, prompt: Sequence[int]) -> "TextStream":
        """A stream that continues after `prompt`."""
        return TextStream(self.tokenizer, prompt)


def banned_ids(entries: Sequence[str], texts: "Texts | None", vocab: int) -> tuple[int, ...]:
    """The ids that the knob `ban` names, each entry a token's text or `id:N`. Raises KnobError."""
    out: set[int] = set()
    for entry in entries:
        number = entry.removeprefix("id:")
        if entry.startswith("id:") and number.isascii() and number.isdigit():
            if int(number) >= vocab:
                raise KnobError(f"knob ban: there is no token {entry}; ids go from 0 to {vocab - 1}")
            out.add(int(number))
        elif texts is None:
            raise KnobError(f"knob ban: {entry!r} is a text and no tokenizer is here; name the token as id:N")
        else:
            out.add(texts.token_of(entry))
    if len(out) >= vocab:
        raise KnobError("knob ban: every token is banned, nothing is left to say")
    return tuple(sorted(out))


class TextStream:
    """Committed ids in, text out. A character split over tokens comes out with its last token.

    A byte-fallback decoder spells a whole run of bytes anew when one of them turns out to be no UTF-8, and the
    library's stream gives up there ("invalid prefix"). What was said stays said: the stream begins again behind it.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int]) -> None:
        self._fast = tokenizer.backend_tokenizer
        self._stream = DecodeStream(ids=list(prompt), skip_special_tokens=False)
        self._silent: list[int] = []  # tokens since the last text

    def push(self, token: int) -> str:
        """The text that became readable with this token."""
        self._silent.append(token)
        try:
            text = self._stream.step(self._fast, token) or ""
        except Exception:  # the library raises nothing narrower
            text = self._fast.decode(self._silent, skip_special_tokens=False)
            self._stream = DecodeStream(ids=[token], skip_special_tokens=False)
        if text:
            self._silent = []
        return text


def _byte_table() -> dict[str, int]:
    """The byte-level alphabet (GPT-2): printable bytes stand for themselves, the rest from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + k): b for k, b in enumerate(rest)}


@dataclass(frozen=True, slots=True)
class StopCriteria:
    """What ends a text: an end token, a stop text, `longest` tokens in all, a full context."""

    eos: frozenset[int]
    stops: tuple[str, ...]
    longest: int
    context: int


class TextOutput:
    """The new text so far, token by token; without a tokenizer it stays empty."""

    def __init__(self, texts: Texts | None, prompt: Sequence[int]) -> None:
        self.text = ""
        self._stream = texts.stream(prompt) if texts else None

    def take(self, tokens: Sequence[int], before: int, ends: StopCriteria) -> tuple[list[str], Finish | None]:
        """The readable pieces of `tokens` up to where the text ends, if it does there: the one cut of a round.

        `before`: the length of the text without them.
        """
        texts: list[str] = []
        for length, token in enumerate(tokens, before + 1):
            texts.append(self._stream.push(token) if self._stream else "")
            self.text += texts[-1]
            if token in ends.eos:
                return texts, "eos"
            if (left := self._stopped(ends.stops, texts[-1])) is not None:
                texts[-1] = left
                return texts, "stop"
            if length >= ends.longest:
                return texts, "length"
            if length >= ends.context:
                return texts, "context"
        return texts, None

    def _stopped(self, stops: Sequence[str], piece: str) -> str | None:
        """What is left of the newest piece when it completes a stop text, which is cut off; None when it does not.

        Only the completing token's piece is cut: what earlier tokens said is out already, whatever round they came in.
        """
        begins = len(self.text) - len(piece)
        places = [at for stop in stops if (at := self.text.find(stop, max(0, begins - len(stop) + 1))) >= 0]
        if not places:
            return None
        left = piece[: max(0, min(places) - begins)]
        self.text = self.text[:begins] + left
        return left
