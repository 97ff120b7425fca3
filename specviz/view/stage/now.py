"""`stage_now(..)`: a run that goes on as the stage follows it: where it is, what came last, and its knobs."""

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.knobs import KnobSpec
from specviz.runlog.fold import Run
from specviz.view.frame.frame import Frame
from specviz.view.frame.knob_bar import label, slides, step_of, value_text, without_effect
from specviz.view.frame.parts import KnobItem
from specviz.view.play.player import STEP_S, Player
from specviz.view.stage.document import facts, metrics, points_from, promised
from specviz.view.stage.parts import KnobLook, KnobNow, StageControl, StageNext, StageNow
from specviz.view.words.numbers import knob as shown
from specviz.view.words.palette import Phase

_TAIL = 12  # rounds at the end of the time line that every frame brings: who missed more asks for them


def controls(run: Run) -> tuple[StageControl, ...]:
    """How every knob of the run is moved, in the order of the head's knobs."""
    return tuple(control(spec) for spec in run.header.knob_specs) if run.header is not None else ()


def control(spec: KnobSpec) -> StageControl:
    """How a knob is moved."""
    fixed = spec.applies == "X"
    if spec.kind == "texts":
        return StageControl()
    if spec.kind == "choice":
        return StageControl("choice", choices=spec.choices, fixed=fixed)
    if spec.kind == "bool":
        return StageControl("switch", fixed=fixed)
    return StageControl("slide" if slides(spec) else "number", spec.lo, spec.hi, step_of(spec), fixed=fixed)


def stage_next(specs: Sequence[KnobSpec], stands: Mapping[str, Any], staged: Mapping[str, Any]) -> StageNext:
    """The knobs of a run that has not begun. `stands`: values other than the defaults; `staged`: those chosen since."""
    values = {spec.name: staged.get(spec.name, stands.get(spec.name, spec.default)) for spec in specs}
    return StageNext(
        tuple(KnobLook(s.name, label(s), s.help, "next run", s.text != "K") for s in specs),
        tuple(control(spec) for spec in specs),
        tuple(
            KnobNow(
                text=value_text(spec, values[spec.name], {}),
                value=values[spec.name],
                next=spec.name in staged,
                idle=bool(without_effect(spec, values)),
            )
            for spec in specs
        ),
    )


def stage_now(player: Player, frame: Frame, run_key: str) -> StageNow:
    """The newest frame of a player, for who has the rounds or fetches them. `run_key`: how the run is called."""
    run, n = player.run, len(player.run.rounds)
    specs = {spec.name: spec for spec in run.header.knob_specs} if run.header is not None else {}
    idle = {name for name, spec in specs.items() if without_effect(spec, run.knobs)}
    index, stamp = _shown(player)
    first = max(0, n - _TAIL)
    info = promised(frame, run)
    return StageNow(
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
        knobs=tuple(_knob(run, item, item.name in idle) for item in frame.knobs.items),
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


def _knob(run: Run, item: KnobItem, idle: bool) -> KnobNow:
    changed = next((change for change in reversed(run.changes) if change.name == item.name), None)
    value = item.value if changed is None else changed.new  # the picture may stand in a round before
    return KnobNow(
        text=item.text if value == item.value else shown(value),
        value=value,
        fill=item.fill,
        sent=item.sent_text or "",
        since=f"r{changed.applied_r}" if changed is not None else "",
        off=item.disabled or "",
        idle=idle,
    )
