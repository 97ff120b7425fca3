"""The first lines (what runs, its state, the numbers of the run so far) and the last one: keys by importance."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rich.style import Style
from rich.text import Text
from textual import events
from textual.reactive import reactive
from textual.widget import Widget

from specviz.numerals import UNKNOWN
from specviz.runlog.run import Mark
from specviz.view.frame.frame import Frame, RunInfo
from specviz.view.frame.parts import Metric
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.frame_widget import FrameWidget, Pressed
from specviz_tui.common.key_tables import screen_keys, screens
from specviz_tui.common.keymap import KNOB_KEYS, PAIRS, Key
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, fitted, joined, spread
from specviz_tui.common.pane import all_panes
from specviz_tui.common.remapped import remapped

NARROW = 100
NAMED = 140  # cells from which on tabs are named that the run has nothing for
LOST = ("error", "core_lost", "silent", "lag")
MOVING = ("live", "paused", "replay", "lag")
WRITING = (  # caption, word and action of the footer while a message is written
    ("enter", "says it", "focused.submit"),
    ("esc", "back to the keys", "focused.leave"),
    ("↑ ↓", "earlier messages", "focused.recall(-1)"),
    ("ctrl+c", "stops the answer", "interrupt"),
    ("ctrl+q", "quits", "quit"),
)
ALWAYS = ("help", "quit")  # in the footer of every width
MOVING_STATES = ("live", "replay", "lag")  # in which space pauses


class StatusLine(FrameWidget):
    """State, models, method, verifier with its badge, sampling, recording, overhead. Narrow: state and numbers."""

    EXPLAIN = "status"
    recording: reactive[str] = reactive("")
    chosen: reactive[str] = reactive("tree")

    def part(self, frame: Frame) -> object:
        phase = frame.phase_text if self.size.width < NARROW else ""  # on a wide screen the tree says it
        return frame.run, frame.state, frame.round, phase, frame.metrics, frame.queue, frame.n_warnings, frame.unfit

    def render(self) -> Text:
        """One line, the least important parts left out when it is narrow."""
        if self.frame is None:
            return Text(" specviz", style=STRONG)
        return self._narrow(self.frame) if self.size.width < NARROW else self._wide(self.frame)

    def _wide(self, frame: Frame) -> Text:
        run = frame.run
        if run.run == UNKNOWN:  # nothing has begun
            return joined([_name(), self._state(frame)], self.size.width, "   ")
        seed = Text(f"seed {run.seed}" if run.seed is not None else "")
        recording, probe = Text(self.recording, style=STRONG), Text(f"overhead {run.overhead}", style=FAINT)
        again = " · space: again" if frame.state.name == "ended" else ""
        parts = [
            (0, _name()),
            (1, self._state(frame).append(again)),
            (1, badge(run, self.painter)),
            (6, Text(run.models)),
            (2, _method(run)),
            (1, self._warnings(frame)),
            (3, Text(run.sampling)),
            (5, seed),
            (5, Text(run.exact.partition(" (")[0], style=FAINT)),
            (4, recording),
            (8, probe),
        ]
        if frame.state.meanwhile:  # what follows the state is of the recording
            parts = [(rank, part if k < 2 else faint(part)) for k, (rank, part) in enumerate(parts)]
        return fitted(parts, self.size.width)

    def _narrow(self, frame: Frame) -> Text:
        place = Text(f"r{frame.round}" if frame.round else "")
        phase = Text(frame.phase_text.removeprefix("phase "), style=FAINT)
        numbers = [(4 + k, metric(m)) for k, m in enumerate(frame.metrics[:3]) if m.value is not None]
        parts = [
            (3, _name()),
            (0, self._state(frame)),
            (0, badge(frame.run, self.painter)),
            (1, place),
            (1, phase),
            *numbers,
        ]
        parts += [
            (8, Text(self.recording)),
            (2, tabs(self.chosen, frame.unfit, frozenset(id for *_, id in screens()))),
            (1, self._warnings(frame, short=True)),
        ]
        return fitted(parts, self.size.width, " ")

    def _warnings(self, frame: Frame, short: bool = False) -> Text:
        """`⚠ 2 warnings: w`, as long as there are any; the text is a key away on every size of screen."""
        n = frame.n_warnings
        words = f"⚠{n} w" if short else f"⚠ {n} warning{'s' * (n != 1)}: w"
        return Text(words if n else "", style=self.painter.tint("recovered") + STRONG + does("warnings"))

    def _state(self, frame: Frame) -> Text:
        mark: Mark = "rejected" if frame.state.name in LOST else "accepted" if frame.state.name == "live" else "root"
        return Text(f"{frame.state.glyph} {frame.state.text}", style=self.painter.tint(mark) + STRONG)


class NumberLine(FrameWidget):
    """The metrics of the run so far, and on the right what waits or was said last."""

    EXPLAIN = "numbers"
    chosen: reactive[str] = reactive("tree")

    def part(self, frame: Frame) -> object:
        return frame.metrics, frame.queue, frame.notices, frame.state, frame.unfit

    def render(self) -> Text:
        if self.frame is None:
            return Text("")
        frame = self.frame
        queue = frame.queue.text if frame.state.name in MOVING else ""
        right = Text(queue or frame.state.detail, style=FAINT)
        bare = frame.unfit - {self.chosen} if self.size.width < NAMED else frozenset[str]()
        left = Text(" ").append_text(tabs(self.chosen, frame.unfit, bare)).append("   ")
        room = self.size.width - left.cell_len - 2
        known = [metric(m) for m in frame.metrics if m.value is not None]
        known = [faint(part) for part in known] if frame.state.meanwhile else known
        left.append_text(joined(known, room - (right.cell_len + 2 if right else 0)))
        notice = Text(" ".join(frame.notices[-1:]), style=FAINT)
        free = self.size.width - left.cell_len - 3
        if not right and notice.cell_len <= free:
            right = notice
        return spread(left, right, self.size.width - 1)


def metric(value: Metric) -> Text:
    """`tok/round 3.42 ±.04`."""
    line = Text(f"{value.label} ", style=FAINT)
    return line.append(value.text, style=STRONG)


def faint(part: Text) -> Text:
    """Said of something else than the run that is waited for."""
    return Text(part.plain, style=FAINT)


def _name() -> Text:
    return Text(" specviz", style=STRONG)


def _method(run: RunInfo) -> Text:
    words = [w for w in (run.method, run.shape, run.verifier) if w]
    text = Text(" · ".join(words))
    return text.append(f" ({run.badge.partition(':')[0]})", style=FAINT) if run.tone == "kept" else text


def badge(run: RunInfo, painter: Painter) -> Text:
    """What is not lossless says so, in red, on every screen: `NOT LOSSLESS · TV 1/9 on the toy`; what is not known,
    without red."""
    red = painter.tint("rejected") + STRONG + CURSOR if run.tone == "broken" else FAINT
    return Text("" if run.tone == "kept" else f" {run.badge} ", style=red)


def tabs(chosen: str, unfit: frozenset[str] = frozenset(), bare: frozenset[str] = frozenset()) -> Text:
    """`[1 Tree] 5 HSD`, digits alone for those in `bare`; faint what this run has nothing for. A click goes there."""
    line = Text(no_wrap=True)
    for key, name, id in screens():
        caption = key if id in bare else f"{key} {name}"
        look = STRONG if id == chosen else FAINT if id in unfit else PLAIN
        style = look + does(f"go_to('{id}')")
        line.append(f"[{caption}]" if id == chosen else f" {caption} ", style=style)
    return line


def does(name: str) -> Style:
    """Nothing to see: what a click on the word does."""
    return Style(meta={"action": name})


@dataclass(frozen=True, slots=True)
class KeysNow:
    """What the keys of the footer would do at this moment."""

    moving: bool = False  # space pauses
    ended: bool = False  # the end is on screen: playing begins again
    pinned: bool = False  # the why panel: enter lets it go
    pace: str = ""  # what the key of the pace would bring; "" where there is no core
    live: bool = False  # a core listens: knobs can be moved
    running: bool = False  # and decodes
    held: bool = False
    following: bool = False  # the newest round is on screen
    rounds: bool = True  # there is something to step through
    rejections: bool = True  # and to jump between
    speaks: bool = False  # a message can be written
    writing: bool = False  # the message line has the focus: keys are typed into it
    on_knobs: bool = False  # the knobs have the focus: their keys go first

    @classmethod
    def of(cls, frame: Frame, feed: RunFeed, *, pinned: bool, writing: bool, on_knobs: bool) -> "KeysNow":
        """At a frame of a feed."""
        tested = next((m.value for m in frame.metrics if m.name == "test_acceptance_rate"), None)
        return cls(
            frame.state.name in MOVING_STATES,
            frame.state.name == "ended",
            pinned,
            feed.other_pace,
            feed.live,
            feed.running,
            feed.held,
            frame.following,
            bool(frame.timeline.points),
            bool(frame.timeline.points) and (tested is None or tested < 1),
            feed.speaks,
            writing,
            on_knobs,
        )


class KeyBar(Widget):
    """One line; a click on an entry is the key. What can do nothing now is left out."""

    chosen: reactive[str] = reactive("tree")
    now: reactive[KeysNow] = reactive(KeysNow())

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._spots: list[tuple[int, int, str]] = []
        self.own: Mapping[str, str] = {}  # keys of one's own

    def render(self) -> Text:
        """`space play   , . step   [ ] round`; while a message is written `enter says it   esc keys`."""
        if self.now.writing:
            return self._while_writing()
        panes = [pane.KEYS for pane in all_panes() if pane.PANEL.id == self.chosen]
        tables = [KNOB_KEYS] if self.now.on_knobs else panes
        own = {key.keys: key for table in tables for key in remapped(table, self.own) if key.short}
        narrow = self.size.width < NARROW
        always = remapped(screen_keys(), self.own)
        ranked = sorted((key for key in always if key.rank), key=lambda key: key.rank)
        shown = (own.get(key.keys) or self._now(key) for key in ranked)
        caps_of, gap = {other.id: other.caps for other in always}, "  " if narrow else "   "
        entries = [(key, _entry(key, narrow, caps_of)) for key in shown if key.short and (key.narrow or not narrow)]
        room = self.size.width - 1 - sum(text.cell_len + len(gap) for key, text in entries if key.id in ALWAYS)
        taken: list[tuple[Text, str]] = []
        for key, text in entries:
            if key.id not in ALWAYS and (room := room - text.cell_len - len(gap)) < -len(gap):
                continue  # the least important ones, which come last, have no room any more
            taken.append((text, key.action if key.keys not in own else f"focused.{key.action}"))
        return self._laid(taken, gap)

    def _laid(self, entries: Iterable[tuple[Text, str]], gap: str) -> Text:
        line, self._spots = Text(" ", no_wrap=True), []
        for text, action in entries:
            self._spots.append((line.cell_len, line.cell_len + text.cell_len, action))
            line.append_text(text).append(gap)
        return line

    def _while_writing(self) -> Text:
        able = [entry for entry in WRITING if self.now.running or entry[2] != "interrupt"]
        texts = [Text(f"{caps} ", style=STRONG).append(short, style=FAINT) for caps, short, _ in able]
        return self._laid(zip(texts, (action for *_, action in able), strict=True), "   ")

    def _now(self, key: Key) -> Key:
        """The key with the word for what it does now; without a word where it can do nothing."""
        now, short = self.now, key.short
        match key.id:
            case "pace":
                short = now.pace
            case "play" if now.ended:
                short = "again"
            case "play" if now.moving:
                short = "stay" if now.running and now.following else "pause"
            case "last" if not now.running or now.following:
                short = ""
            case "hold":
                short = ("go on" if now.held else short) if now.running else ""
            case "message" if not now.speaks:
                short = ""
            case "knobs" | "two" if not now.live:
                short = ""
            case "why" | "value" if self.chosen != "tree":
                short = ""
            case "why" if now.pinned:
                short = "unpin"
            case "step.previous" | "round.previous" | "why" | "again" | "value" | "find" | "seek" if not now.rounds:
                short = ""
            case "compare" | "bookmark" if not now.rounds:
                short = ""
            case "rejection.previous" if not now.rejections:
                short = ""
        return replace(key, short=short)

    def on_click(self, event: events.Click) -> None:
        for x0, x1, action in self._spots:
            if x0 <= event.x < x1:
                self.post_message(Pressed(action))


def _entry(key: Key, narrow: bool, caps_of: Mapping[str, str]) -> Text:
    """The two directions of a step share one entry, as in `[ ] round`."""
    other = caps_of.get(PAIRS.get(key.id, ""), "")
    caps = f"{key.caps} {other}" if other else key.caps
    return Text(f"{caps.split()[-1] if narrow else caps} ", style=STRONG).append(key.short, style=FAINT)
