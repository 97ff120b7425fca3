"""The whole of `specviz train static-tree`: the shape of a fixed tree for an EAGLE-3 drafter, by counting.

The target writes greedily after held-in beginnings; along that text every level of the drafter is asked where the
target's token stands. Nothing is trained.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.drafters.eagle.files import KIND
from specviz.drafters.eagle.static import write_table
from specviz.drafters.rank_paths import best_paths, expected
from specviz.engine import loading
from specviz.train import block_text, corpus, head_text
from specviz.train.console import Console
from specviz.train.drafter_loop import look
from specviz.train.eagle_loop import levels_of
from specviz.train.rank_shares import shares

N_RANKS, TREE = 10, 60


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for. `drafter`: the folder that gets the table; None: the one beside the target."""

    target: str | None
    drafter: str | None
    windows: int = 48
    seed: int = 0
    packages: bool = False
    texts: tuple[Path, ...] = ()
    device: str | None = None


@torch.no_grad()
def train_static_tree(request: Request, console: Console) -> tuple[Path, dict[str, Any]]:
    """Count, write the table into the drafter's folder; the folder, and what the table promises."""
    loaded = loading.load(request.target, "target", request.device, None)
    adapter = loaded.adapter
    folder = KIND.folder(adapter, request.drafter)
    trained = KIND.load(folder, adapter)
    console.say("reading and encoding the text")
    wanted = corpus.Wanted(request.packages, request.texts, head_text.N_SUM_PAGES, request.seed)
    feed = head_text.beginnings(head_text.given(wanted, loaded.tokenizer).train)
    console.say(f"the target writes {request.windows} windows of {block_text.LENGTH} tokens")
    ids = block_text.write_batch(adapter.model, feed, (request.seed, 0), request.windows, block_text.GREEDY)
    steps = trained.config.trained_steps
    parts = (
        levels_of(
            trained, adapter.embedding,
            look(adapter.model, trained, trained.config.taps, part, block_text.PROMPT), steps,
        )
        for part in torch.split(torch.from_numpy(ids).long(), 4)
    )  # fmt: skip
    right = shares(parts, steps, min(N_RANKS, trained.vocabulary.n_draft))
    write_table(folder, right)
    worth = expected(right, best_paths(right, TREE))
    console.say(f"the best {TREE} paths are expected to bring {worth:.2f} tokens a round besides the target's own")
    return folder, {"right": right, "expected": worth}
