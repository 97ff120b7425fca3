"""`what_if_round(builder, index, change)`: a round verified again under changed settings, ready to be drawn, and the
list of settings that can be changed there.

The round is shown at its end: which tokens would have been kept, and which token would have closed it, where known.
"""

from typing import Any

import msgspec

from specviz.errors import SpecvizError
from specviz.knobs import KnobSpec
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, RoundRecord
from specviz.view.frame.frame import TreeNode, Values
from specviz.view.frame.knob_bar import without_effect
from specviz.view.frame.parts import Why, WhyRow
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.decided import DecidedRound, as_if, what_if_knob, what_if_why
from specviz.view.stage.exits_again import exit_knobs, exits_round, next_words, swept_texts
from specviz.view.stage.moments import RoundMoments
from specviz.view.stage.parts import StageRound, StageWhatIf, WhatIfKnob
from specviz.view.whatif import WhatIf, WhatIfNode, exits_words, what_if
from specviz.view.whatif.round import changed_words
from specviz.view.words.numbers import fine
from specviz.view.words.numbers import knob as shown_knob
from specviz.view.words.palette import CLOSING, ROOT, STYLES
from specviz.whatif import (
    Change,
    Decision,
    ExitReplay,
    Movable,
    RoundAgain,
    TestAgain,
    checked,
    decide,
    exits_asked,
    known_lossy,
    movable,
)

_LEAST_OF = ("unsure",)  # cuts that leave more the lower they are


def what_if_round(builder: FrameBuilder, index: int, change: Change) -> StageWhatIf:
    """A round with something changed. Raises SpecvizError for a round that is not there, and for what cannot be asked.

    A change of nothing is answered with what may be changed.
    """
    run = builder.run
    if run.header is None or not 0 <= index < len(run.rounds):
        raise SpecvizError(f"no round {index} here; there are {len(run.rounds)}, counted from 0")
    record = run.rounds[index]
    if not record.complete:
        raise SpecvizError("this round has not ended: what it would have been is not known yet")
    texts, missing = swept_texts(run)
    if texts is not None and exits_asked(run, change):
        return _exits(builder, index, ExitReplay(run, change.knobs, texts), _base(run, record, Change()))
    change = checked(run.header, change)
    decision = decide(run, record, change)
    base = _base(run, record, change, decision)
    moves = exit_knobs(run, record) if texts is not None else ()
    others = tuple(knob for knob in base.knobs if knob.knob.name not in {moved.knob.name for moved in moves})
    base = msgspec.structs.replace(base, knobs=(*moves, *others), missing=missing)
    if change.nothing:
        return base
    shown = what_if(run, decision, change)
    return msgspec.structs.replace(
        base,
        change=shown.change,
        sentence=shown.sentence,
        decided=shown.decided,
        note=shown.note,
        warns=_warns(decision.verifier, shown.law) if change.verifier is not None else "",
        round=_ChangedRound(builder, index, decision, decision.now, shown).page() if decision.now is not None else None,
    )


def _base(run: Run, record: RoundRecord, change: Change, decision: Decision | None = None) -> StageWhatIf:
    """What may be changed in a round, and where it stands."""
    assert run.header is not None
    decision = decide(run, record, change) if decision is None else decision
    offer = movable(run, record, change)
    return StageWhatIf(
        own=run.header.verifier,
        verifier=decision.verifier,
        verifiers=offer.verifiers,
        knobs=tuple(_knob(spec, record, change) for spec in offer.knobs if not without_effect(spec, record.knobs)),
        draws=_draws(decision, offer),
        lossy=tuple(name for name in offer.verifiers if _warns(name)),
    )


def _exits(builder: FrameBuilder, index: int, replay: ExitReplay, base: StageWhatIf) -> StageWhatIf:
    """A round of early exit under other exit settings, from what the exit heads say of the recorded text."""
    run, record = builder.run, builder.run.rounds[index]
    replayed, change = replay.decide(record), Change(knobs=replay.knobs)
    moves = exit_knobs(run, record, replay.knobs)
    others = tuple(knob for knob in base.knobs if knob.knob.name not in {moved.knob.name for moved in moves})
    return msgspec.structs.replace(
        base,
        knobs=(*moves, *others),
        change=changed_words(change),
        sentence=f"{exits_words(replayed, change)} {next_words(replayed)}",
        decided=True,
        round=exits_round(builder, index, replayed),
    )


def _warns(verifier: str, law: str = "") -> str:
    """What a rule that is not lossless does to the text; "" for one that is, and for one that is not known here."""
    if not known_lossy(verifier):
        return ""
    plain = "under it the text would not follow the target's law"
    return f"{verifier} is not lossless: {law or plain}"


