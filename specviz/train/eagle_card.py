"""The card of an EAGLE-3 drafter: how far it sees right, what decoding gains, how to make it again.

`card.json` holds every number; `README.md` is drawn from it. No file names a path of the machine that made them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specviz.drafters.eagle.drafter import Eagle
from specviz.drafters.eagle.files import Config, Trained
from specviz.engine.model import ModelAdapter
from specviz.methods.blocks import EAGLE3
from specviz.train import block_measure, head_card
from specviz.train.block_measure import share, table
from specviz.train.drafter_loop import look
from specviz.train.eagle_loop import levels_of
from specviz.train.tokens import Ids

N_PROMPTS, PROMPT, N_NEW = 6, 48, 64
ARMS: tuple[dict[str, Any], ...] = ({}, {"d_max": 4}, {"k_max": 4}, {"temperature": 1.0})


@dataclass(frozen=True, slots=True)
class Made:
    """How the drafter came about: config, the command that repeats it, what was spent, held-out streams by domain."""

    config: Config
    command: str
    spent: dict[str, Any]
    held_out: Mapping[str, Ids]


@torch.no_grad()
def accuracy(adapter: ModelAdapter, trained: Trained, windows: Tensor, answer_from: int) -> list[float]:
    """By level: how often its best token is the target's where all levels before were right."""
    n = trained.config.trained_steps
    right, total = torch.zeros(n), torch.zeros(n)
    for part in torch.split(windows, 4):
        seen = look(adapter.model, trained, trained.config.taps, part, answer_from)
        alive = torch.ones(seen.features.shape[:2], dtype=torch.bool, device=seen.tokens.device)
        for level, told in enumerate(levels_of(trained, adapter.embedding, seen, n)):
            reached = alive & told.counted
            right[level] += (told.right & reached).sum()
            total[level] += reached.sum()
            alive = alive & (told.right | ~told.counted)
    return (right / total.clamp(min=1)).tolist()


def write(
    folder: Path, made: Made, adapter: ModelAdapter, trained: Trained, windows: Tensor, answer_from: int
) -> dict[str, Any]:
    """Measure the saved drafter and write its card."""
    prompts = head_card.prompts(made.held_out, N_PROMPTS, PROMPT)
    numbers: dict[str, Any] = {
        "n_params": sum(parameter.numel() for parameter in trained.network.parameters()),
        "accuracy": [round(x, 4) for x in accuracy(adapter, trained, windows, answer_from)],
        "decoding": block_measure.compared(
            adapter, EAGLE3, lambda: Eagle(trained, adapter), prompts, N_NEW, ARMS
        ),
        "config": asdict(made.config), "command": made.command, "training": made.spent,
    }  # fmt: skip
    (folder / "card.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(page(numbers), encoding="utf-8")
    return numbers


def page(numbers: dict[str, Any]) -> str:
    """The card as a page."""
    config, spent, levels = numbers["config"], numbers["training"], numbers["accuracy"]
    return "\n".join([
        f"# EAGLE-3 drafter for {config['target_name']}", "",
        f"{numbers['n_params']:,} weights: one layer of width {config['target_width']}, {config['draft_vocab']:,} of "
        f"{config['vocab']:,} tokens. It reads the target after layers {', '.join(map(str, config['taps']))}. Whatever "
        "it says, the text stays the target's own.", "",
        "## How often each level is right", "",
        "Its best token is the target's, where all levels before were right too; on text the target wrote after "
        "held-out beginnings.", "",
        "| level |" + "".join(f" {n} |" for n in range(1, len(levels) + 1)), "|---|" + "---|" * len(levels),
        "| right |" + "".join(f" {share(x)} |" for x in levels), "",
        "## What decoding gains", "",
        "Method `eagle3`, knobs at their defaults unless named; mean acceptance length counts the closing token.", "",
        *table(numbers["decoding"]), "",
        "## Made by", "",
        f"`{numbers['command']}`: {spent['own_tokens']:,} tokens written by the target, {spent['steps']:,} steps, "
        f"{spent['pairs']:,} pairs, {spent['minutes']:g} minutes.", "",
    ])  # fmt: skip
