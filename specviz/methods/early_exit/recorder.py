"""What an early-exit round leaves on record: climbs, gates and costs.

Kept while drafting as it happens, written once the verdict is in. With `observe_all` the states of every layer are
kept and every head is asked about every row *after* the verdict: such values cannot reach a decision.

One teacher-forced pass over a finished text: what every head says after every token.

The records decide the rounds of any setting on the grid without a model (`specviz.cost.exit_replay`), because under
`walk` the text does not depend on the setting.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch

from specviz.cost.exit_replay import annealed, raw_threshold
from specviz.cost.ledger import Clock, RoundCost
from specviz.engine.decode.context import Context, Observation
from specviz.engine.model.adapter import Model
from specviz.engine.model.rows import Call, ForwardBatch, Tensor
from specviz.events import GRID, ExitRound, ExitTable, Gate, LayerTrace, six
from specviz.methods.common.top_k import RowConfidence
from specviz.methods.early_exit.heads import Heads
from specviz.methods.early_exit.spec import Limits
from specviz.probability.host import fetch


@dataclass(slots=True)
class _Walk:
    """One row's climb while it happens: where its calls begin in the ledger, and where it stopped."""

    row: int
    first_call: int
    exit_layer: int | None = None
    draft: int | None = None
    raw: float | None = None


@dataclass(slots=True)
class _Test:
    look: RowConfidence
    took: bool
    head_ns: int


@dataclass
class ExitRecorder:
    """The record of a round in the making. At level `none` it keeps nothing."""

    ctx: Context
    limits: Limits
    heads: Heads
    clock: Clock | None
    walks: list[_Walk] = field(default_factory=list)
    tests: list[_Test] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.on = self.ctx.level != "none"
        self.full = self.ctx.level == "full"
        self.watching = self.on and bool(self.ctx.knobs.get("observe_all"))
        if self.watching:  # kept as rows pass, so that watching moves no work from one stage of the round to another
            self.ctx.rows.keep(range(1, self.ctx.rows.model.n_layers))
        self._begin(self.ctx.root_row)

    def _begin(self, row: int) -> None:
        self.walks.append(_Walk(row, len(self.ctx.rows.ledger)))

    def tested(self, look: RowConfidence, took: bool, head_ns: int) -> None:
        if self.on:
            self.tests.append(_Test(look, took, head_ns))

    def drafted(self, row: int, look: RowConfidence, token: int) -> None:
        """A token was drafted after `row`. One that is not fed leaves its row climbing."""
        walk = self.walks[-1]
        walk.draft, walk.raw = token, look.raw
        if token not in self.ctx.eos:
            walk.exit_layer = look.layer
            self._begin(row + 1)

    def close(self, seen: Observation) -> None:
        """Note climbs, gates and costs, in this order, now that it is known what was kept."""
        if not self.on:
            return
        for climb in self._climbs():
            self.ctx.note(climb)
        for gate in sorted([*self._gates(seen), *self._watched(seen)], key=lambda gate: (gate.row, gate.layer)):
            self.ctx.note(gate)
        self.ctx.note(self._cost(seen))

    def _climbs(self) -> Iterator[LayerTrace]:
        rows, root = self.ctx.rows, self.ctx.root_row
        fill = [rows.first] * rows.model.n_layers
        ends = [walk.first_call for walk in self.walks[1:]] + [len(rows.ledger)]
        for walk, end in zip(self.walks, ends, strict=True):
            calls = rows.ledger[walk.first_call : end]
            past, widths, times = _by_layer(calls, fill)
            yield LayerTrace(
                row=walk.row - root,
                pos=rows.position(walk.row),
                token=rows.tokens[walk.row],
                source="root" if walk.row == root else "draft",
                exit_layer=walk.exit_layer,
                terminal=walk is self.walks[-1],
                draft_token=walk.draft,
                raw_conf=None if walk.raw is None else six(walk.raw),
                layer_from=calls[0].lo if calls else 1,
                past_len=past,
                width=widths,
                layer_ns=times,
                fill_after=list(fill),
            )

    def _gates(self, seen: Observation) -> Iterator[Gate]:
        for test in self.tests:
            yield self._gate(seen, test.look, test.took, test.head_ns if self.full else None)

    def _watched(self, seen: Observation) -> Iterator[Gate]:
        """Gates at layers that the method did not test, for the record; the top layer has none."""
        known = {(test.look.row, test.look.layer) for test in self.tests}
        n_layers = self.ctx.rows.model.n_layers
        rows = range(self.ctx.root_row, len(self.ctx.rows)) if self.watching else ()
        for layer in range(1, n_layers):
            unasked = [row for row in rows if (row, layer) not in known]
            if unasked:
                logits = self.heads.logits(layer, self.ctx.rows.states(layer, unasked))
                temp = annealed(self.limits.alpha, layer, n_layers)
                for look in RowConfidence.several(unasked, layer, logits, temp, self.full):
                    yield self._gate(seen, look, None, None)

    def _gate(self, seen: Observation, look: RowConfidence, took: bool | None, head_ns: int | None) -> Gate:
        row = look.row - self.ctx.root_row
        chosen = seen.tokens[row] if row < len(seen.tokens) else None
        return Gate(
            row=row,
            layer=look.layer,
            raw_conf=look.raw,
            temp=six(look.temp),
            conf=look.conf,
            tau=self.limits.tau,
            raw_thr=six(raw_threshold(look.raw, look.conf, look.temp, self.limits.tau)),
            took=bool(took),
            top1=look.top1,
            observed_only=took is None,
            top2=look.top2,
            margin=None if look.margin is None else six(look.margin),
            entropy=None if look.entropy is None else six(look.entropy),
            head_ns=head_ns,
            agrees=None if chosen is None or not self.full else look.top1 == chosen,
        )

    def _cost(self, seen: Observation) -> ExitRound:
        rows, outcome = self.ctx.rows, seen.outcome
        kept = sum(seen.draft.has_row(node) for node in outcome.accepted) if outcome else 0
        exits = tuple(walk.exit_layer for walk in self.walks if walk.exit_layer is not None)
        cost = RoundCost(rows.model.n_layers, exits, kept)
        calls = [call.n_rows for call in rows.ledger for _ in range(call.lo, call.hi + 1)]
        predicted: int | None = None
        if self.clock is not None:
            predicted = self.clock.round_ns(calls, len(rows.ledger), len(self.tests), len(exits) + 1)
        return ExitRound(
            n_rows=len(exits) + 1,
            layer_calls=len(calls),
            cells=sum(calls),
            head_tests=len(self.tests),
            saved_calls=cost.saved_calls,
            wasted_cells=cost.wasted_cells,
            predicted_ns=predicted,
        )


