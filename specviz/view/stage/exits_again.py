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
from specviz.numerals import prob
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, RoundRecord
from specviz.view.frame.frame import Values
from specviz.view.frame.parts import WhyRow
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.decided import DecidedRound, what_if_knob, what_if_why
from specviz.view.stage.moments import RoundMoments
from specviz.view.stage.parts import StageRound, WhatIfKnob
from specviz.view.words.numbers import knob as shown_knob
from specviz.view.words.palette import CLOSING, ROOT
from specviz.whatif import ExitsAgain, replay_texts
from specviz.whatif.exits import Texts

# Texts without a reference to their run, so that the run can be freed.
_texts: WeakKeyDictionary[Run, tuple[int, Texts | None, str]] = WeakKeyDictionary()


def swept_texts(run: Run) -> tuple[Texts | None, str]:
    """The texts of a run as a replay reads them, read once; None, with the reason, for an early exit without that."""
    if run.header is None or run.header.method_traits.replay_depth is None:
        return None, ""
    held = _texts.get(run)
    if held is None or held[0] != run.version:
        try:
            held = (run.version, replay_texts(run), "")
        except SpecvizError as error:
            held = (run.version, None, f"Exit settings cannot be tried here: {error}.")
        _texts[run] = held
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
    changes: dict[str, Any] = {"moves": "slide", "text": shown_knob(value)}
    if spec.name == "alpha":  # heads were evaluated at these values only
        changes |= {"hi": GRID[-1], "step": round(GRID[1] - GRID[0], 6)}
    elif spec.name == "d_max":
        changes |= {"lo": 0, "hi": n_layers - 1}
    return WhatIfKnob(what_if_knob(spec, value, **changes), alone=True)


def next_words(replayed: ExitsAgain) -> str:
    """Where the round would end: the text parts nowhere, but the rounds after it begin elsewhere."""
    if replayed.ends == replayed.ended:
        return f"at every position; the next round would begin where it did, at {replayed.ends}"
    return f"at every position; the next round would begin at {replayed.ends} instead of {replayed.ended}"


def exits_round(builder: FrameBuilder, index: int, replayed: ExitsAgain) -> StageRound:
    """The round as it would have ended: one draft a row, the last of them wrong or not, and the target's own token.

    Nodes are numbered in the order in which they would be drafted.
    """
    frame, reasons = RoundMoments(builder, index).end()
    page = DecidedRound(builder, index, frame)
    root = msgspec.structs.replace(next(node for node in frame.tree.nodes if node.id == ROOT), column=0, row=0)
    page.add(root, reasons[ROOT])
    badges: dict[int, str] = {}
    n_layers = _n_layers(builder.run)
    for k, (token, layer) in enumerate(zip(replayed.drafts, replayed.exits, strict=True)):
        mark: Mark = "accepted" if k < replayed.kept else "rejected"
        conf = replayed.confs[k]
        rows = (
            WhyRow("confidence", prob(conf), conf, "of the head there, annealed as asked"),
            WhyRow("layer", str(layer), layer / n_layers, f"of {n_layers}"),
        )
        why = what_if_why(
            k, builder.run.word(token), mark, _stops(builder.run, replayed, layer, k < replayed.kept), rows=rows
        )
        page.add_new(k, k - 1 if k else ROOT, 0, token, mark, Values(conf=conf), why)
        badges[k] = f"layer {layer}"
    if replayed.closing is not None:
        above = replayed.kept - 1 if replayed.kept else ROOT
        mark = "recovered" if replayed.wrong else "bonus"
        words = "The target's own token closes the round."
        why = what_if_why(CLOSING, builder.run.word(replayed.closing), mark, words)
        page.add_new(CLOSING, above, int(replayed.kept in page.nodes), replayed.closing, mark, Values(), why)
    closing = (CLOSING,) if replayed.closing is not None else ()
    return page.page(
        "What if: other exit settings, on the same text.",
        replayed.kept if replayed.wrong else CLOSING if closing else ROOT,
        f"{len(replayed.drafts)} drafted, {replayed.kept} kept",
        (*range(replayed.kept), *closing),
        badges,
    )


def _stops(run: Run, replayed: ExitsAgain, layer: int, kept: bool) -> str:
    stops = f"Its row would stop after layer {layer} and draft this token"
    if kept:
        return f"{stops}, which the target chooses as well."
    right = "" if replayed.closing is None else f": the target chooses {run.word(replayed.closing)}"
    return f"{stops}, which is wrong{right}."


def _n_layers(run: Run) -> int:
    target = run.header.models.target if run.header is not None else None
    return (target.n_layers if target is not None else None) or 1
