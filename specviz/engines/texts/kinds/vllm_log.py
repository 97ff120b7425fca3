"""vLLM's log: `SpecDecoding metrics: Mean acceptance length: 2.87, .., Accepted: 282 tokens, Drafted: 453 tokens,
Per-position acceptance rate: 0.821, 0.609, 0.437, Avg Draft acceptance rate: 62.3%`, one a window and engine. Releases
of 2025 said the acceptance rate first, and the first of them nothing but the two counts.
"""

import re

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.numbers import count_after, number_after, shares, wall_of

_METRICS = "SpecDecoding metrics:"
_MOST_PROCESSES = 4096
_LAYERS = 3  # of MTP in what is published; more tokens are drafted by the last one again
_LENGTH, _RATES = "Mean acceptance length:", "Per-position acceptance rate:"
_WHOLE_RATE = re.compile(r"\.\d{3}\s*$")
_COUNTS_ALONE = re.compile(r"metrics: Draft acceptance rate: [\d.]+%, Accepted: \d+ tokens, Drafted: \d+ tokens\s*$")
_USUAL = re.compile(  # as most releases write it; what is not quite so is read part by part
    r"metrics: Mean acceptance length: (\d{1,6}\.?\d{0,6}), Accepted throughput: [\d.]+ tokens/s, Drafted throughput: "
    r"[\d.]+ tokens/s, Accepted: (\d{1,12}) tokens, Drafted: (\d{1,12}) tokens, Per-position acceptance rate: "
    r"([\d., ]{1,4000}), Avg Draft acceptance rate: [\d.]+%\s*$"
)
_ENGINE = re.compile(r"\bEngine (\d{1,4}):")
_PID = re.compile(r"pid=(\d{1,9})\)")
_SETTING = re.compile(r"['\"](method|num_speculative_tokens)['\"]: ['\"]?([\w.-]{1,60})")
_MODEL = re.compile(r"['\"]model['\"]: ['\"]([^'\"]{1,400})['\"]")


class VllmLog:
    """Windows of all engines; which engine a line is of is told by the line before it of the same process."""

    def __init__(self) -> None:
        self._history = CountHistory("vLLM", "over the log")
        self._engine_of: dict[str, str] = {}  # by process

    def take(self, line: str) -> bool | None:
        """One line."""
        at = line.find(_METRICS)
        if at < 0:
            return self._aside(line)
        usual = _USUAL.search(line, at)
        accepted = int(usual[2]) if usual is not None else count_after(line, "Accepted:")
        drafted = int(usual[3]) if usual is not None else count_after(line, "Drafted:")
        length = float(usual[1]) if usual is not None else number_after(line, _LENGTH)
        rates = shares(usual[4] if usual is not None else line.partition(_RATES)[2])
        rounds = rounds_of(accepted or 0, drafted or 0, length, rates)
        if usual is None and not _is_whole(line, drafted, rates, rounds):
            return None  # a terminal wrapped it
        if accepted is None or drafted is None:
            return False
        window = CountWindow(
            wall_of(line),
            n_rounds=rounds,
            n_drafted=drafted,
            n_accepted=accepted,
            kept=[] if rounds is None else [round(rate * rounds) for rate in rates],
            length=length,
            rate=accepted / drafted if drafted else None,
        )
        self._history.add(window, self._engine(line))
        return True

    def _aside(self, line: str) -> bool:
        """What stands beside: how it was started, and the engine of a process."""
        engine = _ENGINE.search(line) if "Engine " in line else None
        if engine is not None:
            pid = _pid(line)
            if pid in self._engine_of or len(self._engine_of) < _MOST_PROCESSES:
                self._engine_of[pid] = str(int(engine[1]))
            return False
        if "speculative_config" in line:
            self._history.settings |= {name.replace("_", " "): value for name, value in _SETTING.findall(line)}
            model = _MODEL.search(line)
            if model is not None and not self._history.models:
                self._history.models.append(model[1].rstrip("/").rpartition("/")[2])
        return False

    def _engine(self, line: str) -> str:
        return self._engine_of.get(_pid(line), "0")

    def histories(self) -> list[CountHistory]:
        """One for all engines."""
        settings = self._history.settings
        n = settings.get("num speculative tokens", "")
        if settings.get("method") == "mtp" and n.isdigit() and int(n) > _LAYERS:
            self._history.notes.append(
                f"an MTP layer that is asked for {n} tokens repeats itself behind its first: try 1 to {_LAYERS}"
            )
        return [self._history]


def _pid(line: str) -> str:
    match = _PID.search(line, 0, 80)
    return match[1] if match is not None else ""


def _is_whole(line: str, drafted: int | None, rates: list[float], rounds: int | None) -> bool:
    """Whether nothing of the line is missing: it ends as its release ends it."""
    if _RATES not in line:
        return bool(_COUNTS_ALONE.search(line))
    if line.rstrip().endswith("%"):
        return True
    few = bool(drafted and rounds) and len(rates) < (drafted or 0) / (rounds or 1) - 0.5
    return "Avg Draft" not in line and "metrics: Draft" in line and bool(_WHOLE_RATE.search(line)) and not few


def rounds_of(accepted: int, drafted: int, length: float | None, rates: list[float]) -> int | None:
    """Rounds of a window: the mean length is accepted / rounds + 1; where nothing was accepted, every round drafted as
    many tokens as there are positions. None where neither tells."""
    if accepted and length is not None and length > 1:
        by_length = accepted / (length - 1)
        every = drafted / len(rates) if rates else by_length
        return round(every if abs(every - by_length) <= 0.05 * by_length else by_length)
    return round(drafted / len(rates)) if rates else None


KINDS = (LineKind("vLLM's SpecDecoding metrics", (_METRICS,), VllmLog, ("Engine 0", "speculative_config")),)
