"""`Said`: the text of a session as it grows, and where a stop text ends it."""

from collections.abc import Sequence

from specviz.engine.texts import Texts


class Said:
    """The new text so far, token by token; without a tokenizer it stays empty."""

    def __init__(self, texts: Texts | None, prompt: Sequence[int]) -> None:
        self.text = ""
        self._stream = texts.stream(prompt) if texts else None

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
