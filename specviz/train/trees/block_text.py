"""The text block drafters learn on: beginnings from given text, continued by the target at several temperatures.

Of every ten rows four are greedy, three at temperature 1 and one each at .3, .5 and .7, sampled inside the nucleus of
.95 (specblock.md 7.1, where each answer draws its temperature by these shares). Only what the target wrote carries a
loss; the beginnings are context.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from specviz.engine.decode.sampling import nucleus
from specviz.train.common.job import Console
from specviz.train.common.optim import Budget
from specviz.train.common.own_text import Ids, grown, read
from specviz.train.common.tokens import Feed
from specviz.train.common.workers import Workers

ROWS, PROMPT, LENGTH = 80, 32, 257
TOP_P = 0.95
TEMPERATURES = (0.0, 1.0, 0.0, 0.5, 0.0, 1.0, 0.3, 0.0, 0.7, 1.0)  # of a row, by its number
GREEDY = (0.0,)
APART = 10_000  # batches between the numbers of one process and those of the next


@dataclass(frozen=True, slots=True)
class Windows:
    """`[n, length]` windows; the first `PROMPT` tokens of each were given, the target wrote the rest."""

    ids: Ids
    answer_from: int

    def draw(self, rows: int, key: tuple[int, int, int]) -> torch.Tensor:
        """`rows` windows; `key` is seed, step, part."""
        picked = np.random.default_rng(key).integers(len(self.ids), size=rows)
        return torch.from_numpy(self.ids[picked].astype(np.int64))


def written(
    model: Any, feed: Feed, work: Path, budget: Budget, seed: int, console: Console,
    workers: Workers | None = None, length: int = 0,
) -> Windows:  # fmt: skip
    """Windows the target wrote; goes on from what the files in `work` hold. Every process writes its share."""
    workers = workers or Workers()
    files = [work / ("own_text.npz" if rank == 0 else f"own_text-{rank}.npz") for rank in range(workers.count)]

    def batch(number: int) -> Ids:
        return write_batch(model, feed, (seed, number + APART * workers.rank), length=length)

    grown(files[workers.rank], budget, console, batch)
    workers.wait()
    return Windows(np.concatenate([batch for path in files for batch in read(path)[0]]), PROMPT)


def write_batch(
    model: Any,
    feed: Feed,
    key: tuple[int, int],
    rows: int | None = None,
    temperatures: tuple[float, ...] = TEMPERATURES,
    length: int = 0,
) -> Ids:
    """One batch `[rows, length]`; 0: of the usual length."""
    prompts = feed.draw((rows or ROWS, PROMPT - 1), (*key, 0)).to(model.device)
    rng = torch.Generator(device=model.device).manual_seed(key[0] * 1_000_003 + key[1])
    out: Ids = continued(model, prompts, temperatures, rng, length or LENGTH).cpu().numpy().astype(np.int32)
    return out


@torch.no_grad()
def continued(
    model: Any, prompts: torch.Tensor, temperatures: tuple[float, ...], rng: torch.Generator, length: int
) -> torch.Tensor:  # fmt: skip
    """`prompts` `[rows, n]` grown to `length` tokens, row r at temperature `temperatures[r]`, in a circle."""
    chosen = torch.tensor([temperatures[row % len(temperatures)] for row in range(len(prompts))], device=prompts.device)
    warm = chosen > 0
    cache, new, tokens = DynamicCache(), prompts, [prompts]
    for _ in range(length - prompts.shape[1]):
        logits = model(input_ids=new, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()
        new = logits.argmax(-1, keepdim=True)
        if warm.any():
            scores = nucleus(logits[warm] / chosen[warm, None], TOP_P)
            new[warm] = torch.multinomial(scores.softmax(-1), 1, generator=rng)
        tokens.append(new)
    return torch.cat(tokens, dim=1)
