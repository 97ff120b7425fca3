"""Records of early exit: who climbed which layers, where it was asked to stop, and what a round of it cost.

A *climb* is one row's way up (the papers' walk). Cells, pending depth and sweep widths are folded from `fill_after`
and `width`, never written. Layers count from 1.
"""

from typing import Annotated, Literal

from msgspec import Meta

from specviz.events.base import Count, Depth, Event, FullRecord, Id, Ns, Position, Positive, Prob, Real, SummaryRecord

Source = Literal["root", "draft"]
Calls = Annotated[int, Meta(ge=0, le=2**24)]  # of layers by rows
GRID = tuple(round(step / 10, 1) for step in range(41))  # the annealing strengths `ExitTable.conf` is stored for


class LayerTrace(SummaryRecord, tag="climb", kw_only=True):
    """One row's climb. Layer `layer_from + k` was called with `width[k]` rows behind `past_len[k]` cached ones.

    `exit_layer` null: it went to the top. `terminal`: that was the last climb of the round, which is the target pass.
    `draft_token`: what was drafted after the row, a stop token that the row then judged itself included. `raw_conf`:
    the head's own largest probability there. Layers that ran in one call share its time evenly.
    """

    row: Depth
    pos: Position
    token: Id
    source: Source
    exit_layer: Depth | None
    terminal: bool
    draft_token: Id | None
    raw_conf: Prob | None
    layer_from: Depth
    past_len: list[Position]
    width: list[Depth]
    layer_ns: list[Ns]
    fill_after: list[Position]


class Gate(SummaryRecord, tag="gate", kw_only=True):
    """One test: stop when `conf >= tau`, `conf` being the largest probability at temperature `temp`.

    `raw_thr` says the same of `raw_conf`: the raw probability that would just have passed, the other logits unmoved.
    `top1` is the head's own most likely token. `agrees`: whether the target then chose that token; null where it was
    never asked. `observed_only`: a look besides the tests, taken after all was decided; `took` is then false.
    """

    row: Depth
    layer: Depth
    raw_conf: Prob
    temp: Positive
    conf: Prob
    tau: Real
    raw_thr: Real
    took: bool
    top1: Id
    observed_only: bool = False
    top2: Id | None = None
    margin: Real | None = None
    entropy: Real | None = None
    head_ns: Ns | None = None
    agrees: bool | None = None


class ExitRound(SummaryRecord, tag="exit_round", kw_only=True):
    """What a round cost. `layer_calls` stand for time on one sequence, `cells` (layer x row) for arithmetic.

    `saved_calls`: those of plain decoding for the kept drafts, less what drafting took; may be negative.
    `wasted_cells`: of rejected rows. `predicted_ns`: from the measured cost of layers and heads, null without.
    """

    n_rows: Depth
    layer_calls: Calls
    cells: Calls
    head_tests: Calls
    saved_calls: Annotated[int, Meta(ge=-(2**24), le=2**24)]
    wasted_cells: Calls
    predicted_ns: Ns | None = None


class ExitTable(FullRecord, tag="exit_table", kw_only=True):
    """What one head says after the token at `pos`, from one pass over the finished text.

    `conf[k]`: the largest probability at the layer's temperature for annealing strength `alpha = k / 10`, up to 4.
    Whatever tau, depth, width and (grid) alpha: the rounds follow from these (specviz.cost.exit_replay).
    """

    pos: Position
    layer: Depth
    top1: Id
    conf: Annotated[list[Prob], Meta(min_length=len(GRID), max_length=len(GRID))]


class Calibration(Event, tag="calibration", kw_only=True):
    """Measured costs of this machine. `target_ns[k]`: a pass of `widths[k]` rows through the whole target, its head
    included; `draft_ns[k]`: of as many siblings through the draft model.

    Costs as lines: a draft forward of b rows takes `t_ns (1 + kappa_q (b-1))`, a target forward of w rows
    `c t_ns (1 + kappa_p (w-1))`; without a draft model `t_ns` and `c` are null. `repeats`: each number is the median of
    so many passes; fewer than 20 when the models are too slow for the time set aside. Early exit: `layer_ns[k]` and
    `final_ns[k]` by `exit_widths[k]` for one layer and for the final head, `test_ns` a head test, `pass_ns` what every
    call costs besides its layers. `plain_ns`: a pass over one
    row without the padding of exact rows, where they need some. `age_s`: from the timing to this record, as costs of a
    pair are timed once in a process; null in older traces. `behind_ns`: passes of plain decoding over one row, by the
    wall, right behind the text of this very run.
    """

    t_ns: Ns | None = None
    c: Real | None = None
    kappa_q: Real | None = None
    kappa_p: Real | None = None
    widths: list[Depth] = []
    target_ns: list[Ns] = []
    draft_ns: list[Ns] = []
    repeats: Count = 0
    exit_widths: list[Depth] = []
    layer_ns: list[Ns] = []
    final_ns: list[Ns] = []
    test_ns: Ns | None = None
    pass_ns: Ns | None = None
    plain_ns: Ns | None = None
    age_s: Real | None = None
    behind_ns: list[Ns] = []

    @property
    def has_rows(self) -> bool:
        """Whether anything was timed by rows; passes behind the text alone are no costs to reckon with."""
        return bool(self.t_ns or self.target_ns)
