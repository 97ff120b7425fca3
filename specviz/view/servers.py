"""Several servers on one screen, as blocks: one table with a line each and their engines below, and how they went."""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.engines.watch import WatchPicture
from specviz.engines.watch.picture import EngineShare, PositionShare, ill_engines, usual_length
from specviz.judge import Evidence, Finding, judge
from specviz.numerals import UNKNOWN
from specviz.runlog.run import Mark
from specviz.text import running
from specviz.view.blocks import Block, Cell, Plot, PlotCurve, TableBlock, Words

_MOST_LOOKS = 60  # of the curve, the newest
_MARKS: tuple[Mark, ...] = ("accepted", "bonus", "recovered", "rejected")
_GAUGES = {"running": "run", "waiting": "wait", "cache in use": "cache", "prefix hits": "prefix"}  # as a heading
_FEW = 4  # engines that each have a line


@dataclass(frozen=True, slots=True)
class SeenServer:
    """A server by its address. `picture`: None before the first look; `problem`: why the last look failed."""

    address: str
    picture: WatchPicture | None
    problem: str | None = None

    @property
    def name(self) -> str:
        """Its address without what all have in common."""
        return running(self.address.partition("://")[2].removesuffix("/metrics") or self.address)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What stands out, the gravest first."""
        return judge(Evidence.of_picture(self.picture)) if self.picture is not None else ()

    @property
    def ill(self) -> str:
        """The engines that are ill, or why it is not known; "" where nothing is wrong."""
        if self.problem is not None or self.picture is None:
            return f"{self.name}: {running(self.problem)}" if self.problem else ""
        if ill := ill_engines(self.picture.engines):
            names = ", ".join(f"engine {running(part.name)} at {part.length or 1:.2f}" for part in ill)
            return f"{self.name}: {names} tokens a round, the others at {usual_length(self.picture.engines, ill):.2f}"
        broken = next((finding for finding in self.findings if finding.broken), None)
        return f"{self.name}: {broken.headline}" if broken is not None else ""


def servers_blocks(servers: Sequence[SeenServer]) -> tuple[Block, ...]:
    """What is wrong first, then the table, then tokens a round and what is kept by position, a curve each."""
    wrong = [words for server in servers if (words := server.ill)]
    first = f"{len(wrong)} of {len(servers)} servers need a look" if wrong else f"{len(servers)} servers, none is ill"
    return (
        Words(first, strong=True),
        *(Words(words) for words in wrong),
        _table(servers),
        *_over_time(servers),
        *_by_position(servers),
    )


def _table(servers: Sequence[SeenServer]) -> TableBlock:
    beside = [
        name for name in _GAUGES if any(s.picture is not None and name in dict(s.picture.gauges) for s in servers)
    ]
    rows = [row for server in servers for row in _rows(server, beside)]
    return TableBlock(
        "servers",
        ("server", "now", "mean", "kept", "tok/s", *(_GAUGES[name] for name in beside), "stands out"),
        tuple(rows),
        title="Tokens a round",
        help="now: between the last two looks; mean: since the first look; cache: in use; prefix: its hits",
    )


def _rows(server: SeenServer, beside: Sequence[str]) -> list[tuple[Cell, ...]]:
    picture = server.picture
    if picture is None:
        words = "no answer" if server.problem else "first look"
        return [(Cell(server.name), *[Cell(UNKNOWN)] * (4 + len(beside)), Cell(words))]
    gauges = dict(picture.gauges)
    findings = server.findings
    state = "no answer, still looking" if server.problem else findings[0].headline if findings else ""
    speed = next((p.tokens_per_s for p in reversed(picture.points) if p.tokens_per_s is not None), None)
    first = (
        Cell(server.name),
        _number(picture.now if picture.now is not None else picture.length),
        _number(picture.length),
        Cell(UNKNOWN if picture.acceptance is None else f"{picture.acceptance:.0%}"),
        Cell(UNKNOWN if speed is None else f"{speed:.0f}"),
        *(Cell(gauges.get(name, UNKNOWN)) for name in beside),
        Cell(state),
    )
    ill = ill_engines(picture.engines)
    parts = [part for part in picture.engines if part in ill or len(picture.engines) <= _FEW]
    rows = [first, *(_part(part, part in ill, len(beside)) for part in parts)]
    if n_others := len(picture.engines) - len(parts):
        usual = _number(usual_length(picture.engines, ill))
        rows.append((Cell(f"  {n_others} others"), Cell(""), usual, *[Cell("")] * (3 + len(beside))))
    return rows


def _part(part: EngineShare, ill: bool, n_beside: int) -> tuple[Cell, ...]:
    kept = part.n_accepted / part.n_drafted if part.n_drafted else None
    return (
        Cell(f"  {part.of} {running(part.name)}"),
        Cell(""),
        _number(part.length),
        Cell("" if kept is None else f"{kept:.0%}"),
        *[Cell("")] * (1 + n_beside),
        Cell("ill" if ill else ""),
    )


def _number(value: float | None) -> Cell:
    return Cell(UNKNOWN if value is None else f"{value:.2f}")


def _over_time(servers: Sequence[SeenServer]) -> list[Plot]:
    """Tokens a round of the newest looks, of all servers that tell them."""
    lengths = {s.name: [p.length for p in s.picture.points][-_MOST_LOOKS:] for s in servers if s.picture is not None}
    width = max(map(len, lengths.values()), default=0)
    if width < 2:
        return []
    curves = [
        PlotCurve(name, (*[None] * (width - len(ys)), *ys), _MARKS[k % len(_MARKS)], "line")
        for k, (name, ys) in enumerate(lengths.items())
        if any(y is not None for y in ys)
    ]
    places = tuple(range(width - 1, -1, -1))
    return [Plot("servers-length", "Tokens a round", "looks ago", places, tuple(curves))] if curves else []


def _by_position(servers: Sequence[SeenServer]) -> list[Plot]:
    drawn = [(s.name, s.picture.positions) for s in servers if s.picture is not None and s.picture.positions]
    width = max((len(positions) for _, positions in drawn), default=0)
    if not width:
        return []
    curves = [
        PlotCurve(
            name,
            tuple(at.kept for at in positions) + (None,) * (width - len(positions)),
            _MARKS[k % len(_MARKS)],
            "line",
            ns=tuple(at.n for at in positions) + (0,) * (width - len(positions)),
        )
        for k, (name, positions) in enumerate(drawn)
    ]
    return [Plot("servers-kept", "Kept by position", "position", tuple(range(1, width + 1)), tuple(curves), "share")]


def kept_plot(positions: Sequence[PositionShare]) -> Plot:
    """What one server keeps at each position: of all rounds, and of those that came so far."""
    kept = PlotCurve(
        "of all rounds",
        tuple(at.kept for at in positions),
        lows=tuple(at.low for at in positions),
        highs=tuple(at.high for at in positions),
        ns=tuple(at.n for at in positions),
    )
    reached = PlotCurve("of those that came so far", tuple(at.conditional for at in positions), "recovered", "dots")
    return Plot(
        "watch-kept",
        "Kept by position",
        "draft position",
        tuple(at.position + 1 for at in positions),
        (kept, reached),
        "percent",
        help="of all rounds, with Wilson's 95 % interval; ◆ of those that came so far",
        words=", ".join(f"position {at.position + 1} {at.kept:.0%}" for at in positions),
        missing="" if positions else "the server tells no positions, or nothing was drafted yet",
    )
