"""Answers of llama.cpp's server: `timings` with `draft_n` and `draft_n_accepted`. Rounds are not told there; the pass
over the prompt writes the first token, every round what it accepts and one more. mlx-vlm answers alike, and tells
`draft_rounds` too.
"""

from typing import Any

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.values import count, decoded, objects_with, real

_MOST_MODELS = 8
_ABOUT = "rounds are not told by these answers: they are counted as tokens behind the first one, less those accepted"


class LlamaAnswer:
    """Answers one after another; of a stream, whose chunks count up, the last one of each."""

    def __init__(self) -> None:
        self._history = CountHistory("mlx-vlm", "", began=0.0)
        self._newest: CountWindow | None = None  # of an answer that may go on; it took `wall` ms
        self._streams = False
        self._n, self._seconds = 0, 0.0

    def take(self, line: str) -> bool | None:
        """One line."""
        value = decoded(line)
        taken = False
        for timings in objects_with(value, "draft_n"):
            taken = self._answer(timings, line.lstrip().startswith("data:")) or taken
        name = value.get("model") if isinstance(value, dict) else None
        models = self._history.models
        if taken and isinstance(name, str) and name[:200] not in models and len(models) < _MOST_MODELS:
            models.append(name[:200])
        return taken

    def _answer(self, timings: Any, chunk: bool) -> bool:
        n, drafted = count(timings.get("predicted_n")), count(timings.get("draft_n"))
        accepted, ms = count(timings.get("draft_n_accepted")), real(timings.get("predicted_ms"))
        if n is None or drafted is None or accepted is None:
            return False
        if not (chunk and self._streams and self._newest and n > (self._newest.n_generated or 0)):
            self._ended()  # the chunks of an answer count up
        self._streams = chunk
        rounds = count(timings.get("draft_rounds"))
        if rounds is None:
            self._history.engine, rounds = "llama.cpp", max(0, n - accepted - 1)
            self._history.notes[:] = [_ABOUT]
        self._newest = CountWindow(ms, rounds, drafted, accepted, n)
        return True

    def _ended(self) -> None:
        """An answer is whole."""
        if self._newest is not None:
            if not self._newest.wall:
                self._history.began = None
            self._seconds += (self._newest.wall or 0.0) / 1e3
            self._newest.wall = self._seconds or None
            self._history.add(self._newest)
            self._n += 1
        self._newest = None

    def histories(self) -> list[CountHistory]:
        """One over all answers."""
        self._ended()
        self._history.span = f"over {self._n} answers" if self._n > 1 else "over one answer"
        return [self._history]


KINDS = (LineKind("answers of llama.cpp's server, or mlx-vlm's", ('"draft_n"',), LlamaAnswer),)
