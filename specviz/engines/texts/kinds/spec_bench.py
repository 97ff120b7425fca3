"""Answers of Spec-Bench: `accept_lengths` (tokens that every round wrote), `new_tokens`, `wall_time`, a line a
question, by category."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.values import counts, decoded, kept_of, objects_with, real

_MOST_MODELS = 8
_MOST_LENGTH = 257


class SpecBench:
    """Questions one after another."""

    def __init__(self) -> None:
        self._history = CountHistory("Spec-Bench", "", parts_of="prompts")
        self._history.began = 0.0
        self._n, self._seconds = 0, 0.0

    def take(self, line: str) -> bool | None:
        """One line."""
        value = decoded(line)
        if not isinstance(value, Mapping):
            return False
        taken = False
        category = str(value.get("category") or "")[:60]
        for choice in objects_with(value, "accept_lengths"):
            taken = self._choice(choice, category) or taken
        model = value.get("model_id")
        models = self._history.models
        if taken and isinstance(model, str) and model[:200] not in models and len(models) < _MOST_MODELS:
            models.append(model[:200])
        self._n += taken
        return taken

    def _choice(self, choice: Mapping[str, Any], category: str) -> bool:
        lengths = counts(choice["accept_lengths"])
        if not lengths or max(lengths) > _MOST_LENGTH or min(lengths) < 1:
            return False
        times = choice.get("wall_time")
        seconds = [real(took) for took in times] if isinstance(times, list) else []
        self._seconds += sum(took or 0.0 for took in seconds)
        by_length = Counter(lengths)
        histogram = [by_length.get(j + 1, 0) for j in range(max(lengths))]
        n = sum(lengths)
        window = CountWindow(self._seconds or None, len(lengths), None, n - len(lengths), n, kept_of(histogram))
        self._history.add(window, category or None)
        return True

    def histories(self) -> list[CountHistory]:
        """One."""
        self._history.span = f"over {self._n} questions" if self._n > 1 else "over one question"
        if not any(window.n_accepted for window in self._history.windows):
            for window in self._history.windows:
                window.n_drafted = 0  # plain decoding, the twin that others are held against
        return [self._history] if self._n else []


KINDS = (LineKind("answers of Spec-Bench", ('"accept_lengths"',), SpecBench),)
