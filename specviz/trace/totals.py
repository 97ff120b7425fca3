"""Sums over a run that stand in its `end` record, so that a reader can tell whether records are missing."""

from dataclasses import asdict, dataclass

from specviz.events import Commit, Event, Prefill, RoundEnd


@dataclass(slots=True)
class Totals:
    """`n_chars` counts the characters of the text: the texts of all commits, put together."""

    n_queries: int = 0
    n_rounds: int = 0
    n_drafted: int = 0
    n_tested: int = 0
    n_accepted: int = 0
    n_emitted: int = 0
    n_chars: int = 0

    def take(self, event: Event) -> None:
        """Adds one record."""
        if isinstance(event, RoundEnd):
            self.n_rounds += 1
            for name in ("n_drafted", "n_tested", "n_accepted", "n_emitted"):
                setattr(self, name, getattr(self, name) + getattr(event, name))
        elif isinstance(event, Commit):
            self.n_chars += sum(map(len, event.texts))
        elif isinstance(event, Prefill):
            self.n_queries += 1

    def as_dict(self) -> dict[str, int]:
        """By name, ready for `end.totals`."""
        return asdict(self)
