"""Records of one round, from the draft to the commit."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from specviz.events.base import (
    Count,
    Depth,
    Event,
    FullRecord,
    Id,
    LogProb,
    Moment,
    Ns,
    PerRound,
    Position,
    Prob,
    Rank,
    Real,
    SummaryRecord,
    Top,
)
from specviz.names import DraftEnd, Mode

Status = Literal["accepted", "rejected", "untested", "pruned"]
Why = Literal[
    "kept",
    "implied",
    "u_above",
    "not_drawn",
    "target_zero",
    "prefix_rejected",
    "parent_rejected",
    "sibling_kept",
    "budget",
    "after_stop",
    "length",
]
Finish = Literal["eos", "stop", "length", "context"]
WalkEnd = Literal["rejected", "leaf", "eos", "stop", "length", "open", "abort"]
Seed = Annotated[int, Meta(ge=0, le=2**60)]
Weight = Annotated[float, Meta(ge=0, le=1e9)]


class Prefill(Event, tag="prefill", kw_only=True):
    """Begins a query (r = 0): the prompt is in the caches, nothing is committed.

    `domain`: what kind of prompt it is, where a stream says so. `drafter_version`: of the weights that draft, counted
    up by every update while serving.
    """

    prompt: list[Id]
    text: str
    n_prompt: Position
    seed: Seed
    dur_ns: Ns
    domain: str | None = None
    drafter_version: Count = 0


class RoundStart(Event, tag="round_start", kw_only=True):
    """`n`: committed length; `root`: token n-1; `kv`: filled slots before the round."""

    inside_round: ClassVar[bool] = True

    n: Position
    root: Id
    knob_version: Count
    n_pending: PerRound = 0
    carry: Real | None = None
    kv: dict[str, Count | None] = {}


class Pieces(FullRecord, tag="pieces", kw_only=True):
    """What tokens look like that a later record of the round names by id only (`top`, `row`): once per token and run.

    `[[id, text, bytes], ..]`; bytes in hex when the token is no valid UTF-8 by itself, else null.
    """

    pieces: list[tuple[Id, str, str | None]]


class Node(SummaryRecord, tag="node", kw_only=True):
    """A drafted token, kept or pruned. `logq` null: a point mass; `log_conf`: raw draft softmax.

    `top` is of the draft row the token came from; siblings share it, so only the first of them carries it.
    """

    node: Id
    parent: Id
    depth: Depth
    pos: Position
    token: Id
    text: str
    bytes: str | None = None
    logq: LogProb | None = None
    log_conf: LogProb | None = None
    mode: Mode = "argmax"
    cand: Id | None = None
    branch: Id | None = None
    fed: bool = True
    kept: bool = True
    src: dict[str, Any] = {}
    top: Top | None = None
    entropy_q: Real | None = None

    @property
    def filler(self) -> bool:
        """Whether it is fed beside the draft and never a candidate, like Lookahead's window."""
        return "window" in self.src


class Verify(SummaryRecord, tag="verify", kw_only=True):
    """The verdict on a node whose parent has a target row, tested or not.

    kind test: kept iff `u < thr`. kind draw: the drawn token decides; `interval` is the node's CDF interval in the
    row that was drawn from. At temperature 0 `logp` is that of the one-hot law; `top`, `rank_p`, `entropy_p` describe
    the raw softmax. `top` is of the target row the node is judged by; siblings share it, so only the first of them
    carries it. Rank 1 is the most likely token.

    `logp`: what the target's own row gives the token, whatever happened to siblings. `log_left`: what the row of its
    test gave it, where tests that failed before had taken their part of the target's (the residual, normalised); null
    where the test used the target's own row, and for draws, whose `thr` is p over what earlier siblings left of the
    row. Before version 1.2 `logp` of such a test held that residual mass and p was not on record.

    `judged`: the node whose test this is, where several nodes spell one text and the one that was kept (this one) is
    not the one that was tested: `u` is keyed by the ordinal of the tested one. Null: its own. Since version 1.2.
    """

    node: Id
    order: PerRound | None
    kind: Literal["test", "draw"]
    logp: LogProb | None
    log_left: LogProb | None = None
    logq: LogProb | None
    thr: Prob | None
    u: Prob | None
    interval: tuple[Prob, Prob] | None = None
    status: Status
    implied: bool = False
    judged: Id | None = None
    why: Why
    margin: Real | None = None
    argmax_p: Id | None = None
    rank_p: Rank | None = None
    rank_q: Rank | None = None
    entropy_p: Real | None = None
    tv_pq: Real | None = None
    top: Top | None = None


class Chain(FullRecord, tag="chain", kw_only=True):
    """Joint-ratio quantities of one position of a sampled chain."""

    node: Id
    log_r: Real
    cap_at: PerRound
    log_c: LogProb
    d_pq: Real | None = None
    d_qp: Real | None = None
    dhat_pq: Real | None = None
    dhat_qp: Real | None = None
    h: Real
    credit_token: Real
    credit_hsd: Real
    credit_naive: Real


class Closing(SummaryRecord, tag="closing", kw_only=True):
    """The last draw of a round. `row`: [[id, target, draft, weight, prob], ..] of the row it was drawn from."""

    node: Id  # where the walk stopped, -1 the root
    kind: Literal["recovered", "bonus", "none"]
    token: Id | None
    text: str | None
    u: Prob | None
    interval: tuple[Prob, Prob] | None = None
    mass: Real | None = None
    logp: LogProb | None = None
    rank_p: Rank | None = None
    equals_drafted: bool = False
    fallback: bool = False
    row: list[tuple[Id, Prob, Prob | None, Weight, Prob]] | None = None


class Commit(Event, tag="commit", kw_only=True):
    """Tokens that became text. `texts` concatenate to the text of the run; `n` is the length after."""

    inside_round: ClassVar[bool] = True

    tokens: list[Id]
    texts: list[str]
    kinds: list[Literal["accepted", "branch", "recovered", "bonus"]]
    n: Position
    finish: Finish | None = None


class RoundEnd(Event, tag="round_end", kw_only=True):
    """Counts and times of a round.

    A drafted stop token counts as drafted, and as accepted where it is kept, though it is never fed. `plain_ns`: a pass
    of plain decoding over one row, timed by the wall between the round before and this one; 0 where none was.
    """

    n_drafted: PerRound
    n_tested: PerRound
    n_accepted: PerRound
    n_emitted: PerRound
    n_draft_calls: PerRound
    n_syncs: PerRound
    stage_ns: dict[str, Ns]
    probe_ns: Ns
    plain_ns: Ns = 0
    draft_end: DraftEnd
    walk_end: WalkEnd
    cut: bool
    kv: dict[str, Count | None] = {}


class Span(SummaryRecord, tag="span", kw_only=True):
    """A stretch of time on a lane. `void`: its result was thrown away."""

    lane: Literal["target", "draft", "sync", "hrad"]
    name: str
    t0: Moment
    dur_ns: Ns
    clock: Literal["device", "host", "model"] = "host"
    void: bool = False
