"""How a server speculates: the judged line, positions, curves, what changed; looked at again and again."""

import time
from collections.abc import Sequence
from contextlib import suppress
from operator import itemgetter

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from specviz.engines.watch import ServerWatcher
from specviz.engines.watch.picture import CLOSED, PositionShare, WatchPicture
from specviz.errors import SpecvizError
from specviz.judge import Evidence, judge
from specviz.text import clip, running
from specviz.view.servers import SeenServer, servers_blocks
from specviz_tui.common.blocks import painted
from specviz_tui.common.paint import (
    BARRED,
    FAINT,
    PLAIN,
    STRONG,
    Painter,
    bar,
    next_theme,
    painter_of,
    sentence,
    spread,
)
from specviz_tui.screens.page import PageScreen

_BARS = "▁▂▃▄▅▆▇█"
_LABEL = 15


def whole(picture: WatchPicture, cells: int, painter: Painter) -> list[Text]:
    """Everything, the judged line first."""
    lines = [*sentence(running(picture.headline), cells, STRONG), *_numbers(picture, cells)]
    for finding in judge(Evidence.of_picture(picture)):
        lines += [
            *sentence(finding.headline, cells, painter.tint("recovered") + STRONG),
            *sentence(finding.text, cells),
        ]
    lines.append(Text())
    lines += _acceptance(picture.positions, cells, painter)
    if picture.gauges:
        lines += [*sentence(", ".join(f"{name} {value}" for name, value in picture.gauges), cells, FAINT), Text()]
    for part in picture.engines:
        lines += sentence(running(part.words), cells)
    if picture.settings:
        lines += sentence(running(", ".join(f"{name}: {value}" for name, value in picture.settings)), cells, FAINT)
    lines += _curve("tokens a round", [p.length for p in picture.points], cells, painter, least=1.0)
    lines += _curve("tokens/s", [p.tokens_per_s for p in picture.points], cells, painter)
    lines += [Text(), *_events(picture, cells, painter)]
    for words in (*picture.notes, picture.rule, CLOSED):
        lines += sentence(running(words), cells, FAINT)
    return lines


def _numbers(picture: WatchPicture, cells: int) -> list[Text]:
    lines = []
    if picture.length is not None:
        ends = picture.length_ends
        lines.append(f"{picture.length:.3f}" + (f" [{ends[0]:.2f}, {ends[1]:.2f}]" if ends else "") + " tokens a round")
    if picture.acceptance is not None:
        lines.append(f"{picture.acceptance:.1%} of drafted kept")
    if picture.n_rounds is not None:
        lines.append(f"{picture.n_rounds:,} rounds")
    if picture.tokens_per_s is not None:
        lines.append(f"{picture.tokens_per_s:.1f} tok/s")
    return sentence(" · ".join([*lines, picture.over]), cells)


def _acceptance(positions: Sequence[PositionShare], cells: int, painter: Painter) -> list[Text]:
    if not positions:
        return []
    room = max(8, min(48, cells - 46))
    lines = [Text("Kept by position   95 % interval; last: of the rounds that came so far", style=FAINT)]
    for at in positions:
        line = Text(f"position {at.position + 1}".ljust(_LABEL), style=FAINT, no_wrap=True)
        line.append(bar(at.kept, room), style=painter.tint("accepted"))
        line.append(f" {at.kept:6.1%}", style=STRONG).append(f" [{at.low:.1%}, {at.high:.1%}]".ljust(18), style=PLAIN)
        lines.append(line.append(f"{at.conditional:.0%}" if at.conditional is not None else "—", style=FAINT))
    return [*lines, Text()]


def _curve(
    name: str, values: Sequence[float | None], cells: int, painter: Painter, least: float | None = None
) -> list[Text]:
    """The newest looks as bars, with the ends of the scale."""
    shown = list(values)[-max(8, cells - _LABEL - 16) :]
    known = [value for value in shown if value is not None]
    if not known:
        return []
    low, high = min(known) if least is None else least, max(known)
    span = (high - low) or 1.0
    marks = "".join(" " if v is None else _BARS[min(7, max(0, round((v - low) / span * 7)))] for v in shown)
    line = Text(name.ljust(_LABEL), style=FAINT, no_wrap=True).append(marks, style=painter.tint("bonus") + BARRED)
    return [line.append(f" {low:.4g} to {high:.4g}", style=FAINT)]


