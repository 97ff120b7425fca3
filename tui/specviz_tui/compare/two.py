"""A/B: the prompt of the run on screen decoded under two settings, both texts side by side while they are written."""

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from specviz.errors import SpecvizError
from specviz.knobs import KnobSpec
from specviz.runlog.fold import Run
from specviz.sources.two_settings import STOPPED, TwoRuns, TwoSettings, two_settings
from specviz.text import clip
from specviz.view.compare.aligned import LETTERS, Aligned, RunLane, aligned
from specviz.view.compare.figures import Compared, compared
from specviz.view.compare.sets import set_of
from specviz.view.compare.texts import NOT_ON_RECORD
from specviz.view.frame.knob_bar import step_of, without_effect
from specviz.view.words.numbers import knob as shown
from specviz.view.words.numbers import plural
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.paint import CURSOR, FAINT, STRONG, Painter, painter_of, sentence
from specviz_tui.compare import views
from specviz_tui.compare.screen import CompareScreen
from specviz_tui.compare.views import differ
from specviz_tui.screens.dialogs import AskScreen, Question
from specviz_tui.screens.live import LiveActions, asks_core
from specviz_tui.screens.settings import parse_settings

SIDE_BY_SIDE = 100  # cells from which on there is room for two columns
_GUTTER = 6  # cells of the position
_BETWEEN = 3


def column_cells(cells: int) -> int:
    """Cells of one column of text."""
    return (cells - _GUTTER - _BETWEEN) // 2 if cells >= SIDE_BY_SIDE else cells - _GUTTER - _BETWEEN


# Each line holds the same positions of both, a bar begins a round, `≠` stands where a line differs.
def columns(text: Aligned, cells: int, painter: Painter) -> list[Text]:
    """Every position of one or two lanes. A token wider than a column is cut."""
    wide, room = cells >= SIDE_BY_SIDE, column_cells(cells)
    begins = [{block.first for block in lane.rounds} for lane in text.lanes]
    out = []
    for positions in _lines(text, begins, room):
        unlike = len(text.lanes) > 1 and any(_parted(text, at) for at in positions)
        sign = Text(" ≠ " if unlike else " ┃ ", style=STRONG if unlike else FAINT)
        number = Text(f"{positions[0] + 1:>{_GUTTER - 1}} ", style=FAINT)
        parts = [
            _stretch(text, lane, each, positions, room, painter) for lane, each in zip(text.lanes, begins, strict=True)
        ]
        if wide:
            parts[0].pad_right(max(0, room - parts[0].cell_len))
            out.append(Text(no_wrap=True).append_text(number).append_text(sign.join(parts)))
            continue
        for k, (lane, part) in enumerate(zip(text.lanes, parts, strict=True)):
            head = number if k == 0 else Text(" " * _GUTTER)
            letter = Text(f"{lane.letter}{'≠' if unlike else ' '} ", style=STRONG if unlike else FAINT)
            out.append(Text(no_wrap=True).append_text(head).append_text(letter).append_text(part))
    return out


def _parted(text: Aligned, at: int) -> bool:
    """Whether both lanes have a token there and they are not the same: one that is still written is no difference."""
    return all(at < len(lane.tokens) for lane in text.lanes) and differ(text, at)


def _lines(text: Aligned, begins: Sequence[set[int]], room: int) -> list[range]:
    """The positions of each line: as many as fit into the column of every lane."""
    out, first = [], 0
    used = [0] * len(text.lanes)
    for at in range(text.n_positions):
        needed = [_width(lane, each, at) for lane, each in zip(text.lanes, begins, strict=True)]
        if at > first and any(u + n > room for u, n in zip(used, needed, strict=True)):
            out.append(range(first, at))
            first, used = at, [0] * len(used)
        used = [u + n for u, n in zip(used, needed, strict=True)]
    return [*out, range(first, text.n_positions)] if text.n_positions else []


def _width(lane: RunLane, begins: set[int], at: int) -> int:
    return cell_len(lane.tokens[at].shown) + (at in begins) if at < len(lane.tokens) else 0


def _stretch(text: Aligned, lane: RunLane, begins: set[int], positions: range, room: int, painter: Painter) -> Text:
    """One line of one lane, each token in the colour of what became of it; the first that differs stands out."""
    line = Text(no_wrap=True)
    for at in positions:
        if at >= len(lane.tokens):
            break
        if at in begins:
            line.append("│", style=FAINT)
        token, unlike = lane.tokens[at], _parted(text, at)
        lit = CURSOR if unlike and at == text.n_same else STRONG if unlike else Style()
        line.append(clip(token.shown, room - 1), style=painter.tint(token.mark) + lit)
    return line


