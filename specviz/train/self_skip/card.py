"""The card of a skip set: what is left out, how the search went, what decoding gains on held-out prompts."""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from specviz.cost.ledger import Clock
from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.self_skip.files import Config
from specviz.methods.self_skip.spec import SkipSet
from specviz.train.common.own_text import Decoded, Prompts, decode, gain
from specviz.train.self_skip.costs import Costs

N_NEW = 64


class Judge(Protocol):
    """Decodes held-out prompts of a domain."""

    target: ModelAdapter
    prompts: list[list[int]]

    def decoded(self, skips: SkipSet, n_new: int, prompts: Prompts | None = None) -> Decoded: ...
    def clock(self, skips: SkipSet) -> Clock: ...


@dataclass(frozen=True, slots=True)
class Made:
    """How the set came about."""

    config: Config
    command: str
    n_tried: int
    seconds: float
    minutes: float
    costs: Costs


def write(folder: Path, made: Made, judges: Mapping[str, Judge]) -> dict[str, Any]:
    """Measure the set beside the one chosen by rule and plain decoding; write it, its card and its numbers."""
    skips, usual = made.config.skips, SkipSet.usual(made.config.n_layers)
    numbers = {
        "target": made.config.target_name,
        "n_layers": made.config.n_layers,
        "left_out": str(skips),
        "by_rule": str(usual),
        "tried": made.n_tried,
        "decoding": {domain: _decoding(judge, skips, usual) for domain, judge in judges.items()},
        "draft_cost": round(made.costs.step(skips) / made.costs.whole, 3),
        "command": made.command,
        "minutes": made.minutes,
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
        "threads": torch.get_num_threads(),
    }
    replace(made.config, measured={"tried": made.n_tried, "decoding": numbers["decoding"]}).write(folder)
    (folder / "card.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(page(numbers), encoding="utf-8")
    return numbers


def _decoding(judge: Judge, skips: SkipSet, usual: SkipSet) -> dict[str, Any]:
    own, ruled = (judge.decoded(each, N_NEW) for each in (skips, usual))

    def in_plain(prompts: Prompts) -> Decoded:
        return decode(judge.target, lambda models: None, "ar", prompts, N_NEW, judge.clock(skips))

    plain = in_plain(judge.prompts)

    def priced(found: Decoded) -> float:
        return round(plain.predicted_ns / plain.tokens / (found.predicted_ns / found.tokens), 3)

    return {
        "tokens_per_round": round(own.tokens_per_round, 3),
        "drafts_per_round": round(own.drafted / own.rounds, 3),
        "drafts_kept": round(own.accepted / max(1, own.drafted), 4),
        "speed": round(gain(in_plain, lambda some: judge.decoded(skips, N_NEW, some), judge.prompts), 3),
        "speed_predicted": priced(own),
        "speed_predicted_by_rule": priced(ruled),
        "tokens_per_round_by_rule": round(ruled.tokens_per_round, 3),
    }


_PAGE = """\
# Skip set for {target}

Method `draft_and_verify` drafts with the target's own {n_layers} layers less these sublayers (a7 is the attention of
layer 7, m8 the feed-forward of layer 8):

    {left_out}

Nothing was trained. A draft takes {draft_cost:.0%} of the time of a whole step here. The target verifies, so the text
stays its own; a better set only makes it come sooner.

## What decoding gains

Default knobs at temperature 0, held-out prompts. *time*: that of plain decoding divided by that of `draft_and_verify`,
each prompt at its best of three turns in turn about; in brackets by the measured cost of passes and drafts. Below 1 it
is slower. The machine was busy with other work when this was measured. *By rule*: without a search, {by_rule}.

| text | tokens a round (by rule) | drafts a round | kept | time (by measured costs) | by rule |
|---|---|---|---|---|---|
{lines}

## Made by

`{command}`

{tried} sets tried in {minutes:g} minutes on {threads} thread(s) of a busy machine.
"""


def page(numbers: dict[str, Any]) -> str:
    """The card as a page."""
    wanted = ("target", "n_layers", "draft_cost", "by_rule", "command", "tried", "minutes", "threads")
    return _PAGE.format(
        **{name: numbers[name] for name in wanted},
        left_out=numbers["left_out"] or "none",
        lines="\n".join(_line(domain, row) for domain, row in numbers["decoding"].items()),
    )


def _line(domain: str, row: dict[str, Any]) -> str:
    return (
        f"| {domain} | {row['tokens_per_round']:.2f} ({row['tokens_per_round_by_rule']:.2f}) | "
        f"{row['drafts_per_round']:.1f} | {row['drafts_kept']:.0%} | {row['speed']:.2f} "
        f"({row['speed_predicted']:.2f}) | {row['speed_predicted_by_rule']:.2f} |"
    )
