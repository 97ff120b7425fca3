"""llama.cpp's `/slots`, where its counters are off: what each of its places for an answer is at.

It tells whether a slot drafts, and how many tokens of the answer in hand are there; not one number of speculation. An
answer that ended between two looks is counted as far as it was seen. Prompts, which older servers show there, are not
read.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from specviz.engines.asking import UNREADABLE, as_count, parsed
from specviz.errors import SpecvizError
from specviz.events import Counted

_UNTOLD = (
    "/slots does not tell rounds, drafted or kept tokens: start the server with --metrics, or see the rounds of one "
    "answer with specviz attach; tokens/s counts no more of an answer than was there at a look"
)


class SlotReader:
    """The slots of one server, look after look: tokens of answers that are over stay in the sum."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._running: dict[tuple[int, int], int] = {}  # tokens seen, by slot and task
        self._over = 0

    def read(self, text: str, wall: float) -> Counted:
        """One look. Raises SpecvizError for what is no list of slots."""
        try:
            slots = parsed(text.encode())
            tokens = {key: n for slot in slots for key, n in _answering(slot)}
            drafts = {bool(slot["speculative"]) for slot in slots if "speculative" in slot}
            kinds = {
                str(slot["params"]["speculative.types"]) for slot in slots if "params" in slot and drafts == {True}
            }
        except UNREADABLE:
            raise SpecvizError(f"{self.address} answers with something else than llama.cpp's slots") from None
        if not slots:
            raise SpecvizError(f"{self.address} names no slots")
        self._over += sum(n for key, n in self._running.items() if n > tokens.get(key, -1))
        self._running = tokens
        return Counted(
            engine="llama.cpp",
            wall=wall,
            n_generated=self._over + sum(tokens.values()),
            drafts=any(drafts) if drafts else None,
            gauges={"running": float(len(tokens))},
            settings={"drafters": ", ".join(sorted(kinds))[:80]} if kinds else {},
            notes=[_UNTOLD],
        )


def _answering(slot: Mapping[str, Any]) -> Iterator[tuple[tuple[int, int], int]]:
    """Slot and task, and the tokens of its answer so far; nothing of a slot that waits. Raises `UNREADABLE`."""
    busy = slot.get("is_processing", slot.get("state"))  # a number before 2025
    if busy:
        answer = slot["next_token"]
        now = answer[0] if isinstance(answer, list) else answer
        yield (as_count(slot["id"]), as_count(slot.get("id_task", 0))), as_count(now["n_decoded"])
