"""The lines of a `specviz run --stream`: one a query as it ends, one a domain when all is over.

They are what the command was asked for, so they go to standard output; with `--json` they are narration.
"""

from collections.abc import Sequence
from typing import TextIO

from specviz import events
from specviz.cli.run.stream_result import QueryRow, StreamResult, seconds
from specviz.events import Adapt, AdaptArm, Event
from specviz.metrics import Estimate
from specviz.text import clip, pad, shown, width
from specviz.view.words import numbers

_PLAIN = (("q", 3), ("domain", 12), ("tokens", 6), ("rounds", 6), ("len", 6), ("kept", 10), ("tok/s", 12))
_LEARNING = (
    ("q", 3), ("domain", 10), ("len", 5), ("signal", 6), ("action", 6), ("why", 17), ("gain", 11), ("cost", 6),
    ("explored", 15), ("measured", 9), ("weights", 8),
)  # fmt: skip
_DOMAINS = (("domain", 14), ("queries", 7), ("tokens", 6), ("len", 11), ("kept", 10), ("tok/s", 12), ("actions", 24))
Columns = Sequence[tuple[str, int]]


class StreamLines:
    """A sink behind a `StreamResult`; `finish` adds the domains. `verbose`: also what was thought of every action."""

    def __init__(self, result: StreamResult, out: TextIO, verbose: bool = False) -> None:
        self._result, self._out, self._verbose = result, out, verbose
        self._told = 0
        self._columns: Columns | None = None

    def __call__(self, event: Event) -> None:
        """Tell a query once all is known of it."""
        waiting = self._result.rows[max(0, self._told - self._result.dropped) :]
        if not waiting:
            return
        over = isinstance(event, Adapt | events.End) or (isinstance(event, events.Prefill) and len(waiting) > 1)
        if over or (waiting[0].ended and isinstance(event, events.RoundEnd) and not self._result.learns):
            self._tell(waiting[0])

    def _tell(self, row: QueryRow) -> None:
        self._told += 1
        if self._columns is None:
            self._columns = _LEARNING if self._result.learns else _PLAIN
            self._line(self._columns, [name for name, _ in self._columns])
        self._line(self._columns, learning(row) if self._result.learns else plain(row))
        for arm in row.adapt.arms if self._verbose and row.adapt is not None else ():
            self._say(f"      {thought(arm)}")

    def _line(self, columns: Columns, cells: Sequence[str]) -> None:
        self._say("  ".join(_cell(text, size) for text, (_, size) in zip(cells, columns, strict=True)).rstrip())

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def finish(self) -> None:
        """The domains."""
        rows = self._result.domain_lines()
        if not rows:
            return
        self._say("")
        names = [name for name, _ in _DOMAINS]
        self._line(_DOMAINS, names if self._result.decided else [*names[:-1], ""])
        for row in rows:
            self._line(_DOMAINS, [shown(row[0]), *row[1:]])


def _cell(text: str, size: int) -> str:
    """The text in its column; one that is too long pushes the rest along, a domain is cut."""
    return pad(text, size) if width(text) <= size else text


def _domain(row: QueryRow, size: int) -> str:
    return clip(shown(row.domain), size)


def plain(row: QueryRow) -> list[str]:
    """A query without a bandit."""
    metrics = row.metrics
    return [
        str(row.q), _domain(row, 12), str(row.n_tokens), str(row.n_rounds),
        _value(metrics.mean_acceptance_length), _value(metrics.draft_acceptance_rate),
        _value(metrics.tokens_per_second),
    ]  # fmt: skip


def learning(row: QueryRow) -> list[str]:
    """A query and what was learnt from it."""
    found, length = row.adapt, _value(row.metrics.mean_acceptance_length)
    if found is None:
        return [str(row.q), _domain(row, 10), length, "", "", "not over", *[""] * 5]
    gain = "" if found.gain is None else f"{signed(found.gain)} ±{numbers.number(found.se)}"
    cost = found.update_s if found.update_s is not None else found.cost
    return [
        str(row.q), _domain(row, 10), length, numbers.number(found.s), found.action, why(found), gain,
        "" if cost is None else seconds(cost), f"{seconds(found.spent)}/{seconds(found.budget)}",
        "" if found.measured_gain is None else signed(found.measured_gain), weights(found),
    ]  # fmt: skip


def why(found: Adapt) -> str:
    """The reason, and of a skip what it was for."""
    if found.reset is not None:
        return f"{'guard: ' if found.reason == 'guard' else ''}to {found.reset}"
    if found.frozen:
        return "frozen"
    if found.reason != "skip":
        tried = next((arm.n for arm in found.arms if arm.action == found.action), 0)
        return f"{found.reason}, try {tried + 1}" if found.reason == "explore" else found.reason
    if not found.arms or found.n_rejections < 2:
        return "too little seen"
    return "no budget to try" if any(arm.ucb is None or arm.ucb > 0 for arm in found.arms) else "would not pay"


def weights(found: Adapt) -> str:
    """What the next query drafts with."""
    if found.reverted:
        return f"v{found.version_after} taken back"
    moved = found.version_after != found.version_before
    return f"v{found.version_before}→v{found.version_after}" if moved else f"v{found.version_after}"


def thought(arm: AdaptArm) -> str:
    """One action, as the bandit saw it."""
    most = "∞" if arm.ucb is None else seconds(arm.ucb)
    return (
        f"{arm.action}  gain {signed(arm.gain)} ±{numbers.number(arm.se)} tokens a round, saves {seconds(arm.save)}, "
        f"costs {seconds(arm.cost)}: {seconds(arm.lcb)} .. {most} · taken {arm.n} times"
    )


def signed(value: float) -> str:
    """`+.12`, `-.03`, `0`."""
    text = numbers.number(abs(value))
    return text if text == "0" else f"{'-' if value < 0 else '+'}{text}"


def _value(estimate: Estimate | None) -> str:
    return numbers.number(None if estimate is None else estimate.value)
