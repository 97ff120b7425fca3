"""Metrics of every run: time, lanes, and what was kept by length, position and depth.

Beside the accepted-length histogram stands the one that a constant acceptance probability would give. If every drafted
position were kept with the same probability `a`, independently, a round whose draft is `d` deep would keep `j < d`
tokens with probability `a^j (1 - a)` and all `d` with `a^d`. `a` is the maximum-likelihood value, kept positions /
positions tried, where a round that keeps `j` of `d` tries `min(j + 1, d)`. What the real histogram has more of at its
ends is what a single acceptance rate hides.
"""

from collections import Counter
from functools import partial

import msgspec

from specviz.metrics import registry
from specviz.metrics.against_plain import PlainSpeed
from specviz.metrics.estimate import Estimate, share
from specviz.metrics.registry import ByNumber, RoundFigures, RunSums, SummedRun, numbered
from specviz.metrics.replay_rules import SameDraft
from specviz.metrics.tallies import Modelled

MS, S = 1e6, 1e9  # nanoseconds
metric, ratio = partial(registry.metric, group="common"), partial(registry.ratio, group="common")
lane_metric, position_metric = (partial(registry.metric, group=name) for name in ("lanes", "positions"))

# ---- time


@ratio(
    "tokens_per_second", unit="tokens/s", help="prefill not in it", header=("tok/s", "new tokens / time of all rounds")
)
def _tokens_per_second(at: RoundFigures) -> tuple[int, int]:
    """Σ n_emitted / Σ round seconds (prefill not in it)."""
    return at.end.n_emitted * int(S), at.ns


@metric("time_to_first_token_s", unit="s", help="seconds, median over queries")
def _time_to_first_token_s(run: SummedRun) -> Estimate | None:
    """Start of the prefill to the first commit, median over queries."""
    return run.sums.first_commit_ns.estimate(S)


@metric("round_ms", unit="ms", help="milliseconds, median")
def _round_ms(run: SummedRun) -> Estimate | None:
    """Median round."""
    return run.sums.round_ns.estimate(MS)


@registry.metric("stage_ms", unit="ms", help="milliseconds, median", group="stages")
def _stage_ms(run: SummedRun) -> dict[str, Estimate]:
    """Median of every stage over the rounds; `prefill` over the queries."""
    stages = {"prefill": run.sums.prefill_ns.estimate(MS)}
    for name, took in run.sums.stage_ns.items():
        stages[name] = took.estimate(MS, run.n_rounds - took.n)
    return {name: value for name, value in stages.items() if value is not None}


@ratio("drafting_share", unit="share", help="draft time / round time", when=lambda run: run.drafts and run.ours)
def _drafting_share(at: RoundFigures) -> tuple[int, int]:
    """Σ draft ns / Σ round ns."""
    return at.end.stage_ns.get("draft", 0), at.ns


@ratio("overhead", unit="share", help="time spent on recording / the rest", when=lambda run: run.ours)
def _overhead(at: RoundFigures) -> tuple[int, int]:
    """Σ probe_ns / (Σ round_ns - Σ probe_ns): what recording costs."""
    return at.end.probe_ns, at.ns - at.end.probe_ns


# ---- two lanes


@lane_metric("overlap_efficiency", unit="share", help="0 in turn, 1 the shorter lane hidden")
def _overlap_efficiency(run: SummedRun) -> float | None:
    """(T_draft + T_target - T_round) / min(T_draft, T_target); null on serial lanes."""
    draft, target = (run.sums.busy.get(lane, 0) for lane in ("draft", "target"))
    if not draft or not target or not run.two_models or run.header is None or run.header.lanes == "serial":
        return None
    return float((draft + target - run.total("ns")) / min(draft, target))


def _bubble(run: SummedRun, lane: str) -> float | None:
    if not run.two_models:
        return None
    busy, elapsed = run.sums.busy.get(lane, 0), run.total("ns")
    return max(0.0, 1 - busy / elapsed) if busy and elapsed else None


