"""2: a position cliff. Healthy: the same chain, its positions right."""

from typing import Any

from specviz.engine.model.adapter import ModelAdapter
from specviz_lab.clinic.plant import Bench, chat, questions, with_draft

FAULT = 2
PLANT = "the draft model's rows get wrong position ids from place 6 of a draft on"
GAMMA = 8


class _Places:
    """Counts the places of a draft: rows come one by one behind a block, or the root alone, that follows the text."""

    def __init__(self, first_wrong: int) -> None:
        self.first_wrong, self.place, self.last = first_wrong, 0, -1

    def inputs(self, adapter: ModelAdapter, hidden: Any, positions: list[int], visible: Any, kv: Any) -> Any:
        """Place 1 is drafted from the root's row, place k from the row of the token at k - 1."""
        goes_on = len(positions) == 1 and positions[0] == self.last + 1 and self.place < GAMMA
        self.place, self.last = self.place + 1 if goes_on else 1, positions[-1]
        if self.place >= self.first_wrong:
            positions = [position + 400 for position in positions]
        return adapter.inputs(hidden, positions, visible, kv)


def ill(bench: Bench) -> None:
    pair = with_draft(chat(), inputs=_Places(6).inputs)
    bench.run(pair, questions(bench.seed, 3), temperature=0.3, gamma=GAMMA, tokens=96)


def well(bench: Bench) -> None:
    bench.run(chat(), questions(bench.seed, 3), temperature=0.3, gamma=5, tokens=96)