def _events(picture: WatchPicture, cells: int, painter: Painter) -> list[Text]:
    """What changed and when, the newest last."""
    events = [(change.wall, change.words, painter.tint("rejected")) for change in picture.changes]
    events += [
        (wall, "the server began again; its counts are added up", painter.tint("recovered"))
        for wall in picture.restarts
    ]
    out = []
    for wall, words, style in sorted(events, key=itemgetter(0))[-6:]:
        clock = time.strftime("%H:%M:%S", time.localtime(wall))
        out.append(Text(clip(f"{clock}  {words}", cells), style=style))
    if not out and picture.positions:
        out.append(Text(f"no change beyond chance in {picture.n_looks} looks", style=FAINT))
    return [*out, Text()]


_HELP = (
    "Numbers are what the server counted since the first look. The interval at each position is Wilson's, that of "
    "tokens a round is the rounds' own. A change is told only where chance and the alikeness of neighbouring looks do "
    "not explain it.\n\nspace holds the screen while looking goes on · ↑ ↓ scroll · t next theme · q leaves. A history "
    "kept with -o opens again: specviz watch FILE."
)


class WatchScreen(Screen[None]):
    """One server, or a history of one (`watchers` empty), or several servers in one table."""

    DEFAULT_CSS = """
    WatchScreen #watch-head, WatchScreen #watch-keys { height: 1; width: 1fr; background: $panel; }
    WatchScreen VerticalScroll { height: 1fr; padding: 1 2 0 2; scrollbar-size: 1 1; }
    WatchScreen #watched { height: auto; width: 1fr; }
    """
    BINDINGS = [
        Binding("q,escape,ctrl+c", "leave", "leave", show=False, priority=True),
        Binding("space,p", "hold", "hold", show=False),
        Binding("t,T", "theme", "theme", show=False),
        Binding("question_mark,f1", "explain", "help", show=False),
    ]

    def __init__(self, picture: WatchPicture | None, watchers: Sequence[ServerWatcher], every: float) -> None:
        super().__init__()
        self._picture, self._watchers, self._every = picture, watchers, every
        self._seen: tuple[SeenServer, ...] = ()
        self._held = False

    def compose(self) -> ComposeResult:
        yield Static("", id="watch-head", markup=False)
        with VerticalScroll():
            yield Static("", id="watched", markup=False)
        yield Static("", id="watch-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._paint())
        self._paint()
        if self._watchers:
            self.set_interval(self._every, self._look)

    def on_resize(self) -> None:
        self._paint()

    @work(thread=True, exclusive=True, group="look")
    def _look(self) -> None:
        for watcher in self._watchers:
            with suppress(SpecvizError):  # it stands in the head, or in the table
                watcher.look()
        self.app.call_from_thread(self._paint)

    def _paint(self) -> None:
        if self._watchers and not self._held:
            self._seen = tuple(SeenServer(w.address, w.picture, w.problem) for w in self._watchers)
            self._picture = self._seen[0].picture
        cells = max(30, self.size.width - 5)
        painter = painter_of(self.app)
        if len(self._seen) > 1:
            body = painted(servers_blocks(self._seen), painter, cells, titles=True)
            head = self._spread(Text(f" {len(self._seen)} servers", style=STRONG))
        elif self._picture is not None:
            body = Text("\n").join(whole(self._picture, cells, painter))
            head = self._head(self._picture)
        else:
            return
        self.query_one("#watched", Static).update(body)
        self.query_one("#watch-head", Static).update(head)
        self.query_one("#watch-keys", Static).update(Text(" space hold · t theme · ? help · q leave", style=FAINT))

    def _head(self, picture: WatchPicture) -> Text:
        models = running(", ".join(picture.models))
        left = Text(f" {picture.engine}", style=STRONG).append(f"  {models}" if models else "", style=FAINT)
        if self._seen and (problem := self._seen[0].problem) is not None:
            left = Text(f" ⚠ {running(problem)}", style=STRONG)
        return self._spread(left)

    def _spread(self, left: Text) -> Text:
        """The head's line: what is watched, and on the right how the looking goes."""
        n_looks = max((seen.picture.n_looks for seen in self._seen if seen.picture is not None), default=0)
        if not self._watchers:
            state = f"history of {self._picture.n_looks if self._picture is not None else 0} looks"
        elif len(self._seen) == 1 and self._seen[0].problem is not None:
            state = "still looking"
        else:
            state = "held" if self._held else f"look {n_looks}, every {self._every:g} s"
        return spread(left, Text(f"{state} "), max(20, self.size.width))

    def action_hold(self) -> None:
        self._held = not self._held
        self._paint()

    def action_theme(self) -> None:
        next_theme(self.app)

    def action_explain(self) -> None:
        self.app.push_screen(PageScreen("Watching a server", Text(_HELP)))

    def action_leave(self) -> None:
        """Back to what it was called from; out of the program where it stands alone."""
        if len(self.app.screen_stack) > 1:
            self.dismiss()
        else:
            self.app.exit()
