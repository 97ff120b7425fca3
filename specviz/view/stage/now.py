"""`stage_now(..)`: a run that goes on as the stage follows it: where it is, what came last, and its knobs."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from specviz.knobs import KnobSpec
from specviz.runlog.fold import Run
from specviz.view.frame.frame import Frame, Options
from specviz.view.frame.knob_bar import knob_item, without_effect
from specviz.view.frame.parts import KnobItem
from specviz.view.play.player import STEP_S, Player
from specviz.view.stage.document import facts, metrics, points_from, promised
from specviz.view.stage.parts import LiveUpdate
from specviz.view.words.numbers import knob as shown
from specviz.view.words.palette import Phase

_TAIL = 12  # newest rounds of the time line sent with every frame: a client that missed more requests them


def next_knobs(specs: Sequence[KnobSpec], stands: Mapping[str, Any], staged: Mapping[str, Any]) -> tuple[KnobItem, ...]:
    """The knobs of a run that has not begun. `stands`: values other than the defaults; `staged`: those chosen since."""
    values = {spec.name: stands.get(spec.name, spec.default) for spec in specs}
    items = (knob_item(spec, values, values, Options(staged=staged)) for spec in specs)
    chosen = values | {name: value for name, value in staged.items() if name in values}
    return tuple(
        msgspec.structs.replace(item, idle=without_effect(spec, chosen) is not None)
        for item, spec in zip(items, specs, strict=True)
    )


def stage_now(player: Player, frame: Frame, run_key: str) -> LiveUpdate:
    """The newest frame of a player, for who has the rounds or fetches them. `run_key`: how the run is called."""
    run, n = player.run, len(player.run.rounds)
    index, stamp = _shown(player)
    first = max(0, n - _TAIL)
    info = promised(frame, run)
    return LiveUpdate(
        run=run_key,
        index=index,
        k=player.builder.steps(index).place(frame.cursor) if index >= 0 else 0,
        stamp=stamp,
        ms=1000 * STEP_S / player.speed if player.every and player.speed else 0.0,
        n=n,
        n_queries=len(run.queries),
        first=first,
        points=points_from(player.builder, first) if n else (),
        title=info.title,
        badge=info.badge,
        tone=info.tone,
        metrics=metrics(frame),
        facts=facts(frame, n),
        knobs=tuple(_newest(run, item) for item in frame.knobs.items),
        last=_effect(frame.knobs.last),
        still=frame.phase == Phase.COMMIT,
    )


def _effect(last: str) -> str:
    """The last change and what it did since, or that this cannot be told: two rounds on either side are too few."""
    return last if not last or ", len " in last else f"{last}, what it does cannot be told yet"


def _shown(player: Player) -> tuple[int, str]:
    """The round that the picture stands at, and its state; none while there is nothing of it but its root."""
    rounds = player.run.rounds
    index = player.cursor.index
    if not rounds or player.bare(index):
        return -1, ""
    record = rounds[index]
    return index, f"{record.serial}.{record.stamp}"


def _newest(run: Run, item: KnobItem) -> KnobItem:
    """A knob's value in the newest round (the shown round may be older). What never changes is in the head."""
    item = msgspec.structs.replace(item, help="", choices=(), default=None)
    changed = next((change for change in reversed(run.changes) if change.name == item.name), None)
    if changed is None:
        return item
    text = item.text if changed.new == item.value else shown(changed.new)
    return msgspec.structs.replace(item, value=changed.new, text=text, since=f"r{changed.applied_r}")
