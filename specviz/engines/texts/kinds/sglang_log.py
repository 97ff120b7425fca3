"""SGLang's log: `Decode batch, #running-req: 1, .., accept len: 1.05, accept rate: 0.21, .., gen throughput (token/s):
42.05`, means over the batches since the line before; with data parallel attention by rank (`[.. DP3 TP3 ..]`)."""

import re

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.numbers import number_after, wall_of
from specviz.engines.watch.counters import means_apart

_BATCH = "Decode batch"
_SETTING = re.compile(
    r"\b(speculative_algorithm|speculative_num_steps|speculative_eagle_topk|speculative_num_draft_tokens)="
)
_VALUE = re.compile(r"['\"]?([\w.-]{1,60})")
_RANK = re.compile(r"\bDP(\d{1,4})\b")
_MODEL = re.compile(r"model_path=['\"]([^'\"]{1,400})['\"]")


class SglangLog:
    """Means by window: how many rounds they are of is not told."""

    def __init__(self) -> None:
        self._history = CountHistory("SGLang", "over the log")
        self._by_rank: dict[str, tuple[int, float]] = {}  # windows, and the sum of their means

    def take(self, line: str) -> bool | None:
        """One line."""
        if "server_args=" in line:
            self._settings(line)
            return False
        if _BATCH not in line:
            return False
        length = number_after(line, "accept len:")
        if "gen throughput" not in line:
            return None  # a terminal wrapped it
        if length is None:
            return False
        rate = number_after(line, "accept rate:")
        window = CountWindow(wall_of(line), length=length, rate=rate if rate is not None and 0 <= rate <= 1 else None)
        self._history.add(window)
        rank = _RANK.search(line, 0, 120)
        if rank is not None:
            n, total = self._by_rank.get(rank[1], (0, 0.0))
            self._by_rank[rank[1]] = n + 1, total + length
        return True

    def _settings(self, line: str) -> None:
        for match in _SETTING.finditer(line):
            value = _VALUE.match(line[match.end() : match.end() + 64])
            if value is not None and value[1] != "None":
                self._history.settings[match[1].removeprefix("speculative_").replace("_", " ")] = value[1]
        model = _MODEL.search(line)
        if model is not None and not self._history.models:
            self._history.models.append(model[1].rstrip("/").rpartition("/")[2])

    def histories(self) -> list[CountHistory]:
        """One, with what data parallel ranks have apart."""
        means = {f"rank {rank}": total / n for rank, (n, total) in self._by_rank.items()}
        if len(means) > 2:
            self._history.notes.append(means_apart(means, "data parallel rank"))
        return [self._history]


KINDS = (LineKind("SGLang's Decode batch", (_BATCH,), SglangLog, ("server_args=",)),)
