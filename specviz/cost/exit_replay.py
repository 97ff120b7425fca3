"""Early exit replayed without a model: exact rounds for any setting from one recorded pass.

Under `walk` the text does not depend on the exit settings, so what every head says after every token of it decides
all rounds. Tokens per round are exact. Layer calls are exact up to a wrong draft; what would have been drafted behind
it is not in the text, so there they lie between two bounds. Draws that the target shares with the draft are not
recorded: the replay is of `draft_mode` argmax.

The annealed confidence test in numbers: its temperature, and what it asks of the raw confidence.

Texts out of a trace, as the early-exit replay needs them: what was written, how it ended, what heads said of it.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

from specviz.cost.ledger import RoundCost
from specviz.errors import SpecvizError
from specviz.events import Commit, Event, ExitTable, Header, Knob, Prefill
from specviz.events.early_exit import GRID
from specviz.probability.arrays import np

Array: TypeAlias = "np.ndarray[Any, Any]"
NEAR = 1.05


@dataclass(frozen=True, slots=True)
class ExitKnobs:
    """The four knobs, and which layers are tested (None: all that the table has)."""

    alpha: float = 0.5
    tau: float = 0.75
    d_max: int = 1_000
    w_max: int = 6
    layers: tuple[int, ...] | None = None


@dataclass(frozen=True)
class HeadTable:
    """What the heads say along one text: `tokens[t]` was committed after the token at `first + t`."""

    n_layers: int
    first: int
    tokens: Array  # [n]
    layers: tuple[int, ...]
    top1: Array  # [n, layers]
    conf: Array  # [41, n, layers], by GRID

    @classmethod
    def of(cls, records: Iterable[ExitTable], tokens: Sequence[int], n_layers: int) -> "HeadTable":
        """From the records of one query; `tokens` are its new tokens. Raises SpecvizError when some are missing."""
        by_place = {(record.pos, record.layer): record for record in records}
        layers = tuple(sorted({layer for _, layer in by_place}))
        first = min((pos for pos, _ in by_place), default=0)
        try:
            rows = [[by_place[first + t, layer] for layer in layers] for t in range(len(tokens))]
        except KeyError as error:
            raise SpecvizError(f"the trace has no exit_table for position and layer {error}: sweep it again") from None
        top1 = np.array([[cell.top1 for cell in row] for row in rows], dtype=np.int64).reshape(len(tokens), len(layers))
        conf = np.array([[cell.conf for cell in row] for row in rows]).reshape(len(tokens), len(layers), len(GRID))
        return cls(n_layers, first, np.asarray(tokens), layers, top1, np.moveaxis(conf, 2, 0))

    def stops(self, setting: ExitKnobs) -> tuple[Array, Array]:
        """Per token of the text: the column of the first test that passes (-1: none), and how many tests were made."""
        columns = self._columns(setting)
        if not columns:
            return np.full(len(self.tokens), -1), np.zeros(len(self.tokens), dtype=np.int64)
        passed = self.conf[grid_step(setting.alpha)][:, columns] >= setting.tau
        at = passed.argmax(1)
        some = passed.any(1)
        return np.where(some, np.asarray(columns)[at], -1), np.where(some, at + 1, len(columns))

    def _columns(self, setting: ExitKnobs) -> list[int]:
        asked = self.layers if setting.layers is None else setting.layers
        top = min(setting.d_max, self.n_layers - 1)
        return [k for k, layer in enumerate(self.layers) if layer in asked and layer <= top]

    @cached_property
    def first_right(self) -> Array:
        """Per token: the first layer whose head says what the target then chose; `n_layers` when none does."""
        right = self.top1 == self.tokens[:, None]
        return np.where(right.any(1), np.asarray(self.layers)[right.argmax(1)], self.n_layers)

    def regret(self, setting: ExitKnobs) -> list[int | None]:
        """Stop layer less the first right one, None where nothing stopped; negative: stopped too early, wrong."""
        columns, _ = self.stops(setting)
        return [
            None if column < 0 else int(self.layers[column] - self.first_right[t]) for t, column in enumerate(columns)
        ]


def grid_step(alpha: float) -> int:
    """Where the records keep this annealing strength. Raises SpecvizError for one between their steps."""
    step = round(alpha * 10)
    if abs(alpha * 10 - step) > 1e-6 or not 0 <= step < len(GRID):
        raise SpecvizError(f"replay knows alpha in steps of 0.1 from 0 to {GRID[-1]:g}, not {alpha:g}; try {step / 10}")
    return step


@dataclass(frozen=True, slots=True)
class Replayed:
    """One round: it began after token `start`, was fed the drafts with these `exits`, kept `kept` and commits `n_new`.

    A drafted stop token is neither fed nor counted: the row it came from reads it off the target itself.
    `more`: most further drafts that may have been fed behind a wrong one; 0 when everything about the round is known.
    """

    start: int
    n_new: int
    kept: int
    exits: tuple[int, ...]
    tests: int
    more: int


def rounds(
    table: HeadTable, setting: ExitKnobs, room: int | None = None, eos: frozenset[int] = frozenset()
) -> Iterator[Replayed]:
    """The rounds that decoding this text takes under a setting.

    `room`: the most tokens the run was allowed (its length when it ended there); `eos` are never fed.
    """
    n = len(table.tokens)
    limit = n if room is None else room
    columns, tests = table.stops(setting)
    depth = [0 if c < 0 else table.layers[c] for c in columns]
    draft = [-1 if c < 0 else int(table.top1[t, c]) for t, c in enumerate(columns)]
    text = table.tokens.tolist()
    start = 0
    while start < n:
        width = max(0, min(setting.w_max, limit - start - 1))
        at, n_tests = start, 0
        exits: list[int] = []
        while at < n and len(exits) < width:
            n_tests += int(tests[at])
            if not depth[at] or draft[at] in eos:
                break
            exits.append(depth[at])
            if draft[at] != text[at]:
                break
            at += 1
        wrong = bool(exits) and len(exits) > at - start
        n_new = min(at, n - 1) - start + 1
        yield Replayed(start, n_new, min(at - start, n_new), tuple(exits), n_tests, width - len(exits) if wrong else 0)
        start += n_new


@dataclass(frozen=True, slots=True)
class Text:
    """One recorded text: what heads say of it, how many tokens it was allowed (None: its length), tokens never fed."""

    table: HeadTable
    room: int | None = None
    eos: frozenset[int] = frozenset()

    def rounds(self, setting: ExitKnobs) -> list[Replayed]:
        """The rounds that decoding it takes under a setting."""
        return list(rounds(self.table, setting, self.room, self.eos))

    def total(self, setting: ExitKnobs) -> "Total":
        """They added up."""
        return total(self.table, setting, self.room, self.eos)


@dataclass(frozen=True, slots=True)
class Total:
    """Sums of a replay. Layer calls lie within `[calls, calls + calls_more]`; all else is exact."""

    setting: ExitKnobs
    n_layers: int
    n_new: int
    n_rounds: int
    kept: int
    exits: int  # drafts fed and known
    calls: int
    calls_more: int
    tests: int  # of rows that are known

    @property
    def tokens_per_round(self) -> float:
        """The compression ratio (CR)."""
        return self.n_new / max(1, self.n_rounds)

    @property
    def calls_per_token(self) -> tuple[float, float]:
        """Least and most layer calls for a token; plain decoding takes `n_layers`."""
        n = max(1, self.n_new)
        return self.calls / n, (self.calls + self.calls_more) / n

    def layers_per_token(self, test_cost: float, final_cost: float) -> float:
        """What a token costs in layers at worst; one head test and the final head of a round cost so many of them.

        Plain decoding takes `n_layers + final_cost`: a kept draft saves a final head besides its layers.
        """
        heads = test_cost * self.tests + final_cost * self.n_rounds
        return (self.calls + self.calls_more + heads) / max(1, self.n_new)

    @property
    def wrong(self) -> int:
        """Drafts fed whose token the target did not choose."""
        return self.exits - self.kept

    @property
    def precision(self) -> float | None:
        """Kept over judged drafts: those behind a wrong one are never judged."""
        return self.kept / self.exits if self.exits else None


def total(table: HeadTable, setting: ExitKnobs, room: int | None = None, eos: frozenset[int] = frozenset()) -> Total:
    """All rounds of a replay added up."""
    replayed = list(rounds(table, setting, room, eos))
    deepest = max((table.layers[k] for k in table._columns(setting)), default=0)
    return Total(
        setting=setting,
        n_layers=table.n_layers,
        n_new=len(table.tokens),
        n_rounds=len(replayed),
        kept=sum(done.kept for done in replayed),
        exits=sum(len(done.exits) for done in replayed),
        calls=sum(RoundCost(table.n_layers, done.exits, done.kept).layer_calls for done in replayed),
        calls_more=sum(done.more * deepest for done in replayed),
        tests=sum(done.tests for done in replayed),
    )


def added(totals: Sequence[Total]) -> Total:
    """Several texts under one setting."""
    sums = ("n_new", "n_rounds", "kept", "exits", "calls", "calls_more", "tests")
    return Total(
        totals[0].setting, totals[0].n_layers, **{name: sum(getattr(t, name) for t in totals) for name in sums}
    )


def advised(
    tables: Sequence[HeadTable], base: ExitKnobs, costs: tuple[float, float], most: int = 3, least: int = 0
) -> tuple[int, ...]:
    """The layers to test, `least` to `most` of them; none when plain decoding is cheapest and none is asked for.

    A layer is worth testing if its head is right early and often enough to pay for the test. `costs`: of a test and of
    the final head, in layers.
    Of the choices within a twentieth of the cheapest, which is finer than such a count of weights can tell, the one
    with the fewest layer calls, by the middle of their bounds.
    """
    known = tables[0].layers
    choices = [chosen for n in range(least, most + 1) for chosen in combinations(known, n)]
    settings = [replace(base, layers=chosen, d_max=max(chosen, default=0)) for chosen in choices]
    totals = [added([total(table, setting) for table in tables]) for setting in settings]
    cheapest = min(entry.layers_per_token(*costs) for entry in totals)
    near = [k for k, entry in enumerate(totals) if entry.layers_per_token(*costs) <= NEAR * cheapest]
    return choices[min(near, key=lambda k: (sum(totals[k].calls_per_token), len(choices[k])))]


def annealed(alpha: float, layer: int, n_layers: int) -> float:
    """`T_l = 1 + alpha (1 - l/L)`: highest after the first layer, 1 after the last. Layers count from 1."""
    return 1.0 + alpha * (1.0 - layer / n_layers)


def raw_threshold(raw: float, conf: float, temp: float, tau: float) -> float:
    """The raw confidence that would just pass `conf >= tau`, if the top logit moved and all the others stayed.

    With the others worth S_1 = (1 - raw)/raw at temperature 1 and S_T = (1 - conf)/conf at `temp`, measured from the
    top logit, moving that by g divides them by e^g and e^(g/T). Against one rival it is sigmoid(T logit(tau)); a flat
    tail asks for more. `raw >= raw_threshold(..)` says the same as `conf >= tau`.
    """
    if tau <= 0.0 or tau >= 1.0 or not 0.0 < conf < 1.0 or not 0.0 < raw < 1.0:
        return max(0.0, tau)
    others, tempered = (1.0 - raw) / raw, (1.0 - conf) / conf
    log_gain = temp * (math.log1p(-tau) - math.log(tau) - math.log(tempered))
    return 1.0 / (1.0 + math.exp(min(700.0, math.log(others) + log_gain)))


def one_rival(tau: float, temp: float) -> float:
    """What the test asks of the raw confidence when a single other token competes: sigmoid(T logit(tau))."""
    if tau <= 0.0 or tau >= 1.0:
        return max(0.0, tau)
    return 1.0 / (1.0 + math.exp(temp * (math.log1p(-tau) - math.log(tau))))


UNADVISED = "L/8, L/4, 3L/8, L/2"  # the layers tested where the exit heads advise none
_SHARE = re.compile(r"([0-9]{0,4})\*?L(?:/(0*[1-9][0-9]{0,3}))?")
_NUMBER = re.compile(r"0*[1-9][0-9]{0,5}")


def layers_named(word: str, n_layers: int | None) -> list[int] | None:
    """The layers that a word names, a number from 1 or a share of the model such as `L/4`; None: it is neither.

    A share needs `n_layers`; without it none come out.
    """
    if _NUMBER.fullmatch(word):
        return [int(word)]
    share = _SHARE.fullmatch(word)
    if share is None:
        return None
    return [] if n_layers is None else shares([int(share[1] or 1) / int(share[2] or 1)], n_layers)


def shares(fractions: Sequence[float], n_layers: int) -> list[int]:
    """Layers at these fractions of a model, rounded half up, each once, between 1 and the last but one."""
    layers = {math.floor(share * n_layers + 0.5) for share in fractions}
    return sorted(layer for layer in layers if 1 <= layer < n_layers)


@dataclass(slots=True)
class ReplayQuery:
    """One prompt and its text. `room`: the most tokens it was allowed, `stops`: its end tokens, as far as is known."""

    q: int
    prompt: list[int]
    room: int
    tokens: list[int] = field(default_factory=list)
    n_rounds: int = 0  # that committed something, the one in which a recording was cut off included
    n_changes: int = 0  # knobs moved while it was decoded
    finish: str | None = None
    records: list[ExitTable] = field(default_factory=list)
    stops: frozenset[int] = frozenset()

    def table(self, n_layers: int) -> HeadTable:
        """The exit heads' tokens and confidences. Raises SpecvizError when they are not recorded."""
        return HeadTable.of(self.records, self.tokens, n_layers)

    def text(self, n_layers: int) -> Text:
        """Ready to be replayed. Raises SpecvizError when what the heads said is not recorded."""
        return Text(self.table(n_layers), self.room or None, self.ends)

    @property
    def ends(self) -> frozenset[int]:
        """Drafts that are never fed: the end tokens; where they are not known, the one the text ended with."""
        return self.stops | frozenset(self.tokens[-1:] if self.finish == "eos" else ())


