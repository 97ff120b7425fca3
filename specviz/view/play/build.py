"""`FrameBuilder`: makes the `Frame` of a cursor. Keeps what was worked out for a round until the round changes."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

import msgspec

from specviz.numerals import percent
from specviz.runlog.fold import Run
from specviz.runlog.rounds import RoundPoint
from specviz.runlog.run import Mark, RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.view.frame.frame import Cursor, Feed, Folding, Frame, Options, Queue, Strip, TreeFrame, TreeViewport
from specviz.view.frame.judgement import CountedRun, RunJudgement
from specviz.view.frame.knob_bar import knob_bar
from specviz.view.frame.parts import Counts, KnobBar, Timeline
from specviz.view.frame.run_header import run_info, state, warning_text
from specviz.view.frame.series import Meter, Spark, header_metrics, overhead
from specviz.view.frame.steps import Moment, RoundSteps, moment, steps, strip
from specviz.view.judge.judgement import judge
from specviz.view.panels import AnyPanel, CachedValue, Panel, PanelContext, all_panels, remarks
from specviz.view.play.tree import TreeLayout, layout, tree
from specviz.view.why.explain import why
from specviz.view.words.palette import CLOSING, PHASE_WORDS, ROOT, Phase, glyph

if TYPE_CHECKING:
    from specviz.metrics import Metrics

AT_ONCE = 24  # rounds a panel may read for one frame
_SLICE = 8  # between two looks at the clock
READING = "reading the rounds of this recording: {}"
_KEPT = 64  # rounds whose tree and layouts stay cached
_NOTICES = 3
_TELLING = 5  # rounds after which what a run has for a panel does not change
_CLOSES = {"bonus": "BONUS", "plain": "PLAIN TOKEN"}  # what phase 5 is, when nothing is sampled again


class FrameBuilder:
    """Frames of one run. `counted`: of a recording, what was counted and judged before."""

    def __init__(self, run: Run, counted: CountedRun | None = None) -> None:
        self.run = run
        self.meter, self._counted = Meter(counted.metrics if counted is not None else None), counted
        on_leaving = WeakMethod(self._leaving)  # a run that held its builder would be freed late, and its file with it
        run.rounds.on_evict.append(lambda record: (tell := on_leaving()) and tell(record))
        self._panels: dict[AnyPanel, Panel[Any, Any]] = {}
        self._counting: list[Panel[Any, Any]] | None = None  # called with rounds that leave memory
        self._families: OrderedDict[int, tuple[Any, RoundTree, RoundSteps]] = OrderedDict()
        self._layouts: dict[tuple[Any, ...], TreeLayout] = {}
        self._spark = Spark()
        self._timeline: tuple[Any, Sequence[RoundPoint], str] = (None, (), "")
        self._knobs = CachedValue[KnobBar]()
        self._judgement = CachedValue[RunJudgement]()
        self._unfits = CachedValue[frozenset[str]]()

    def _leaving(self, record: RoundRecord) -> None:
        """A round goes out of memory: it is counted, so that it need not be read again for that."""
        self.meter.on_evict(self.run, record)
        for panel in self._counters():
            panel.on_evict(record)

    def _counters(self) -> list[Panel[Any, Any]]:
        if self._counting is None:
            self._counting = [self._panel(kind) for kind in all_panels() if kind.needs(self.run.method_traits)]
        return self._counting

    def counted(self) -> bytes:
        """What was counted over all rounds of a finished run, to be kept with its recording."""
        from specviz.view.judge.kept import counted  # numpy: only where there are metrics

        for panel in self._counters():
            before, left = 0, panel.n_unread()
            while left and left != before:  # what is left may never have come to its end
                panel.advance(left)
                before, left = left, panel.n_unread()
        return counted(self.run, self.meter, {panel.id: panel.kept() for panel in self._counters()})

    def round_tree(self, index: int) -> RoundTree:
        """Who stands where in a round."""
        return self._known(index)[0]

    def steps(self, index: int) -> RoundSteps:
        return self._known(index)[1]

    def _known(self, index: int) -> tuple[RoundTree, RoundSteps]:
        record = self.run.rounds[index]
        held = self._families.get(index)
        if held is None or held[0] != (record.serial, record.stamp):
            round_tree = RoundTree(record)
            held = ((record.serial, record.stamp), round_tree, steps(round_tree))
            self._families[index] = held
            if len(self._families) > _KEPT:
                self._families.popitem(last=False)
                self._layouts.clear()
        return held[1], held[2]

    def _layout(self, index: int, options: Options, selected: int | None) -> TreeLayout:
        """Layout of a round's tree; selecting another node keeps the layout if that node is already visible."""
        round_tree, room = self.round_tree(index), options.room if options.folding != "none" else TreeViewport()
        if room.rows:
            layout = self._laid(
                index, options.folding, options.selected if selected == options.selected else None, room
            )
            if selected is None or selected in layout.places:
                return layout
            return self._laid(index, options.folding, selected, room)
        moves = (
            selected
            if options.folding == "losers"
            or (selected is not None and selected in round_tree.nodes and (not round_tree.nodes[selected].kept))
            else None
        )
        return self._laid(index, options.folding, moves, room)

    def _laid(self, index: int, folding: Folding, selected: int | None, room: TreeViewport) -> TreeLayout:
        round_tree = self.round_tree(index)
        key = (index, round_tree.record.stamp, id(round_tree), folding, selected, room)
        if key not in self._layouts:
            self._layouts[key] = layout(round_tree, folding, selected, room)
        return self._layouts[key]

    def _whole(self, index: int, options: Options) -> TreeLayout | None:
        """The places of all nodes, where a map of them is wanted."""
        return self._laid(index, "pruned", None, TreeViewport()) if options.room.map_rows else None

    def frame(
        self,
        cursor: Cursor,
        options: Options,
        feed: Feed,
        *,
        playing: bool = False,
        following: bool = True,
        speed: float = 1.0,
        queue: Queue | None = None,
        at_end: bool = True,
    ) -> Frame:
        run, queue = self.run, queue or Queue()
        metrics = self.meter.metrics(run) if run.rounds else None
        status = state(
            run,
            feed,
            playing=playing,
            following=following,
            waiting=queue.waiting,
            speed=speed,
            ascii=options.ascii,
            at_end=at_end,
        )
        if not run.rounds:
            return self._empty(status, options, feed, queue, speed, following)
        record = run.rounds[cursor.index]
        round_tree, at = self._known(cursor.index)
        now = moment(round_tree, cursor)
        selected = self._selected(round_tree, now, options)
        prefill = record.query.prefill
        judgement = self._judged(metrics)
        places, whole = self._layout(cursor.index, options, selected), self._whole(cursor.index, options)
        seen = tree(run, round_tree, now, places, options, selected, whole)
        scene = PanelContext(round_tree, now, seen, selected, metrics, options.ascii, judgement)
        panels, reading = self._models(scene, options)
        return Frame(
            run=run_info(run, record.knobs, prefill.seed if prefill else None, overhead(metrics)),
            state=status,
            cursor=cursor,
            query=record.q,
            round=record.r,
            n_rounds=record.query.n_rounds,
            phase=cursor.phase,
            phase_text=phase_text(record, cursor.phase),
            step=cursor.step,
            n_steps=at.count(cursor.phase),
            strip=strip(run, round_tree, now),
            tree=seen,
            counts=counts(round_tree, now, options.ascii, run.backward) if run.tells_tokens else _NO_COUNTS,
            why=why(run, round_tree, selected, now, options.ascii, remarks(run, round_tree, selected))
            if selected is not None
            else None,
            knobs=self._knob_bar(record, options, feed),
            metrics=header_metrics(metrics),
            timeline=self._time(cursor.index),
            queue=queue,
            value_mode=options.value,
            selected=selected,
            speed=speed,
            following=following,
            notices=notices(run),
            n_warnings=len(run.warnings),
            panels=panels,
            judgement=judgement,
            unfit=self._unfit(),
            reading=reading,
        )

    def _empty(self, status: Any, options: Options, feed: Feed, queue: Queue, speed: float, following: bool) -> Frame:
        run = self.run
        waiting = "waiting for the first round" if run.end is None else "the run ended before its first round"
        tokens = tuple(run.queries[-1].tokens) if run.queries else ()
        prefill = run.queries[-1].prefill if run.queries else None
        return Frame(
            run=run_info(run, run.knobs, prefill.seed if prefill else None, overhead(None)),
            state=status,
            cursor=Cursor(),
            query=0,
            round=0,
            n_rounds=0,
            phase=Phase.ROOT,
            phase_text="",
            step=0,
            n_steps=0,
            strip=Strip(tokens, prefill.n_prompt if prefill else 0, "0 tok"),
            tree=TreeFrame((), (), (), 0, 0, (), missing=waiting),
            counts=_NO_COUNTS,
            why=None,
            knobs=self._knob_bar(None, options, feed),
            metrics=header_metrics(None),
            timeline=Timeline((), 0, "", "r0/0"),
            queue=queue,
            value_mode=options.value,
            selected=None,
            speed=speed,
            following=following,
            notices=notices(run),
            n_warnings=len(run.warnings),
            panels={panel.id: panel.empty(waiting) for panel in self._shown(options)},
        )

    def _models(self, scene: PanelContext, options: Options) -> tuple[dict[str, Any], float | None]:
        """The models of the panels that are shown; one that has much of a long run to read first says how far it is."""
        models: dict[str, Any] = {}
        share: float | None = None
        for panel in self._shown(options):
            left = self._read_on(panel, scene.record.index, options.patience_s)
            if left > AT_ONCE:
                share = max(0.0, 1 - left / len(self.run.rounds))
                models[panel.id] = panel.empty(READING.format(percent(share)))
            else:
                models[panel.id] = panel.build(scene, panel.chosen(options))
        return models, share

    def _read_on(self, panel: Panel[Any, Any], index: int, patience_s: float | None) -> int:
        """Rounds that are left to be read when so much time has gone; 0 where nobody is impatient: the panel reads them
        itself."""
        if patience_s is None:
            return 0
        until = time.monotonic() + patience_s
        left = panel.n_unread()
        while left > AT_ONCE:
            panel.advance(_SLICE)
            before, left = left, panel.n_unread()
            if left >= before:
                break  # what is left cannot be looked at: a round in between never came to its end
            if time.monotonic() >= until and left > AT_ONCE:
                return left
        rounds = self.run.rounds
        away = [k for k in panel.window(index) if not rounds.in_memory(k)]
        while away:
            rounds[away.pop()]  # it stays cached
            if len(away) > AT_ONCE and time.monotonic() >= until:
                return len(away)
        return 0

    def _shown(self, options: Options) -> list[Panel[Any, Any]]:
        """Models of the panels named in `options.shown`, as this run has them."""
        wanted = options.panels if options.shown is None else options.shown
        kinds = [kind for kind in all_panels() if kind.id in wanted]
        return [self._panel(kind) for kind in kinds]

    def _panel(self, kind: AnyPanel) -> Panel[Any, Any]:
        if kind not in self._panels:
            panel = self._panels[kind] = kind(self.run)
            kept = self._counted.panels.get(kind.id) if self._counted is not None else None
            if kept:
                try:
                    panel.from_cache(kept)
                except (msgspec.MsgspecError, ValueError):  # of another version of it: it counts for itself
                    self._panels[kind] = kind(self.run)
        return self._panels[kind]

    def _unfit(self) -> frozenset[str]:
        """The panels that this run has nothing for, as far as its first rounds tell."""
        run = self.run
        if run.header is None:
            return frozenset()
        key = (run.header.run, min(len(run.rounds), _TELLING), len(all_panels()))
        return self._unfits.of(key, lambda: frozenset(panel.id for panel in all_panels() if not panel.relevance(run)))

    def _selected(self, tree: RoundTree, now: Moment, options: Options) -> int | None:
        wanted = options.selected
        if wanted is not None and _exists(tree, wanted) and now.visible(tree, wanted):
            return wanted
        looks_at = (panel.follows(tree, now) for panel in self._shown(options))
        return next((node for node in looks_at if node is not None and _exists(tree, node)), followed(tree, now))

    def _judged(self, metrics: "Metrics | None") -> RunJudgement:
        """Of the rounds that have ended; worked out again when another one has."""
        if self._counted is not None:
            return self._counted.judgement
        key = (metrics, len(self.run.findings))
        return self._judgement.of(key, lambda: judge(self.run, self.meter.tally, metrics))

    def _knob_bar(self, record: RoundRecord | None, options: Options, feed: Feed) -> KnobBar:
        run = self.run
        changed = (len(run.changes), len(run.rounds), run.rounds.newest[2], run.end is None)
        key = (record and record.index, changed, tuple(options.staged.items()), tuple(options.sent.items()), feed)
        return self._knobs.of(key, lambda: knob_bar(run, record, options, feed))

    def _time(self, index: int) -> Timeline:
        """The time line; made again when a round comes or something is pinned to one."""
        run = self.run
        key = (len(run.rounds), run.rounds.newest, len(run.changes), len(run.notes), run.n_warnings)
        if self._timeline[0] != key:
            points = run.rounds.points()
            self._timeline = (key, points, self._spark.bars(run.rounds, points))
        record = run.rounds[index]
        query = f"q{record.q} " if len(run.queries) > 1 else ""
        last_of_query = run.rounds.place(record.query.first + record.query.n_rounds - 1)[1]
        label = f"{query}r{record.r}/{last_of_query}"
        return Timeline(self._timeline[1], index, self._timeline[2], label)


