"""Answers of llama.cpp's server: `timings` with `draft_n` and `draft_n_accepted`. Rounds are not told there; every one
writes what it accepts and one token more. mlx-vlm answers alike, and tells `draft_rounds` too.
"""

from typing import Any

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.values import count, decoded, objects_with, real

_ABOUT = "rounds are not told by these answers: they are counted as tokens written less tokens accepted"


class LlamaAnswer:
    """Answers one after another; of a stream, whose chunks count up, the last one of each."""

    def __init__(self) -> None:
        self._windows: list[CountWindow] = []
        self._models: list[str] = []
        self._engine, self._notes = "mlx-vlm", dict[str, None]()
        self._streams = False
        self._seconds = 0.0

    def take(self, line: str) -> bool | None:
        """One line."""
        value = decoded(line)
        taken = False
        for timings in objects_with(value, "draft_n"):
            taken = self._answer(timings, line.lstrip().startswith("data:")) or taken
        name = value.get("model") if isinstance(value, dict) else None
        if taken and isinstance(name, str) and name not in self._models:
            self._models.append(name[:200])
        return taken

    def _answer(self, timings: Any, chunk: bool) -> bool:
        n, drafted = count(timings.get("predicted_n")), count(timings.get("draft_n"))
        accepted, ms = count(timings.get("draft_n_accepted")), real(timings.get("predicted_ms"))
        if n is None or drafted is None or accepted is None:
            return False
        if chunk and self._streams and self._windows and n > (self._windows[-1].n_generated or 0):
            self._windows.pop()  # the chunks of an answer count up
        self._streams = chunk
        rounds = count(timings.get("draft_rounds"))
        if rounds is None:
            self._engine, rounds = "llama.cpp", max(0, n - accepted)
            self._notes[_ABOUT] = None
        self._windows.append(CountWindow(ms, rounds, drafted, accepted, n))
        return True

    def histories(self) -> list[CountHistory]:
        """One over all answers."""
        n = len(self._windows)
        history = CountHistory(self._engine, f"over {n} answers" if n > 1 else "over one answer", self._models)
        history.notes += self._notes
        seconds = 0.0
        history.began = 0.0 if self._windows and all(window.wall for window in self._windows) else None
        for window in self._windows:
            seconds += (window.wall or 0.0) / 1e3
            window.wall = seconds or None
            history.add(window)
        return [history]


KINDS = (LineKind("answers of llama.cpp's server, or mlx-vlm's", ('"draft_n"',), LlamaAnswer),)
