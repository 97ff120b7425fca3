"""What SGLang's `bench_serving` prints at its end: `Accept length: 2.40` among its figures, a mean without counts."""

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.numbers import count_after, number_after, unstamped

_MOST = 64  # benchmarks of one text
_LENGTH, _SECONDS, _TOKENS = "Accept length:", "Benchmark duration (s):", "Total generated tokens:"


class SglangSummary:
    """A benchmark after another; the figures before the length are vLLM's too, so they are left to that."""

    def __init__(self) -> None:
        self._histories: list[CountHistory] = []
        self._seconds: float | None = None
        self._n_generated: int | None = None

    def take(self, line: str) -> bool | None:
        """One line."""
        words = unstamped(line).strip()
        if words.startswith(_SECONDS):
            self._seconds, self._n_generated = number_after(words, _SECONDS), None
        elif words.startswith(_TOKENS):
            self._n_generated = count_after(words, _TOKENS)
        length = number_after(words, _LENGTH) if words.startswith(_LENGTH) else None
        if length is None or length < 1 or len(self._histories) >= _MOST:
            return False
        history = CountHistory("SGLang", "over a benchmark", began=0.0 if self._seconds else None)
        history.add(CountWindow(self._seconds, n_generated=self._n_generated, length=length))
        self._histories.append(history)
        return True

    def histories(self) -> list[CountHistory]:
        """One a benchmark."""
        return self._histories


KINDS = (LineKind("the figures that SGLang's benchmark prints", (_LENGTH,), SglangSummary, (_SECONDS, _TOKENS)),)