def _exists(tree: RoundTree, node: int) -> bool:
    closing = tree.record.closing
    if node == CLOSING:
        return closing is not None and closing.token is not None
    return node == ROOT or node in tree.nodes


def followed(tree: RoundTree, now: Moment) -> int:
    """The node the inspector shows when the user selected none: the one whose state changed last."""
    tests = tree.tests
    if now.phase == Phase.ROOT or (not tree.nodes and now.phase < Phase.CLOSE):
        return ROOT
    if now.phase in (Phase.DRAFT, Phase.VERIFY):
        return now.testing if now.testing is not None else next(iter(tree.kept_nodes), ROOT)
    if now.phase == Phase.ACCEPT:
        return next((v.node for v in tests if v.node in now.fresh), ROOT)
    lost = [v.node for v in tests if v.status == "rejected" and tree.same_row(v.node)]
    if now.phase == Phase.COMMIT and lost:
        return lost[-1]
    closes = _exists(tree, CLOSING)
    return CLOSING if closes else tree.accepted[-1] if tree.accepted else ROOT


def phase_text(record: RoundRecord, phase: Phase) -> str:
    """`phase 4/6 ACCEPT/REJECT`."""
    text = PHASE_WORDS[phase]
    if phase == Phase.CLOSE and record.closing is not None:
        text = _CLOSES.get(record.closing_mark or "", "RESAMPLE")
    return f"phase {int(phase)}/6 {text}"


