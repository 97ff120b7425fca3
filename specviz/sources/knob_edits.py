"""Knobs between a person and the core: chosen, sent, acknowledged or refused. One table for both front-ends."""

from collections.abc import Collection, Mapping
from typing import Any

from specviz.knobs import KnobSpec


class KnobEdits:
    """What was chosen and not sent (`staged`), what was sent and not yet confirmed (`sent`).

    What no round took before a run ended is staged for the run after it.
    """

    def __init__(self) -> None:
        self.staged: dict[str, Any] = {}
        self.sent: dict[str, Any] = {}
        self._ids: dict[int, str] = {}
        self._before: list[tuple[str, Any]] = []  # name and what was staged before, newest last

    def wanted(self, name: str, now: Any) -> Any:
        """The value a knob is on its way to: what is staged, else what was sent, else the one in force."""
        return self.staged.get(name, self.sent.get(name, now))

    def stage(self, spec: KnobSpec, value: Any, now: Any) -> None:
        """Choose a value; choosing the one in force, or the one sent, takes the knob off the table. Raises KnobError.

        A choice that changes nothing (an arrow at the end of the range) is no step for `undo`.
        """
        checked, before = spec.check(value), self.staged.get(spec.name)
        if checked == self.sent.get(spec.name, now):
            self.staged.pop(spec.name, None)
        else:
            self.staged[spec.name] = checked
        if self.staged.get(spec.name) != before:
            self._before.append((spec.name, before))

    def undo(self) -> bool:
        """Take the last choice back."""
        if not self._before:
            return False
        name, value = self._before.pop()
        if value is None:
            self.staged.pop(name, None)
        else:
            self.staged[name] = value
        return True

    def take(self) -> dict[str, Any]:
        """Everything staged, which leaves the table."""
        staged, self.staged, self._before = self.staged, {}, []
        return staged

    def was_sent(self, id: int, name: str, value: Any) -> None:
        """Remember until the core answers."""
        self.sent = {**self.sent, name: value}
        self._ids[id] = name

    def wait(self, values: Mapping[str, Any]) -> None:
        """Stage these for the next run."""
        self.staged = {**self.staged, **values}

    def run_ended(self) -> None:
        """What was sent and came too late waits for the next run, unless another value was chosen since."""
        self.staged, self.sent = {**self.sent, **self.staged}, {}

    def left_out(self, known: Collection[str]) -> list[str]:
        """Drop what a run with these knobs has not; which that were."""
        gone = [name for name in self.staged if name not in known]
        self.staged = {name: value for name, value in self.staged.items() if name in known}
        self._before = [step for step in self._before if step[0] in known]
        return gone

    def acknowledged(self, name: str) -> None:
        self.sent = {key: value for key, value in self.sent.items() if key != name}

    def refused(self, id: object) -> None:
        name = self._ids.pop(id, None) if isinstance(id, int) else None
        if name is not None:
            self.acknowledged(name)
