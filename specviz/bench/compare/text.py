"""A comparison of verifiers as rows of words."""

from specviz.bench.compare.results import ALL, Domain
from specviz.bench.compare.run import Comparison
from specviz.bench.report.text import Rows, Sheet
from specviz.metrics.estimate import Estimate
from specviz.text import running
from specviz.traits import CAPPED, RULES
from specviz.view.words.numbers import UNKNOWN, percent

_RULES: dict[str, str] = {rule: "hsd = blockwise" if rule == CAPPED else rule for rule in RULES}


def heading(report: Comparison) -> list[str]:
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
        f"prompts: {running(prompts['source'])}, {prompts['n_used']} of {prompts['n_found']}{cut}{left_out}",
    ]


def sheets(report: Comparison) -> list[Sheet]:
    """What was measured, and what the rules would keep of the very same drafts."""
    base = report.domains[-1].lines[0].verifier
    head = ("prompts", "verifier", "tokens/call", f"minus {base}", "kept/block", "rounds")
    note = (
        "tokens/call: block efficiency, committed tokens over target passes, the closing token counted; kept/block: "
        "drafted tokens kept in a block, and as a share of the drafted; ± 95 % over prompts, differences paired"
    )
    if any(not line.lossless for line in report.domains[-1].lines):
        note += "; ✗: NOT LOSSLESS, its text does not have the target's law"
    out = [Sheet("Measured, every verifier decoding by itself", head, _measured(report.domains), note)]
    if rows := _same(report.domains):
        columns = ("prompts", "rule", "expected kept", "minus tokenwise", "drafts")
        note = (
            f"of the chains drafted in the runs of {base}: exact expectation over the uniforms, no rule decoded "
            "anything; hsd_naive keeps more and pays for it with further target calls"
        )
        out.append(Sheet("On the same drafts", columns, rows, note))
    return out


def _measured(domains: list[Domain]) -> Rows:
    return [
        [
            _name(domain) if k == 0 else "", line.verifier + " ✗" * (not line.lossless),
            _number(line.block_efficiency), _number(line.difference, signed=True),
            f"{line.mean_accepted.value:.3f}" + _rate(line.draft_acceptance_rate), f"{line.n_rounds:,}",
        ]
        for domain in domains
        for k, line in enumerate(domain.lines)
    ]  # fmt: skip


def _same(domains: list[Domain]) -> Rows:
    return [
        [
            _name(domain) if k == 0 else "", _RULES[found.rule], _number(found.expected_accepted),
            _number(found.difference, signed=True), f"{found.n_drafts:,}",
        ]
        for domain in domains
        for k, found in enumerate(domain.same_drafts)
    ]  # fmt: skip


def _name(domain: Domain) -> str:
    return f"{running(domain.name)} ({domain.n_prompts})" if domain.name != ALL else f"all ({domain.n_prompts})"


def _rate(found: Estimate | None) -> str:
    return "" if found is None else f" ({percent(found.value)})"


def _number(found: Estimate | None, *, signed: bool = False) -> str:
    if found is None:
        return UNKNOWN
    shown = f"{found.value:+.3f}" if signed else f"{found.value:.3f}"
    return shown if found.interval is None else f"{shown} ± {(found.interval[1] - found.interval[0]) / 2:.3f}"