def queries(events: Iterable[Event]) -> tuple[Header, list[ReplayQuery]]:
    """The texts of a run. Raises SpecvizError for a run whose text depends on what was drafted."""
    header: Header | None = None
    by_number: dict[int, ReplayQuery] = {}
    for event in events:
        if isinstance(event, Header):
            header = event
        elif isinstance(event, Prefill):
            assert header is not None
            by_number[event.q] = ReplayQuery(event.q, list(event.prompt), _room(header))
        elif isinstance(event, Commit | Knob | ExitTable):
            _take(event, by_number)
    if header is None or not any(query.tokens for query in by_number.values()):
        raise SpecvizError("the trace has no text to replay; record a run with specviz run --record FILE")
    if not header.keeps_tokens and temperature_of(header) > 0:
        raise SpecvizError(
            f"under verifier {header.verifier} the text depends on what was drafted, so other settings cannot be "
            "replayed on it; record with --verifier walk or at temperature 0"
        )
    for query in by_number.values():
        if query.finish in ("length", "context"):
            query.room = len(query.tokens)
    return header, [query for query in by_number.values() if query.tokens]


def _take(event: Commit | Knob | ExitTable, by_number: dict[int, ReplayQuery]) -> None:
    query = by_number.get(event.q)
    if query is None:
        if isinstance(event, Knob):  # before the first prompt: part of no text
            return
        kind = event.__struct_config__.tag
        raise SpecvizError(f"the trace has a '{kind}' record of query {event.q}, but no prompt of it: record it again")
    if isinstance(event, Commit):
        query.tokens += event.tokens
        query.finish = event.finish or query.finish
        query.n_rounds += 1
    elif isinstance(event, ExitTable):
        query.records.append(event)
    else:
        query.n_changes += 1


def _room(header: Header) -> int:
    """The most tokens a text was allowed."""
    room = header.sampling.get("max_new_tokens", 0)
    return int(room) if isinstance(room, int | float) and 0 <= room < 1 << 31 else 0


def temperature_of(header: Header) -> float:
    """The run's sampling temperature; 0 where the trace has none."""
    value = header.sampling.get("temperature", 0)
    return float(value) if isinstance(value, int | float) else 0.0


def n_layers_of(header: Header) -> int:
    """Layers of the target that wrote the trace. Raises SpecvizError when it does not say."""
    target = header.models.target
    if target is None or not target.n_layers:
        raise SpecvizError("the trace does not say how many layers its target has; record it again")
    return target.n_layers


def own_values(header: Header, names: Sequence[str]) -> dict[str, object]:
    """The knob values the run had, of those asked for."""
    return {name: header.knobs[name] for name in names if name in header.knobs}
