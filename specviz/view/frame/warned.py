"""What the core warned of: whole sentences with the place they belong to, for a list that a person opens."""

from dataclasses import dataclass

from specviz.events import Warn
from specviz.runlog.fold import Run
from specviz.text import running


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning. `index`: its round over the whole run, None where no round on record has that number."""

    index: int | None
    place: str  # "r12", "q1 r3"; "" before the first round
    text: str  # "clamped knob: gamma 99 is above ..", escaped, of any length


def warned(run: Run) -> tuple[Warned, ...]:
    """Every warning of a run, in order."""
    several = len(run.queries) > 1
    return tuple(_warned(run, event, several) for event in run.warnings)


def _warned(run: Run, event: Warn, several: bool) -> Warned:
    index = run.find(event.q, event.r)
    place = "" if index is None else f"q{event.q} r{event.r}" if several else f"r{event.r}"
    return Warned(index, place, warning_text(event))


def warning_text(event: Warn) -> str:
    """`clamped knob: gamma 99 is above 64`. A trace is written by whoever wrote it, so its words are escaped."""
    return running(f"{event.code.replace('_', ' ')}: {event.message}")
