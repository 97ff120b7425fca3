"""`LanesPanel`: who worked and who waited, on the clock that was asked for."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from specviz.numerals import number, percent
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.view.blocks import Words
from specviz.view.frame.parts import WhyRow
from specviz.view.frame.steps import Moment
from specviz.view.panels import CachedValue, Panel, PanelContext
from specviz.view.panels.lanes.blocks import LaneBlockBuilder, LanePiece, RunFacts, measured, modelled
from specviz.view.panels.lanes.model import Arrow, Chart, Clock, Lane, LaneBlock, LaneOptions, LanesModel, RoundSpan
from specviz.view.panels.lanes.payoff import PayPanel, pay_panel
from specviz.view.panels.lanes.text import Fates, block_info, fan, hrad, sequence, steps, voids
from specviz.view.words.labels import BRANCH_MASS
from specviz.view.words.numbers import seconds
from specviz.view.words.palette import Phase

if TYPE_CHECKING:
    from specviz.metrics import Metrics

ROUNDS = 8  # on the chart
_TOLD_NS = 50_000_000  # of waiting between its rounds from which on the chart says that it is left out
_LABELS = {"target": "target", "draft": "draft", "sync": "sync", "hrad": "H-RAD"}
_NUMBERS = (  # name, label, kind
    ("rollback_rate", "rolled back, one path", "percent"),
    ("rollback_rate_tokens", "rolled back, all tokens", "percent"),
    ("accepted_run_length", "run length", "number"),
    ("block_efficiency", "tokens a pass", "number"),
    ("branch_mass", BRANCH_MASS, "percent"),
)
_NOTHING = Words("nothing drafted in this round")
_NO_ROLLBACK = ("branch_lost", "trimmed")  # what a hit leaves behind


class LanesPanel(Panel[LaneOptions, LanesModel]):
    """Of one run."""

    id, title, options = "lanes", "Lanes", LaneOptions

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.facts = RunFacts(run)
        self._pay = CachedValue[PayPanel]()

    @classmethod
    def relevance(cls, run: Run) -> int:
        """Times of single passes; most of all where drafting goes on beside the target."""
        ours = run.header is None or run.header.outside is None
        has_times = run.level != "none" and (ours or any(record.spans for record in run.rounds[:1]))
        has_times = has_times and run.tells_tokens and not (run.header is not None and run.header.imported)
        return int(has_times) + int(has_times and run.method_traits.pipelined)

    def empty(self, reason: str) -> LanesModel:
        return LanesModel(reason)

    def on_evict(self, record: RoundRecord) -> None:
        self.facts.on_evict(record)

    def n_unread(self) -> int:
        return 0 if self._missing() else self.facts.n_behind

    def advance(self, n_rounds: int) -> None:
        self.facts.take_in(n_rounds)

    def kept(self) -> bytes:
        return self.facts.kept()

    def from_cache(self, data: bytes) -> None:
        self.facts.from_cache(data)

    def window(self, index: int) -> range:
        return range(0) if self._missing() else self.facts.window(index)

    def build(self, scene: PanelContext, options: LaneOptions) -> LanesModel:
        """The lanes of the last rounds, and what drafted in this one."""
        record, now, metrics = scene.record, scene.now, scene.metrics
        missing = self._missing()
        if missing:
            return LanesModel(missing)
        self.facts.update(record.index)
        judged = now.all_tested or now.phase >= Phase.CLOSE
        fates: Fates = {
            node: fate
            for (q, node), (fate, index) in self.facts.settled.items()
            if q == record.q and (index < record.index or (index == record.index and judged))
        }
        clock = options.clock
        chart = self._chart(record, clock, now, judged, scene.selected, options.block)
        drafted = now.phase > Phase.ROOT
        there = fan(self.run, record, fates, judged) if now.phase >= Phase.VERIFY else ()
        return LanesModel(
            missing=None,
            chart=chart,
            steps=steps(self.run, record, fates) if drafted else (_NOTHING,),
            fan=there or (self._no_fan(now),),
            hrad=hrad(record, metrics) if drafted else (),
            block=self._block(chart, fates, judged, record.index),
            summary=self._summary(clock, metrics),
            pay=self._pay.of(
                self.run.rounds.n_complete,
                lambda: pay_panel(self.run.header, self.run.calibration, metrics, self.run.knobs),
            ),
        )

    # The chart --------------------------------------------------------------------------------------------------------

    def _chart(
        self,
        record: RoundRecord,
        clock: Clock,
        now: Moment,
        judged: bool,
        selected: int | None,
        wanted: tuple[int, str, int] | None,
    ) -> Chart:
        first = max(record.query.first, record.index - ROUNDS + 1)
        rounds = self.run.rounds[first : record.index + 1]
        waits = list(accumulate(self._waits(rounds)))
        timed = zip(rounds, waits, strict=True)
        round_blocks = [
            self._round(r, clock, record.index, now if r is record else None, judged, ns) for r, ns in timed
        ]
        lanes_used = set(_lanes([block for part in round_blocks for block in part]))
        round_blocks = [[block for block in part if block.lane in lanes_used] for part in round_blocks]
        blocks = tuple(block for part in round_blocks for block in part)
        text = self._clock_text(clock)
        if clock == "measured" and waits[-1] >= _TOLD_NS:
            text += f"; {seconds(waits[-1] / 1e9)} of waiting between rounds left out"
        if not blocks:
            return Chart(clock, text, (), (), (), (), 0.0, 0.0, None, self._no_blocks(clock, now))
        spans = []
        for r, part in zip(rounds, round_blocks, strict=True):
            if part:
                b0, b1 = min(b.t0 for b in part), max(b.t1 for b in part)
                spans.append(RoundSpan(r.index, r.r, b0, b1, f"{sequence(part)} · {seconds(b1 - b0)}"))
        t0, t1 = min(b.t0 for b in blocks), max(b.t1 for b in blocks)
        lanes = tuple(self._lane(key, blocks, t1 - t0) for key in _lanes(blocks))
        cursor = self._cursor(blocks, record.index, selected, wanted)
        arrows = tuple(self._arrows(rounds, blocks, clock, record.index if judged else record.index - 1))
        return Chart(clock, text, lanes, blocks, arrows, tuple(spans), t0, t1, cursor)

    def _waits(self, rounds: Sequence[RoundRecord]) -> Iterator[int]:
        """ns before each round in which neither lane worked, as when a viewer paused the core: it does not count as
        idle time. 0 for other engines, whose time between rounds is their own work.
        """
        outside = self.run.header is not None and self.run.header.outside is not None
        yield 0
        for before, record in pairwise(rounds):
            ended = max([span.t0 + span.dur_ns for span in before.spans] + [(before.end or before.start).t])
            yield 0 if outside else max(0, record.start.t - ended)

    def _round(
        self, record: RoundRecord, clock: Clock, until: int, now: Moment | None, judged: bool, waited: int
    ) -> list[LaneBlock]:
        """A round's blocks; of the one on screen only what has happened. `waited`: ns left out before it."""
        known = self.facts.known(record.index)
        pieces: list[LanePiece] = []
        if clock == "measured":
            header = self.run.header
            serial = header is None or header.lanes in ("", "serial")
            pieces = measured(record, known, self.run.rounds.began(0) + waited, serial)
        elif known is not None and known.played is not None:
            pieces = modelled(known.played)
        if now is not None and now.phase < Phase.VERIFY:
            verify = min((p.t0 for p in pieces if p.kind == "verify"), default=0.0)
            pieces = [p for p in pieces if now.phase == Phase.DRAFT and p.t1 <= verify and p.kind != "verify"]
        return list(LaneBlockBuilder(self.run, self.facts, record, until, judged).blocks(pieces))

    def _lane(self, key: str, blocks: Sequence[LaneBlock], total: float) -> Lane:
        mine = [block for block in blocks if block.lane == key]
        busy = sum(block.took for block in mine if block.kind != "idle")
        share = busy / total if total else None
        branch = key.startswith("branch")
        models = self.run.header.models if self.run.header else None
        info = models.target if key == "target" and models else models.draft if key == "draft" and models else None
        own = key == "draft" and self.run.method_traits.exits != "none"
        label = "self-draft" if own else _LABELS.get(key, key)
        return Lane(key, label, (info.device or "") if info else "", branch, _lane_text(key, mine, share))

    def _cursor(
        self, blocks: Sequence[LaneBlock], index: int, selected: int | None, wanted: tuple[int, str, int] | None
    ) -> int | None:
        places = {block.at: k for k, block in enumerate(blocks)}
        if wanted is not None and wanted in places:
            return places[wanted]
        holds = [k for k, block in enumerate(blocks) if selected is not None and selected in block.nodes]
        if holds:
            return holds[-1]
        verifies = [k for k, block in enumerate(blocks) if block.kind == "verify" and block.at[0] == index]
        return verifies[-1] if verifies else len(blocks) - 1 if blocks else None

    def _arrows(
        self, rounds: Sequence[RoundRecord], blocks: Sequence[LaneBlock], clock: Clock, until: int
    ) -> Iterator[Arrow]:
        for record in rounds:
            if record.index > until:
                continue
            voided = {n: fate for n, fate in self.facts.voided(record.index).items() if fate not in _NO_ROLLBACK}
            source = next((k for k, b in enumerate(blocks) if b.kind == "verify" and b.at[0] == record.index), None)
            # Forwards of which the verdict left nothing, and whole drafts of which it cut the tail.
            targets = tuple(
                k
                for k, b in enumerate(blocks)
                if b.lane == "draft"
                and (b.void or (b.kind == "draft" and b.useful < 1))
                and any(node in voided for node in b.nodes)
            )
            if source is not None and targets:
                yield Arrow(source, targets, record.r, voids(self.facts, record, clock))

    # The rest ---------------------------------------------------------------------------------------------------------

    def _block(self, chart: Chart, fates: Fates, judged: bool, index: int) -> Any:
        if chart.cursor is None:
            return None
        block = chart.blocks[chart.cursor]
        return block_info(self.run, self.facts, block, fates, judged or block.at[0] < index, chart.clock)

    def _clock_text(self, clock: Clock) -> str:
        header = self.run.header
        lanes = header.lanes if header and header.lanes else "serial"
        if header is not None and header.outside is not None and clock == "measured":
            return f"measured clock: {header.outside.engine}'s {header.outside.source or 'spans'}"
        if clock == "measured":
            note = "one thing after the other on this machine" if lanes == "serial" else "both lanes at once"
            return f"measured clock, lanes {lanes}: {note}"
        rates = self.facts.rates
        by = "costs as measured" if self.facts.calibrated else "costs assumed, a draft forward 1 ms"
        more = f"c {number(rates.c)}, κq {number(rates.kappa_q)}, κp {number(rates.kappa_p)}"
        return f"modelled clock, both lanes at once: {by}, {more}"

    def _no_blocks(self, clock: Clock, now: Moment) -> str:
        if now.phase < Phase.VERIFY:
            return "nothing has happened yet in this round"
        if clock == "model":
            return (
                "the modelled clock knows rounds of a draft model and a target; early exits climb the target's own "
                "layers and have their own prediction on screen Layers"
            )
        return "no spans in this trace: record with --level summary or full"

    def _missing(self) -> str | None:
        header = self.run.header
        if not self.run.tells_tokens:
            return "This trace was made of a profile: it holds times of stages and no tokens."
        if header is not None and header.imported:
            return f"{header.imported} records counts only: no times of single passes are in this trace."
        if header is not None and header.outside is not None and not any(r.spans for r in self.run.rounds[:1]):
            return f"Nobody timed single passes of {header.outside.engine}: whole rounds only."
        if self.run.level == "none":
            return "Recorded with --level none: no passes, no tokens. Record again with --level summary or full."
        return None

    def _no_fan(self, now: Moment) -> Words:
        method = self.run.header.method if self.run.header else ""
        if self.run.method_traits.pipelined:
            return Words(f"no branch point in this round{' yet' if now.phase < Phase.VERIFY else ''}")
        return Words(f"{method} drafts no branches beside the target's pass; specviz run --method specbranch does")

    def _summary(self, clock: Clock, metrics: "Metrics | None") -> tuple[WhyRow, ...]:
        rows = [_row(metrics, name, label, kind) for name, label, kind in _NUMBERS]
        clocked: Mapping[str, Any] = {} if metrics is None else metrics
        if clock == "model":
            clocked = {} if clocked.get("modelled") is None else asdict(clocked["modelled"])
        words = "modelled" if clock == "model" else "measured"
        for name, label in (
            ("overlap_efficiency", "overlap"),
            ("bubble_target", "target idle"),
            ("bubble_draft", "draft idle"),
        ):
            value = clocked.get(name)
            rows.append(WhyRow(label, percent(value), None, words) if value is not None else None)
        wasted = clocked.get("wasted_draft_s")
        rows.append(WhyRow("draft time wasted", seconds(wasted), None, words) if wasted is not None else None)
        if clock == "model" and clocked.get("speedup") is not None:
            rows.insert(0, WhyRow("speed-up", f"{number(clocked['speedup'])}×", None, "modelled, over plain decoding"))
        return tuple(row for row in rows if row is not None)


