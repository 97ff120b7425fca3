"""Text the target writes itself, for the draft model to learn to follow.

A draft model is judged on what the target says, not on what people wrote: on its own greedy text the target repeats
itself, and a draft model that has only read people follows it badly (DistillSpec, Zhou et al. 2023, makes the same
point and the same remedy). Half of the windows are greedy, half are sampled, so that both temperatures gain.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache, LlamaForCausalLM

from specviz.train.common.tokens import Feed, Tokens

ROWS, PROMPT, LENGTH = 96, 48, 257


@dataclass(frozen=True, slots=True)
class Written:
    """Windows in one stream, and where each begins."""

    stream: Tokens
    starts: NDArray[np.int64]

    def save(self, path: Path) -> None:
        """Write it under another name first: a file that is there is whole."""
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, stream=self.stream, starts=self.starts)
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> "Written":
        """Read what `save` wrote."""
        with np.load(path) as arrays:
            return cls(arrays["stream"], arrays["starts"])


def write(target: LlamaForCausalLM, feed: Feed, n_batches: int, seed: int) -> Written:
    """`n_batches` batches of windows [LENGTH]: a beginning from `feed`, continued by the target."""
    batches = []
    for number in range(n_batches):
        prompts = feed.draw((ROWS, PROMPT - 1), (seed, number, 0))
        rng = torch.Generator().manual_seed(seed * 1_000_003 + number)
        batches.append(continued(target, prompts, rng))
    stream = torch.cat(batches).flatten().numpy().astype(np.uint16)
    return Written(stream, np.arange(0, len(stream), LENGTH))


@torch.no_grad()
def continued(target: LlamaForCausalLM, prompts: Tensor, rng: torch.Generator) -> Tensor:
    """`prompts` [rows, length] grown to LENGTH tokens: the even rows greedily, the odd ones by sampling."""
    cache, new, tokens = DynamicCache(), prompts, [prompts]
    for _ in range(LENGTH - prompts.shape[1]):
        logits = target(input_ids=new, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()
        new = logits.argmax(-1, keepdim=True)
        new[1::2] = torch.multinomial(logits[1::2].softmax(-1), 1, generator=rng)
        tokens.append(new)
    return torch.cat(tokens, dim=1)
