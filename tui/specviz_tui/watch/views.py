"""The picture of a watched server as lines."""

import time
from collections.abc import Sequence

from rich.text import Text

from specviz.engines.watch.picture import CLOSED, PositionShare, WatchPicture
from specviz.text import clip, running
from specviz_tui.common.paint import BARRED, FAINT, PLAIN, STRONG, Painter, bar, sentence

_BARS = "▁▂▃▄▅▆▇█"
_LABEL = 15


def whole(picture: WatchPicture, cells: int, painter: Painter) -> list[Text]:
    """Everything, the judged line first."""
    lines = [*sentence(running(picture.headline), cells, STRONG), *_numbers(picture, cells)]
    lines += [*sentence(running(picture.finding), cells), Text()] if picture.finding else [Text()]
    lines += _acceptance(picture.positions, cells, painter)
    lines += _curve("tokens a round", [p.length for p in picture.points], cells, painter, least=1.0)
    lines += _curve("tokens/s", [p.tokens_per_s for p in picture.points], cells, painter)
    lines += [Text(), *_events(picture, cells, painter)]
    for words in (*picture.notes, picture.rule, CLOSED):
        lines += sentence(running(words), cells, FAINT)
    return lines


def _numbers(picture: WatchPicture, cells: int) -> list[Text]:
    said = []
    if picture.length is not None:
        ends = picture.length_ends
        said.append(f"{picture.length:.3f}" + (f" [{ends[0]:.2f}, {ends[1]:.2f}]" if ends else "") + " tokens a round")
    if picture.acceptance is not None:
        said.append(f"{picture.acceptance:.1%} of drafted kept")
    if picture.n_rounds is not None:
        said.append(f"{picture.n_rounds:,} rounds")
    if picture.tokens_per_s is not None:
        said.append(f"{picture.tokens_per_s:.1f} tok/s")
    return sentence(" · ".join([*said, picture.over]), cells)


def _acceptance(positions: Sequence[PositionShare], cells: int, painter: Painter) -> list[Text]:
    if not positions:
        return []
    room = max(8, min(48, cells - 46))
    lines = [Text("Kept by position   95 % interval; last: of the rounds that came so far", style=FAINT)]
    for at in positions:
        line = Text(f"position {at.position + 1}".ljust(_LABEL), style=FAINT, no_wrap=True)
        line.append(bar(at.kept, room), style=painter.tint("accepted"))
        line.append(f" {at.kept:6.1%}", style=STRONG).append(f" [{at.low:.1%}, {at.high:.1%}]".ljust(18), style=PLAIN)
        lines.append(line.append(f"{at.given:.0%}" if at.given is not None else "—", style=FAINT))
    return [*lines, Text()]


def _curve(
    name: str, values: Sequence[float | None], cells: int, painter: Painter, least: float | None = None
) -> list[Text]:
    """The newest looks as bars, with the ends of the scale."""
    shown = list(values)[-max(8, cells - _LABEL - 16) :]
    told = [value for value in shown if value is not None]
    if not told:
        return []
    low, high = min(told) if least is None else least, max(told)
    span = (high - low) or 1.0
    marks = "".join(" " if v is None else _BARS[min(7, max(0, round((v - low) / span * 7)))] for v in shown)
    line = Text(name.ljust(_LABEL), style=FAINT, no_wrap=True).append(marks, style=painter.tint("bonus") + BARRED)
    return [line.append(f" {low:.4g} to {high:.4g}", style=FAINT)]


def _events(picture: WatchPicture, cells: int, painter: Painter) -> list[Text]:
    """What changed and when, the newest last."""
    found = [(change.wall, change.words, painter.tint("rejected")) for change in picture.changes]
    found += [
        (wall, "the server began again; its counts are added up", painter.tint("recovered"))
        for wall in picture.restarts
    ]
    out = []
    for wall, words, style in sorted(found, key=lambda each: each[0])[-6:]:
        clock = time.strftime("%H:%M:%S", time.localtime(wall))
        out.append(Text(clip(f"{clock}  {words}", cells), style=style))
    if not out and picture.positions:
        out.append(Text(f"no change beyond chance in {picture.n_looks} looks", style=FAINT))
    return [*out, Text()]
