"""How many children a slot gets: by rank bucket, trimmed where the draft is sure (specblock.md 5.2).

Width 0 gives up: that slot and all later ones of its block get no siblings and no starts, only the spine's own nodes,
which cost the drafter nothing. Slot 0 of the root's block ignores its bucket and takes the `beam`.
"""

import math
from dataclasses import dataclass
from typing import Literal, Protocol

Reason = Literal["bucket", "beam", "trim", "give_up", "override"]

ROOT_TRIMS = ((0.9, 3), (0.8, 5), (0.6, 8))  # at least so sure -> at most so many
TRIMS = ((0.95, 2), (0.85, 3))


@dataclass(frozen=True, slots=True)
class Preset:
    """A published or tried set of sizes."""

    widths: tuple[int, int, int, int]
    beam: int
    budget: int
    trims: bool


PRESETS: dict[str, Preset] = {
    "paper": Preset((2, 4, 10, 0), 10, 60, False),
    "reference-fast": Preset((2, 4, 6, 4), 10, 90, True),
    "toy": Preset((2, 4, 10, 4), 10, 24, False),
}


class Offered(Protocol):
    """What a width depends on."""

    @property
    def logs(self) -> tuple[float, ...]: ...
    @property
    def bucket(self) -> int: ...
    @property
    def true_bucket(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Width:
    """The effective width of a slot and what decided it; 0 gives up."""

    n: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Widths:
    """A round's rule. `cap`: most children below the root; `fixed`: every slot alike, whatever its bucket."""

    by_bucket: tuple[int, int, int, int]
    beam: int
    cap: int = 20
    trims: bool = False
    fixed: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Children by bucket where nothing is trimmed."""
        return tuple(min(n, self.cap) if self.fixed is None else self.fixed for n in self.by_bucket)

    def of(self, offer: Offered, is_root: bool) -> Width:
        """The width of a slot; the greedy token counts."""
        sure = math.exp(min(0.0, offer.logs[0]))
        if is_root:
            return self._trimmed(Width(self.beam, "beam"), ROOT_TRIMS, sure)
        if self.fixed is not None:
            return self._trimmed(Width(self.fixed, "override"), TRIMS, sure)
        known = offer.true_bucket
        wanted = self.by_bucket[offer.bucket if known is None else known]
        if wanted == 0:
            return Width(0, "give_up")
        width = Width(min(wanted, self.cap), "bucket" if known is None and wanted <= self.cap else "override")
        return self._trimmed(width, TRIMS, sure)

    def _trimmed(self, width: Width, steps: tuple[tuple[float, int], ...], sure: float) -> Width:
        most = next((n for least, n in steps if sure >= least), width.n) if self.trims else width.n
        return width if width.n <= most else Width(most, "trim")
