"""What early exit costs and how good its stops are, from its own records (specbound.md 11.1, contract.md 6)."""

import msgspec

from specviz.events import Climb, ExitRound, Header
from specviz.runlog.run import RoundRecord


class Exits(msgspec.Struct):
    """One round. `stops`: rows that stopped; `judged`: those whose draft the target was asked about."""

    layer_calls: int = 0
    cells: int = 0
    head_tests: int = 0
    rows: int = 0
    stops: int = 0
    depth: int = 0  # layers of the stops, added up
    judged: int = 0
    right: int = 0


class ExitTally:
    """Give it every finished round in order.

    Rounds without an `exit_round` record cost the whole target once if nothing but the target ran in the run; with a
    draft model or a block drafter beside it such a count would say nothing, and is left out.
    """

    def __init__(self) -> None:
        self.counted = False  # whether layer calls are known of every round
        self._n_layers: int | None = None

    def begin(self, header: Header) -> None:
        """A run begins."""
        target, draft = header.models.target, header.models.draft
        self._n_layers = target.n_layers if target is not None and draft is None else None
        self.counted = self._n_layers is not None

    def take(self, record: RoundRecord) -> Exits:
        """What the round adds."""
        if record.tree is not None:  # a drafter of its own ran
            self.counted, self._n_layers = False, None
        cost = record.first(ExitRound)
        committed = record.commit.tokens if record.commit is not None else []
        out = Exits()
        if cost is not None:
            self.counted = True
            out.layer_calls, out.cells, out.head_tests = cost.layer_calls, cost.cells, cost.head_tests
        elif self._n_layers is not None:
            rows = 1 + sum(node.fed for node in record.nodes.values() if node.kept)
            out.layer_calls, out.cells = self._n_layers, self._n_layers * rows
        for climb in record.every(Climb):
            out.rows += 1
            if climb.exit_layer is None:
                continue
            out.stops, out.depth = out.stops + 1, out.depth + climb.exit_layer
            if climb.row < len(committed):
                out.judged, out.right = out.judged + 1, out.right + (climb.draft_token == committed[climb.row])
        return out
