"""Early exit decided again: how many drafted tokens a round keeps under other thresholds, from what the heads say.

The replay is `specviz.cost.exit_replay`, begun at a round's own place in the text. Under a rule that keeps the tokens
of plain decoding the text does not depend on the setting, so it never parts, and the counts of a round are exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specviz.cost.exit_grid import AXES
from specviz.cost.exit_replay import ExitKnobs, ReplayQuery, Text, grid_step, n_layers_of, queries, rounds
from specviz.cost.exit_setting import exit_setting, replay_events
from specviz.errors import SpecvizError
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.whatif.changes import NOT_SWEPT, Change


@dataclass(frozen=True, slots=True)
class ExitsAgain:
    """One round: tokens kept, as recorded and under the change; the layers at which its drafts would have stopped.

    `drafts`: the tokens that would be drafted, as many as `exits`, and `confs`: how sure the head of each is, as it is
    tested. `closing`: the target's own token behind those that are kept, None where the text ends with a kept one.
    `ends`, `ended`: the committed length after the round, under the change and as recorded. `wrong`: a draft that the
    target would not have chosen ends it.
    """

    q: int
    r: int
    index: int
    n: int
    was: int
    kept: int
    exits: tuple[int, ...]
    drafts: tuple[int, ...] = ()
    closing: int | None = None
    confs: tuple[float, ...] = ()
    ends: int = 0
    ended: int = 0

    @property
    def wrong(self) -> bool:
        return len(self.exits) > self.kept


def exits_asked(run: Run, change: Change) -> bool:
    """Whether a change is one of exit settings alone, and the trace holds what their replay reads."""
    knobs, header = set(change.knobs), run.header
    if header is None or header.method_traits.replay_depth is None or not knobs or not knobs <= set(AXES):
        return False
    alone = change == Change(knobs=change.knobs)
    return alone and any(query.exit_table for query in run.queries)


Texts = Mapping[int, tuple[ReplayQuery, Text]]  # by query


def replay_texts(run: Run) -> Texts:
    """The texts of a run with what the heads say of them.

    Raises SpecvizError with the reason where they cannot be replayed.
    """
    header = run.header
    if header is None:
        raise SpecvizError(NOT_SWEPT)
    _, by_number = queries(replay_events(run))
    if not any(query.records for query in by_number):
        raise SpecvizError(NOT_SWEPT)
    drawn = header.knobs.get("draft_mode", "argmax") != "argmax"
    if drawn and header.sampling.get("temperature", 0):
        raise SpecvizError("its drafts were drawn, and a replay knows only the most likely ones")
    words = header.models.parts.get("stop tokens", "").split()
    stops = frozenset(int(word) for word in words if word.isdecimal() and len(word) < 10)
    n_layers = n_layers_of(header)
    texts: dict[int, tuple[ReplayQuery, Text]] = {}
    for query in by_number:
        if query.records:
            query.stops = stops
            texts[query.q] = query, query.text(n_layers)
    return texts


class ExitReplay:
    """Rounds of a run again. SpecvizError with the reason where that cannot be replayed.

    `knobs`: those that are another; `texts`: of this run, where they were read before.
    """

    def __init__(self, run: Run, knobs: Mapping[str, Any], texts: Texts | None = None) -> None:
        if run.header is None:
            raise SpecvizError(NOT_SWEPT)
        table = {spec.name: spec for spec in run.header.knob_specs}
        self.run = run
        self.knobs = {name: table[name].check(value) for name, value in knobs.items()}
        self.texts = replay_texts(run) if texts is None else texts

    def decide(self, record: RoundRecord) -> ExitsAgain:
        """One round. Raises SpecvizError where its setting is not on record."""
        setting = exit_setting(self.run, record, self.knobs)
        if setting is None or record.q not in self.texts:
            raise SpecvizError(NOT_SWEPT)
        knobs = ExitKnobs(setting.alpha or 0.0, setting.tau or 0.0, setting.deepest, setting.w_max or 0, setting.layers)
        query, text = self.texts[record.q]
        begin = record.start.n - len(query.prompt)
        table = text.table
        rest = replace(
            table,
            first=table.first + begin,
            tokens=table.tokens[begin:],
            top1=table.top1[begin:],
            conf=table.conf[:, begin:],
        )
        room = None if text.room is None else text.room - begin
        replayed = next(rounds(rest, knobs, room, text.eos), None)
        kept, exits, n_new = (replayed.kept, replayed.exits, replayed.n_new) if replayed is not None else (0, (), 0)
        was = sum(verdict.status == "accepted" for verdict in record.verdicts.values())
        drafts = [int(token) for token in rest.tokens[:kept]]
        if len(exits) > kept:  # the draft that is wrong, as its head says it
            drafts.append(int(rest.top1[kept, rest.layers.index(exits[kept])]))
        n, strength = record.start.n, grid_step(knobs.alpha)
        confs = [float(rest.conf[strength, k, rest.layers.index(layer)]) for k, layer in enumerate(exits)]
        return ExitsAgain(
            record.q,
            record.r,
            record.index,
            n,
            was,
            kept,
            exits,
            tuple(drafts),
            int(rest.tokens[n_new - 1]) if n_new > kept else None,
            tuple(confs),
            n + n_new,
            n + len(record.commit.tokens if record.commit is not None else ()),
        )
