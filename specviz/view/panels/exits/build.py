"""`ExitsPanel`: the layers a round climbed. Keeps what was worked out for rounds that do not change any more."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from specviz.numerals import prob
from specviz.runlog.fold import Run
from specviz.runlog.run import Query, RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.traits import MethodTraits
from specviz.view.blocks import Facts, Plot
from specviz.view.frame.parts import WhyRow
from specviz.view.frame.series import metric
from specviz.view.frame.steps import Moment
from specviz.view.panels import CachedValue, Panel, PanelContext
from specviz.view.panels.exits.climbs import Climbs, HeadPrediction
from specviz.view.panels.exits.model import Column, ExitOptions, HeatMap, LayersModel
from specviz.view.panels.exits.parts import GateTally, gate_plot, ledger, spent, stairs, timing
from specviz.view.panels.exits.sweeps import Sweeps, sweeps
from specviz.view.panels.exits.text import cell_info, over_run
from specviz.view.words.palette import Phase

COLUMNS = 64  # rows on the map
_KEPT = 128
_FAR = 2 * COLUMNS  # rounds that are looked back: some have no rows
_ORACLES = 8  # queries whose oracle is kept
_NUMBERS = (  # name, label, help
    ("exit_rate", "exits", "rows that stopped before the top / rows"),
    ("mean_exit_layer", "mean layer", "mean layer of the rows that stopped"),
    ("wrong_exit_rate", "wrong exits", "exits whose draft the target did not choose / exits judged"),
    ("layer_calls_per_token", "calls/token", "layer calls / new tokens; plain decoding takes one per layer"),
    ("cells_per_token", "cells/token", "layer x row cells / new tokens: arithmetic, never below the number of layers"),
    ("head_tests_per_token", "tests/token", "head tests / new tokens"),
)


class ExitsPanel(Panel[ExitOptions, LayersModel]):
    """Of one run."""

    id, title, options = "exits", "Layers", ExitOptions

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._climbs: OrderedDict[int, tuple[Any, Climbs, tuple[Column, ...]]] = OrderedDict()
        self._oracles: dict[int, tuple[Any, HeadPrediction]] = {}
        self._sweeps = CachedValue[Sweeps]()
        self._gates = GateTally()

    @classmethod
    def needs(cls, traits: MethodTraits) -> bool:
        """A drafter that goes through the target's own layers."""
        return traits.exits != "none"

    def empty(self, reason: str) -> LayersModel:
        return LayersModel(reason)

    def on_evict(self, record: RoundRecord) -> None:
        self._gates.take(record)

    def n_unread(self) -> int:
        """Gates are counted over the run; a method without them has none to count."""
        counted = self.needs(self.run.method_traits) and self.run.level != "none"
        return self._gates.n_unread(self.run.rounds) if counted else 0

    def advance(self, n_rounds: int) -> None:
        self._gates.add(self.run.rounds, n_rounds)

    def kept(self) -> bytes:
        return self._gates.kept()

    def from_cache(self, data: bytes) -> None:
        self._gates.from_cache(data)

    def window(self, index: int) -> range:
        """Those whose rows may stand on the map."""
        return range(max(0, index - COLUMNS), index) if self.needs(self.run.method_traits) else range(0)

    def build(self, scene: PanelContext, options: ExitOptions) -> LayersModel:
        """The rows of this round and of those before it."""
        round_tree, now, ascii = scene.round_tree, scene.now, scene.ascii
        if not self.needs(self.run.method_traits):
            return LayersModel(self._missing(round_tree.record))
        here, _ = self._known(round_tree.record, round_tree, ascii)
        judged = now.all_tested or now.phase >= Phase.CLOSE
        columns = here.columns(self._shown(here, now), judged) if here.climbs else ()
        before = self._before(round_tree.record, COLUMNS - len(columns), ascii)
        if not columns and not before:
            return LayersModel(self._missing(round_tree.record))
        self._gates.add(self.run.rounds)
        paid, calls = ledger(here, columns, judged)
        plots, swept = self._swept(round_tree.record)
        metrics = (
            metric(name, label, None if scene.metrics is None else scene.metrics[name], help_)
            for name, label, help_ in _NUMBERS
        )
        heat = self._heat(here, (*before, *columns), scene.selected, options)
        return LayersModel(
            missing=None,
            heat=heat,
            stairs=stairs(here, columns),
            ledger=paid,
            calls=calls,
            gates=self._gates_of(here),
            timing=timing(round_tree.record) if judged else "",
            cell=self._cell(heat, ascii),
            numbers=Facts("exits", tuple(WhyRow(one.label, one.text, None, one.help) for one in metrics)),
            sweeps=plots,
            swept=swept,
            oracle=over_run(heat.columns, here.n_layers)
            or "which layer was right first is not known: neither an exit_table nor watched rows in this trace",
        )

    # The rows ---------------------------------------------------------------------------------------------------------

    def _known(self, record: RoundRecord, tree: RoundTree | None, ascii: bool) -> tuple[Climbs, tuple[Column, ...]]:
        """A round's climbs and all of its rows as they ended."""
        oracle = self._oracle(record)
        key = (record.serial, record.stamp, id(oracle), ascii)
        held = self._climbs.get(record.index)
        if held is None or held[0] != key:
            climbs = Climbs(self.run, tree or RoundTree(record), ascii, oracle)
            held = (key, climbs, climbs.columns() if climbs.climbs else ())
            self._climbs[record.index] = held
            if len(self._climbs) > _KEPT:
                self._climbs.popitem(last=False)
        return held[1], held[2]

    def _oracle(self, record: RoundRecord) -> HeadPrediction | None:
        target = self.run.header.models.target if self.run.header else None
        if target is None or not target.n_layers:
            return None
        query: Query = record.query
        alpha = record.knobs.get("alpha", 0.0)
        key = (id(query), len(query.exit_table), 0 if query.exit_table else query.n_rounds, alpha)
        held = self._oracles.get(query.number)
        if held is None or held[0] != key:
            held = (key, HeadPrediction(query, float(alpha), target.n_layers))
            self._oracles[query.number] = held
            if len(self._oracles) > _ORACLES:
                self._oracles.pop(next(iter(self._oracles)))
        return held[1]

    def _shown(self, here: Climbs, now: Moment) -> int:
        """Rows whose climb has begun at this moment: one a drafted token, the last with the target pass."""
        if now.phase == Phase.ROOT:
            return 0
        return now.n_levels if now.phase == Phase.DRAFT else len(here.climbs)

    def _before(self, record: RoundRecord, room: int, ascii: bool) -> tuple[Column, ...]:
        """The rows of earlier rounds of the same query, as they ended."""
        columns_by_round: list[tuple[Column, ...]] = []
        rounds = self.run.rounds
        for index in range(record.index - 1, max(record.query.first, record.index - _FAR) - 1, -1):
            columns = self._known(rounds[index], None, ascii)[1]
            room -= len(columns)
            if room < 0:
                break
            columns_by_round.append(columns)
        return tuple(column for columns in reversed(columns_by_round) for column in columns)

    # The map ----------------------------------------------------------------------------------------------------------

    def _heat(self, here: Climbs, columns: tuple[Column, ...], selected: int | None, options: ExitOptions) -> HeatMap:
        setting = here.setting
        tested = setting.layers if setting else ()
        at = self._at(here, columns, selected, options.column)
        column = columns[at]
        layer = options.layer or column.exit_layer or (setting.deepest if setting else 0) or here.n_layers
        layer = max(1, min(layer, here.n_layers))
        conf = column.cells[layer - 1].conf
        tau = setting.tau if setting else None
        if self.run.method_traits.exits == "fixed":  # its layer stops every row
            conf = tau = None
            tested = ()
        what = options.what_tau if options.what_tau is not None else conf if conf is not None else tau
        source = "" if options.what_tau is not None else " (cursor)" if conf is not None else " (as it is)"
        return HeatMap(
            columns=columns,
            would=tuple(would(c, tested, what) for c in columns),
            n_layers=here.n_layers,
            tested=tested,
            column=at,
            layer=layer,
            tau=tau,
            what_tau=what,
            what_text="" if what is None else f"⇢ would exit at τ {prob(what)}{source}",
            words=self._map_words(setting.layers if setting else ()),
            note=self._note(columns, here.n_layers),
        )

    def _at(self, here: Climbs, columns: Sequence[Column], selected: int | None, wanted: tuple[int, int] | None) -> int:
        places = {(column.index, column.row): k for k, column in enumerate(columns)}
        index = here.record.index
        if wanted is not None and wanted[0] != index and wanted in places:
            return places[wanted]
        return places.get((index, here.row_of(selected)), len(columns) - 1)

    def _map_words(self, tested: Sequence[int]) -> str:
        parts = self.run.header.models.parts if self.run.header else {}
        trained_parts = " · ".join(f"{name}: {parts[name]}" for name in ("heads", "adapter") if parts.get(name))
        if not tested:
            return f"no layer has a test{' · ' if trained_parts else ''}{trained_parts}"
        where = f"tests after {'layer' if len(tested) == 1 else 'layers'} {', '.join(map(str, tested))}"
        return f"{where} · {trained_parts}" if trained_parts else where

    def _note(self, columns: Sequence[Column], n_layers: int) -> str:
        known = {cell.layer for column in columns for cell in column.cells if cell.conf is not None}
        gated = any(cell.source == "test" and not cell.took for column in columns for cell in column.cells)
        if len(known) >= n_layers - 1 or not columns or not (gated or len(known) > 1):
            return ""
        return (
            "other layers were not asked: --observe-all on watches them, specviz whatif .. --sweep --write asks them "
            "afterwards"
        )

    def _gates_of(self, here: Climbs) -> Plot | None:
        words = ""
        if self.run.method_traits.exits == "fixed" and (setting := here.setting) is not None:
            layers = ", ".join(map(str, setting.layers))
            words = (
                f"No test decides where a row stops: layer {layers} always does. τ {prob(setting.tau)} decides whether "
                "to draft on: a draft less sure is the round's last."
            )
        return gate_plot(here.setting, self._gates, words)

    def _cell(self, heat: HeatMap, ascii: bool) -> Any:
        if heat.column is None:
            return None
        column = heat.columns[heat.column]
        climbs, _ = self._known(self.run.rounds[column.index], None, ascii)
        return cell_info(climbs, column, heat.layer, [c for c in heat.columns if c.index == column.index])

    # The run ----------------------------------------------------------------------------------------------------------

    def _swept(self, record: RoundRecord) -> Sweeps:
        queries = tuple((len(q.exit_table), q.n_rounds) for q in self.run.queries)
        names = ("alpha", "tau", "d_max", "w_max", "exit_layers")
        key = (queries if any(n for n, _ in queries) else (), tuple(str(record.knobs.get(name)) for name in names))
        return self._sweeps.of(key, lambda: sweeps(self.run, record))

    def _missing(self, record: RoundRecord) -> str:
        header = self.run.header
        method = header.method if header else ""
        if header is not None and header.imported:
            return f"{header.imported} records counts only: no layer is in this trace."
        if not self.needs(self.run.method_traits):
            return (
                f"{method} does not draft with the target's own layers, so no row stops on its way up.\n"
                "To see one: specviz run --method specbound --example code --record exits.sv.jsonl"
            )
        if self.run.method_traits.exits == "skipped" and self.run.level != "none":
            return (
                f"{method} drafts with some sublayers skipped: its drafting rows are not the target's, so no "
                "row stops on its way up and nothing is left to catch up.\nHow sure every draft was, and when drafting "
                f"stopped, stands on screen 3 (Lanes).{spent(record)}"
            )
        if self.run.level == "none":
            return "Recorded with --level none: no climbs. Record again with --level full."
        if not record.complete:
            return "The climbs of a round are written when it ends."
        return f"This trace of {method} has no climbs: record it again."


def would(column: Column, tested: Sequence[int], tau: float | None) -> int | None:
    """Where a row would stop at another threshold; 0: nowhere. None where a layer on the way was never asked."""
    if tau is None:
        return None
    for layer in tested:
        conf = column.cells[layer - 1].conf
        if conf is None:
            return None
        if conf >= tau:
            return layer
    return 0
