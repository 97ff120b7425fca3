"""The rows of an early-exit round, from its records: which climb computed which cell, what heads said, what became
of it. Nothing here depends on where in the round we look, but for `shown` and `judged`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from specviz.cost.exit_setting import ExitSetting, exit_setting
from specviz.events import ExitTable, Gate, LayerTrace, Verify
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, Query, RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.view.frame.steps import node_text
from specviz.view.panels.exits.model import Column, ExitCell
from specviz.view.words.palette import ROOT, CellKind, glyph

Computed = tuple[CellKind, int, int]  # how, in whose climb, with how many rows in the call


@dataclass
class Climbs:
    """The climbs of one round."""

    run: Run
    round_tree: RoundTree
    ascii: bool = False
    oracle: "HeadPrediction | None" = None  # what heads say of the finished text

    @property
    def record(self) -> RoundRecord:
        return self.round_tree.record

    @cached_property
    def climbs(self) -> list[LayerTrace]:
        """In the order they happened, one per row."""
        return self.record.every(LayerTrace)

    @cached_property
    def setting(self) -> ExitSetting | None:
        """Thresholds and layers of the round."""
        return exit_setting(self.run, self.record)

    @property
    def n_layers(self) -> int:
        exit_knobs = self.setting
        return exit_knobs.n_layers if exit_knobs else max((len(c.fill_after) for c in self.climbs), default=0)

    @property
    def first(self) -> int:
        """Position of row 0."""
        return self.climbs[0].pos if self.climbs else self.record.start.n - 1

    @cached_property
    def gates(self) -> Mapping[tuple[int, int], Gate]:
        """What heads said, by row and layer."""
        return {(gate.row, gate.layer): gate for gate in self.record.every(Gate)}

    @cached_property
    def _nodes(self) -> Mapping[int, int]:
        """The drafted node by its depth: the draft is a chain."""
        return {depth: node for node, depth in self.round_tree.depth.items() if node != ROOT}

    def node(self, row: int) -> int:
        """The node whose token climbs as this row."""
        return self._nodes.get(row, ROOT)

    def child(self, row: int) -> int | None:
        """The node drafted after this row, a stop token that was not fed included."""
        return self._nodes.get(row + 1)

    def row_of(self, node: int | None) -> int:
        """The row of a node. The closing token and an unfed stop token are no rows: the one that judged them."""
        last = len(self.climbs) - 1
        if node is None or node == ROOT:
            return 0
        if node in self.round_tree.depth:
            return min(self.round_tree.depth[node], last)
        return min(self.round_tree.depth.get(self.round_tree.stop, 0), last)

    def verdict(self, row: int) -> Verify | None:
        """The verdict on the draft that left this row."""
        child = self.child(row)
        return self.record.verdicts.get(child) if child is not None else None

    def chosen(self, row: int) -> int | None:
        """The token the target chose after a row; None where it was never asked."""
        commit = self.record.commit
        return commit.tokens[row] if commit is not None and row < len(commit.tokens) else None

    @cached_property
    def computed(self) -> Mapping[tuple[int, int], Computed]:
        """How every cell came about, by row and layer."""
        return {cell: how for climb in self.climbs for cell, how in self._of(climb)}

    def _of(self, climb: LayerTrace) -> Iterator[tuple[tuple[int, int], Computed]]:
        deepest = self.setting.deepest if self.setting else 0
        for k, (past, width) in enumerate(zip(climb.past_len, climb.width, strict=False)):
            layer = climb.layer_from + k
            for row in range(past - self.first, past - self.first + width):
                kind: CellKind = "own" if row == climb.row else "catch_up"
                if climb.terminal:
                    kind = "align" if layer <= deepest else "sweep"
                yield (row, layer), (kind, climb.row, width)

    def columns(self, shown: int | None = None, judged: bool = True) -> tuple[Column, ...]:
        """The first `shown` rows. `judged` False: the target has not spoken yet."""
        n = len(self.climbs) if shown is None else min(shown, len(self.climbs))
        return tuple(self._column(row, n, judged) for row in range(n))

    def _column(self, row: int, shown: int, judged: bool) -> Column:
        climb, node, verdict = self.climbs[row], self.node(row), self.verdict(row)
        mark: Mark = "root" if node == ROOT else self._mark(node, judged)
        chosen = self.chosen(row) if judged else None
        right, settled = self.oracle.layers(climb.pos, chosen) if self.oracle and judged else (None, None)
        wrong = None
        if judged and climb.exit_layer is not None and verdict is not None and verdict.status != "untested":
            wrong = verdict.status == "rejected"
        return Column(
            index=self.record.index,
            round=self.record.r,
            row=row,
            node=node,
            shown=node_text(self.run, self.round_tree, node),
            mark=mark,
            glyph=glyph(mark, self.ascii),
            status="open" if not judged else "committed" if mark in ("root", "accepted") else "rejected",
            exit_layer=climb.exit_layer,
            terminal=climb.terminal,
            drafted=None if climb.draft_token is None else self.run.word(climb.draft_token),
            chosen=None if chosen is None else self.run.word(chosen),
            wrong=wrong,
            first_right=right,
            settled=settled,
            regret=None if right is None or climb.exit_layer is None else climb.exit_layer - right,
            cells=tuple(self._cell(row, layer, shown, chosen) for layer in range(1, self.n_layers + 1)),
        )

    def _mark(self, node: int, judged: bool) -> Mark:
        verdict = self.record.verdicts.get(node)
        return "drafted" if not judged or verdict is None else verdict.status

    def _cell(self, row: int, layer: int, shown: int, chosen: int | None) -> ExitCell:
        how = self.computed.get((row, layer))
        if how is not None and how[1] >= shown:
            how = None
        bare = ExitCell(layer, *how) if how else ExitCell(layer, None, None, None)
        gate = self.gates.get((row, layer))
        if gate is not None and (how is not None or not gate.observed_only):
            return replace(
                bare,
                conf=gate.conf,
                took=self.climbs[row].exit_layer == layer,
                source="observed" if gate.observed_only else "test",
                top1=self.run.word(gate.top1),
                agrees=None if chosen is None else gate.top1 == chosen,
            )
        if gate is None and self.climbs[row].exit_layer == layer and how is not None:
            return self._drafted(bare, self.climbs[row], chosen)
        table = self.oracle.says(self.climbs[row].pos, layer) if self.oracle and chosen is not None else None
        if table is None or self.oracle is None:
            return bare
        conf = table.conf[self.oracle.grid]
        return replace(
            bare,
            conf=conf,
            source="replayed",
            top1=self.run.word(table.top1),
            agrees=table.top1 == chosen,
        )

    def raw(self, row: int, layer: int) -> tuple[float | None, float | None]:
        """What a head says at temperature 1, and what its test asks of that."""
        climb, gate = self.climbs[row], self.gates.get((row, layer))
        if gate is not None:
            return gate.raw_conf, gate.raw_thr
        if climb.exit_layer == layer:
            return climb.raw_conf, None
        table = self.oracle.says(climb.pos, layer) if self.oracle else None
        return None if table is None else table.conf[0], None

    def _drafted(self, bare: ExitCell, climb: LayerTrace, chosen: int | None) -> ExitCell:
        """A layer that always drafts: what stood behind it had a confidence, but no say in the stop (kangaroo)."""
        token, conf = climb.draft_token, climb.raw_conf
        return replace(
            bare,
            conf=conf,
            source="test",
            took=True,
            top1=None if token is None else self.run.word(token),
            agrees=None if chosen is None or token is None else token == chosen,
        )


class HeadPrediction:
    """What all heads say of the finished text of a query, from `exit_table` or, failing that, from watched rows."""

    def __init__(self, query: Query, alpha: float, n_layers: int) -> None:
        self.n_layers, self.grid = n_layers, max(0, min(40, round(alpha * 10)))
        self.table: dict[tuple[int, int], ExitTable] = {(cell.pos, cell.layer): cell for cell in query.exit_table}
        self._top1 = {place: cell.top1 for place, cell in self.table.items()}
        for record in query.rounds if not self.table else ():
            climbs = record.every(LayerTrace)
            first = climbs[0].pos if climbs else 0
            self._top1.update({(first + g.row, g.layer): g.top1 for g in record.every(Gate) if _final(record, g)})
        self.heads = tuple(sorted({layer for _, layer in self._top1}))

    def says(self, pos: int, layer: int) -> ExitTable | None:
        """What a pass over the text recorded there."""
        return self.table.get((pos, layer))

    def layers(self, pos: int, chosen: int | None) -> tuple[int | None, int | None]:
        """The first layer whose head says `chosen`, and the first from which all do; `n_layers` when none does.

        Layers count as watched when every one below the top was asked at this position.
        """
        head_tokens = [self._top1.get((pos, layer)) for layer in range(1, self.n_layers)]
        if chosen is None or None in head_tokens or not head_tokens:
            return None, None
        right = [top1 == chosen for top1 in head_tokens]
        first = next((k + 1 for k, good in enumerate(right) if good), self.n_layers)
        settled = self.n_layers
        while settled > 1 and right[settled - 2]:
            settled -= 1
        return first, settled


def _final(record: RoundRecord, gate: Gate) -> bool:
    """Whether this row became text: a rejected one stood at a position that another token holds now."""
    return record.commit is not None and gate.row < len(record.commit.tokens)
