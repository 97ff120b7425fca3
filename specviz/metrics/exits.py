"""What early exit costs and how good its stops are, from its own records (specbound.md 11.1, contract.md 6)."""

from typing import Any

import msgspec

from specviz.events import Climb, Commit, Event, ExitRound, Header, TreeMade


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
    """Give it every record in order; `close` answers at a round's end.

    Rounds without an `exit_round` record cost the whole target once if nothing but the target ran in the run; with a
    draft model or a block drafter beside it such a count would say nothing, and is left out.
    """

    def __init__(self) -> None:
        self.counted = False  # whether layer calls are known of every round
        self._n_layers: int | None = None
        self._round: list[Any] = []

    def add(self, event: Event) -> None:
        """Take in a record."""
        if isinstance(event, Header):
            target, draft = event.models.target, event.models.draft
            self._n_layers = target.n_layers if target is not None and draft is None else None
            self.counted = self._n_layers is not None
        elif isinstance(event, TreeMade):  # a drafter of its own ran
            self.counted, self._n_layers = False, None
        elif isinstance(event, Climb | ExitRound | Commit):
            self._round.append(event)

    def begin(self) -> None:
        """A round begins; what an aborted one left is dropped."""
        self._round = []

    def close(self, fed: int) -> Exits:
        """What the round adds. `fed`: drafted tokens the target was fed."""
        records, self._round = self._round, []
        cost = next((e for e in records if isinstance(e, ExitRound)), None)
        committed = next((e.tokens for e in records if isinstance(e, Commit)), [])
        out = Exits()
        if cost is not None:
            self.counted = True
            out.layer_calls, out.cells, out.head_tests = cost.layer_calls, cost.cells, cost.head_tests
        elif self._n_layers is not None:
            out.layer_calls, out.cells = self._n_layers, self._n_layers * (1 + fed)
        for climb in (e for e in records if isinstance(e, Climb)):
            out.rows += 1
            if climb.exit_layer is None:
                continue
            out.stops, out.depth = out.stops + 1, out.depth + climb.exit_layer
            if climb.row < len(committed):
                out.judged, out.right = out.judged + 1, out.right + (climb.draft_token == committed[climb.row])
        return out
