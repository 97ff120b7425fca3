"""What the fold keeps: a `RoundRecord` per round and a `Query` per prompt. Plain events, nothing worked out twice.

A record may be unfinished (the stream stops inside a round, or grows while it is looked at): every part that has not
come is None or empty, and the level of the run says whether it ever will.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, overload
from weakref import WeakKeyDictionary, ref

import msgspec

from specviz.events import (
    VERSION,
    Adapt,
    Block,
    Chain,
    Closing,
    Commit,
    Event,
    ExitTable,
    Expansion,
    Knob,
    Node,
    Note,
    Prefill,
    RoundEnd,
    RoundStart,
    Span,
    TreeMade,
    Verify,
    Warn,
)
from specviz.runlog.spool import Place, Shelf

Drafted = Literal["root", "drafted", "testing", "accepted", "rejected", "untested", "pruned", "exit"]
Written = Literal["recovered", "bonus", "plain", "prompt"]
Mark = Drafted | Written


class TextToken(msgspec.Struct, frozen=True, omit_defaults=True):
    """One token of the text strip. `shown` marks spaces, `running` keeps them. `round` 0 is the prompt."""

    shown: str
    running: str
    token: int
    mark: Mark
    round: int
    pos: int
    node: int | None = None  # the drafted node it came from, when recorded
    provisional: bool = False  # drafted or accepted, not yet committed
    fresh: bool = False  # committed by the round that is shown
    breaks: bool = False  # a round begins here
    ids: tuple[int, ...] = ()  # of the prompt, which is one piece here; `token` is -1 there


Kind = TypeVar("Kind", bound=Event)


@dataclass(slots=True, weakref_slot=True, eq=False)
class RoundRecord:
    """One round as recorded. `index` counts over the whole run; `n_before` tokens of the query were text before it.

    Every record of the round stands in `by_kind`, of whatever kind it is, in the order it came; nodes, verdicts and
    chains are found by their node as well. `serial` is its own, also when it was read again; a round that takes the
    place of an aborted one has another.
    """

    index: int
    start: RoundStart
    query: "Query"
    n_before: int
    knobs: Mapping[str, Any]
    serial: int = 0
    born: int = 0  # nodes with smaller ids were drafted in earlier rounds
    by_kind: dict[type[Event], list[Any]] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    verdicts: dict[int, Verify] = field(default_factory=dict)
    chains: dict[int, Chain] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        self.by_kind.setdefault(type(event), []).append(event)
        if isinstance(event, Node):
            self.nodes[event.node] = event
        elif isinstance(event, Verify):
            self.verdicts[event.node] = event
        elif isinstance(event, Chain):
            self.chains[event.node] = event

    def every(self, kind: type[Kind]) -> list[Kind]:
        """The records of one kind, in order."""
        return self.by_kind.get(kind, [])

    def first(self, kind: type[Kind]) -> Kind | None:
        """The first record of a kind; None where there is none."""
        events = self.by_kind.get(kind)
        return events[0] if events else None

    def last(self, kind: type[Kind]) -> Kind | None:
        """The newest record of a kind; None when none has come."""
        events = self.by_kind.get(kind)
        return events[-1] if events else None

    def node(self, number: int) -> Node | None:
        """A node drafted in this round, or earlier and still pending."""
        return self.nodes.get(number) or self.query.nodes.get(number)

    @property
    def q(self) -> int:
        return self.start.q

    @property
    def r(self) -> int:
        return self.start.r

    @property
    def closing(self) -> Closing | None:
        return self.last(Closing)

    @property
    def commit(self) -> Commit | None:
        return self.last(Commit)

    @property
    def end(self) -> RoundEnd | None:
        return self.last(RoundEnd)

    @property
    def spans(self) -> list[Span]:
        return self.every(Span)

    @property
    def changes(self) -> list[Knob]:
        """Knobs that took effect with this round."""
        return self.every(Knob)

    @property
    def notes(self) -> list[Note]:
        return self.every(Note)

    @property
    def warnings(self) -> list[Warn]:
        return self.every(Warn)

    @property
    def blocks(self) -> list[Block]:
        return self.every(Block)

    @property
    def expansions(self) -> list[Expansion]:
        """What a tree drafter offered; a place in this list is its id."""
        return self.every(Expansion)

    @property
    def tree(self) -> TreeMade | None:
        return self.last(TreeMade)

    @property
    def complete(self) -> bool:
        """Whether the round came to its end, with text."""
        end = self.end
        return end is not None and end.walk_end != "abort"

    @property
    def stamp(self) -> int:
        """Changes whenever the record does: a key for what was worked out from it."""
        return sum(map(len, self.by_kind.values()))

    @property
    def took_ns(self) -> int:
        """From its start to its end; of a clock that stood still, the sum of its stages. 0 before it ended."""
        end = self.end
        if end is None:
            return 0
        elapsed = end.t - self.start.t
        return elapsed if elapsed > 0 else sum(end.stage_ns.values())

    @property
    def closing_mark(self) -> Mark | None:
        """What the token that closes the round is; None without one, as far as is recorded.

        A trace calls it bonus whenever nothing failed. On screen bonus is what comes free behind a draft that was
        kept; with nothing drafted before it, as in plain decoding, there was no draft to be free of.
        """
        kinds = self.commit.kinds if self.commit is not None else []
        kind = self.closing.kind if self.closing is not None else kinds[-1] if kinds else None
        if kind == "bonus":
            kept = len(kinds) > 1 or any(v.status == "accepted" for v in self.verdicts.values())
            return "bonus" if kept else "plain"
        return "recovered" if kind == "recovered" else None

    @property
    def temperature(self) -> float | None:
        """The temperature this round ran with; None when the trace does not say."""
        value = self.knobs.get("temperature")
        return float(value) if isinstance(value, int | float) else None

    @property
    def rejected(self) -> bool:
        """Whether a drafted token was tested and lost."""
        if self.verdicts:
            return any(v.status == "rejected" for v in self.verdicts.values())
        return self.end is not None and self.end.n_tested > self.end.n_accepted

    @property
    def markers(self) -> str:
        """Marks for the time line, the gravest first, where there is room for one: ⚠ warning, ⚑ bookmark, ◆ knob."""
        return "⚠" * bool(self.warnings) + "⚑" * bool(self.notes) + "◆" * bool(self.changes)


class AllRounds(Protocol):
    """What a query asks of the rounds of its run."""

    def __getitem__(self, index: int) -> RoundRecord: ...

    def node(self, index: int, stop: int, node: int) -> Node | None:
        """A node drafted in one of the rounds from `index` to `stop`, of those out of memory."""


class _Kept(msgspec.Struct, array_like=True):
    """A query in the spool."""

    prefill: Prefill | None
    tokens: list[TextToken]


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Kept)
_AT_HAND = 4  # queries read back that stay cached
_again: "WeakKeyDictionary[Shelf, OrderedDict[int, _Kept]]" = WeakKeyDictionary()


class Query:
    """One prompt and the text that came of it. `tokens` are the committed ones, ready for the strip.

    `first`: index of its first round in `all_rounds`. Prompt and text of a query whose rounds are all out of memory go
    out of memory too, and are read again when asked for.
    """

    __slots__ = (
        "__weakref__",
        "_all",
        "_exits",
        "_exits_later",
        "_kept",
        "_place",
        "_spool",
        "adapt",
        "backward",
        "first",
        "n_nodes",
        "n_rounds",
        "nodes",
        "number",
        "v",
    )

    def __init__(
        self,
        number: int,
        prefill: Prefill | None,
        first: int,
        all_rounds: AllRounds,
        v: tuple[int, int] = VERSION,
        backward: bool = False,
    ) -> None:
        self.number, self.first, self.n_rounds = number, first, 0
        self.n_nodes = 0  # ids of nodes so far are below this
        self.v = v  # of the trace: what some fields mean depends on it
        self.backward = backward  # the rule tests drafts from their end
        self.nodes = Nodes(self, all_rounds)
        self.adapt: Adapt | None = None  # what was learnt from it, at its end
        self._exits: list[ExitTable] = []
        self._exits_later: Callable[[], list[ExitTable]] | None = None
        self._all = all_rounds
        self._kept: _Kept | None = _Kept(prefill, [])
        self._spool: Shelf | None = None
        self._place: Place = (0, 0)

    @property
    def rounds(self) -> "QueryRounds":
        return QueryRounds(self._all, self.first, self.n_rounds)

    @property
    def prefill(self) -> Prefill | None:
        return self._content.prefill

    @property
    def tokens(self) -> list[TextToken]:
        """Its text, the prompt in one piece before it."""
        return self._content.tokens

    @property
    def exit_table(self) -> list[ExitTable]:
        """Tokens and confidences of the exit heads at every position, from a pass over the finished text."""
        if self._exits_later is not None:
            self._exits, self._exits_later = self._exits_later(), None
        return self._exits

    def lies(self, spool: Shelf, place: Place, exits: Callable[[], list[ExitTable]]) -> None:
        """Its prompt and text were written before (`put_away`), its exit table is read when somebody asks."""
        self._spool, self._place, self._kept, self._exits_later = spool, place, None, exits

    @property
    def text(self) -> str:
        """The committed text of the query, unescaped: texts concatenate."""
        return "".join(text for record in self.rounds if record.commit for text in record.commit.texts)

    @property
    def _content(self) -> _Kept:
        if self._kept is not None:
            return self._kept
        assert self._spool is not None
        at_hand = _again.setdefault(self._spool, OrderedDict())
        if self.first not in at_hand:
            at_hand[self.first] = _decoder.decode(self._spool.get(self._place))
            if len(at_hand) > _AT_HAND:
                at_hand.popitem(last=False)
        return at_hand[self.first]

    def put_away(self, spool: Shelf) -> Place:
        """Its last round went out of memory. On a full disk it stays. Where it lies: the second time too."""
        if self._kept is not None:
            with suppress(OSError):
                self._place = spool.put(_encoder.encode(self._kept))
                self._spool, self._kept = spool, None
            self.nodes.near.clear()
        return self._place

    def forget_nodes(self, record: RoundRecord) -> None:
        """The nodes of a round that went out of memory are found there."""
        for node in record.nodes:
            self.nodes.near.pop(node, None)


class Nodes(Mapping[int, Node]):
    """All nodes that a query drafted so far, by id: a pending node keeps its id over rounds."""

    __slots__ = ("_all", "_query", "near")

    def __init__(self, query: Query, all_rounds: AllRounds) -> None:
        self._query, self._all = ref(query), all_rounds
        self.near: dict[int, Node] = {}  # of the rounds in memory

    def __getitem__(self, node: int) -> Node:
        entry = self.near.get(node)
        if entry is None:
            query = self._query()
            assert query is not None
            entry = self._all.node(query.first, query.first + query.n_rounds, node)
        if entry is None:
            raise KeyError(node)
        return entry

    def __iter__(self) -> Iterator[int]:
        query = self._query()
        assert query is not None
        return iter({node for record in query.rounds for node in record.nodes} | set(self.near))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class QueryRounds(Sequence[RoundRecord]):
    """The rounds of one query: a stretch of all of them."""

    __slots__ = ("_all", "_first", "_n")

    def __init__(self, all_rounds: AllRounds, first: int, n: int) -> None:
        self._all, self._first, self._n = all_rounds, first, n

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> RoundRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[RoundRecord]: ...
    def __getitem__(self, index: int | slice) -> RoundRecord | list[RoundRecord]:
        places = range(self._first, self._first + self._n)[index]
        return [self._all[k] for k in places] if isinstance(places, range) else self._all[places]
