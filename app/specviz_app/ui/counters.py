"""What a server's counters say, on a page: live, or of a history that was kept."""

import time
from pathlib import Path

import streamlit as st

from specviz.engines.watch import WatchPicture, picture_of, read_history
from specviz.engines.watch.history import is_history
from specviz.engines.watch.picture import CLOSED
from specviz.judge import Evidence, judge
from specviz.numerals import number
from specviz.text import running
from specviz.view.servers import kept_plot
from specviz_app.figures import watch as draw
from specviz_app.server.server import current
from specviz_app.ui import blocks, parts, state
from specviz_app.ui.library import choices


def show_history() -> bool:
    """The picture of the run that is chosen at the top, where that is a history of counters. Raises SpecvizError."""
    path = _chosen()
    if path is None:
        return False
    picture = picture_of(read_history(path))
    looks = f"a history of counts, {picture.n_looks} looks in {picture.seconds:.0f} s"
    parts.say(f"{'totals' if picture.n_looks == 1 else looks}; no single rounds")
    show(picture)
    return True


def _chosen() -> Path | None:
    server = current()
    path = choices(server, state.uploads()).get(state.source_name(server))
    return path if path is not None and is_history(path) else None


def show(picture: WatchPicture) -> None:
    """Everything, the judged line first."""
    dark = state.dark()
    first, *more = judge(Evidence.of_picture(picture)) or (None,)
    parts.lead(f"{running(picture.headline)}.", first.text if first is not None else "")
    for finding in more:
        if finding is not None:
            parts.say(f"{finding.headline}: {finding.text}")
    parts.metrics(_numbers(picture), "watch")
    beside = "".join(f" · {name} {value}" for name, value in picture.gauges)
    parts.say(f"{picture.over}, {picture.n_looks} looks{beside}")
    for note in picture.notes:
        st.warning(parts.plain(running(note)))
    left, right = st.columns(2, gap="large")
    with left:
        blocks.one(kept_plot(picture.positions), dark)
    with right:
        st.subheader("Tokens a round", help="dashed: acceptance changed beyond chance; dotted: the server began again")
        parts.plot(draw.fig_length(picture, dark), "watch-length", picture.headline, draw.look_rows(picture))
        _events(picture)
    with left:
        st.subheader("Tokens a second", help="by the engine's own counter of generated tokens")
        speed = f"{picture.tokens_per_s:.1f} on the whole" if picture.tokens_per_s is not None else "not known yet"
        parts.plot(draw.fig_speed(picture, dark), "watch-speed", f"Tokens a second: {speed}.")
        for part in picture.engines:
            parts.say(running(part.words))
    _card(picture)


def _card(picture: WatchPicture) -> None:
    models = ", ".join(picture.models) or "not named"
    rows = [
        ("model", models),
        *picture.settings,
        ("rule in force", picture.rule.removeprefix("rule in force: ")),
        ("closed", CLOSED.partition(": ")[2]),
    ]
    parts.server_card(picture.engine, [(label, running(words)) for label, words in rows])


def _numbers(picture: WatchPicture) -> list[tuple[str, str, str | None]]:
    ends = picture.length_ends
    span = f"95 % interval [{ends[0]:.2f}, {ends[1]:.2f}]" if ends else "no interval: the counters do not carry one"
    numbers = [
        ("tokens a round", None if picture.length is None else f"{picture.length:.2f}", span),
        ("kept of drafted", None if picture.acceptance is None else f"{picture.acceptance:.1%}", "pooled"),
        ("tokens/s", None if picture.tokens_per_s is None else number(picture.tokens_per_s), None),
        ("rounds", None if picture.n_rounds is None else f"{picture.n_rounds:,}", None),
        ("drafted", None if picture.n_drafted is None else f"{picture.n_drafted:,}", None),
        ("accepted", None if picture.n_accepted is None else f"{picture.n_accepted:,}", None),
    ]
    return [(label, text or "—", help_) for label, text, help_ in numbers]


def _events(picture: WatchPicture) -> None:
    """What changed, in words."""
    events = [(change.wall, change.words) for change in picture.changes]
    events += [(wall, "the server began again; its counts are added up") for wall in picture.restarts]
    for wall, words in sorted(events)[-6:]:
        parts.say(f"{time.strftime('%H:%M:%S', time.localtime(wall))} {words}")
    if not events and picture.points:
        parts.say(f"No change beyond chance in {picture.n_looks} looks.")
