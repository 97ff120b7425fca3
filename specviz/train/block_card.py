"""The card of a block drafter: what it knows slot by slot, what decoding gains, how to make it again.

`card.json` holds every number; `README.md` is drawn from it. No file names a path of the machine that made them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from specviz.drafters.blocks.drafter import SpecBlock
from specviz.drafters.blocks.files import Config, Trained
from specviz.engine.model import ModelAdapter
from specviz.methods.blocks import SPECBLOCK
from specviz.train import block_measure, head_card
from specviz.train.block_measure import share, table
from specviz.train.tokens import Ids

N_PROMPTS, PROMPT, N_NEW = 6, 48, 64
ARMS: tuple[dict[str, Any], ...] = (
    {"blocks": 1}, {"blocks": 2}, {"blocks": 3}, {"blocks": 2, "merge": False}, {"blocks": 2, "width_mode": "fixed"},
    {"blocks": 1, "temperature": 1.0}, {"blocks": 2, "temperature": 1.0},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Made:
    """How the drafter came about: config, the command that repeats it, what was spent, held-out streams by domain."""

    config: Config
    command: str
    spent: dict[str, Any]
    held_out: Mapping[str, Ids]


def write(
    folder: Path, made: Made, adapter: ModelAdapter, trained: Trained, windows: Tensor, answer_from: int
) -> dict[str, Any]:
    """Measure the saved drafter and write its card."""
    known = block_measure.slots(adapter, trained, windows, answer_from)
    prompts = head_card.prompts(made.held_out, N_PROMPTS, PROMPT)
    decoding = block_measure.compared(adapter, SPECBLOCK, lambda: SpecBlock(trained, adapter), prompts, N_NEW, ARMS)
    network = trained.network
    numbers: dict[str, Any] = {
        "n_params": sum(parameter.numel() for parameter in network.parameters()),
        "accuracy": [[round(x, 4) for x in row] for row in known.accuracy],
        "confusion": known.confusion,
        "recall": [None if x is None else round(x, 4) for x in known.recall],
        "precision": [None if x is None else round(x, 4) for x in known.precision],
        "decoding": decoding, "config": asdict(made.config), "command": made.command, "training": made.spent,
    }  # fmt: skip
    (folder / "card.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(page(numbers), encoding="utf-8")
    return numbers


def page(numbers: dict[str, Any]) -> str:
    """The card as a page."""
    config, spent = numbers["config"], numbers["training"]
    slots = range(config["slots"])
    lines = [
        f"# Block drafter for {config['target_name']}", "",
        f"{numbers['n_params']:,} weights: {config['n_layers']} layers of width {config['width']}, {config['slots']} "
        f"slots a block, {config['draft_vocab']:,} of {config['vocab']:,} tokens. It reads the target after layers "
        f"{', '.join(map(str, config['taps']))}. Whatever it says, the text stays the target's own.", "",
        "## How often each slot is right", "",
        "The slot's best token is the target's, where all earlier slots of the block were right too; on text the "
        "target wrote after held-out beginnings.", "",
        "| block |" + "".join(f" slot {k} |" for k in slots), "|---|" + "---|" * len(slots),
    ]  # fmt: skip
    lines += [f"| {b} |" + "".join(f" {x:.0%} |" for x in row) for b, row in enumerate(numbers["accuracy"], 1)]
    lines += [
        "", "## How well ranks are foreseen", "",
        "Rows: predicted bucket of the target's token; columns: the true one (rank 1, 2 to 4, 5 to 10, lower).", "",
        "| predicted | 1 | 2-4 | 5-10 | lower | precision |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for b, name in enumerate(("1", "2-4", "5-10", "lower")):
        cells = "".join(f" {row[b]:,} |" for row in numbers["confusion"])
        lines.append(f"| {name} |{cells} {share(numbers['precision'][b])} |")
    lines.append("| *recall* |" + "".join(f" {share(x)} |" for x in numbers["recall"]) + " |")
    lines += [
        "", "## What decoding gains", "",
        "Method `specblock`, 60 nodes, other knobs at their defaults unless named; mean acceptance length counts the "
        "closing token.", "",
        *table(numbers["decoding"]),
        "", "## Made by", "",
        f"`{numbers['command']}`: {spent['own_tokens']:,} tokens written by the target, {spent['steps']:,} steps, "
        f"{spent['pairs']:,} pairs, {spent['minutes']:g} minutes.", "",
    ]  # fmt: skip
    return "\n".join(lines)