@lane_metric("bubble_target", unit="share", help="idle share of the target's lane")
def _bubble_target(run: SummedRun) -> float | None:
    """Idle / elapsed of the target's lane over all rounds, by its recorded spans; null without any, or with one model
    alone: it does both kinds of work itself, so neither lane waits for the other."""
    return _bubble(run, "target")


@lane_metric("bubble_draft", unit="share", help="idle share of the draft model's lane")
def _bubble_draft(run: SummedRun) -> float | None:
    """Idle / elapsed of the draft model's lane, likewise."""
    return _bubble(run, "draft")


@lane_metric("wasted_draft_s", unit="s", help="draft seconds of tokens not accepted")
def _wasted_draft_s(run: SummedRun) -> float | None:
    """Measured draft seconds of tokens that were not accepted, a forward's time shared by the tokens drawn from it.

    Where every draft is settled by its own round, its tokens share the round's draft time evenly; null with one model
    alone, whose time is not its drafts' only.
    """
    if run.pipelined:
        return run.sums.pipeline.wasted_ns / S if run.settles else None
    if not run.has_nodes or not run.two_models:
        return None
    return sum((ns / max(drafted, 1) for drafted, ns in run.sums.lost_ns.items()), 0.0) / S


# ---- lengths, positions and depths


@registry.metric("accepted_histogram", unit="blocks", help="blocks by accepted tokens", group="lengths")
def _accepted_histogram(run: SummedRun) -> dict[int, int] | None:
    """Blocks by n_accepted, 0 to the largest seen."""
    if not run.drafts:
        return None
    counts = run.counts("n_accepted")
    return {j: counts[j] for j in range(max(counts) + 1)}


@position_metric("share_above", unit="share", help="rounds that gave more than w tokens")
def _share_above(run: SummedRun) -> ByNumber | None:
    """share_above[w]: share of blocks with n_emitted > w, for w from 1 to the largest seen."""
    if not run.drafts:
        return None
    emitted = run.counts("n_emitted")
    return numbered({w: share(_at_least(emitted, w + 1), run.n_blocks) for w in range(1, max(emitted) + 1)})


@position_metric("survival", unit="share", help="drafts of which at least t tokens were kept")
def _survival(run: SummedRun) -> ByNumber | None:
    """survival[t]: blocks with n_accepted >= t / blocks whose draft is at least t deep."""
    if not run.has_nodes:
        return None
    accepted, depth = run.counts("n_accepted"), run.counts("depth")
    counts = {t: (_at_least(accepted, t), _at_least(depth, t)) for t in range(1, max(depth) + 1)}
    return numbered({t: share(min(hits, n), n) for t, (hits, n) in counts.items()})


@position_metric("position_acceptance", unit="share", help="kept / tested at position t")
def _position_acceptance(run: SummedRun) -> ByNumber | None:
    """position_acceptance[t]: rounds that kept a token at draft position t / rounds that tested one there.

    On a tree a round tests a position with several siblings and keeps at most one. Null for backward scans.
    """
    if not run.has_nodes or run.backward:
        return None
    spots = sorted(run.sums.spots.items())
    return numbered({t: share(spot.rounds_accepted, spot.rounds_tested) for t, spot in spots})


@position_metric("depth_acceptance", unit="share", help="kept / tested at depth d")
def _depth_acceptance(run: SummedRun) -> ByNumber | None:
    """depth_acceptance[d]: nodes kept / nodes tested at depth d. Equals `position_acceptance` on chains."""
    if not run.has_nodes or run.backward:
        return None
    return numbered({d: share(spot.accepted, spot.tested) for d, spot in sorted(run.sums.spots.items())})


def _at_least(counts: Counter[int], least: int) -> int:
    return sum(n for value, n in counts.items() if value >= least)


# ---- the same drafts under other rules, and on another clock