LOOK_S = 0.2
KEYS = "esc back (ends what goes on) · C all numbers and settings · ↑ ↓ scroll"
_HINT = "values to try against those of the run: "
_FIGURES = ("block_efficiency", "mean_accepted", "draft_acceptance_rate", "tokens_per_second")
_TALL, _FIRST = 30, ("block_efficiency", "tokens_per_second")  # on a short screen these alone


class TwoScreen(Screen[None]):
    """Two columns of one prompt. The main screen behind it reads the core; this one looks at what has come."""

    DEFAULT_CSS = """
    TwoScreen #two-head, TwoScreen #two-keys { height: 1; width: 1fr; background: $panel; }
    TwoScreen #two-said { height: auto; width: 1fr; padding: 1 1 0 1; }
    TwoScreen VerticalScroll { height: 1fr; scrollbar-size: 1 1; }
    TwoScreen #two-text { height: auto; width: 1fr; }
    TwoScreen #two-heads { height: auto; width: 1fr; padding: 1 0 0 0; }
    TwoScreen #two-numbers { height: auto; width: 1fr; padding: 1 0; }
    """
    BINDINGS = [
        Binding("escape,q,A", "leave", "back", show=False),
        Binding("C", "whole", "compare", show=False),
        Binding("up,k", "scroll(-1)", "up", show=False),
        Binding("down,j", "scroll(1)", "down", show=False),
        Binding("pageup", "scroll(-12)", "up", show=False),
        Binding("pagedown", "scroll(12)", "down", show=False),
    ]

    def __init__(self, feed: RunFeed, asked: TwoSettings) -> None:
        """Raises SpecvizError where the core takes no run."""
        super().__init__()
        self._two = TwoRuns(feed, asked)
        self._seen: object = None  # what was painted last: a line is made anew only when something came

    @property
    def _runs(self) -> list[tuple[str, Run]]:
        """Those with a round, each by its setting."""
        named = zip(self._two.asked.labels, self._two.runs, strict=False)
        return [(label, run) for label, run in named if run.rounds]

    def compose(self) -> ComposeResult:
        """Head, what came of it, the texts, numbers, keys."""
        yield Static("", id="two-head", markup=False)
        yield Static("", id="two-said", markup=False)
        yield Static("", id="two-heads", markup=False)
        with VerticalScroll(can_focus=False):
            yield Static("", id="two-text", markup=False)
        yield Static("", id="two-numbers", markup=False)
        yield Static(Text(f" {KEYS}", style=FAINT, no_wrap=True), id="two-keys", markup=False)

    def on_mount(self) -> None:
        """Look again and again; the main screen behind goes on reading."""
        self.set_interval(LOOK_S, self.look)
        self.look()

    def on_resize(self) -> None:
        self._seen = None
        self.look()

    def look(self) -> None:
        """See how far it is, and paint that."""
        self._two.look()
        now = [(len(run.rounds), run.end is not None) for run in self._two.runs], self._two.n_done, self._two.problem
        if now != self._seen and self.size.width:
            self._seen = now
            self._paint()

    def _paint(self) -> None:
        runs, cells = self._runs, max(40, self.size.width - 2)
        labels = self._two.asked.labels
        head = Text(" A/B  one prompt, one seed   ", style=STRONG, no_wrap=True)
        head.append("   ".join(f"{letter} {label}" for letter, label in zip(LETTERS, labels, strict=False)))
        self.query_one("#two-head", Static).update(head)
        text = aligned(runs, (0,) * len(runs)) if runs else None
        self.query_one("#two-said", Static).update(Text("\n").join(self._said(text, cells)))
        if text is None:
            return
        self.query_one("#two-heads", Static).update(self._heads(text, cells))
        lines = columns(text, cells, painter_of(self.app))
        self.query_one("#two-text", Static).update(Text("\n").join(lines))
        if self._two.running:  # the newest line stays in sight
            self.call_after_refresh(self.query_one(VerticalScroll).scroll_end, animate=False)
        found = compared([set_of(name, run) for name, run in runs])
        names = _FIGURES if self.size.height >= _TALL else _FIRST
        self.query_one("#two-numbers", Static).update(Text("\n").join(_figures(found, len(runs), cells, names)))

    def _said(self, text: Aligned | None, cells: int) -> list[Text]:
        """What came of it, or how far it is."""
        two = self._two
        if two.problem is not None:
            why = "ended before both were done" if two.problem == STOPPED else two.problem
            return [Text(f"A/B: {why}", style=STRONG)]
        if text is None:
            return [Text("the core begins …", style=FAINT)]
        if two.running:
            return [Text(self._progress(text), style=STRONG)]
        return [Text(verdict(text), style=STRONG), *sentence(text.words, cells - 2, FAINT)]

    def _progress(self, text: Aligned) -> str:
        lane, most = text.lanes[-1], self._two.most
        of = f" of at most {most}" if most else ""
        n = len(text.lanes)
        said = f"decoding {lane.letter}, {n} of {len(self._two.asked.starts)}: {plural(len(lane.tokens), 'token')}{of}"
        if n < 2:
            return said
        if text.parted:
            return f"{said} · they part at token {text.n_same + 1}"
        return f"{said} · the same so far"

    def _heads(self, text: Aligned, cells: int) -> Text:
        """What stands over each column."""
        room = column_cells(cells)
        parts = []
        for lane in text.lanes:
            part = Text(f"{lane.letter}  {lane.name}", style=STRONG, no_wrap=True)
            part.append(f"  {plural(len(lane.tokens), 'token')} in {plural(len(lane.rounds), 'round')}", style=FAINT)
            parts.append(part)
        if cells < SIDE_BY_SIDE:
            return Text("      ").join([Text("      "), *parts])
        parts[0].truncate(room, pad=True)
        return Text("      ", no_wrap=True).append_text(Text(" ┃ ", style=FAINT).join(parts))

    def action_scroll(self, by: int) -> None:
        box = self.query_one(VerticalScroll)
        box.scroll_relative(y=by, animate=False)

    def action_whole(self) -> None:
        """Everything that a comparison says, where both have begun."""
        try:
            self.app.push_screen(CompareScreen(self._runs))
        except SpecvizError as error:
            self.notify(str(error), severity="warning", markup=False)

    def action_leave(self) -> None:
        self._two.cancel()
        self.dismiss(None)


