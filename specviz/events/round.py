"""Records of one round, from the draft to the commit."""

from typing import Any, Literal

from specviz.events.base import Event, Top
from specviz.names import DraftEnd, Mode

Status = Literal["accepted", "rejected", "untested", "pruned"]
Why = Literal[
    "kept", "implied", "u_above", "not_drawn", "target_zero", "prefix_rejected", "parent_rejected", "sibling_kept",
    "budget", "after_stop", "length",
]  # fmt: skip
Finish = Literal["eos", "stop", "length", "context"]
WalkEnd = Literal["rejected", "leaf", "eos", "stop", "length", "open", "abort"]


class Prefill(Event, tag="prefill", kw_only=True):
    """Begins a query (r = 0): the prompt is in the caches, nothing is committed.

    `domain`: what kind of prompt it is, where a stream says so. `drafter_version`: of the weights that draft, counted
    up by every update while serving.
    """

    prompt: list[int]
    text: str
    n_prompt: int
    seed: int
    dur_ns: int
    domain: str | None = None
    drafter_version: int = 0


class RoundStart(Event, tag="round_start", kw_only=True):
    """`n`: committed length; `root`: token n-1; `kv`: filled slots before the round."""

    n: int
    root: int
    knob_version: int
    n_pending: int = 0
    carry: float | None = None
    kv: dict[str, int | None] = {}


class Pieces(Event, tag="pieces", kw_only=True):
    """What tokens look like that a later record of the round names by id only (`top`, `row`): once per token and run.

    `[[id, text, bytes], ..]`; bytes in hex when the token is no valid UTF-8 by itself, else null.
    """

    pieces: list[tuple[int, str, str | None]]


class Node(Event, tag="node", kw_only=True):
    """A drafted token, kept or pruned. `logq` null: a point mass; `log_conf`: raw draft softmax.

    `top` is of the draft row the token came from; siblings share it, so only the first of them carries it.
    """

    node: int
    parent: int
    depth: int
    pos: int
    token: int
    text: str
    bytes: str | None = None
    logq: float | None = None
    log_conf: float | None = None
    mode: Mode = "argmax"
    cand: int | None = None
    branch: int | None = None
    fed: bool = True
    kept: bool = True
    src: dict[str, Any] = {}
    top: Top | None = None
    entropy_q: float | None = None


class Verify(Event, tag="verify", kw_only=True):
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

    node: int
    order: int | None
    kind: Literal["test", "draw"]
    logp: float | None
    log_left: float | None = None
    logq: float | None
    thr: float | None
    u: float | None
    interval: tuple[float, float] | None = None
    status: Status
    implied: bool = False
    judged: int | None = None
    why: Why
    margin: float | None = None
    argmax_p: int | None = None
    rank_p: int | None = None
    rank_q: int | None = None
    entropy_p: float | None = None
    tv_pq: float | None = None
    top: Top | None = None


class Chain(Event, tag="chain", kw_only=True):
    """Joint-ratio quantities of one position of a sampled chain (verification.md 9)."""

    node: int
    log_r: float
    cap_at: int
    log_c: float
    d_pq: float | None = None
    d_qp: float | None = None
    dhat_pq: float | None = None
    dhat_qp: float | None = None
    h: float
    credit_token: float
    credit_hsd: float
    credit_naive: float


class Closing(Event, tag="closing", kw_only=True):
    """The last draw of a round. `row`: [[id, target, draft, weight, prob], ..] of the row it was drawn from."""

    node: int  # where the walk stopped, -1 the root
    kind: Literal["recovered", "bonus", "none"]
    token: int | None
    text: str | None
    u: float | None
    interval: tuple[float, float] | None = None
    mass: float | None = None
    logp: float | None = None
    rank_p: int | None = None
    equals_drafted: bool = False
    fallback: bool = False
    row: list[tuple[int, float, float | None, float, float]] | None = None


class Commit(Event, tag="commit", kw_only=True):
    """Tokens that became text. `texts` concatenate to the text of the run; `n` is the length after."""

    tokens: list[int]
    texts: list[str]
    kinds: list[Literal["accepted", "branch", "recovered", "bonus"]]
    n: int
    finish: Finish | None = None


class RoundEnd(Event, tag="round_end", kw_only=True):
    """Counts and times of a round. A drafted stop token counts as drafted, kept as accepted, though it is never fed."""

    n_drafted: int
    n_tested: int
    n_accepted: int
    n_emitted: int
    n_draft_calls: int
    n_syncs: int
    stage_ns: dict[str, int]
    probe_ns: int
    draft_end: DraftEnd
    walk_end: WalkEnd
    cut: bool
    kv: dict[str, int | None] = {}


class Span(Event, tag="span", kw_only=True):
    """A stretch of time on a lane. `void`: its result was thrown away."""

    lane: Literal["target", "draft", "sync", "hrad"]
    name: str
    t0: int
    dur_ns: int
    clock: Literal["device", "host", "model"] = "host"
    flow: int | None = None
    void: bool = False
