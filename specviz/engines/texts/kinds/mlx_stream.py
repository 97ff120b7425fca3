"""What MLX-LM's `stream_generate` gives a token: `from_draft`, whether the draft model wrote it, and how many tokens
there are so far. A round ends with the token that the target wrote; how many were drafted is not told.
"""

from collections import Counter

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.values import count, decoded, kept_of

_UNTOLD = "how many tokens are drafted is not told there: see num_draft_tokens"
_NONE_KEPT = "no token is the draft's: it is never kept, or there was no draft model, which would look the same"
_LONGEST = 256


class MlxStream:
    """Answers one after another, token by token."""

    def __init__(self) -> None:
        self._history = CountHistory("MLX-LM", "", notes=[_UNTOLD])
        self._n_answers = self._n_tokens = self._run = 0
        self._rounds: Counter[int] = Counter()  # by accepted tokens

    def take(self, line: str) -> bool | None:
        """One line."""
        value = decoded(line)
        if not isinstance(value, dict) or not isinstance(value.get("from_draft"), bool):
            return False
        so_far = count(value.get("generation_tokens"))
        if so_far is not None and so_far <= self._n_tokens:
            self._ended()
        self._n_tokens += 1
        if value["from_draft"]:
            self._run = min(self._run + 1, _LONGEST)
        else:
            self._rounds[self._run] += 1
            self._run = 0
        return True

    def _ended(self) -> None:
        """An answer is whole; a draft whose end it cut off is no round."""
        rounds, accepted = sum(self._rounds.values()), sum(k * n for k, n in self._rounds.items())
        if rounds:
            kept = kept_of([self._rounds[k] for k in range(max(self._rounds) + 1)])
            self._history.add(CountWindow(None, rounds, None, accepted, self._n_tokens, kept))
            self._n_answers += 1
        self._rounds.clear()
        self._n_tokens = self._run = 0

    def histories(self) -> list[CountHistory]:
        """One over all answers."""
        self._ended()
        self._history.span = f"over {self._n_answers} answers" if self._n_answers > 1 else "over one answer"
        if not any(window.n_accepted for window in self._history.windows):
            self._history.notes.append(_NONE_KEPT)
        return [self._history]


KINDS = (LineKind("tokens of MLX-LM", ('"from_draft"',), MlxStream),)
