"""The card of an EAGLE-3 drafter: how far it sees right, what decoding gains."""

from typing import Any

import torch
from torch import Tensor

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.eagle3.drafter import Eagle
from specviz.methods.eagle3.network import Trained
from specviz.train.common.job import Console
from specviz.train.trees import card
from specviz.train.trees.card import beside, gains, share
from specviz.train.trees.loop import Held, Made, look
from specviz.train.trees.measure import arms
from specviz.train.trees.objectives import levels_of
from specviz.train.trees.train import Request

ARMS: tuple[dict[str, Any], ...] = ({}, {"d_max": 4}, {"k_max": 4}, {"temperature": 1.0})


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
    request: Request, adapter: ModelAdapter, trained: Trained, held: Held, made: Made, console: Console
) -> dict[str, Any]:  # fmt: skip
    """Measure the saved drafter and write its card."""
    known = {"accuracy": [round(x, 4) for x in accuracy(adapter, trained, held.windows, held.answer_from)]}
    own = arms("eagle3", lambda: Eagle(trained, adapter), ARMS)
    found = card.numbers(request.out, adapter, trained, held, made, own, console, known)
    return card.write(request.out, found, page(found), ("the first level", "the last level"))


def page(numbers: dict[str, Any]) -> list[str]:
    """The card as lines of a page, as far as it is EAGLE-3's own."""
    config, levels = numbers["config"], numbers["accuracy"]
    return [
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
        "Method `eagle3`, knobs at their defaults unless named; mean acceptance length counts the closing token. "
        f"{card.BUSY}", "",
        *gains(numbers["decoding"]), *beside(numbers["side_by_side"]),
    ]  # fmt: skip
