"""Knobs asked for while rounds run, applied together when the next one starts, or the next query.

What a session will not begin with, and drafts its verifier does not take, each said in one line.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.errors import KnobError, SpecvizError
from specviz.events import Knob
from specviz.knobs import Knobs, KnobSpec, KnobTable
from specviz.probability.draft import Draft
from specviz.probability.plan import Verifier

_WHEN = {"Q": "the next prompt", "X": "a restart"}


@dataclass(frozen=True, slots=True)
class KnobRequest:
    """A knob asked for while round `requested_r` ran."""

    name: str
    value: Any
    by: str
    requested_r: int


class KnobQueue:
    """What was asked for and is not yet in force, in the order it was asked. `more`: another query follows."""

    def __init__(self, table: KnobTable, more: bool = False) -> None:
        self._table, self._more = table, more
        self._waiting: list[KnobRequest] = []

    def ask(self, name: str, value: Any, by: str, requested_r: int) -> None:
        """Remember a request. Raises KnobError for a bad name or value, and for a knob that can change no more."""
        spec = self._table.spec(name)
        checked = spec.check(value)
        if spec.applies != "R" and not (spec.applies == "Q" and self._more):
            raise KnobError(f"knob {name} applies at {_WHEN[spec.applies]}, not during a run")
        self._waiting.append(KnobRequest(name, checked, by, requested_r))

    def apply(self, knobs: Knobs, round_: int, within_block: bool) -> tuple[Knobs, list[Knob]]:
        """The snapshot of a round, and what changed for it.

        What changes the law waits for the end of a block, whose rounds make one draw.
        """
        return self._take(knobs, round_, lambda spec: spec.applies != "Q" and not (within_block and spec.text != "K"))

    def between(self, knobs: Knobs) -> tuple[Knobs, list[Knob]]:
        """The knobs of the next query, and the pending changes that take effect with it (all of them)."""
        return self._take(knobs, 1, lambda spec: True)

    def _take(self, knobs: Knobs, round_: int, ready: Callable[[KnobSpec], bool]) -> tuple[Knobs, list[Knob]]:
        changes: list[Knob] = []
        waiting, self._waiting = self._waiting, []
        for ask in waiting:
            spec = self._table.spec(ask.name)
            if not ready(spec):
                self._waiting.append(ask)
                continue
            changes.append(
                Knob(
                    name=ask.name,
                    old=knobs[ask.name],
                    new=ask.value,
                    requested_r=ask.requested_r,
                    applied_r=round_,
                    by=ask.by,
                    changes_text=spec.text != "K",
                )
            )
            knobs = knobs.with_(**{ask.name: ask.value})
        return knobs, changes


def refuse_prompt(prompt: Sequence[int], context: int) -> None:
    """Raises SpecvizError for an empty prompt, and for one that leaves no place for a new token."""
    if not prompt:
        raise SpecvizError("the prompt is empty: give at least one token of text")
    if context < 2:
        raise SpecvizError(
            f"the target's context holds {context} token(s), no prompt and a new token: use another model"
        )
    if len(prompt) >= context:
        raise SpecvizError(
            f"the prompt has {len(prompt)} tokens, the target's context holds {context}: "
            f"shorten it to at most {context - 1}"
        )


def refuse_draft(verifier: Verifier, draft: Draft) -> None:
    """Raises SpecvizError for a draft the verifier has no rule for."""
    refusal = verifier.refuses(draft)
    if refusal:
        raise SpecvizError(f"verifier {verifier.name} does not take this draft: {refusal}")
