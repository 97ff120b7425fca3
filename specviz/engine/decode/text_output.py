"""`Said`: the text of a session as it grows, and `Ends`: where it must end."""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.engine.decode.texts import Texts
from specviz.events.round import Finish


@dataclass(frozen=True, slots=True)
class Ends:
    """What ends a text: an end token, a stop text, `longest` tokens in all, a full context."""

    eos: frozenset[int]
    stops: tuple[str, ...]
    longest: int
    context: int


class Said:
    """The new text so far, token by token; without a tokenizer it stays empty."""

    def __init__(self, texts: Texts | None, prompt: Sequence[int]) -> None:
        self.text = ""
        self._stream = texts.stream(prompt) if texts else None

    def take(self, tokens: Sequence[int], before: int, ends: Ends) -> tuple[list[str], Finish | None]:
        """The readable pieces of `tokens` up to where the text ends, if it does there: the one cut of a round.

        `before`: the length of the text without them.
        """
        texts: list[str] = []
        for length, token in enumerate(tokens, before + 1):
            texts.append(self.grow(token))
            if token in ends.eos:
                return texts, "eos"
            if (left := self.stopped(ends.stops, texts[-1])) is not None:
                texts[-1] = left
                return texts, "stop"
            if length >= ends.longest:
                return texts, "length"
            if length >= ends.context:
                return texts, "context"
        return texts, None

    def grow(self, token: int) -> str:
        """What becomes readable with a token."""
        piece = self._stream.push(token) if self._stream else ""
        self.text += piece
        return piece

    def stopped(self, stops: Sequence[str], piece: str) -> str | None:
        """What is left of the newest piece when it completes a stop text, which is cut off; None when it does not.

        Only the completing token's piece is cut: what earlier tokens said is out already, whatever round they came in.
        """
        begins = len(self.text) - len(piece)
        found = [at for stop in stops if (at := self.text.find(stop, max(0, begins - len(stop) + 1))) >= 0]
        if not found:
            return None
        left = piece[: max(0, min(found) - begins)]
        self.text = self.text[:begins] + left
        return left