def _knob(spec: KnobSpec, record: RoundRecord, change: Change) -> WhatIfKnob:
    """A cut leaves a part of what was drafted: beyond where the knob stood there is nothing more to have."""
    own = record.knobs.get(spec.name, spec.default)
    if spec.cuts == "depth" and own < 0:  # a word for as deep as the method goes
        own = max((node.depth for node in record.nodes.values()), default=0)
    value = change.knobs.get(spec.name, own)
    item = what_if_knob(spec, value, text=shown_knob(value))
    if spec.cuts and isinstance(own, int | float) and not isinstance(own, bool) and own >= (spec.lo or 0):
        edge: dict[str, Any] = {"lo": own} if spec.cuts in _LEAST_OF else {"hi": own}
        item = msgspec.structs.replace(item, moves="slide" if item.moves == "number" else item.moves, **edge)
    return WhatIfKnob(item, bool(spec.cuts))


def _draws(decision: Decision, offer: Movable) -> dict[str, float]:
    """What is drawn for every test, as asked for or as recorded."""
    drawn = {str(node): u for node, u in offer.uniforms.items()}
    return drawn | {str(test.node): test.u for test in (decision.now.tests if decision.now is not None else ())}


class _ChangedRound:
    """One round under a changed setting, with the nodes placed as in the recorded round."""

    def __init__(self, builder: FrameBuilder, index: int, decision: Decision, now: RoundAgain, shown: WhatIf) -> None:
        self.run, self.found, self.now, self.shown = builder.run, decision, now, shown
        self.frame, self.reasons = RoundMoments(builder, index).end()
        self.sheet = DecidedRound(builder, index, self.frame)

    def page(self) -> StageRound:
        """The round as one moment."""
        for node in self.frame.tree.nodes:
            if node.id != CLOSING:
                self._add(node)
        closed = self._close()
        return self.sheet.page(
            f"What if: {self.shown.sentence}.",
            next((node.node for node in self.shown.nodes if node.changed), ROOT),
            self.shown.note,
            (*self.now.accepted, *((CLOSING,) if closed else ())),
            {},
        )

    def _add(self, node: TreeNode) -> None:
        """As it ended, but for what the change makes of it."""
        again = next((candidate for candidate in self.shown.nodes if candidate.node == node.id), None)
        if again is None:
            self.sheet.add(as_if(node, node.mark, node.id == ROOT, node.values, node.note), self.reasons[node.id])
            return
        mark, test = again.now or "drafted", self._test(node.id)
        drawn = {} if test is None else {"u": test.u, "thr": test.threshold, "lo": None, "hi": None}
        values = msgspec.structs.replace(node.values, **(drawn or {"u": None}))
        note = "" if again.changed else node.note
        self.sheet.add(
            as_if(node, mark, node.id in self.now.accepted, values, note), self._why(again, node.shown, mark)
        )

    def _why(self, again: WhatIfNode, shown: str, mark: Mark) -> Why:
        test = self._test(again.node)
        was, now = STYLES[again.was].word, STYLES[mark].word
        words = f"It would be {now}"
        words += f", as it was: {again.words}" if not again.changed and again.words else ""
        words += f"; as recorded it was {was}. {again.words}" if again.changed else ""
        rows = (
            (WhyRow("u", fine(test.u), note=again.words.removeprefix(f"u {fine(test.u)} ")),)
            if test is not None
            else ()
        )
        return what_if_why(again.node, shown, mark, words.rstrip(". ") + ".", f"decided by {self.found.verifier}", rows)

    def _test(self, node: int) -> TestAgain | None:
        return next((test for test in self.now.tests if test.node == node), None)

    def _close(self) -> bool:
        """Add the token that would close the round, behind the last that is kept; false where it is not told."""
        way = self.now
        if way.kind == "none" or self.shown.closing is None or (token := way.closing) is None:
            return False
        above = self.sheet.nodes.get(way.stop, self.sheet.nodes[ROOT])
        mark: Mark = "bonus" if way.kind == "bonus" else "recovered"
        sure = f"It would close the round: {STYLES[mark].word}."
        why = what_if_why(CLOSING, self.run.word(token), mark, sure)
        self.sheet.add_new(CLOSING, above.id, self._row(above), token, mark, Values(), why)
        return True

    def _row(self, above: TreeNode) -> int:
        """A free row beside the parent's, below all others where none is."""
        taken = {node.row for node in self.sheet.nodes.values() if node.column == above.column + 1}
        rows = sorted(range(self.frame.tree.n_rows), key=lambda row: (abs(row - above.row), row))
        return next((row for row in rows if row not in taken), self.frame.tree.n_rows)
