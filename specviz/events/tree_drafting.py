"""Records of tree drafters that grow by blocks: calls, expansions, the tree, and what was learnt while serving; and the
window of Lookahead.

An *expansion* is one (block, slot) distribution at one parent node. A node may be offered by several, so what is said
about ranks belongs to expansions, not to nodes. Buckets: 0 the draft's best token is right, 1 ranks 2 to 4, 2 ranks 5
to 10, 3 lower; ranks count from 1.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from specviz.events.base import (
    Count,
    Depth,
    Event,
    FullRecord,
    Id,
    Ns,
    PerRound,
    Positive,
    Prob,
    Rank,
    Real,
    SummaryRecord,
    Top,
)

WidthReason = Literal["bucket", "beam", "trim", "give_up", "override"]
AdaptAction = Literal["skip", "head", "full"]
AdaptReason = Literal["exploit", "explore", "skip", "guard"]
Bucket = Annotated[int, Meta(ge=0, le=3)]


class Block(SummaryRecord, tag="block", kw_only=True):
    """One block: number `start` of the round (0 = the root's), begun at `node` (-1 the root).

    `chain`: the places its condition came down, `[[block, first row in the cache, slot it was left at], ..]`, empty
    for the root's. `kv_len`: keys that its rows could see; `batch`: blocks that ran in the same call, `dur_ns` of
    which is told by the first of them and 0 for the others.
    """

    start: PerRound
    node: Id
    block: PerRound = 1
    chain: list[tuple[PerRound, Count, PerRound]]
    kv_len: Count
    batch: PerRound
    dur_ns: Ns


class Expansion(SummaryRecord, tag="expansion", kw_only=True):
    """One slot's distribution. `parent`: the node its tokens follow; `n_children` counts merged ones.

    `width`: children it was given (0: it gave up, and only the spine's own token follows); override: not by the
    predicted bucket alone, but capped, the same for all slots, by the true rank, or by what the budget still affords
    where siblings are drawn. The true ranks are those of
    the target's best token and of the token that was then written, in this distribution (null: the parent has no
    target row, the parent is off the path, or the token is outside the draft vocabulary, which counts as bucket 3).
    `valid_prefix`: all earlier slots of the block had the target's best token first.
    """

    id: PerRound
    parent: Id
    block: PerRound
    slot: PerRound
    start: PerRound
    bucket: Bucket
    width: Depth
    width_reason: WidthReason
    n_children: Depth
    true_rank_argmax: Rank | None = None
    true_rank_emitted: Rank | None = None
    true_bucket: Bucket | None = None
    on_path: bool = False
    valid_prefix: bool | None = None
    rank_probs: list[Prob] | None = None
    phi: list[Real] | None = None
    top: Top | None = None
    entropy: Real | None = None


class TreeMade(SummaryRecord, tag="tree", kw_only=True):
    """The tree of a round. `n_raw`: tokens offered; `n_merged`: those that were there already; `n_kept`: sent.

    `widths[w]`, `buckets[b]`: expansions of width w, predicted bucket b. `modelled_speedup`: tokens of the round over
    its cost in target passes, where a drafter call costs its share of the target's weights; to put rounds together,
    add up tokens and costs (tokens / speedup), not speed-ups.
    """

    n_raw: PerRound
    n_merged: PerRound
    n_kept: PerRound
    widths: list[PerRound]
    buckets: list[PerRound]
    modelled_speedup: Positive | None = None


class AdaptArm(msgspec.Struct, kw_only=True):
    """What the bandit thought of one allowed action. `n`: times it was taken; `ucb` null: too seldom to have a bound.

    `gain`, `se`: expected rise of the mean acceptance length; the others in seconds. `cost` is as measured; bounds hold
    it times the knob `adapt_cost_scale`.
    """

    action: AdaptAction
    n: Count
    gain: Real
    se: Real
    save: Real
    cost: Real
    lcb: Real
    ucb: Real | None


class AdaptReplay(msgspec.Struct, kw_only=True):
    """What one action would have brought (`adapt_regret` replay): tried on a copy, skip included.

    `coverage`: of the held-out slots, `measured_gain` follows from it. `next_length`: mean acceptance length of the
    next query, decoded with that copy (null: there was none). `profit`, `next_profit`: seconds saved less those spent,
    by either measure.
    """

    action: AdaptAction
    seconds: Real
    coverage: Real | None = None
    measured_gain: Real | None = None
    profit: Real | None = None
    next_length: Real | None = None
    next_profit: Real | None = None


class Adapt(Event, tag="adapt", kw_only=True):
    """What was learnt from a query, at its end: behind its last round, before the next `prefill`.

    `S`: summed surprise at rejections, `s` the same by round, what decisions go by. `gain`, `se`: expected rise of the
    mean acceptance length by the action taken; `save`, `cost`, `lcb`, `ucb` in seconds; all null for skip, and `arms`
    has them for every allowed action. `spent`, `budget`: seconds of exploring so far and allowed. `measured_gain`:
    change of held-out coverage times rejections a round. `reverted`: the update was taken back. `reset`: weights put
    back at this boundary, by a person or (reason guard) because the anchor's would have done better. `seconds`: serving
    time of the query; `update_s`: of the update; `dur_ns`: of all that learning took, notes in the rounds and dry runs
    included. `length_before`, `length_after`: the running mean acceptance length without and with this query. `regret`:
    seconds given up by the bandit's own estimates; `replays` and `replay_regret` (by coverage), `next_regret` (by the
    next query) only where replays were asked for.
    """

    S: Real
    s: Real
    n_rejections: Count
    action: AdaptAction
    reason: AdaptReason
    gain: Real | None = None
    se: Real | None = None
    save: Real | None = None
    cost: Real | None = None
    lcb: Real | None = None
    ucb: Real | None = None
    spent: Real = 0.0
    budget: Real = 0.0
    measured_gain: Real | None = None
    reverted: bool = False
    regret: Real | None = None
    version_before: Count = 0
    version_after: Count = 0
    domain: str = ""
    mean_acceptance_length: Real | None = None
    length_before: Real | None = None
    length_after: Real | None = None
    accepted_histogram: list[Count] = []
    n_rounds: Count = 0
    n_tokens: Count = 0
    n_events: Count = 0
    n_held: Count = 0
    coverage_before: Real | None = None
    coverage_after: Real | None = None
    arms: list[AdaptArm] = []
    reset: Literal["anchor", "base"] | None = None
    frozen: bool = False
    seconds: Real = 0.0
    update_s: Real | None = None
    dur_ns: Ns = 0
    replays: list[AdaptReplay] | None = None
    replay_regret: Real | None = None
    next_regret: Real | None = None


class Window(FullRecord, tag="window", kw_only=True):
    """What a round fed besides the root, and what the pool held.

    `n_window`: tokens of the window fed; `n_guesses`: n-grams tried; `pool`: n-grams held; `added`: those of them that
    the round before brought and that were not there. `filled`: rows of the window that are grown; `ngram_size - 1`
    when it is warm. `rows[0]` begins with the newest token; a shorter window near the end of a context is empty.
    """

    n_window: PerRound
    n_guesses: PerRound
    pool: Count
    added: PerRound
    filled: PerRound = 0
    rows: list[list[Id]] = []