def _row(metrics: "Metrics | None", name: str, label: str, kind: str) -> WhyRow | None:
    metric = None if metrics is None else metrics[name]
    if metric is None:
        return None
    value = metric if isinstance(metric, int | float) else metric.value
    return WhyRow(label, percent(value) if kind == "percent" else number(value))


def _lanes(blocks: Sequence[LaneBlock]) -> list[str]:
    """Target first, then the draft with its branches, then the rest."""
    keys = {block.lane for block in blocks if block.kind != "idle"}
    branches = sorted((key for key in keys if key.startswith("branch")), key=lambda key: int(key.split()[1]))
    return [key for key in ("target", "draft", *branches, "hrad", "sync") if key in keys]


def _lane_text(key: str, mine: Sequence[LaneBlock], share: float | None) -> str:
    if key.startswith("branch"):
        settled = [block for block in mine if block.nodes and not block.open]
        kept = sum(not block.void for block in settled)
        return f"useful {kept} of {len(settled)} forwards" if settled else ""
    busy = f"busy {percent(share)}"
    drawn = [block for block in mine if block.nodes and not block.open]
    if not drawn:
        return busy
    useful = sum(block.took * block.useful for block in drawn) / sum(block.took for block in drawn)
    return f"{busy}, useful {percent(useful)}"
