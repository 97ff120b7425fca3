"""Records of branch-parallel decoding: SpecBranch, PEARL, and the confidence stops that other drafters share.

A round of these drafts ahead of its own verdict, so a token may be born in one round and its fate be known in a later
one: `settle` names every token once, in the round that decides. Confidences are those of the draft model's raw softmax,
before any temperature: they are linear, and so are masses and thresholds.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from specviz.events.base import Depth, Id, LogProb, Ns, PerRound, Position, Prob, Rank, Real, SummaryRecord, Top

TokenFate = Literal["accepted", "rejected", "orphaned", "branch_lost", "branch_void", "trimmed", "unverified_at_end"]
Stage = Literal["draft", "posterior"]
SignalSource = Literal["hrad", "fallback", "forced"]
ForkReason = Literal["s0", "low_conf", "after_last", "cap", "eos"]
Rule = Literal["topk", "hybrid", "swor"]
Verdict3 = Annotated[int, Meta(ge=0, le=2)]  # nothing, until unsure, all
Bytes = Annotated[int, Meta(ge=0, le=2**60)]


class Signal(SummaryRecord, tag="signal", kw_only=True):
    """What to draft (`draft`) or keep of a surviving branch (`posterior`): 0 nothing, 1 until unsure, 2 all.

    `probs` null: nobody was asked. `fallback`: no trained classifier or no feature row; `forced`: by the knob.
    """

    stage: Stage
    s: Verdict3
    probs: list[Prob] | None = None
    source: SignalSource
    dur_ns: Ns = 0


class DraftStep(SummaryRecord, tag="draft_step", kw_only=True):
    """One look before a token is drawn at `pos`: drafting stops when `conf` is below `bound`.

    `conf` is what the method stops by: the highest raw probability in specbranch, kangaroo and draft_and_verify; in
    adaedl `1 - sqrt(entropy_gain * H)`, its estimate of the chance to be accepted, which may be negative.
    `node` null: it stopped, nothing was drawn. `bound` null: this place was not tested. `branch` null: not in a branch.
    """

    pos: Position
    branch: Id | None = None
    node: Id | None = None
    conf: Real
    bound: Real | None = None
    stopped: bool = False
    entropy: Real | None = None
    top: Top | None = None


class BranchToken(msgspec.Struct, kw_only=True):
    """The first token of a branch. `logq`: in the draft law, natural log; `rank` 1 is the draft model's best token."""

    branch: Id
    node: Id
    token: Id
    logq: LogProb | None = None
    rank: Rank
    kind: Literal["top", "drawn"]


class Fork(SummaryRecord, tag="fork", kw_only=True):
    """Where branches leave the pending tokens: `k = max(1, floor(k_max (1 - conf) + 1e-9))`, 0 where none may follow.

    `k_raw` is k_max (1 - conf) before the floor. `known`: the draft row there was at hand, no forward was needed.
    Branches are tree rows over one prefix: `n_rows` of them were in the draft model's cache behind the committed text
    at most, `kv_bytes` in all; a copy of the prefix for each branch would have taken `kv_saved` more.
    """

    pos: Position
    conf: Prob | None
    k_raw: Real | None
    k: Depth
    k_max: Depth
    known: bool
    reason: ForkReason
    branch_len: Depth = 0  # tokens per branch at most, the branch token included
    branches: list[BranchToken] = []
    n_rows: PerRound = 0
    kv_bytes: Bytes = 0
    kv_saved: Bytes = 0


class MatchTest(msgspec.Struct, kw_only=True):
    """One test of a branch token: `ok` iff `u < thr`."""

    token: Id
    thr: Prob
    u: Prob
    ok: bool


class Match(SummaryRecord, tag="match", kw_only=True):
    """Which branch the target's token took; written when all pending tokens were accepted.

    `branch` null: a miss. `token`: the one committed there. `mass`: the target's share of all branch tokens, which is
    the chance of a hit under `topk`. `tests` is empty where a drawn token decided (verifier walk).
    """

    rule: Rule
    branch: Id | None
    token: Id | None
    mass: Prob | None = None
    tests: list[MatchTest] = []


class Posterior(SummaryRecord, tag="posterior", kw_only=True):
    """What was kept of the surviving branch; `pos` is the next branch point, `known`: its draft row is at hand."""

    s: Verdict3
    n_kept: PerRound
    n_trimmed: PerRound
    pos: Position
    known: bool


class Settle(SummaryRecord, tag="settle", kw_only=True):
    """`[[node, fate], ..]` known in this round, born in it or before; every node is settled once.

    `wasted_ns`: draft time of those not accepted, a forward's time shared evenly by the tokens drawn from it.
    """

    fates: list[tuple[Id, TokenFate]]
    wasted_ns: Ns = 0


class Rollback(SummaryRecord, tag="rollback", kw_only=True):
    """Drafted tokens were voided. `node`: the rejected one, the first branch token of a miss, null at the end.

    `eos`: the text ended (by whatever finish) while tokens were open.
    """

    cause: Literal["reject", "miss", "eos"]
    node: Id | None
    void: dict[TokenFate, PerRound]
    wasted_ns: Ns = 0
