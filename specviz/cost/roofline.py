"""What a pass must take at least on this machine, and where the rest of a round's time goes.

A pass reads every weight of its layers and head once, and the keys and values before it; it multiplies every row with
every weight. Whichever of the two takes longer at the measured rates is its *bound*: `max(bytes / bandwidth, 2 x
weights x rows / rate)`. One row of a small model is far on the side of the bandwidth, which is why more rows are nearly
free there, and why drafting pays at all. Bound / measured is the share reached; what lies between is put down to the
part of the round it was measured in. The embedding table is not read, a row of it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.events import Calibration, MachineRates, PassWork

GIGA = 1e9
PARTS = {
    "target": "the target's pass beside its weights",
    "layers": "layers: norms, attention and calls beside the weights",
    "head": "head beside its weights",
    "host": "rows, masks and embedding, in Python",
    "draft": "drafting beside its weights",
    "verdict": "judging and drawing tokens",
    "commit": "commit: caches follow the text",
    "other": "the round's own bookkeeping",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """The least that some passes take. `by`: which of the two rates binds."""

    n_bytes: int
    n_flops: int
    by_bytes_s: float
    by_flops_s: float

    @property
    def seconds(self) -> float:
        return max(self.by_bytes_s, self.by_flops_s)

    @property
    def by(self) -> str:
        return "bandwidth" if self.by_bytes_s >= self.by_flops_s else "arithmetic"


@dataclass(frozen=True, slots=True)
class RoofPart:
    """A part of a round. `bound_s`: 0 where nothing has to be read for it; `measured_s`: on average in a round."""

    name: str
    bound_s: float
    measured_s: float

    @property
    def residual_s(self) -> float:
        """What it takes beyond the bound; below 0 where a cache held what should have been read."""
        return self.measured_s - self.bound_s


@dataclass(frozen=True, slots=True)
class Roofline:
    """A round against its bound. `target`, `draft`: of the target's pass and of all draft forwards of a round."""

    rates: MachineRates
    rows: float
    target: Bound
    draft: Bound | None
    parts: tuple[RoofPart, ...]
    target_bits: float
    draft_bits: float | None = None

    @property
    def bound_s(self) -> float:
        return sum(part.bound_s for part in self.parts)

    @property
    def measured_s(self) -> float:
        return sum(part.measured_s for part in self.parts)

    @property
    def share(self) -> float:
        """Bound / measured: 1 is as fast as this machine can."""
        return self.bound_s / self.measured_s if self.measured_s else 0.0

    @property
    def target_share(self) -> float | None:
        """The same of the target's pass alone."""
        measured = sum(part.measured_s for part in self.parts if part.name in ("target", "layers", "head", "host"))
        return self.target.seconds / measured if measured else None

    @property
    def residuals(self) -> tuple[RoofPart, ...]:
        """Parts by what they take beyond the bound, the dearest first."""
        return tuple(sorted(self.parts, key=lambda part: -part.residual_s))


def bound(work: PassWork, rates: MachineRates, rows: float = 1, context: float = 0, calls: float = 1) -> Bound:
    """The least of `calls` passes of `rows` rows each behind `context` cached tokens."""
    n_bytes = calls * (work.layer_bytes + work.head_bytes + context * work.cache_bytes)
    n_flops = calls * rows * (work.layer_flops + work.head_flops + context * work.cache_flops)
    return Bound(
        round(n_bytes), round(n_flops), n_bytes / (rates.bandwidth_gbs * GIGA), n_flops / (rates.gflops * GIGA)
    )


def of_round(
    found: Calibration,
    stage_ms: dict[str, float],
    rows: float,
    context: float,
    draft_calls: float = 0.0,
) -> Roofline | None:
    """A round of a run. `stage_ms`: its mean stages; `rows`: of the target's pass; None where nothing was measured.

    The target's stage is split as the passes of the calibration were: into layers, head and host.
    """
    if found.target_work is None or found.rates is None or not stage_ms.get("target"):
        return None
    work, rates = found.target_work, found.rates
    target = bound(work, rates, rows, context)
    draft = bound(found.draft_work, rates, 1, context, draft_calls) if found.draft_work and draft_calls else None
    parts = [*_target_parts(found, target, stage_ms["target"] / 1e3)]
    for name in ("draft", "verdict", "commit", "other"):
        seconds = stage_ms.get(name, 0.0) / 1e3
        least = draft.seconds if draft is not None and name == "draft" else 0.0
        if seconds or least:
            parts.append(RoofPart(name, least, seconds))
    bits = found.draft_work.bits if draft is not None and found.draft_work else None
    return Roofline(rates, rows, target, draft, tuple(parts), work.bits, bits)


def of_pass(found: Calibration, widths: Sequence[int] | None = None) -> list[tuple[int, Bound, float]]:
    """Every width whose pass was timed: rows, its bound, seconds measured."""
    if found.target_work is None or found.rates is None:
        return []
    return [
        (width, bound(found.target_work, found.rates, width, CONTEXT), ns / 1e9)
        for width, ns in zip(found.widths, found.target_ns, strict=False)
        if widths is None or width in widths
    ]


CONTEXT = 64  # tokens before the passes of a calibration


def _target_parts(found: Calibration, target: Bound, seconds: float) -> list[RoofPart]:
    """Layers, head and host, each by its share of a timed pass; one part where passes were not split."""
    work, split = found.target_work, found.target_parts
    if work is None or split is None:
        return [RoofPart("target", target.seconds, seconds)]
    total = split.layers + split.head + split.host or 1
    head = work.head_bytes / (work.layer_bytes + work.head_bytes or 1)
    return [
        RoofPart("layers", target.seconds * (1 - head), seconds * split.layers / total),
        RoofPart("head", target.seconds * head, seconds * split.head / total),
        RoofPart("host", 0.0, seconds * split.host / total),
    ]
