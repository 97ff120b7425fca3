"""A saved scrape of an engine's counters (Prometheus' text), or several one after another."""

import re

from specviz.engines.texts.history import MOST_WINDOWS, CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.numbers import unstamped
from specviz.engines.watch.counters import ENGINES, read_counters, wanted
from specviz.engines.watch.exposition import MetricSample, read_samples
from specviz.engines.watch.watcher import thinned
from specviz.errors import SpecvizError
from specviz.events import Counted

_MOST = 100_000  # samples of one scrape
_SAMPLE = re.compile(rf"\s*(?:{'|'.join(kind.prefix for kind in ENGINES)})(\w{{1,200}})(?:\{{|\s+[-+.\dNI])")


class Scrape:
    """Samples until one comes again, which begins the next scrape."""

    def __init__(self) -> None:
        self._samples: dict[str, MetricSample] = {}  # of the scrape that is being read, by name and labels
        self._looks: list[Counted] = []

    def take(self, line: str) -> bool | None:
        """One line."""
        line = unstamped(line)
        begin = _SAMPLE.match(line)
        if begin is None:
            return False
        if not wanted(begin[1]):
            return True  # of the scrape too; most of it is of other things
        words = line.strip()
        try:
            (sample,) = read_samples(f"{words}\n", "the line")
        except (SpecvizError, ValueError):
            return False
        key = words[: words.rfind("}") + 1] or sample.name
        if key in self._samples or len(self._samples) >= _MOST:
            self._ended()
        self._samples[key] = sample
        return True

    def _ended(self) -> None:
        """A scrape is whole."""
        samples, self._samples = self._samples, {}
        try:
            self._looks.append(read_counters(samples.values(), 0.0, "the text"))
        except SpecvizError:
            return
        if len(self._looks) > MOST_WINDOWS:
            self._looks = thinned(self._looks)

    def histories(self) -> list[CountHistory]:
        """One; of a single scrape the totals since the server began."""
        self._ended()
        looks = self._looks
        if not looks or not any(look.speculates for look in looks):
            return []
        history = CountHistory(looks[-1].engine, "" if len(looks) == 1 else "between the scrapes", looks[-1].models)
        history.reported = looks
        history.windows = [CountWindow(0.0)]
        return [history]


KINDS = (LineKind("a scrape of counters", tuple(kind.prefix for kind in ENGINES), Scrape),)
