"""What a comparison of verifiers found, as words."""

from collections.abc import Sequence

from specviz.comparison.measured import ALL, ExpectedKept, PromptKind, VerifierComparison, VerifierResult
from specviz.comparison.sheets import Column, Sheet, margin, sheet
from specviz.metrics.estimate import Estimate
from specviz.numerals import UNKNOWN, percent
from specviz.text import running
from specviz.traits import CAPPED, RULES

_RULES: dict[str, str] = {rule: "hsd = blockwise" if rule == CAPPED else rule for rule in RULES}


def heading(report: VerifierComparison) -> list[str]:
    """What must be known before any number."""
    prompts, knobs = report.prompts, report.knobs
    seeds = f"seed {report.seeds[0]}" if len(report.seeds) == 1 else f"seeds {report.seeds[0]} .. {report.seeds[-1]}"
    shown = ", ".join(f"{name} {value}" for name, value in knobs.items() if name != "seed")
    cut = " (interrupted)" if report.interrupted else " (the time was up)" if report.cut else ""
    left_out = f", {prompts['n_too_long']} too long" if prompts["n_too_long"] else ""
    return [
        f"{report.machine.processor}, {report.machine.device}, commit {report.machine.commit or 'unknown'}",
        *(f"{role}: {running(model)}" for role, model in report.models.items()),
        f"method {report.method}: {running(shown)}; {seeds}",
        *(f"{name}: {running(', '.join(map(str, values)))}" for name, values in report.varied.items()),
        f"prompts: {running(prompts['source'])}, {prompts['n_used']} of {prompts['n_found']}{cut}{left_out}",
    ]


def sheets(report: VerifierComparison) -> list[Sheet]:
    """What was measured, and what the rules would keep of the very same drafts."""
    base = report.domains[-1].lines[0].verifier
    lines = [(_name(kind, k), line) for kind in report.domains for k, line in enumerate(kind.lines)]
    rules = [
        (_name(kind, k), expected_kept) for kind in report.domains for k, expected_kept in enumerate(kind.same_drafts)
    ]
    note = (
        "tokens/call: block efficiency, committed tokens over target passes, the closing token counted; kept/block: "
        "drafted tokens kept in a block, and as a share of the drafted; ± 95 % over prompts, differences paired"
    )
    if any(not line.lossless for line in report.domains[-1].lines):
        note += "; ✗: NOT LOSSLESS, its text does not have the target's law"
    measured: Sequence[Column[tuple[str, VerifierResult]]] = (
        ("prompts", lambda row: row[0]),
        ("", lambda row: row[1].verifier + " ✗" * (not row[1].lossless)),
        ("tokens/call", lambda row: _number(row[1].block_efficiency)),
        (f"minus {base}", lambda row: _number(row[1].difference, "+.3f")),
        ("kept/block", lambda row: f"{row[1].mean_accepted.value:.3f}{_rate(row[1].draft_acceptance_rate)}"),
        ("rounds", lambda row: f"{row[1].n_rounds:,}"),
    )
    timed = any(line.unrecorded_tokens_per_second for _, line in lines)
    if timed:
        measured = (
            *measured,
            ("tokens/s unrecorded", lambda row: _number(row[1].unrecorded_tokens_per_second, ".1f")),
        )
        note += "; tokens/s unrecorded: prompt and recording not in it, on this machine with what else it did"
    expected = (
        f"of the chains drafted in the runs of {base}, no rule decoded anything. expected: of exactly these drafts, "
        f"over the uniforms alone; estimated: of drafts as {base} draws them, of which these are a sample. hsd_naive "
        "keeps more and pays for it with further target calls"
    )
    out = [
        sheet("Measured, every verifier decoding by itself", lines, measured, note),
        sheet("On the same drafts", rules, _SAME, expected),
    ]
    return [table for table in out if table.rows]


_SAME: Sequence[Column[tuple[str, ExpectedKept]]] = (
    ("prompts", lambda row: row[0]),
    ("rule", lambda row: _RULES[row[1].rule]),
    ("expected", lambda row: _number(row[1].expected_accepted)),
    ("minus tokenwise", lambda row: _number(row[1].difference, "+.3f")),
    ("estimated", lambda row: _number(row[1].estimated_accepted)),
    ("minus tokenwise", lambda row: _number(row[1].estimated_difference, "+.3f")),
    ("drafts", lambda row: f"{row[1].n_drafts:,}"),
)


def _name(kind: PromptKind, row: int) -> str:
    """On the first row of a kind of prompts alone."""
    name = "all" if kind.name == ALL else running(kind.name)
    return f"{name} ({kind.n_prompts})" if row == 0 else ""


def _rate(rate: Estimate | None) -> str:
    return "" if rate is None else f" ({percent(rate.value)})"


def _number(estimate: Estimate | None, form: str = ".3f") -> str:
    if estimate is None:
        return UNKNOWN
    return format(estimate.value, form) + (f" ± {margin(estimate)}" if estimate.interval else "")
