"""What the fold keeps: a `RoundRecord` per round and a `Query` per prompt. Plain events, nothing worked out twice.

A record may be unfinished (the stream stops inside a round, or grows while it is looked at): every part that has not
come is None or empty, and `level` says whether it ever will.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

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
from specviz.view.frame import Mark, TextToken

Kind = TypeVar("Kind", bound=Event)


@dataclass(slots=True)
class RoundRecord:
    """One round as recorded. `index` counts over the whole run; `n_before` tokens of the query were text before it."""

    index: int
    start: RoundStart
    query: "Query"
    n_before: int
    knobs: Mapping[str, Any]
    nodes: dict[int, Node] = field(default_factory=dict)
    verdicts: dict[int, Verify] = field(default_factory=dict)
    chains: dict[int, Chain] = field(default_factory=dict)
    closing: Closing | None = None
    commit: Commit | None = None
    end: RoundEnd | None = None
    spans: list[Span] = field(default_factory=list)
    changes: list[Knob] = field(default_factory=list)  # knobs that took effect with this round
    notes: list[Note] = field(default_factory=list)
    warnings: list[Warn] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)  # calls of a tree drafter
    expansions: list[Expansion] = field(default_factory=list)  # a place in this list is their id
    tree: TreeMade | None = None
    other: list[Event] = field(default_factory=list)  # records of one method

    def grew(self, event: Block | Expansion | TreeMade) -> None:
        """File what a tree drafter said of itself."""
        if isinstance(event, Block):
            self.blocks.append(event)
        elif isinstance(event, Expansion):
            self.expansions.append(event)
        else:
            self.tree = event

    @property
    def q(self) -> int:
        return self.start.q

    @property
    def r(self) -> int:
        return self.start.r

    @property
    def complete(self) -> bool:
        """Whether the round came to its end, with text."""
        return self.end is not None and self.end.walk_end != "abort"

    @property
    def stamp(self) -> tuple[int, int, int, int, int, bool, bool, bool, bool]:
        """Changes whenever the record does: a key for what was worked out from it."""
        closed = (self.closing is not None, self.commit is not None, self.end is not None, self.tree is not None)
        counts = (len(self.nodes), len(self.verdicts), len(self.chains), len(self.other), len(self.expansions))
        return (*counts, *closed)

    def every(self, kind: type[Kind]) -> list[Kind]:
        """The records of one kind that only some methods write, in order."""
        return [event for event in self.other if isinstance(event, kind)]

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


@dataclass(slots=True)
class Query:
    """One prompt and the text that came of it. `tokens` are the committed ones, ready for the strip."""

    number: int
    prefill: Prefill | None = None
    first: int = 0  # index of its first round
    v: tuple[int, int] = VERSION  # of the trace: what some fields mean depends on it
    backward: bool = False  # the rule tests drafts from their end
    rounds: list[RoundRecord] = field(default_factory=list)
    tokens: list[TextToken] = field(default_factory=list)
    nodes: dict[int, Node] = field(default_factory=dict)  # all that were drafted so far: a pending node keeps its id
    adapt: Adapt | None = None  # what was learnt from it, at its end
    exit_table: list[ExitTable] = field(default_factory=list)  # what exit heads say of the text, from a pass over it

    @property
    def text(self) -> str:
        """The committed text of the query, unescaped: texts concatenate."""
        return "".join(text for record in self.rounds if record.commit for text in record.commit.texts)
