"""What the screens *Layers* and *Early exit* show: who climbed how far, what the heads said, who paid and who earned.

Texts are escaped and formatted, None is unknown, `missing` says why a part is empty, layers count from 1. A *column* is
a row of the model: a token that climbs. What a head says there is about the token after it.
"""

from dataclasses import dataclass, replace
from typing import Literal

from specviz.runlog.run import Mark
from specviz.view.blocks import Facts, Plot, TableBlock
from specviz.view.frame.frame import PanelOptions
from specviz.view.words.palette import CellKind as Kind

Source = Literal["test", "observed", "replayed"]  # asked and decided; only watched; from a pass over the finished text
BANDS: tuple[tuple[float, str], ...] = ((0.0, "<.5"), (0.5, ".5–.8"), (0.8, ".8–.95"), (0.95, "≥.95"))  # from, words


def band(conf: float) -> int:
    """The band of a confidence, as an index into `BANDS`."""
    return max((k for k, (least, _) in enumerate(BANDS) if conf >= least), default=0)


@dataclass(frozen=True, slots=True)
class ExitOptions(PanelOptions):
    """What was chosen in the panel."""

    layer: int | None = None  # under the cursor; None: where the row stopped
    column: tuple[int, int] | None = None  # (round over the run, row), when it is not in the round on screen
    what_tau: float | None = None  # a threshold to try; None: the confidence under the cursor

    def on_seek(self) -> "ExitOptions":
        """The selected node's row again."""
        return replace(self, column=None)

    def clear_cursor(self) -> "ExitOptions":
        """The selected node's row, where it stopped; the threshold under the cursor."""
        return replace(self, column=None, layer=None, what_tau=None)


@dataclass(frozen=True, slots=True)
class ExitCell:
    """One layer at one row. `conf` is at the annealed temperature; `source` None where no head was asked."""

    layer: int
    kind: Kind | None  # None: not computed yet at this moment
    climb: int | None  # row whose climb computed it
    width: int | None  # rows in that call
    conf: float | None = None
    source: Source | None = None
    took: bool = False  # the row stopped here; a drafted end token is not fed, so its row has stopped nowhere
    top1: str | None = None  # what the head says comes next
    agrees: bool | None = None  # whether the target chose that

    @property
    def band(self) -> int | None:
        """An index into BANDS."""
        return None if self.conf is None else band(self.conf)


@dataclass(frozen=True, slots=True)
class Column:
    """A row of the model. `node`: its token in the tree, the root (-1) for the first row of a round."""

    index: int  # of the round, over the run
    round: int
    row: int
    node: int
    shown: str
    mark: Mark
    glyph: str
    status: Literal["committed", "rejected", "open"]
    exit_layer: int | None
    terminal: bool
    drafted: str | None  # the token drafted after it
    chosen: str | None  # the token the target chose after it
    wrong: bool | None  # whether its exit drafted another token than the target chose; None: no exit, or not judged
    first_right: int | None  # oracle: first layer whose head says what the target chose; n_layers when none does
    settled: int | None  # oracle: first layer from which all heads say it
    regret: int | None  # stop less first right layer; negative: stopped too early, and wrong
    cells: tuple[ExitCell, ...]  # layer 1 first


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Layers x rows, this round's last. `would[k]`: where column k stops at `what_tau`; 0: nowhere, None: unknown."""

    columns: tuple[Column, ...]
    would: tuple[int | None, ...]
    n_layers: int
    tested: tuple[int, ...]  # layers with a test in this round
    column: int | None  # under the cursor
    layer: int
    tau: float | None
    what_tau: float | None
    what_text: str  # "⇢ would exit at τ .64 (cursor)"
    words: str  # one line on what the map shows
    note: str = ""  # what this recording does not hold


@dataclass(frozen=True, slots=True)
class StairStep:
    """The staircase after a climb: how many layers each row so far has passed."""

    row: int
    shown: str
    text: str  # "stops at 7", "to the top"
    depths: tuple[int, ...]  # by row


@dataclass(frozen=True, slots=True)
class PendingStairs:
    """Pending depth over the climbs of the round; `table`: a line a climb, with the rows in each of its calls."""

    steps: tuple[StairStep, ...]
    n_layers: int
    words: str
    table: TableBlock


@dataclass(frozen=True, slots=True)
class CellInfo:
    """The cell under the cursor, in numbers and in words. `heads`: what every head says on the row's way up."""

    title: str
    mark: Mark
    column: Column
    layer: int
    facts: Facts
    heads: Plot
    words: str


@dataclass(frozen=True, slots=True)
class LayersModel:
    """Everything about early exits at one moment. `missing`: why there is nothing in this round.

    `ledger`: layer calls that every climb paid and earned, `calls` what they come to; `gates`: what the tests ask of
    every layer; `sweeps`: a chart a knob, what other thresholds would have done, with `swept` on what they rest.
    """

    missing: str | None
    heat: HeatMap | None = None
    stairs: PendingStairs | None = None
    ledger: Plot | None = None
    calls: str = ""  # "26 layer calls for 3 tokens, plainly 36: 10 saved"
    gates: Plot | None = None
    timing: str = ""
    cell: CellInfo | None = None
    numbers: Facts | None = None
    sweeps: tuple[Plot, ...] = ()
    swept: str = ""
    oracle: str = ""  # oracle and regret over the run, or why they are not known
