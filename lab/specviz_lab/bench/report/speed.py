"""What a measurement of speeds found, as words and, where plotly is installed, charts."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from specviz.comparison.sheets import Column, Sheet, sheet
from specviz.numerals import UNKNOWN, number, percent
from specviz.text import running
from specviz_lab.bench.exit_costs import ExitCosts, WidthTime
from specviz_lab.bench.lengths import BestLength
from specviz_lab.bench.report.page import equality_sheet, interval, machine_line, plain
from specviz_lab.bench.results import ArmResult, BenchBar, Report
from specviz_lab.bench.statistics import PairedRatio

# Okabe and Ito's colours, told apart without red and green; a grey that reads on light and dark ground.
STAGES = {
    "draft": "#E69F00",
    "target": "#56B4E9",
    "verdict": "#009E73",
    "commit": "#CC79A7",
    "other": "#999999",
    "probe": "#D55E00",
}
_LAYOUT = {
    "height": 320,
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"color": "#808080"},
    "margin": {"l": 40, "r": 10, "t": 40, "b": 30},
}


def heading(report: Report) -> list[str]:
    """What must be known before any number."""
    machine, prompts, settings = report.machine, report.prompts, report.settings
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    out = [
        machine_line(machine),
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


def sheets(report: Report) -> list[Sheet]:
    """The tables of a report, empty ones left out."""
    split = [arm for arm in report.arms if arm.round_ms is not None]
    exits = [(arm.name, arm.exits) for arm in report.arms if arm.exits is not None]
    listed = [
        sheet("Speed", report.arms, _SPEED, _SPEED_NOTE),
        sheet("Round", split, _ROUND, _ROUND_NOTE),
        sheet("Would another draft length pay", report.lengths, _LENGTHS, _LENGTHS_NOTE),
        sheet("Early exit", exits, _EXITS, _EXITS_NOTE),
        _times("Rounds by rows", exits, lambda costs: costs.rounds, _ROUNDS_NOTE),
        _times("Layer calls by rows", exits, lambda costs: costs.layers, _LAYERS_NOTE),
        sheet("Ratios", report.ratios, _RATIOS, _RATIOS_NOTE),
        equality_sheet(report.equality),
        sheet("Bars", report.bars, _BARS, "set for the embedded pair in float32 on two processor cores"),
    ]
    return [entry for entry in listed if entry.rows]


def _stage(name: str) -> Column[ArmResult]:
    return name, lambda arm: number(arm.stage_ms.get(name))


_SPEED: Sequence[Column[ArmResult]] = (
    ("method", lambda arm: arm.name),
    ("tokens/s", lambda arm: number(arm.tokens_per_second.median, 1)),
    ("quartiles", lambda arm: f"{number(arm.tokens_per_second.low, 1)} .. {number(arm.tokens_per_second.high, 1)}"),
    ("ms/token", lambda arm: number(arm.ms_per_token.median)),
    ("tokens/round", lambda arm: number(arm.tokens_per_round)),
    ("accepted", lambda arm: percent(arm.draft_acceptance_rate)),
    ("runs", lambda arm: str(arm.n_runs)),
)
_SPEED_NOTE = "medians over runs, prompt included; accepted / drafted"
_ROUND: Sequence[Column[ArmResult]] = (
    ("method", lambda arm: arm.name),
    ("round", lambda arm: number(arm.round_ms.median if arm.round_ms else None)),
    *map(_stage, STAGES),
)
_ROUND_NOTE = (
    "milliseconds, medians over rounds, the first of every run left out; other: the host's work between the rest"
)
_RATIOS: Sequence[Column[PairedRatio]] = (
    ("method", lambda ratio: ratio.arm),
    ("over", lambda ratio: ratio.base),
    ("ratio", lambda ratio: f"{ratio.value:.3f}"),
    ("interval", lambda ratio: interval(ratio.interval)),
    ("cpu", lambda ratio: plain(ratio.cpu, ".3f")),
    ("cpu interval", lambda ratio: interval(ratio.cpu_interval)),
    ("prompts", lambda ratio: str(ratio.n)),
)
_RATIOS_NOTE = "times faster, paired by prompt and turn; 95 % interval over prompts; cpu: the same of processor time"
_BARS: Sequence[Column[BenchBar]] = (
    ("", lambda bar: ("✓" if bar.met else "✗") if bar.applies else "·"),
    ("promise", lambda bar: bar.text if bar.applies else f"{bar.text} (not set for this setting)"),
    ("found", lambda bar: plain(bar.found, ".1%" if bar.is_cost else ".3f")),
    ("interval", lambda bar: interval(bar.interval, ".1%" if bar.is_cost else ".3f")),
)


def _best(length: BestLength) -> str:
    if length.best == length.own:
        return "the best length"
    return f"γ {length.best}" if length.told_apart else f"cannot tell (γ {length.best}?)"


_LENGTHS: Sequence[Column[BestLength]] = (
    ("method", lambda length: length.arm),
    ("γ", lambda length: str(length.own)),
    ("measured", lambda length: number(length.measured, 1)),
    ("predicted", lambda length: number(length.speeds[length.own], 1)),
    ("best", _best),
    ("predicted there", lambda length: number(length.speeds[length.best], 1)),
    ("over the own", lambda length: f"{length.gain:.2f}"),
    ("interval", lambda length: interval(length.gain_interval, ".2f")),
    ("over plain", lambda length: f"{length.over_plain:.2f}"),
)
_LENGTHS_NOTE = (
    "tokens a second without the prompt, from acceptance by position, passes by rows and drafting as measured; best by "
    "the mean, where both ends of the 95 % intervals agree"
)


def _shares(widths: dict[int, int]) -> str:
    total = sum(widths.values())
    return ", ".join(f"{width}: {count / total:.0%}" for width, count in widths.items())


_EXITS: Sequence[Column[tuple[str, ExitCosts]]] = (
    ("method", lambda row: row[0]),
    ("len", lambda row: number(row[1].tokens_per_round)),
    ("layers/token", lambda row: number(row[1].layer_calls_per_token)),
    ("cells/token", lambda row: number(row[1].cells_per_token)),
    ("tests/token", lambda row: number(row[1].head_tests_per_token)),
    ("rows a round", lambda row: _shares(row[1].widths)),
)
_EXITS_NOTE = (
    "arms without a draft model; len: tokens a round (CR); layers: calls of a layer, sequential weight reads; "
    "cells: layers x rows, that is arithmetic; tests: head tests; rows a round: of the last pass, the root among "
    "them, and how often"
)


def _times(
    title: str, exits: Sequence[tuple[str, ExitCosts]], part: Callable[[ExitCosts], list[WidthTime]], note: str
) -> Sheet:
    """Predicted beside measured times, of those with a clock."""
    rows = [(name if k == 0 else "", at) for name, costs in exits for k, at in enumerate(part(costs))]
    return sheet(title, rows, _TIMES, note)


def _ratio(at: WidthTime) -> str:
    return f"{at.predicted_us / at.measured_us:.2f}" if at.predicted_us else UNKNOWN


_TIMES: Sequence[Column[tuple[str, WidthTime]]] = (
    ("method", lambda row: row[0]),
    ("rows", lambda row: str(row[1].width)),
    ("n", lambda row: str(row[1].n)),
    ("measured", lambda row: number(row[1].measured_us)),
    ("predicted", lambda row: number(row[1].predicted_us)),
    ("predicted/measured", lambda row: _ratio(row[1])),
)
_ROUNDS_NOTE = (
    "microseconds of drafting and the target's pass, medians; predicted: every layer call by its rows, head tests and "
    "the final head, from costs measured once per model"
)
_LAYERS_NOTE = (
    "microseconds of one layer, medians; layers of one call share its time, and with it what a call costs besides its "
    "layers, which the prediction has not"
)


def charts(report: Report) -> str:
    """Speeds with quartiles, and where a round's time goes; nothing without plotly."""
    if find_spec("plotly") is None:
        return ""
    import plotly.graph_objects as go

    names = [arm.name for arm in report.arms]
    rates = [arm.tokens_per_second for arm in report.arms]
    error = {
        "type": "data",
        "symmetric": False,
        "array": [speed.high - speed.median for speed in rates],
        "arrayminus": [speed.median - speed.low for speed in rates],
    }
    bars = go.Bar(x=names, y=[speed.median for speed in rates], error_y=error, marker={"color": STAGES["target"]})
    speeds = go.Figure(bars)
    speeds.update_layout(title="Tokens per second, median and quartiles", **_LAYOUT)
    rounds = go.Figure(
        [
            go.Bar(
                name=stage, x=names, y=[arm.stage_ms.get(stage, 0.0) for arm in report.arms], marker={"color": colour}
            )
            for stage, colour in STAGES.items()
        ]
    )
    rounds.update_layout(title="Milliseconds of a round", barmode="stack", **_LAYOUT)
    quiet = {"displayModeBar": False}
    first: str = speeds.to_html(full_html=False, include_plotlyjs=True, config=quiet)
    second: str = rounds.to_html(full_html=False, include_plotlyjs=False, config=quiet)
    return first + second
