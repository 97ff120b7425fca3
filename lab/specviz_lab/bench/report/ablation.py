"""What an ablation found, as words: rollback beside speed on both clocks, drafts, lanes, branches, what was claimed."""

from collections.abc import Sequence

from specviz.comparison.sheets import Column, Sheet, margin, sheet
from specviz.numerals import UNKNOWN, number, percent
from specviz.text import running
from specviz_lab.bench.ablation import Ablation, Claim, VariantResult
from specviz_lab.bench.report.page import equality_sheet, interval, machine_line, plain, share, value

Columns = Sequence[Column[VariantResult]]


def heading(report: Ablation) -> list[str]:
    """What must be known before any number."""
    machine, settings, costs, prompts = report.machine, report.settings, report.costs, report.prompts
    cut = " (the time was up)" if report.cut else "" if report.rows[0].tokens_per_second else " (nothing was timed)"
    return [
        machine_line(machine),
        f"commit {machine.commit or 'unknown'}",
        *(f"{role}: {running(model)}" for role, model in report.models.items()),
        f"prompts: {running(prompts['source'])}, {prompts['n_used']} of {prompts['n_found']}{cut}; "
        f"{settings['max_new_tokens']} new tokens each, temperature {settings['temperature']:g}, gamma "
        f"{settings['gamma']}, {settings['repeats']} repeats, lanes {settings['lanes']}",
        f"modelled clock: t = {costs['t_ns'] / 1e6:.2f} ms, c = {costs['c']:.2f}, kappa_q = {costs['kappa_q']:.3f}, "
        f"kappa_p = {costs['kappa_p']:.3f}, medians of {costs['repeats']} passes",
        *report.notes,
    ]


def sheets(report: Ablation) -> list[Sheet]:
    """The tables of a report, empty ones left out."""
    rows = report.rows
    overlapping = [row for row in rows if row.modelled[0].bubble_draft is not None]
    branching = [row for row in rows if row.branch_hit_rate is not None and row.hrad is not None]
    ratios = [_at_ratio(k, at.c) for k, at in enumerate(rows[0].modelled) if k]
    listed = [
        sheet("Rollback and speed-up", rows, [*_SPEEDS, *ratios], _SPEEDS_NOTE),
        sheet("Drafts", rows, _DRAFTS, _DRAFTS_NOTE),
        sheet("Lanes", overlapping, _LANES, _LANES_NOTE),
        sheet("Branches", branching, _BRANCHES, _BRANCHES_NOTE),
        sheet("The paper's shape", report.claims, _CLAIMS, _CLAIMS_NOTE),
        equality_sheet(report.equality),
    ]
    return [entry for entry in listed if entry.rows]


def _at_ratio(index: int, c: float) -> Column[VariantResult]:
    return f"c = {c:g}", lambda row: f"{row.modelled[index].speedup.value:.2f}"


def _measured(row: VariantResult) -> str:
    return f"{row.over_ar.value:.3f}" if row.over_ar is not None else "1" if row.tokens_per_second else UNKNOWN


_SPEEDS: Columns = (
    ("method", lambda row: row.name),
    ("rollback", lambda row: share(row.rollback_rate)),
    ("±", lambda row: margin(row.rollback_rate)),
    ("measured", _measured),
    ("interval", lambda row: interval(row.over_ar.interval if row.over_ar else None)),
    ("cpu", lambda row: plain(row.over_ar.cpu if row.over_ar else None, ".3f")),
    ("lanes", lambda row: row.lanes),
    ("modelled", lambda row: f"{row.modelled[0].speedup.value:.3f}"),
    ("±", lambda row: margin(row.modelled[0].speedup)),
)
_SPEEDS_NOTE = (
    "rollback: drafted and thrown away on one path, a branch counted once; ± 95 %. Speed-ups over ar; measured: "
    "whole runs here, paired by prompt and turn, cpu: the same of processor time; modelled: the same rounds at the "
    "costs above, as if both models ran beside each other (no number of one clock is comparable with one of the "
    "other); c = ..: with another ratio, rounds as they were run"
)
_DRAFTS: Columns = (
    ("method", lambda row: row.name),
    ("rollback, all cells", lambda row: share(row.rollback_rate_tokens)),
    ("accepted/drafted", lambda row: share(row.draft_acceptance_rate)),
    ("M_run", lambda row: value(row.accepted_run_length)),
    ("M_fwd", lambda row: value(row.block_efficiency)),
)
_DRAFTS_NOTE = (
    "all cells: losing branches and trimmed tokens included; M_run: accepted tokens between rejections, M_fwd: "
    "tokens per target pass: two things that papers both call mean accepted tokens"
)


def _overlap(row: VariantResult) -> str:
    share = row.modelled[0].overlap_efficiency
    return number(None if share is None else max(0.0, share))


_LANES: Columns = (
    ("method", lambda row: row.name),
    ("target idle", lambda row: percent(row.modelled[0].bubble_target)),
    ("draft idle", lambda row: percent(row.modelled[0].bubble_draft)),
    ("overlap", _overlap),
    ("draft time wasted", lambda row: percent(row.modelled[0].wasted_share)),
)
_LANES_NOTE = (
    "on the modelled clock: idle shares of both lanes; overlap: of the shorter lane's work, 1 all hidden; wasted: "
    "share of the draft model's busy time spent on tokens that were not kept"
)


def _confusion(row: VariantResult) -> str:
    confusion = row.hrad_confusion or {}
    return (
        ", ".join(f"{s} > {true}: {n}" for s, counts in confusion.items() for true, n in counts.items() if n) or UNKNOWN
    )


_BRANCHES: Columns = (
    ("method", lambda row: row.name),
    ("signal", lambda row: row.hrad or UNKNOWN),
    ("ms", lambda row: number(row.hrad_ms or None)),
    (
        "hits by branches",
        lambda row: ", ".join(f"{k}: {at.value:.0%} of {at.n}" for k, at in (row.branch_hit_rate or {}).items()),
    ),
    ("said > true", _confusion),
)
_BRANCHES_NOTE = (
    "ms: the classifier's median time, part of the modelled clock; hits by branches: how often one of so many branch "
    "tokens was the target's, of how many matches; said > true: classes of the signal (0 none, 1 some, 2 all of a "
    "draft) and how often, where the verdict tells"
)
_CLAIMS: Sequence[Column[Claim]] = (
    ("", lambda claim: "✓" if claim.holds else "✗"),
    ("specbranch", lambda claim: claim.text),
    ("found", lambda claim: number(claim.found[0], 3)),
    ("the other", lambda claim: number(claim.found[1], 3)),
    ("minus", lambda claim: plain(claim.difference.value if claim.difference else None, "+.3f")),
    ("±", lambda claim: margin(claim.difference)),
)
_CLAIMS_NOTE = "held against the rows above; differences of speed-ups are paired by prompt, ± 95 %"
