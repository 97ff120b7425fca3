"""The text block drafters learn on: beginnings from given text, continued by the target at several temperatures.

Four rows of ten are greedy, the rest sampled inside the nucleus, as a served model is (specblock.md 7.1). Only what the
target wrote carries a loss; the beginnings are context.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from specviz.engine.sampling import nucleus
from specviz.train.console import Console
from specviz.train.schedule import Budget
from specviz.train.tokens import Feed

Ids = NDArray[np.int32]
ROWS, PROMPT, LENGTH = 80, 32, 257
TOP_P = 0.95
TEMPERATURES = (0.0, 1.0, 0.0, 0.5, 0.0, 1.0, 0.3, 0.0, 0.7, 1.0)  # of a row, by its number
GREEDY = (0.0,)


@dataclass(frozen=True, slots=True)
class Windows:
    """`[n, LENGTH]` windows; the first `PROMPT` tokens of each were given, the target wrote the rest."""

    ids: Ids
    answer_from: int

    def draw(self, rows: int, key: tuple[int, int, int]) -> torch.Tensor:
        """`rows` windows; `key` is seed, step, part."""
        picked = np.random.default_rng(key).integers(len(self.ids), size=rows)
        return torch.from_numpy(self.ids[picked].astype(np.int64))


def written(model: Any, feed: Feed, path: Path, budget: Budget, seed: int, console: Console) -> Windows:
    """Windows the target wrote; goes on from what `path` holds."""
    batches: list[Ids] = []
    seconds = 0.0
    if path.exists():
        with np.load(path) as arrays:
            batches, seconds = list(arrays["batches"]), float(arrays["seconds"])
    with console.bar("own text", budget) as report:
        while not batches or budget.progress(seconds, len(batches)) < 1.0:
            began = time.monotonic()
            batches.append(write_batch(model, feed, (seed, len(batches))))
            seconds += (took := time.monotonic() - began)
            partial = path.with_suffix(".partial.npz")
            np.savez(partial, batches=np.stack(batches), seconds=np.float64(seconds))
            os.replace(partial, path)
            report(budget.progress(seconds, len(batches)), 0.0, batches[-1].size / took)
    return Windows(np.concatenate(batches), PROMPT)


def write_batch(
    model: Any,
    feed: Feed,
    key: tuple[int, int],
    rows: int | None = None,
    temperatures: tuple[float, ...] = TEMPERATURES,
) -> Ids:
    """One batch `[rows, LENGTH]`."""
    prompts = feed.draw((rows or ROWS, PROMPT - 1), (*key, 0)).to(model.device)
    rng = torch.Generator(device=model.device).manual_seed(key[0] * 1_000_003 + key[1])
    out: Ids = continued(model, prompts, temperatures, rng).cpu().numpy().astype(np.int32)
    return out


@torch.no_grad()
def continued(
    model: Any, prompts: torch.Tensor, temperatures: tuple[float, ...], rng: torch.Generator
) -> torch.Tensor:  # fmt: skip
    """`prompts` `[rows, length]` grown to LENGTH tokens, row r at temperature `temperatures[r]`, in a circle."""
    chosen = torch.tensor([temperatures[row % len(temperatures)] for row in range(len(prompts))], device=prompts.device)
    warm = chosen > 0
    cache, new, tokens = DynamicCache(), prompts, [prompts]
    for _ in range(LENGTH - prompts.shape[1]):
        logits = model(input_ids=new, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()
        new = logits.argmax(-1, keepdim=True)
        if warm.any():
            scores = nucleus(logits[warm] / chosen[warm, None], TOP_P)
            new[warm] = torch.multinomial(scores.softmax(-1), 1, generator=rng)
        tokens.append(new)
    return torch.cat(tokens, dim=1)
