"""An ablation as rows of words."""

from collections.abc import Sequence

from specviz.bench.ablation.results import Ablation, OnClock, Row
from specviz.bench.report.sheet import Sheet
from specviz.bench.report.text import equality_sheet
from specviz.metrics.estimate import Estimate
from specviz.text import running
from specviz.view.words.numbers import UNKNOWN, number, percent


def heading(report: Ablation) -> list[str]:
    """What must be known before any number."""
    machine, settings, costs, prompts = report.machine, report.settings, report.costs, report.prompts
    cut = " (the time was up)" if report.cut else "" if report.rows[0].tokens_per_second else " (nothing was timed)"
    load = f"load {_plain(machine.load_before)} before, {_plain(machine.load_after)} after"
    return [
        f"{machine.processor}, {machine.cores} cores, {machine.device}, {machine.threads} threads, {load}",
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
    """Rollback beside speed on both clocks; drafts, lanes, branches, what was claimed; empty ones left out."""
    found = [_table(report.rows), _drafts(report.rows), _lanes(report.rows), _branches(report.rows)]
    found += [_claims(report), equality_sheet(report.equality)]
    return [sheet for sheet in found if sheet.rows]


def _table(rows: Sequence[Row]) -> Sheet:
    ratios = [at.c for at in rows[0].modelled[1:]]
    head = ("method", "rollback", "±", "measured", "interval", "cpu", "lanes", "modelled", "±")
    note = (
        "rollback: drafted and thrown away on one path, a branch counted once; ± 95 %. Speed-ups over ar; measured: "
        "whole runs here, paired by prompt and turn, cpu: the same of processor time; modelled: the same rounds at the "
        "costs above, as if both models ran beside each other (no number of one clock is comparable with one of the "
        "other); c = ..: with another ratio, rounds as they were run"
    )
    return Sheet("Rollback and speed-up", (*head, *(f"c = {c:g}" for c in ratios)), [_both(row) for row in rows], note)


def _both(row: Row) -> list[str]:
    over, first = row.over_ar, row.modelled[0].speedup
    interval = UNKNOWN if over is None or over.interval is None else " .. ".join(f"{x:.3f}" for x in over.interval)
    measured = f"{over.value:.3f}" if over is not None else "1" if row.tokens_per_second else UNKNOWN
    cpu = UNKNOWN if over is None or over.cpu is None else f"{over.cpu:.3f}"
    others = [f"{at.speedup.value:.2f}" for at in row.modelled[1:]]
    return [
        row.name, _share(row.rollback_rate), _half(row.rollback_rate), measured, interval, cpu, row.lanes,
        f"{first.value:.3f}", _half(first), *others,
    ]  # fmt: skip


def _drafts(rows: Sequence[Row]) -> Sheet:
    head = ("method", "rollback, all cells", "accepted/drafted", "M_run", "M_fwd")
    note = (
        "all cells: losing branches and trimmed tokens included; M_run: accepted tokens between rejections, M_fwd: "
        "tokens per target pass: two things that papers both call mean accepted tokens"
    )
    shown = [
        [
            row.name, _share(row.rollback_rate_tokens), _share(row.draft_acceptance_rate),
            _value(row.accepted_run_length), _value(row.block_efficiency),
        ]
        for row in rows
    ]  # fmt: skip
    return Sheet("Drafts", head, shown, note)


def _lanes(rows: Sequence[Row]) -> Sheet:
    head = ("method", "target idle", "draft idle", "overlap", "draft time wasted")
    note = (
        "on the modelled clock: idle shares of both lanes; overlap: of the shorter lane's work, 1 all hidden; wasted: "
        "share of the draft model's busy time spent on tokens that were not kept"
    )
    shown = [[row.name, *_idle(row.modelled[0])] for row in rows if row.modelled[0].bubble_draft is not None]
    return Sheet("Lanes", head, shown, note)


def _idle(at: OnClock) -> list[str]:
    overlap = None if at.overlap_efficiency is None else max(0.0, at.overlap_efficiency)
    return [percent(at.bubble_target), percent(at.bubble_draft), number(overlap), percent(at.wasted_share)]


def _branches(rows: Sequence[Row]) -> Sheet:
    head = ("method", "signal", "ms", "hits by branches", "said > true")
    shown = [
        [row.name, row.hrad or UNKNOWN, number(row.hrad_ms or None), _hits(row), _said(row)]
        for row in rows
        if row.branch_hit_rate is not None and row.hrad is not None
    ]
    return Sheet("Branches", head, shown, _BRANCHES)


_BRANCHES = (
    "ms: the classifier's median time, part of the modelled clock; hits by branches: how often one of so many branch "
    "tokens was the target's, of how many matches; said > true: classes of the signal (0 none, 1 some, 2 all of a "
    "draft) and how often, where the verdict tells"
)


def _hits(row: Row) -> str:
    return ", ".join(f"{k}: {found.value:.0%} of {found.n}" for k, found in (row.branch_hit_rate or {}).items())


def _said(row: Row) -> str:
    found = row.hrad_confusion or {}
    return ", ".join(f"{s} > {true}: {n}" for s, counts in found.items() for true, n in counts.items() if n) or UNKNOWN


def _claims(report: Ablation) -> Sheet:
    shown = [
        [
            "✓" if claim.holds else "✗",
            claim.text,
            number(claim.found[0], 3),
            number(claim.found[1], 3),
            UNKNOWN if claim.difference is None else f"{claim.difference.value:+.3f}",
            _half(claim.difference),
        ]
        for claim in report.claims
    ]
    return Sheet("The paper's shape", ("", "specbranch", "found", "the other", "minus", "±"), shown, _SHAPE)


_SHAPE = "held against the rows above; differences of speed-ups are paired by prompt, ± 95 %"


def _share(found: Estimate | None) -> str:
    return percent(None if found is None else found.value)


def _value(found: Estimate | None) -> str:
    return number(None if found is None else found.value)


def _half(found: Estimate | None) -> str:
    if found is None or found.interval is None:
        return UNKNOWN
    return f"{(found.interval[1] - found.interval[0]) / 2:.3f}"


def _plain(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:g}"
