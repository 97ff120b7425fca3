"""Who paid and who earned in an early-exit round, and how long one takes on a machine (SpecBound).

Two currencies that must not be mixed: *layer calls* are sequential weight reads (time on one sequence), *cells* are
layer-row units (arithmetic). The method saves calls; it never saves cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClimbCost:
    """One climb: it paid `paid` layer calls and earned `earned`, those that plain decoding spends on a token."""

    paid: int
    earned: int

    @property
    def net(self) -> int:
        """Negative for a draft that was rejected."""
        return self.earned - self.paid


@dataclass(frozen=True, slots=True)
class RoundCost:
    """The costs of a round with `len(exits)` fed drafts of which `kept` were kept."""

    n_layers: int
    exits: tuple[int, ...]
    kept: int

    @property
    def layer_calls(self) -> int:
        """`L + sum e`: every draft climbs to its exit once, the last row to the top."""
        return self.n_layers + sum(self.exits)

    @property
    def cells(self) -> int:
        """Every fed row passes every layer once."""
        return (len(self.exits) + 1) * self.n_layers

    @property
    def saved_calls(self) -> int:
        """`a L - sum e`: what plain decoding would have spent on the kept drafts, less what drafting cost."""
        return self.kept * self.n_layers - sum(self.exits)

    @property
    def wasted_cells(self) -> int:
        return (len(self.exits) - self.kept) * self.n_layers

    def entries(self) -> list[ClimbCost]:
        """Per climb, the terminal one last; their nets add up to `saved_calls`."""
        drafts = [ClimbCost(paid, self.n_layers if row < self.kept else 0) for row, paid in enumerate(self.exits)]
        return [*drafts, ClimbCost(self.n_layers, self.n_layers)]


def head_cost(vocab: int, width: int, layer_params: int) -> float:
    """`c_h`: the weights one head test reads, in layers, when it ends in the full head."""
    return vocab * width / layer_params


@dataclass(frozen=True, slots=True)
class Clock:
    """Measured times of one model on one device: a layer and the final head by rows, a head test with its read."""

    widths: tuple[int, ...]  # rising
    layer_ns: tuple[float, ...]  # of one layer, by width
    final_ns: tuple[float, ...]  # final norm and head, by width
    test_ns: float  # one head test, the read by the host included
    pass_ns: float = 0.0  # a call of consecutive layers, besides them

    def layer(self, width: int) -> float:
        """Nanoseconds of one layer call of `width` rows."""
        return between(self.widths, self.layer_ns, width)

    def round_ns(self, calls: Sequence[int], passes: int, head_tests: int, n_rows: int) -> int:
        """Predicted time of a round: every layer call by its width, the tests, and the final head over all rows."""
        layers = sum(self.layer(width) for width in calls) + passes * self.pass_ns
        return round(layers + head_tests * self.test_ns + between(self.widths, self.final_ns, n_rows))


def between(xs: Sequence[int], ys: Sequence[float], x: int) -> float:
    """Straight lines between the measured points, the last one going on."""
    if len(xs) == 1 or x <= xs[0]:
        return ys[0]
    at = next((k for k in range(1, len(xs)) if x <= xs[k]), len(xs) - 1)
    slope = (ys[at] - ys[at - 1]) / (xs[at] - xs[at - 1])
    return ys[at - 1] + slope * (x - xs[at - 1])