_NO_COUNTS = Counts("")


def counts(tree: RoundTree, now: Moment, ascii: bool = False, backward: bool = False) -> Counts:
    """What has happened up to this moment; totals of the round where only those are recorded."""
    end = tree.record.end
    if not tree.nodes and end is not None and end.n_drafted:
        return _totals(tree, ascii, backward)
    born = [i for i in tree.nodes if now.visible(tree, i)]
    kept = [i for i in born if tree.nodes[i].kept]
    tested = [v for v in now.verdicts.values() if v.order is not None and v.node in tree.nodes]
    accepted = sum(v.status == "accepted" for v in tested)
    rejected = len(tested) - accepted
    implied = sum(v.status == "accepted" and v.order is None for v in now.verdicts.values())
    untested = len(kept) - len(tested) - implied
    closing = now.mark(tree, CLOSING) if now.phase >= Phase.CLOSE and _exists(tree, CLOSING) else None
    parts = [f"{len(kept)} drafted"]
    if now.phase >= Phase.ACCEPT and kept:
        parts.append(f"tested {len(tested)}: {glyph('accepted', ascii)}{accepted} {glyph('rejected', ascii)}{rejected}")
        parts += [f"kept with them {glyph('accepted', ascii)}{implied}"] if implied else []
        parts += [f"never tested {untested}"] if now.all_tested and untested else []
    parts += [f"pruned {len(born) - len(kept)}"] if len(born) > len(kept) else []
    parts += [_drawn(closing, ascii)] if closing else []
    return Counts(" · ".join(parts), closing)


def _drawn(mark: Mark, ascii: bool) -> str:
    return f"{mark} {glyph(mark, ascii)}1"


def _totals(tree: RoundTree, ascii: bool, backward: bool) -> Counts:
    """Of a backward scan the tests say little: what is not kept has failed."""
    end = tree.record.end
    assert end is not None
    lost = max(0, (end.n_drafted if backward else end.n_tested) - end.n_accepted)
    closing = tree.record.closing_mark
    fates = f"{glyph('accepted', ascii)}{end.n_accepted} {glyph('rejected', ascii)}{lost}"
    parts = [f"{end.n_drafted} drafted", fates if backward else f"tested {end.n_tested}: {fates}"]
    parts += [_drawn(closing, ascii)] if closing else []
    return Counts(" · ".join(parts), closing)


def notices(run: Run) -> tuple[str, ...]:
    """The last warnings, and how the run ended when it did not end well."""
    lines = [warning_text(w) for w in run.warnings[-_NOTICES:]]
    if run.end is not None and run.end.reason not in ("done", "stopped"):
        lines.append(f"{run.end.reason.replace('_', ' ')}: {run.end.message or 'the trace is kept'}")
    return tuple(lines)
