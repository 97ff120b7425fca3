"""What there is to judge by: rounds, counts (a history of them, or totals), a pair of folders; any mix of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from specviz.check.findings import PairFinding
from specviz.events import Counted
from specviz.judge.finding import EvidencePlace
from specviz.runlog.fold import Run

if TYPE_CHECKING:
    from specviz.engines.watch.picture import WatchPicture
    from specviz.metrics import ConfidenceBand, Metrics, PlainSpeed, Tally
    from specviz.metrics.draft_confidence import TokenPosition

LEAST_ROUNDS = 8  # below these a run says little
LEAST_TESTS = 12  # of a position that is compared with another

Find = Callable[[int, int], int | None]


@dataclass(frozen=True)
class RoundsCounted:
    """A run and what was counted of it."""

    run: Run
    tally: "Tally"
    metrics: "Metrics"
    find: Find | None = None  # the index of a round of a query; None: the run is asked

    @property
    def speed(self) -> "PlainSpeed | None":
        """The speed-up over plain decoding, as far as it is on record."""
        speed: PlainSpeed | None = self.metrics.over_plain
        return speed

    @property
    def temperature(self) -> float | None:
        """That it ran with; None where it is not told."""
        header = self.run.header
        sampling = {} if header is None else header.sampling
        value = self.run.knobs.get("temperature", sampling.get("temperature"))
        return float(value) if isinstance(value, int | float) else None

    @property
    def truncated(self) -> bool:
        """Whether its setting takes unlikely tokens every chance."""
        header = self.run.header
        settings = {**({} if header is None else header.sampling), **self.run.knobs}
        return bool(settings.get("top_k")) or (settings.get("top_p") or 1.0) < 1.0 or bool(settings.get("min_p"))

    @cached_property
    def confidence(self) -> "tuple[ConfidenceBand, ...]":
        """How likely the draft's tokens were by draft and target."""
        return self.tally.confidence.bands()

    @property
    def shortening_knob(self) -> str:
        """The knob that makes drafts shorter, as people know it: γ, d_max; "" where the method has none."""
        header = self.run.header
        for spec in header.knob_specs if header is not None else ():
            in_use = all(str(self.run.knobs.get(name)) in values for name, values in spec.needs.items())
            if spec.cuts == "depth" and in_use:
                return spec.name if spec.symbol.isascii() else spec.symbol
        return ""

    @property
    def tree_knob(self) -> str:
        """The knob that makes trees smaller: of their nodes, else of the children of each, else of their depth."""
        specs = [] if self.run.header is None else self.run.header.knob_specs
        sized = [spec.name for spec in specs if spec.name == "node_budget" or spec.cuts == "children"]
        return next(iter(sorted(sized, key="node_budget".__ne__)), self.shortening_knob)

    def shorter(self, what: str) -> str:
        """What to try, by the method's own knob; "" where it has none for that."""
        return f"{what} keeps nearly as much for less: lower {self.shortening_knob}." if self.shortening_knob else ""

    def places(self, tokens: "Iterable[TokenPosition]") -> tuple[EvidencePlace, ...]:
        """Where they are in this run; those of rounds that are not on record are left out."""
        several = len(self.run.queries) > 1
        places = []
        for place in tokens:
            index = (self.find or self.run.find)(place.q, place.r)
            if index is not None:
                label = f"q{place.q} r{place.r}" if several else f"r{place.r}"
                places.append(EvidencePlace(index, label, place.node))
        return tuple(places)


@dataclass(frozen=True)
class CountsLooked:
    """What a server or a text counts: a history of it, or totals."""

    picture: "WatchPicture"


@dataclass(frozen=True)
class PairChecked:
    """A target and a draft, held against each other as files (`specviz check`)."""

    findings: Sequence[PairFinding]


@dataclass(frozen=True)
class Evidence:
    """Any mix. Every part is judged by itself, and where detectors take the whole, together."""

    rounds: Sequence[RoundsCounted] = ()
    counts: Sequence[CountsLooked] = ()
    pairs: Sequence[PairChecked] = ()

    @classmethod
    def of_run(cls, run: Run) -> "Evidence":
        """Of a whole run: it is counted here. Nothing where no round has ended."""
        from specviz.metrics import Tally

        tally = Tally()
        tally.follow(run)
        metrics = tally.summary()
        return cls(rounds=(RoundsCounted(run, tally, metrics),) if metrics.n_rounds else ())

    @classmethod
    def of_looks(cls, looks: Sequence[Counted]) -> "Evidence":
        """Of a history of counts, or of totals (one look, or two of which the first is at nothing)."""
        from specviz.engines.watch.picture import picture_of

        return cls.of_picture(picture_of(looks)) if looks else cls()

    @classmethod
    def of_picture(cls, picture: "WatchPicture") -> "Evidence":
        """Of counts that were added up already."""
        return cls(counts=(CountsLooked(picture),))

    def __add__(self, other: "Evidence") -> "Evidence":
        return Evidence((*self.rounds, *other.rounds), (*self.counts, *other.counts), (*self.pairs, *other.pairs))