@registry.metric(
    "same_draft", unit="tokens", help="three verifiers on the drafts and uniforms of this run", group="rules"
)
def _same_draft(run: SummedRun) -> SameDraft | None:
    """What three verifiers would keep of the drafts of this run: expected (`expected_accepted`, of exactly these drafts
    over all uniforms), estimated (`estimated_accepted`, of drafts as the run draws them: the mean credit, unbiased and
    less noisy, the same number for tokenwise), replayed with the uniforms drawn, paired. Null where the keep chances
    are not on record.
    """
    return run.sums.drafts.summary()


@registry.metric("modelled", unit="s", help="the run on the modelled clock", group="modelled")
def _modelled(run: SummedRun) -> Modelled | None:
    """The rounds played with the costs measured at the start, as if both models ran beside each other."""
    return run.sums.modelled.summary()


# ---- one acceptance probability


class GeometricFit(msgspec.Struct, frozen=True, kw_only=True):
    """`alpha`: the constant acceptance per position. `expected[j]`: rounds it would put at j accepted tokens."""

    alpha: Estimate
    expected: dict[int, float]
    n: int  # rounds it rests on, those with a draft


def geometric_fit(sums: RunSums) -> GeometricFit | None:
    """The fit over all blocks that drafted; None without a draft, without nodes on record, or for a backward scan."""
    run = SummedRun(sums)
    if not run.has_nodes or run.backward:
        return None
    drafts = [(min(accepted, depth), depth, n) for (accepted, _, depth), n in run.blocks.items() if depth > 0]
    alpha = share(sum(kept * n for kept, _, n in drafts), sum(min(kept + 1, depth) * n for kept, depth, n in drafts))
    if alpha is None:
        return None
    return GeometricFit(alpha=alpha, expected=_expected(alpha.value, drafts), n=sum(n for _, _, n in drafts))


def _expected(alpha: float, drafts: list[tuple[int, int, int]]) -> dict[int, float]:
    """Rounds at every count from 0 to the deepest draft; adds up to the number of rounds."""
    most = max(depth for _, depth, _ in drafts)
    at_least = {j: float(sum(n for _, depth, n in drafts if depth >= j)) * alpha**j for j in range(most + 1)}
    return {j: at_least[j] - at_least.get(j + 1, 0.0) for j in range(most + 1)}


# ---- beside plain decoding


def plain_speed(sums: RunSums) -> PlainSpeed | None:
    """The speed-up over plain decoding, as far as the run alone tells (`specviz.metrics.against_plain`).

    None before the first round, for plain decoding itself, and where nothing tells what a plain round takes.
    """
    if sums.header is None or sums.header.method_traits.plain or not sums.n_rounds:
        return None
    return sums.plain.speed(sums.modelled.calibration, _passes_per_token(sums))


@registry.metric("over_plain", unit="times", help="as fast as plain decoding", group="beside plain")
def _over_plain(run: SummedRun) -> PlainSpeed | None:
    """Tokens a second / those of plain decoding, recording left out: by passes of plain decoding timed between the
    rounds or right behind the text, by plain rounds of the run, by a pass over one row timed alone, or modelled by the
    run's passes. `agrees` false: the run's own passes, taken to one row, part from
    what was timed by more than a quarter, and the number means nothing."""
    return plain_speed(run.sums)


def _passes_per_token(sums: RunSums) -> Estimate | None:
    """Layer calls for a token / layers of the target; None where layers were not counted."""
    target = sums.header.models.target if sums.header is not None else None
    calls = SummedRun(sums).ratio("layer_calls_per_token") if sums.exits.counted else None
    if calls is None or target is None or not target.n_layers:
        return None
    ends = (
        None if calls.interval is None else (calls.interval[0] / target.n_layers, calls.interval[1] / target.n_layers)
    )
    return Estimate(value=calls.value / target.n_layers, interval=ends, n=calls.n, unknown=calls.unknown)
