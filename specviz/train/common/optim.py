"""What part of its budget a run has spent, and what follows from that: learning rate, window length, batch.

Progress is a share between 0 and 1, of seconds or of steps. Everything else is a function of it, so a run that was
interrupted, slowed by neighbours or given three minutes ends fully decayed all the same.
"""

from dataclasses import dataclass

WARM_UP = 0.01


@dataclass(frozen=True, slots=True)
class Stage:
    """Up to `until` (a share of the run): windows of `length`, `rows` at a time, `n_parts` of them to a step."""

    until: float
    length: int
    rows: int
    n_parts: int

    @property
    def n_tokens(self) -> int:
        """Tokens that one step predicts."""
        return self.length * self.rows * self.n_parts


FULL = (Stage(0.30, 256, 8, 1), Stage(0.68, 256, 8, 2), Stage(0.85, 512, 4, 2), Stage(1.0, 1_024, 2, 2))
"""Short windows while local patterns are learnt; only the end pays for long ones, up to the full context."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in seconds of training or in steps; exactly one of them is given."""

    seconds: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        """Refuse a budget with no end or with two."""
        assert (self.seconds is None) != (self.steps is None), f"one limit: {self.seconds=} {self.steps=}"

    def progress(self, seconds: float, steps: int) -> float:
        """The share spent, at most 1."""
        spent = steps / self.steps if self.steps is not None else seconds / (self.seconds or 1.0)
        return min(1.0, spent)


def learning_rate_share(progress: float) -> float:
    """Short linear warm-up, then linear decay: 1 at the end of the warm-up, 0 at the end of the run."""
    if progress < WARM_UP:
        return max(progress / WARM_UP, 0.05)
    return max(0.0, (1.0 - progress) / (1.0 - WARM_UP))


def stage_at(stages: tuple[Stage, ...], progress: float) -> Stage:
    """The stage that holds at `progress`."""
    return next((stage for stage in stages if progress < stage.until), stages[-1])
