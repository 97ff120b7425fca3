"""A/B: one prompt and seed decoded under two settings by a core whose models are loaded, one after the other.

`two_settings(core)` says what can be tried; `ABRuns` has both decoded at full speed and holds on to the runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.runlog.fold import Run
from specviz.sources.live_run import LiveRun
from specviz.view.frame.knob_bar import label as knob_label
from specviz.view.words.numbers import knob as shown

STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ABSettings:
    """The same prompt and seed twice. `labels`: what each is set to: `γ 4`."""

    starts: tuple[Start, Start]
    labels: tuple[str, str]

    @property
    def words(self) -> str:
        """The two settings in words, as the choice is labelled."""
        return f"A/B: the same prompt with {self.labels[0]} and with {self.labels[1]}"


def two_settings(core: LiveRun, other: Mapping[str, Any] | None = None) -> ABSettings | None:
    """What the newest run can be tried with: what it began with against what stands now, or what stands now against
    `other` values; None where that is the same, or no run has begun.
    """
    start, header = core.started, core.run.header
    if start is None or header is None or core.preparing or not core.live:
        return None
    was: dict[str, Any] = {}
    now: dict[str, Any] = {}
    for change in core.run.changes:
        was.setdefault(change.name, change.old)
        now[change.name] = change.new
    stands = start.knobs
    if other is not None:
        stands = core.standing
        known = header.knobs | header.sampling | dict(core.run.knobs)
        was, now = {name: known.get(name) for name in other}, dict(other)
    moved = {name: value for name, value in now.items() if value != was[name]}
    if not moved:
        return None
    labels = {spec.name: knob_label(spec) for spec in header.knob_specs}

    def label(values: Mapping[str, Any]) -> str:
        return ", ".join(f"{labels.get(name, name)} {shown(values[name])}" for name in moved)

    first = replace(start, paused=False, knobs=dict(stands))
    return ABSettings((first, replace(first, knobs={**stands, **moved})), (label(was), label(moved)))


class ABRuns:
    """Both settings under way. `runs`: of those that have begun, in order; `problem`: why no more come.

    Raises SpecvizError when the first cannot be started. For the thread that reads the core.
    """

    def __init__(self, core: LiveRun, asked: ABSettings) -> None:
        self.core, self.asked = core, asked
        self.runs: list[Run] = []
        self.n_done = 0
        self.problem: str | None = None
        self._was_paced = core.paced
        self._begin()

    @property
    def running(self) -> bool:
        """Whether more is to come."""
        return self.problem is None and self.n_done < len(self.asked.starts)

    @property
    def most(self) -> int | None:
        """How many tokens each may write, where the first run says so."""
        header = self.runs[0].header if self.runs else None
        limit = (header.sampling | header.knobs).get("max_new_tokens") if header is not None else None
        return limit if isinstance(limit, int) else None

    def _begin(self) -> None:
        self._generation = self.core.generation
        self.core.start(self.asked.starts[self.n_done], paced=False)

    def look(self) -> None:
        """See how far it is; begin the second when the first is at its end."""
        if self.running and not self._goes_on():
            self._as_before()

    def _goes_on(self) -> bool:
        try:
            if self._ended():
                self._keep()
                self.n_done += 1
                if self.running:
                    self._begin()
        except SpecvizError as error:
            self.problem = str(error)
        return self.running

    def _keep(self) -> None:
        """A run is at its end, and the next has not begun: who keeps runs by name does that now."""

    def cancel(self) -> None:
        """End it; what was done of it stays."""
        if not self.running:
            return
        self.problem = STOPPED
        if self.core.live and (self.core.running or self.core.preparing):
            self.core.stop()
        self._as_before()

    def _as_before(self) -> None:
        """The pace is a person's own again."""
        if self.core.live and self.core.paced != self._was_paced:
            self.core.switch_pace()

    def _ended(self) -> bool:
        """Whether the current run has ended. Raises SpecvizError, with the reason, where it never will."""
        core, start = self.core, self.asked.starts[self.n_done]
        if core.failed is not None:
            raise SpecvizError(core.failed)
        if core.last_start is not start:
            raise SpecvizError("another run was started meanwhile")
        if core.started is not start or core.preparing:
            return False
        if core.generation == self._generation:  # no run came of it
            raise SpecvizError(core.refusals[-1] if core.refusals else "the core took no run")
        if len(self.runs) == self.n_done:
            self.runs.append(core.run)
        end = core.run.end
        if end is not None and end.reason != "done":
            raise SpecvizError(STOPPED if end.reason == STOPPED else end.message or f"the run ended: {end.reason}")
        return end is not None and not core.running
