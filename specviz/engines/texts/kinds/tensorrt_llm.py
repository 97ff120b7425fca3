"""TensorRT-LLM's `/metrics`: a list of iterations, each with `specDecodingStats`."""

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.values import count, decoded, objects_with, real


class TensorrtIterations:
    """Iterations one after another."""

    def __init__(self) -> None:
        self._history = CountHistory("TensorRT-LLM", "over the iterations it told")
        self._seconds = 0.0

    def take(self, line: str) -> bool | None:
        """One line."""
        taken = False
        for iteration in objects_with(decoded(line), "specDecodingStats"):
            stats = iteration["specDecodingStats"]
            if not isinstance(stats, dict):
                continue
            rounds, drafted = count(stats.get("numRequestsWithDraftTokens")), count(stats.get("numDraftTokens"))
            accepted = count(stats.get("numAcceptedTokens"))
            if rounds is None or drafted is None or accepted is None:
                continue
            took = real(iteration.get("iterLatencyMS")) or real(stats.get("iterLatencyMS"))
            self._seconds += (took or 0.0) / 1e3
            window = CountWindow(self._seconds or None, rounds, drafted, accepted, rounds + accepted)
            self._history.began = 0.0 if self._seconds else None
            self._history.add(window)
            taken = True
        return taken

    def histories(self) -> list[CountHistory]:
        """One."""
        return [self._history]


KINDS = (LineKind("iterations of TensorRT-LLM", ('"specDecodingStats"',), TensorrtIterations),)
