"""SpecBlock (arXiv 2605.07243) beside EAGLE-3: recorded trees cut to smaller budgets, and rank buckets."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from specviz.commands import Prompt
from specviz.events import Expansion, Node
from specviz.metrics.differences import difference_of, growth_of
from specviz.metrics.estimate import Estimate, mean_difference
from specviz.runlog.fold import Run, fold
from specviz.runlog.run import RoundRecord
from specviz.sources.prompts import load_prompts
from specviz.trace import read_events
from specviz.trace.bundled import all_bundled
from specviz_lab.papers.decoded import Arm, decode
from specviz_lab.papers.kept import clocked, counts, keep_counts, ratio
from specviz_lab.papers.table import ComputedTable, Paper, decimal, rows_of, within

_BLOCKS, _LEVELS, _STREAM = "explain-specblock", "explain-eagle3", "stream-specblock"
_BUDGETS = (8, 12, 24)
_STEPS = (0.02, 0.05, 0.1)  # a drafter's call, in passes of the target
_CALLS = {_BLOCKS: 2, _LEVELS: 8}
_DRAFTERS = {"levels": "EAGLE-3", "rank": "10 starts", "cap6": "6", "cap4": "4"}
_NODES, _ALIKE = (8, 24, 60), ("fixed2", "fixed3", "fixed4")
# A stream whose subject shifts, of questions short enough to be read quickly; learning with a rate for large drafters.
_KINDS, _EACH, _SHORT = ("math_reasoning", "translation"), 12, 150
_TEN = {"start_cap": 10}
_LEARNING = {"adapt": "on", "adapt_lr_full": 2e-5, **_TEN}
_POLICIES = (
    Arm("never", "specblock", _TEN),
    Arm("bandit", "specblock", _LEARNING),
    Arm("always", "specblock", {**_LEARNING, "adapt_cost_scale": 0, "adapt_budget": 1, "adapt_caution": 0}),
)
# Llama-3.1-8B at T = 0: calls a round, share of drafting in a round, speed-up, tokens a round.
_PUBLISHED = "EAGLE-3 | 8 | .31 | 3.59 | 5.89\nSpecBlock | 2 | .16 | 3.92 | 5.16"


@cache
def _run(name: str) -> Run:
    return fold(read_events(all_bundled()[name]))


def kept_within(record: RoundRecord, budget: int) -> int:
    """Tokens that the round keeps of its tree cut to `budget` nodes.

    Exact for budgets up to the recorded one: a smaller tree is made of the best nodes of the raw tree, in the same
    order, and the target's tokens are those it drew.
    """
    nodes = [node for node in record.nodes.values() if node.node >= record.born]
    best = sorted(nodes, key=lambda node: (-_score(node), node.depth, node.node))[:budget]
    inside = {node.node for node in best}
    return sum(v.status == "accepted" and v.node in inside for v in record.verdicts.values())


def _score(node: Node) -> float:
    score = node.src.get("cum")
    assert isinstance(score, float | int), "a tree without scores is cut by none"
    return float(score)


def _lengths(name: str, budget: int) -> list[int]:
    records = [record for record in _run(name).rounds if record.complete and record.verdicts]
    return [1 + kept_within(record, budget) for record in records]


def _mean(values: Sequence[int]) -> Estimate | None:
    return mean_difference(values, range(len(values)))


def _budget() -> ComputedTable:
    lines = []
    for budget in _BUDGETS:
        blocks, levels = _lengths(_BLOCKS, budget), _lengths(_LEVELS, budget)
        ratio = (sum(blocks) / len(blocks)) / (sum(levels) / len(levels))
        lines.append((str(budget), within(_mean(blocks), 2), within(_mean(levels), 2), decimal(ratio, 2)))
    return ComputedTable(("nodes", "SpecBlock, 2 calls", "EAGLE-3, 8 calls", "SpecBlock of EAGLE-3"), rows_of(lines))


def _clock() -> ComputedTable:
    lines = []
    for name, calls in _CALLS.items():
        lengths = _lengths(name, 24)
        tokens = sum(lengths) / len(lengths)
        speeds = (decimal(tokens / (1 + calls * step), 2) for step in _STEPS)
        lines.append((f"`{name}`", str(calls), decimal(tokens, 2), *speeds))
    return ComputedTable(
        ("recording", "calls", "tokens a round", *(f"a call {decimal(s, 2)}" for s in _STEPS)), rows_of(lines)
    )


def _published() -> ComputedTable:
    lines = []
    for line in _PUBLISHED.splitlines():
        method, calls, share, speed, tokens = (part.strip() for part in line.split("|"))
        spent = float(share) / (1 - float(share))
        lines.append((method, calls, share, speed, tokens, decimal(spent, 2), decimal(spent / int(calls))))
    names = (
        "calls",
        "share of drafting",
        "speed-up",
        "tokens a round",
        "drafting, in other work",
        "a call, in other work",
    )
    return ComputedTable(("method", *names), rows_of(lines))


def _arms(fixed: Sequence[int], caps: Sequence[int]) -> list[Arm]:
    """EAGLE-3 and SpecBlock with as many nodes; its starts fewer; with ten starts, its widths all alike."""
    arms = []
    for nodes in (*_NODES, -1):
        end, equal = _word(nodes), {"node_budget": nodes}
        arms += [Arm(f"levels{end}", "eagle3", {**equal, "d_max": 8} if nodes > 0 else equal)]
        arms += [Arm(f"rank{end}", "specblock", {"start_cap": 10, **equal})]
        arms += [Arm(f"cap{cap}{end}", "specblock", {**equal, "start_cap": cap}) for cap in caps]
        if nodes > 0:
            alike = {"width_mode": "fixed", "start_cap": 10, **equal}
            arms += [Arm(f"fixed{n}{end}", "specblock", {**alike, "widths": ["2", str(n), "10", "0"]}) for n in fixed]
    return [*arms, Arm(f"oracle{_word(24)}", "specblock", {"node_budget": 24, "width_mode": "oracle", "start_cap": 10})]


def _word(nodes: int) -> str:
    return f" {nodes}" if nodes > 0 else " auto"


def _starts() -> ComputedTable:
    prompts, note = counts("specblock", "smollm2")
    lines = []
    for nodes in (*_NODES, -1):
        line = ["as many as pay" if nodes < 0 else str(nodes)]
        theirs = ratio([arms[f"levels{_word(nodes)}"] for arms in prompts.values()], "tokens", "rounds")
        for arm in _DRAFTERS:
            by_prompt = [arms[f"{arm}{_word(nodes)}"] for arms in prompts.values()]
            length = ratio(by_prompt, "tokens", "rounds")
            of = "" if arm == "levels" else f", {within(_and_one(growth_of(length, theirs)), 2)} of its length"
            calls, rows = (ratio(by_prompt, what, "rounds").value for what in ("calls", "rows"))
            line.append(f"{decimal(length.value, 2)}; {decimal(calls, 1)} calls, {decimal(rows, 0)} rows{of}")
        lines.append(line)
    return ComputedTable(("nodes", *_DRAFTERS.values()), rows_of(lines), f"{len(prompts)} prompts, {note}")


def _and_one(growth: Estimate) -> Estimate:
    low, high = growth.interval or (growth.value, growth.value)
    return Estimate(value=1 + growth.value, interval=(1 + low, 1 + high), n=growth.n)


def _fixed() -> ComputedTable:
    lines, notes = [], []
    for key, words in (("smollm2", "SmolLM2"), ("pair", "embedded")):
        prompts, note = counts("specblock", key)
        widths = sorted({arm.split()[0] for arms in prompts.values() for arm in arms if arm.startswith("fixed")})
        for nodes in _NODES:
            by_width = {
                width: ratio([arms[f"{width} {nodes}"] for arms in prompts.values()], "tokens", "rounds")
                for width in ("rank", *widths)
            }
            best = max(widths, key=lambda width: by_width[width].value)
            shown = [decimal(by_width[w].value, 2) if w in by_width else "—" for w in ("rank", *_ALIKE)]
            gain = difference_of(by_width["rank"], by_width[best])
            more = within(gain, 3) if gain.value else "0, every prompt alike"
            oracle = ratio([arms["oracle 24"] for arms in prompts.values()], "tokens", "rounds")
            lines.append((words, str(nodes), *shown, more, decimal(oracle.value, 2) if nodes == 24 else "—"))
        notes.append(f"{words}: {len(prompts)} prompts, {note}")
    alike = (f"all {width.removeprefix('fixed')}" for width in _ALIKE)
    names = ("nodes", "by rank", *alike, "by rank less the best of these", "by true ranks")
    return ComputedTable(("pair", *names), rows_of(lines), "; ".join(notes))


def _stream() -> ComputedTable:
    prompts, note = counts("specblock", "stream")
    places = list(prompts)
    half, lines = len(places) // 2, []
    for arm in _POLICIES:
        by_prompt = [prompts[place][arm.name] for place in places]
        never = [prompts[place]["never"] for place in places]
        lengths = [
            decimal(ratio(part, "tokens", "rounds").value, 2)
            for part in (by_prompt[:half], by_prompt[half:], by_prompt)
        ]
        gain = difference_of(ratio(by_prompt, "tokens", "rounds"), ratio(never, "tokens", "rounds"))
        more = "—" if arm.name == "never" else within(gain, 3)
        rounds, updates = (sum(int(of[what]) for of in by_prompt) for what in ("rounds", "updates"))
        lines.append((arm.name, *lengths, more, str(rounds), str(updates)))
    names = ("first kind", "second kind", "tokens a round", "more than never", "rounds", "updates")
    return ComputedTable(("learning", *names), rows_of(lines), f"{half} prompts of each kind, {note}")


def measure(path: Path | None) -> None:
    """Decode prompts of several kinds with every tree, and a stream of two kinds while learning."""
    from specviz.engine.run.local import load_pair  # which import torch
    from specviz.engine.run.prepare import encode_prompt

    command = f"specviz lab papers specblock --measure{'' if path is None else f' --prompts {path.name}'}"
    for key, target, fixed, most, n_new in (("pair", None, (2, 3, 4), 8, 64), ("smollm2", "smollm2", (2, 4), 8, 48)):
        pair = load_pair(target, needs_draft=False, dtype=target and "bfloat16", threads=1)
        pair.runtime.begin()
        asked = load_prompts(path if target else None).stream
        if target:
            asked = tuple(p for p in asked if len(encode_prompt(pair.target.tokenizer, p.text, True)) <= _SHORT)
        every = _arms(fixed, (4, 6))
        chosen = _in_turn(asked)[:most]
        keep_counts("specblock", key, {p.where: _decoded(pair, every, p, n_new) for p in chosen}, command)
        if target:
            kinds = [[p for p in asked if p.domain == kind][:_EACH] for kind in _KINDS]
            stream = [prompt for kind in kinds for prompt in kind]
            decoded = {arm.name: list(decode(pair, arm, stream, 32)) for arm in _POLICIES}
            by_prompt = {p.where: {name: counts[k] for name, counts in decoded.items()} for k, p in enumerate(stream)}
            keep_counts("specblock", "stream", by_prompt, command)


def _decoded(pair: Any, arms: Sequence[Arm], prompt: Prompt, n_new: int) -> dict[str, Any]:
    return {arm.name: next(iter(list(decode(pair, arm, [prompt], n_new)))) for arm in arms}


def _in_turn(prompts: Sequence[Prompt]) -> list[Prompt]:
    """One of every kind, then the next of every kind."""
    seen: Counter[str] = Counter()
    turns = []
    for prompt in prompts:
        turns.append(seen[prompt.domain])
        seen[prompt.domain] += 1
    return [prompt for _, prompt in sorted(zip(turns, prompts, strict=True), key=lambda pair: pair[0])]


def _ranks() -> ComputedTable:
    counts: Counter[tuple[int, int]] = Counter()
    for name in (_BLOCKS, _STREAM):
        for record in _run(name).rounds:
            for offer in record.every(Expansion):
                if offer.true_bucket is not None and offer.bucket is not None:
                    counts[offer.true_bucket, offer.bucket] += 1
    lines = []
    for true, words in enumerate(("1", "2 to 4", "5 to 10", "over 10")):
        row = [counts[true, predicted] for predicted in range(4)]
        lines.append((f"rank {words}", *map(str, row), decimal(row[true] / sum(row), 2)))
    return ComputedTable(("true \\ predicted", "1", "2 to 4", "5 to 10", "over 10", "right"), rows_of(lines))


def _widths() -> ComputedTable:
    from specviz.methods.specblock.growth import PRESETS  # which imports torch

    lines = [
        (f"`{name}`", *map(str, preset.widths), str(preset.budget), "on" if preset.trims else "off")
        for name, preset in PRESETS.items()
    ]
    return ComputedTable(("preset", "rank 1", "2 to 4", "5 to 10", "over 10", "nodes", "trims"), rows_of(lines))


PAPER = Paper(
    "specblock",
    "SpecBlock",
    {
        "widths": _widths,
        "budget": _budget,
        "clock": _clock,
        "published": _published,
        "timed": lambda: clocked("specblock", "timed"),
        "starts": _starts,
        "fixed": _fixed,
        "stream": _stream,
        "ranks": _ranks,
    },
    measure=measure,
)
