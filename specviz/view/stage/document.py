"""`head(builder, name)` and `one_round(builder, index)`: a run as the stage plays it. `document` is all of it.

Rounds are made one at a time, from the same frames as every other screen; nobody holds those of a long run at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import msgspec

from specviz.numerals import UNKNOWN
from specviz.runlog.fold import Run
from specviz.runlog.run import Query, TextToken
from specviz.text import NEWLINE
from specviz.view.frame.frame import Cursor, Frame, Options, RunInfo
from specviz.view.frame.parts import KnobBar, Metric
from specviz.view.frame.run_header import NOTHING, of_whole_run
from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.moments import FEED, OPTIONS, RoundMoments
from specviz.view.stage.panels import panels_of
from specviz.view.stage.parts import (
    UNRECORDED,
    VERSION,
    MarkStyle,
    StageQuery,
    StageRound,
    StageRun,
    TimelinePage,
    TimelinePoint,
    Token,
)
from specviz.view.stage.words import PHASES
from specviz.view.words.labels import RECORDED
from specviz.view.words.numbers import knob as shown
from specviz.view.words.palette import STYLES

_DIGITS = dict.fromkeys(("u", "thr", "lo", "hi"), 6)  # of what decides
_FEW = " (n "  # of a number without an interval: "7 (n 4 too small)"


def head(builder: FrameBuilder, name: str) -> StageRun:
    """The run as a whole. `name`: what the trace is called."""
    run = builder.run
    frame = builder.frame(Cursor(), OPTIONS, FEED)
    info = promised(frame, run)
    points = points_from(builder, 0)
    return StageRun(
        version=VERSION,
        name=name,
        title=info.title,
        badge=info.badge,
        tone=info.tone,
        facts=facts(frame, len(run.rounds)),
        metrics=(*metrics(frame), *_pays(frame)),
        phases=PHASES,
        marks={mark: MarkStyle(style.glyph, style.word, style.dark, style.light) for mark, style in STYLES.items()},
        knobs=frame.knobs.items,
        queries=tuple(_query(query) for query in run.queries),
        points=points,
        absent=frame.knobs.absent,
        notices=frame.notices,
        explained=info.explained,
    )


def promised(frame: Frame, run: Run) -> RunInfo:
    """The heading of the whole run and what is promised about its text; empty words before one has begun."""
    info = of_whole_run(frame.run, run)
    return info if run.header is not None else replace(info, sampling="", badge="")


def facts(frame: Frame, n: int) -> str:
    """`exact: bitwise · seed 42 · 21 rounds · recorded: everything`."""
    if frame.run is NOTHING:
        return ""
    seed = f"seed {frame.run.seed}" if frame.run.seed is not None else ""
    rounds = f"{n:,} {'round' if n == 1 else 'rounds'}"
    few = "too few rounds for intervals" if any(_FEW in metric.text for metric in frame.metrics) else ""
    mixed = "numbers over every sampling there was" if frame.knobs.mixed else ""
    probe = f"overhead {frame.run.overhead}" if frame.run.overhead != UNKNOWN else ""  # what recording cost
    words = (frame.run.exact, seed, rounds, few, mixed, f"recorded: {RECORDED[frame.run.level]}", probe)
    return " · ".join(filter(None, words))


def metrics(frame: Frame) -> tuple[Metric, ...]:
    """Metrics of the whole run as text; too few rounds are mentioned once, by `facts`."""
    return tuple(msgspec.structs.replace(m, text=m.text.partition(_FEW)[0]) for m in frame.metrics)


def _pays(frame: Frame) -> tuple[Metric, ...]:
    """Whether it paid, where that is known: `1.7×`."""
    times, _, plain = frame.judgement.speed.partition(" ")
    return (Metric("over_plain", plain, None, times, help=frame.judgement.basis_words),) if "×" in times else ()


def _query(query: Query) -> StageQuery:
    prompt = "".join(token.running for token in query.tokens if token.mark == "prompt")
    n_prompt, domain = (query.prefill.n_prompt, query.prefill.domain or "") if query.prefill else (0, "")
    return StageQuery(query.first, query.n_rounds, in_lines(prompt), n_prompt, domain)


def in_lines(text: str) -> str:
    """Escaped text with its line ends marked and made."""
    return text.replace(NEWLINE, f"{NEWLINE}\n")


def points_from(builder: FrameBuilder, first: int) -> tuple[TimelinePoint, ...]:
    """The time line from a round on, with the text that every round wrote."""
    run, several = builder.run, len(builder.run.queries) > 1
    texts = _texts(builder, first)
    points = []
    for index in range(first, len(run.rounds)):
        point = run.rounds.point(index)
        place = f"q{point.q}/r{point.r}" if several else f"r{point.r}"
        written = texts.get(index, ())
        points.append(TimelinePoint(place, point.n_emitted or 0, point.rejected, point.markers, written))
    return tuple(points)


def further(builder: FrameBuilder, first: int, more: bool) -> TimelinePage:
    """A recording that is read a part at a time: its time line from a round on."""
    points = points_from(builder, min(first, len(builder.run.rounds)))
    return TimelinePage(points, tuple(_query(query) for query in builder.run.queries), more)


def _texts(builder: FrameBuilder, first: int) -> dict[int, tuple[Token, ...]]:
    """The tokens of every round from `first` on, by its index."""
    run = builder.run
    texts: dict[int, tuple[Token, ...]] = {}
    for query in run.queries:
        if query.first + query.n_rounds <= first:
            continue
        known = run.rounds[first].n_before if query.first < first else 0
        for r, tokens in groupby(query.tokens[known:], key=lambda token: token.round):
            index = run.find(query.number, r)
            if index is not None:
                texts[index] = tuple(_token(token) for token in tokens)
    return texts


def _token(token: TextToken) -> Token:
    return in_lines(token.running), token.mark, UNRECORDED if token.node is None else token.node


def one_round(builder: FrameBuilder, index: int, options: Options = OPTIONS) -> StageRound:
    """One round, moment by moment. Raises IndexError for a round that the run does not have.

    `options`: how much of the draft is drawn, and with the panel of ranks among what is shown, where nodes came from.
    """
    walk = RoundMoments(builder, index, options)
    moments = walk.all()
    frame = walk.last
    assert frame is not None  # a round has its root at least
    record = builder.run.rounds[index]
    labels = {item.name: item.label for item in frame.knobs.items}
    return StageRound(
        index=index,
        place=place_of(builder, index),
        n_columns=frame.tree.n_columns,
        n_rows=frame.tree.n_rows,
        looks=walk.looks,
        moments=moments,
        whys=walk.whys,
        texts=walk.texts,
        knobs=in_force(frame.knobs),
        changes=tuple((labels.get(c.name, c.name), shown(c.old), shown(c.new)) for c in record.changes),
        last=frame.knobs.last,
        missing=frame.tree.missing or "",
        open=not record.complete,
        folds=frame.tree.folds,
        badges=dict(ranks.badges) if (ranks := RanksPanel.of(frame)) is not None else {},
    )


def in_force(bar: KnobBar) -> tuple[tuple[str, float | None, bool], ...]:
    """Every knob of the head as it was in force in a round: its text, its place in its range, whether it is idle."""
    return tuple((item.text, item.fill, item.idle) for item in bar.items)


def place_of(builder: FrameBuilder, index: int) -> str:
    """A round as it stands in an address: `r37`, `q1/r3`."""
    q, r = builder.run.rounds.place(index)
    return f"q{q}/r{r}" if len(builder.run.queries) > 1 else f"r{r}"


def document(builder: FrameBuilder, name: str, indexes: Sequence[int] | None = None) -> Iterator[bytes]:
    """The run as JSON, piece by piece: `{"head": .., "rounds": {"0": .., "1": ..}}`; of the rounds all, or some."""
    whole = msgspec.structs.replace(head(builder, name), panels=panels_of(builder))
    yield b'{"head":' + msgspec.json.encode(whole) + b',"rounds":{'
    for n, index in enumerate(range(len(builder.run.rounds)) if indexes is None else indexes):
        yield (b"," if n else b"") + b'"%d":' % index + wire(one_round(builder, index))
    yield b"}}"


def wire(rounds: StageRound | Sequence[StageRound]) -> bytes:
    """As JSON, with as many digits of a number as a picture needs; those that decide keep more."""
    return msgspec.json.encode(_short(msgspec.to_builtins(rounds, str_keys=True)))


def _short(value: Any, digits: int = 3) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        digits_of = [_DIGITS.get(name, 3) for name in value]
        return dict(zip(value, map(_short, value.values(), digits_of), strict=True))
    return list(map(_short, value)) if isinstance(value, list | tuple) else value
