"""Early exit on the stage under other exit settings: what its rows would have drafted, and where each would stop.

The replay is `specviz.whatif.exits`; its text is the recorded one under every setting, so only the rounds part.
"""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from specviz.cost.exit_grid import AXES
from specviz.cost.exit_setting import exit_setting
from specviz.errors import SpecvizError
from specviz.events.early_exit import GRID
from specviz.knobs import KnobSpec
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, RoundRecord
from specviz.text import LONGEST, running
from specviz.view.frame.knob_bar import label
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.document import in_force, place_of
from specviz.view.stage.moments import RoundMoments, State
from specviz.view.stage.now import control
from specviz.view.stage.parts import StageControl, StageMoment, StageNode, StageRound, StageRow, StageWhy, WhatIfKnob
from specviz.view.words.numbers import knob as shown_knob
from specviz.view.words.numbers import prob
from specviz.view.words.palette import CLOSING, ROOT, STYLES, Phase
from specviz.whatif import ExitReplay, ExitsAgain

_DIGITS = 4  # of a bar
_replays: WeakKeyDictionary[Run, tuple[int, ExitReplay | None, str]] = WeakKeyDictionary()


def replayed(run: Run) -> tuple[ExitReplay | None, str]:
    """The replay of a run's texts, read once; None, with the reason, for an early exit that cannot be replayed."""
    if run.header is None or run.header.method_traits.replay_depth is None:
        return None, ""
    held = _replays.get(run)
    if held is None or held[0] != run.version:
        try:
            held = (run.version, ExitReplay(run, {}), "")
        except SpecvizError as error:
            held = (run.version, None, f"Exit settings cannot be tried here: {error}.")
        _replays[run] = held
    return held[1:]


def exit_knobs(run: Run, record: RoundRecord, asked: Mapping[str, Any] | None = None) -> tuple[WhatIfKnob, ...]:
    """The exit settings as they were in force in a round, or as they are `asked` for."""
    own = exit_setting(run, record)
    if own is None or run.header is None:
        return ()
    values = {"alpha": own.alpha, "tau": own.tau, "d_max": own.deepest, "w_max": own.w_max} | dict(asked or {})
    specs = [spec for spec in run.header.knob_specs if spec.name in AXES and values[spec.name] is not None]
    return tuple(_knob(spec, values[spec.name], own.n_layers) for spec in specs)


def _knob(spec: KnobSpec, value: Any, n_layers: int) -> WhatIfKnob:
    moves: StageControl = msgspec.structs.replace(control(spec), kind="slide")
    if spec.name == "alpha":  # heads were asked at these strengths alone
        moves = msgspec.structs.replace(moves, hi=GRID[-1], step=round(GRID[1] - GRID[0], 6))
    elif spec.name == "d_max":
        moves = msgspec.structs.replace(moves, lo=0, hi=n_layers - 1)
    return WhatIfKnob(spec.name, label(spec), spec.help, moves, value, shown_knob(value), alone=True)


def next_words(found: ExitsAgain) -> str:
    """Where the round would end: the text parts nowhere, but the rounds after it begin elsewhere."""
    if found.ends == found.ended:
        return f"at every position; the next round would begin where it did, at {found.ends}"
    return f"at every position; the next round would begin at {found.ends} instead of {found.ended}"


def exits_round(builder: FrameBuilder, index: int, found: ExitsAgain) -> StageRound:
    """The round as it would have ended: one draft a row, the last of them wrong or not, and the target's own token."""
    return _Painted(builder, index, found).page()


class _Painted:
    """One round. Nodes are numbered in the order in which they would be drafted."""

    def __init__(self, builder: FrameBuilder, index: int, found: ExitsAgain) -> None:
        self.builder, self.index, self.found, self.run = builder, index, found, builder.run
        walk = RoundMoments(builder, index)
        self.frame, states = walk.end()
        root = msgspec.structs.replace(walk.nodes[ROOT], column=0, row=0)
        self.whys = list(walk.whys)
        self.nodes: list[StageNode] = [root]
        self.states: dict[str, State] = {str(ROOT): states[ROOT] | {"win": True}}

    def page(self) -> StageRound:
        """The round as one moment."""
        found = self.found
        for k, (token, layer) in enumerate(zip(found.drafts, found.exits, strict=True)):
            kept = k < found.kept
            words = self._words(layer, kept)
            self._add(
                k, k - 1 if k else ROOT, token, "accepted" if kept else "rejected", words, (layer, found.confs[k])
            )
        if found.closing is not None:
            above = found.kept - 1 if found.kept else ROOT
            mark: Mark = "recovered" if found.wrong else "bonus"
            self._add(CLOSING, above, found.closing, mark, "The target's own token closes the round.", None)
        record = self.run.rounds[self.index]
        return StageRound(
            index=self.index,
            place=place_of(self.builder, self.index),
            n_columns=1 + max(node.column for node in self.nodes),
            n_rows=1 + max(node.row for node in self.nodes),
            nodes=tuple(self.nodes),
            moments=(self._moment(),),
            whys=tuple(self.whys),
            knobs=in_force(self.builder, record, self.frame.knobs),
        )

    def _words(self, layer: int, kept: bool) -> str:
        stops = f"Its row would stop after layer {layer} and draft this token"
        if kept:
            return f"{stops}, which the target chooses as well."
        right = "" if self.found.closing is None else f": the target chooses {self.run.word(self.found.closing)}"
        return f"{stops}, which is wrong{right}."

    def _add(self, node: int, parent: int, token: int, mark: Mark, words: str, stop: tuple[int, float] | None) -> None:
        """`stop`: the layer that a row stopped after, and how sure its head was there."""
        above = next(each for each in self.nodes if each.id == parent)
        taken = {each.row for each in self.nodes if each.column == above.column + 1}
        row = next(row for row in range(len(taken) + 1) if row not in taken)
        reads = running(*self.run.words.get(token, ("", None)), LONGEST)
        shown = self.run.word(token)
        badge = "" if stop is None else f"layer {stop[0]}"
        self.nodes.append(StageNode(node, parent, above.column + 1, row, shown, reads, badge))
        self.whys.append(StageWhy(shown, mark, f"WHAT IF: {STYLES[mark].word.upper()}", words, rows=self._rows(stop)))
        state: State = {"mark": mark, "win": mark != "rejected", "note": "", "why": len(self.whys) - 1}
        if stop is not None:
            state |= {"q": prob(stop[1]), "qb": round(stop[1], _DIGITS)}
        self.states[str(node)] = state

    def _rows(self, stop: tuple[int, float] | None) -> tuple[StageRow, ...]:
        if stop is None:
            return ()
        layer, conf = stop
        return (
            StageRow("confidence", prob(conf), round(conf, _DIGITS), "of the head there, annealed as asked"),
            StageRow("layer", str(layer), round(layer / self._n_layers, _DIGITS), f"of {self._n_layers}"),
        )

    @property
    def _n_layers(self) -> int:
        target = self.run.header.models.target if self.run.header is not None else None
        return (target.n_layers if target is not None else None) or 1

    def _moment(self) -> StageMoment:
        kept = tuple(range(self.found.kept))
        closing = (CLOSING,) if self.found.closing is not None else ()
        return StageMoment(
            phase=int(Phase.CLOSE),
            label="what if",
            say="What if: other exit settings, on the same text.",
            at=self.found.kept if self.found.wrong else CLOSING if closing else ROOT,
            counts=f"{len(self.found.drafts)} drafted, {self.found.kept} kept",
            nodes=self.states,
            maybe=(*kept, *closing),
        )