def _by_layer(calls: list[Call], fill: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Past lengths, widths and times of the layers a climb called; `fill` grows by what they took in."""
    past: list[int] = []
    widths: list[int] = []
    times: list[int] = []
    for call in calls:
        for layer in range(call.lo, call.hi + 1):
            past.append(fill[layer - 1])
            widths.append(call.n_rows)
            times.append(call.dur_ns // (call.hi - call.lo + 1))
            fill[layer - 1] += call.n_rows
    return past, widths, times


BLOCK = 64  # rows that climb together; their logits for one layer are held at once


def exit_table(target: Model, heads: Heads, tokens: Sequence[int], n_prompt: int) -> Iterator[ExitTable]:
    """Records for the last prompt token and every new token but the last, at all layers below the top.

    Runs the target once over `tokens`; nothing is decoded.
    """
    asked = [*range(1, target.n_layers)]
    cache, start = target.new_cache(len(tokens)), n_prompt - 1
    places = [*range(0, start, BLOCK), *range(start, len(tokens) - 1, BLOCK), len(tokens) - 1]
    for first, end in pairwise(places):
        yield from _block(
            target, heads, ForwardBatch(target, cache), list(tokens[first:end]), asked if first >= start else []
        )
        cache.follow(tokens[:end])


@torch.inference_mode()
def _block(target: Model, heads: Heads, rows: ForwardBatch, tokens: list[int], layers: list[int]) -> list[ExitTable]:
    rows.add_line(tokens)
    tables: list[ExitTable] = []
    for layer in sorted(layers):
        logits = heads.logits(layer, rows.climb(layer)[0])
        ids = heads.named(layer)
        named = logits if ids is None else logits.index_select(-1, ids)
        top1, conf = fetch(logits.argmax(-1), confidences(named, layer, target.n_layers))
        tables += [
            ExitTable(pos=rows.position(row), layer=layer, top1=top1[row], conf=[six(c) for c in conf[row]])
            for row in range(len(rows))
        ]
    rows.climb(target.n_layers)
    return tables


AT_ONCE = 1 << 17  # logits that are annealed at once: more do not stay in a processor's cache


def confidences(logits: Tensor, layer: int, n_layers: int) -> Tensor:
    """`[n, 41]`: the largest probability at the layer's temperature for every alpha of the grid."""
    temperatures = [annealed(alpha, layer, n_layers) for alpha in GRID]
    masses = logits.new_empty(len(logits), len(GRID))
    step = max(1, AT_ONCE // logits.shape[-1])
    for first in range(0, len(logits), step):
        part = logits[first : first + step]
        below = part - part.amax(-1, keepdim=True)
        room = torch.empty_like(below)
        for k, temperature in enumerate(temperatures):
            masses[first : first + step, k] = torch.div(below, temperature, out=room).exp_().sum(-1)
    return 1.0 / masses
