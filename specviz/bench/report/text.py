"""A report as rows of words, once for terminal and page."""

from collections.abc import Sequence

from specviz.bench.report.exit_text import exit_sheets
from specviz.bench.report.sheet import Rows, Sheet
from specviz.bench.results import ArmResult, Bar, Report
from specviz.bench.statistics import Equality, PairedRatio
from specviz.text import running
from specviz.view.words.numbers import UNKNOWN, number, percent

__all__ = ["STAGES", "Rows", "Sheet", "lines", "sheets"]
STAGES = ("draft", "target", "verdict", "commit", "other", "probe")


def sheets(report: Report) -> list[Sheet]:
    """The tables of a report, empty ones left out."""
    found = [
        _speed(report), _split(report), *exit_sheets(report), _ratios(report), equality_sheet(report.equality),
        _bars(report),
    ]  # fmt: skip
    return [sheet for sheet in found if sheet.rows]


def lines(report: Report) -> list[str]:
    """What must be known before any number."""
    machine, prompts, settings = report.machine, report.prompts, report.settings
    versions = ", ".join(f"{name} {found}" for name, found in machine.versions.items())
    load = f"load {_plain(machine.load_before)} before, {_plain(machine.load_after)} after"
    out = [
        f"{machine.processor}, {machine.cores} cores, {machine.device}, {machine.threads} threads, {load}",
        f"{versions}, commit {machine.commit or 'unknown'}",
        *(f"{role}: {running(model)}" for role, model in report.models.items()),
        f"prompts: {running(prompts.source)}, {prompts.n_used} of {prompts.n_found}, {prompts.mean_tokens:.0f} tokens "
        f"on average; {settings['max_new_tokens']} new tokens each, temperature {settings['temperature']:g}, "
        f"gamma {settings['gamma']}, {settings['repeats']} repeats",
    ]
    if report.thread_probe_ms:
        probed = ", ".join(f"{n}: {number(ms)}" for n, ms in report.thread_probe_ms.items())
        out.append(f"thread probe, ms a token by threads: {probed}")
    return [*out, *report.notes]


def _plain(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:g}"


def _speed(report: Report) -> Sheet:
    head = ("method", "tokens/s", "quartiles", "ms/token", "tokens/round", "accepted", "peak MiB", "runs")
    note = "medians over runs, prompt included; accepted / drafted; memory of a process of its own, imports taken off"
    return Sheet("Speed", head, [_arm(arm) for arm in report.arms], note)


def _arm(arm: ArmResult) -> list[str]:
    speed, memory = arm.tokens_per_second, arm.memory
    return [
        arm.name, number(speed.median, 1), f"{number(speed.low, 1)} .. {number(speed.high, 1)}",
        number(arm.ms_per_token.median), number(arm.tokens_per_round), percent(arm.draft_acceptance_rate),
        UNKNOWN if memory is None else number(memory.device or memory.peak - memory.imports), str(arm.n_runs),
    ]  # fmt: skip


def _split(report: Report) -> Sheet:
    head = ("method", "round", *STAGES)
    rows = [
        [arm.name, number(arm.round_ms.median), *(number(arm.stage_ms.get(stage)) for stage in STAGES)]
        for arm in report.arms
        if arm.round_ms is not None
    ]
    note = "milliseconds, medians over rounds, the first of every run left out; other: the host's work between the rest"
    return Sheet("Round", head, rows, note)


def _ratios(report: Report) -> Sheet:
    note = "times faster, paired by prompt and turn; 95 % interval over prompts; cpu: the same of processor time"
    head = ("method", "over", "ratio", "interval", "cpu", "cpu interval", "prompts")
    return Sheet("Ratios", head, [_ratio(r) for r in report.ratios], note)


def _ratio(ratio: PairedRatio) -> list[str]:
    cpu = UNKNOWN if ratio.cpu is None else f"{ratio.cpu:.3f}"
    ends = _interval(ratio.interval), cpu, _interval(ratio.cpu_interval)
    return [ratio.arm, ratio.base, f"{ratio.value:.3f}", *ends, str(ratio.n)]


def _interval(found: tuple[float, float] | None) -> str:
    return UNKNOWN if found is None else " .. ".join(f"{end:.3f}" for end in found)


def equality_sheet(found: Sequence[Equality]) -> Sheet:
    """Whether texts were equal where that was promised."""
    note = "texts equal token for token; margin: highest minus second highest logit where the worst pair parts"
    return Sheet(
        "Equality", ("method", "as", "equal", "first divergence"), [_equal(e) for e in found], note
    )  # fmt: skip


def _equal(found: Equality) -> list[str]:
    worst = found.worst
    where = UNKNOWN if worst is None else f"prompt {worst.prompt}, token {worst.position}, margin {worst.margin:.2g}"
    return [found.arm, found.reference, f"{found.n_equal} of {found.n}", where]


def _bars(report: Report) -> Sheet:
    note = "set for the embedded pair in float32 on two processor cores"
    return Sheet("Bars", ("", "promise", "found", "interval"), [_bar(bar) for bar in report.bars], note)


def _bar(bar: Bar) -> list[str]:
    form = "{:.1%}".format if bar.is_cost else "{:.3f}".format
    mark = ("✓" if bar.met else "✗") if bar.applies else "·"
    interval = UNKNOWN if bar.interval is None else " .. ".join(map(form, bar.interval))
    return [mark, bar.text if bar.applies else f"{bar.text} (not set for this setting)", form(bar.found), interval]
