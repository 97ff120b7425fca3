"""A saved scrape of an engine's counters (Prometheus' text), or several one after another."""

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.watch.counters import ENGINES, read_counters
from specviz.engines.watch.exposition import MetricSample, read_samples
from specviz.errors import SpecvizError
from specviz.events import Counted

_MOST = 100_000  # samples of one scrape


class Scrape:
    """Samples until one comes again, which begins the next scrape."""

    def __init__(self) -> None:
        self._scrapes: list[dict[tuple[str, str], MetricSample]] = [{}]

    def take(self, line: str) -> bool | None:
        """One line."""
        if line.lstrip().startswith("#"):
            return False
        try:
            (sample,) = read_samples(line.strip() + "\n", "the line")
        except (SpecvizError, ValueError):
            return False
        key = sample.name, repr(sorted(sample.labels.items()))
        if key in self._scrapes[-1] or len(self._scrapes[-1]) >= _MOST:
            self._scrapes.append({})
        self._scrapes[-1][key] = sample
        return True

    def histories(self) -> list[CountHistory]:
        """One; of a single scrape the totals since the server began."""
        looks: list[Counted] = []
        for samples in self._scrapes:
            try:
                looks.append(read_counters(samples.values(), 0.0, "the text"))
            except SpecvizError:
                continue
        if not looks or not any(look.speculates for look in looks):
            return []
        history = CountHistory(looks[-1].engine, "" if len(looks) == 1 else "between the scrapes", looks[-1].models)
        history.given = looks
        history.windows = [CountWindow(0.0)]
        return [history]


KINDS = (LineKind("a scrape of counters", tuple(kind.prefix for kind in ENGINES), Scrape),)