def verdict(text: Aligned) -> str:
    """`same text: 64 of 64 tokens equal`."""
    if not text.known:
        return NOT_ON_RECORD
    shortest = min(len(lane.tokens) for lane in text.lanes)
    if text.parted:
        return f"the first {text.n_same} of {shortest} tokens are equal, then the texts part"
    return f"same text: {text.n_same} of {text.n_positions} tokens equal"


def example(run: Run) -> str:
    """`gamma=5 temperature=.1`: the first knob of the run that moves along a range a step on, and one more."""
    specs = run.header.knob_specs if run.header is not None else []
    slides = [spec for spec in specs if spec.kind in ("int", "float") and without_effect(spec, run.knobs) is None]
    return " ".join(f"{spec.name}={shown(_next(spec, run.knobs.get(spec.name, spec.default)))}" for spec in slides[:2])


def _next(spec: KnobSpec, value: Any) -> Any:
    step = step_of(spec)
    return value + step if spec.hi is None or value + step <= spec.hi else value - step


def _figures(found: Compared, n: int, cells: int, names: Sequence[str]) -> list[Text]:
    rows = [row for row in found.rows if row.name in names]
    lines = views.numbers(rows, LETTERS[:n], cells)
    return lines if n > 1 else [line for line in lines if "Δ" not in line.plain]


class TwoActions(LiveActions):
    """The key that begins an A/B."""

    @asks_core
    def action_try_both(self) -> None:
        """What is staged against what stands; else what stands against what the run began with; else ask."""
        if self.feed.run.header is None or self.feed.started is None:
            raise SpecvizError("nothing was decoded yet: p starts a prompt, A then tries it under two settings")
        if self.feed.preparing:
            raise SpecvizError("the run is about to begin: A tries it when it has")
        staged = self.feed.edits.staged
        asked = two_settings(self.feed, dict(staged) if staged else None)
        if asked is not None:
            self._begin_two(asked)
            return
        hint = _HINT + example(self.feed.run)
        question = Question("A/B: the same prompt again, and with", hint, check=self._tried)
        self.app.push_screen(AskScreen(question), self._typed_two)

    def _tried(self, typed: str) -> TwoSettings:
        """What was typed as two settings. Raises SpecvizError with what is wrong with it."""
        header = self.feed.run.header
        values: dict[str, Any] = parse_settings(typed, header.knob_specs if header is not None else [])
        if not values:
            raise SpecvizError(f"name a knob and another value for it: {example(self.feed.run)}")
        asked = two_settings(self.feed, values)
        if asked is None:
            raise SpecvizError("the run has these values already: name another one")
        return asked

    def _typed_two(self, typed: str | None) -> None:
        if typed is not None:
            self.ask_core(lambda: self._begin_two(self._tried(typed)))

    def _begin_two(self, asked: TwoSettings) -> None:
        self.app.push_screen(TwoScreen(self.feed, asked))
