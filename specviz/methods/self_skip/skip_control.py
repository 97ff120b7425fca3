"""Draft&Verify's threshold controller (specbound.md 14.5). A function of finished rounds: part of a query's state."""

from dataclasses import dataclass

KEEP, WANTED, STEP, INERTIA = 0.5, 0.9, 0.01, 0.9


@dataclass(frozen=True, slots=True)
class Control:
    """`threshold`: drafting ends after a draft below it. `matched`: a running share of drafts kept, 0 at the start."""

    threshold: float
    matched: float = 0.0

    def after(self, accepted: int, drafted: int, most: int) -> "Control":
        """The controller after a round; a round without drafts says nothing.

        Where enough is kept, the threshold falls, except when all of `most` were drafted: it did not stop anything.
        """
        if drafted == 0:
            return self
        matched = KEEP * self.matched + (1 - KEEP) * accepted / drafted
        aim = self.threshold
        if matched < WANTED:
            aim += STEP
        elif drafted < most:
            aim -= STEP
        return Control(INERTIA * self.threshold + (1 - INERTIA) * aim, matched)
