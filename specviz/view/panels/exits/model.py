"""What the screens *Layers* and *Early exit* show: who climbed how far, what the heads said, who paid and who earned.

Texts are escaped and formatted, None is unknown, `missing` says why a part is empty, layers count from 1. A *column* is
a row of the model: a token that climbs. What a head says there is about the token after it.
"""

from dataclasses import dataclass, replace
from typing import Literal

from specviz.runlog.run import Mark
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.parts import Metric, WhyRow
from specviz.view.panels.exits.sweeps import Sweeps
from specviz.view.words.palette import CellKind as Kind

Source = Literal["test", "observed", "replayed"]  # asked and decided; only watched; from a pass over the finished text
BANDS: tuple[tuple[float, str], ...] = ((0.0, "<.5"), (0.5, ".5–.8"), (0.8, ".8–.95"), (0.95, "≥.95"))  # from, words


@dataclass(frozen=True, slots=True)
class ExitOptions(PanelOptions):
    """What was chosen in the panel."""

    layer: int | None = None  # under the cursor; None: where the row stopped
    column: tuple[int, int] | None = None  # (round over the run, row), when it is not in the round on screen
    what_tau: float | None = None  # a threshold to try; None: the confidence under the cursor

    def moved(self) -> "ExitOptions":
        """The selected node's row again."""
        return replace(self, column=None)

    def let_go(self) -> "ExitOptions":
        """The selected node's row, where it stopped."""
        return replace(self, column=None, layer=None)


@dataclass(frozen=True, slots=True)
class ExitCell:
    """One layer at one row. `conf` is at the annealed temperature; `source` None where no head was asked."""

    layer: int
    kind: Kind | None  # None: not computed yet at this moment
    climb: int | None  # row whose climb computed it
    width: int | None  # rows in that call
    conf: float | None = None
    raw: float | None = None
    raw_thr: float | None = None
    band: int | None = None  # index into BANDS
    source: Source | None = None
    took: bool = False  # the row stopped here; a drafted end token is not fed, so its row has stopped nowhere
    top1: str | None = None  # what the head says comes next
    agrees: bool | None = None  # whether the target chose that


@dataclass(frozen=True, slots=True)
class Column:
    """A row of the model. `node`: its token in the tree, the root (-1) for the first row of a round."""

    index: int  # of the round, over the run
    round: int
    row: int
    pos: int
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
    widths: tuple[int, ...]  # rows in each of its calls, layer `first` up
    first: int
    took_along: tuple[int, ...]  # rows that rode along somewhere


@dataclass(frozen=True, slots=True)
class PendingStairs:
    """Pending depth over the climbs of the round."""

    steps: tuple[StairStep, ...]
    n_layers: int
    words: str


@dataclass(frozen=True, slots=True)
class ClimbEntry:
    """What one climb paid and earned, in layer calls."""

    row: int
    shown: str
    mark: Mark
    glyph: str
    what: str  # "drafts ▁rug at layer 7", "verifies"
    paid: int
    earned: int
    net: int
    net_text: str  # "+5", "−7", "0"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The round in both currencies. `missing`: the verdict is not in yet."""

    entries: tuple[ClimbEntry, ...]
    paid: int
    earned: int
    net: int
    calls: str  # "26 layer calls for 3 tokens, plainly 36: 10 saved"
    cells: str  # "36 cells, plainly 36: none saved, 0 wasted on rejected rows"
    words: str
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class GateLayer:
    """What the test of a layer asks. `one_rival`: raw confidence it asks against a single other token."""

    layer: int
    temp: float
    one_rival: float | None
    raw_thr: float | None  # median of what it asked of the rows of this run, whose other tokens share mass
    n_tests: int
    n_stops: int
    n_wrong: int
    tested: bool  # in this round


@dataclass(frozen=True, slots=True)
class GateCurve:
    """Temperature and effective threshold over the layers."""

    layers: tuple[GateLayer, ...]
    tau: float | None
    alpha: float | None
    words: str


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Predicted and measured time of the round, without verdict and commit."""

    predicted_ns: int | None
    measured_ns: int | None
    text: str


@dataclass(frozen=True, slots=True)
class CellInfo:
    """The cell under the cursor, in numbers and in words. `trajectory`: (layer, confidence, what it says, agrees)."""

    title: str
    mark: Mark
    column: Column
    layer: int
    rows: tuple[WhyRow, ...]
    trajectory: tuple[tuple[int, float, str, bool | None], ...]
    trace: tuple[WhyRow, ...]  # the same as one spark line per token
    words: str
    node: int


@dataclass(frozen=True, slots=True)
class LayersModel:
    """Everything about early exits at one moment. `missing`: why there is nothing in this round."""

    missing: str | None
    heat: HeatMap | None = None
    stairs: PendingStairs | None = None
    ledger: Ledger | None = None
    gates: GateCurve | None = None
    timing: RoundTimes | None = None
    cell: CellInfo | None = None
    numbers: tuple[Metric, ...] = ()
    sweeps: Sweeps | None = None
    oracle: str = ""  # oracle and regret over the run, or why they are not known
