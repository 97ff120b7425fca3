"""One teacher-forced pass over a finished text: what every head says after every token (specbound.md 11.5).

The records decide the rounds of any setting on the grid without a model (`specviz.cost.exit_replay`), because under `walk`
the text does not depend on the setting.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch

from specviz.cost.gates import annealed
from specviz.engine.model.adapter import Model
from specviz.engine.model.rows import Rows, Tensor
from specviz.events import GRID, ExitTable, six
from specviz.methods.early_exit.heads import Heads

BLOCK = 64  # rows that climb together; their logits for one layer are held at once


def exit_table(
    target: Model, heads: Heads, tokens: Sequence[int], n_prompt: int, layers: Sequence[int] | None = None
) -> Iterator[ExitTable]:
    """Records for the last prompt token and every new token but the last, at `layers` (default: all below the top).

    Runs the target once over `tokens`; nothing is decoded.
    """
    asked = [*range(1, target.n_layers)] if layers is None else list(layers)
    cache, start = target.new_cache(len(tokens)), n_prompt - 1
    places = [*range(0, start, BLOCK), *range(start, len(tokens) - 1, BLOCK), len(tokens) - 1]
    for first, end in pairwise(places):
        yield from _block(target, heads, Rows(target, cache), list(tokens[first:end]), asked if first >= start else [])
        cache.follow(tokens[:end])


@torch.inference_mode()
def _block(target: Model, heads: Heads, rows: Rows, tokens: list[int], layers: list[int]) -> list[ExitTable]:
    rows.add_line(tokens)
    found: list[ExitTable] = []
    for layer in sorted(layers):
        logits = heads.logits(layer, rows.climb(layer)[0])
        top1, conf = logits.argmax(-1).tolist(), confidences(logits, layer, target.n_layers).tolist()
        found += [
            ExitTable(pos=rows.position(row), layer=layer, top1=top1[row], conf=[six(c) for c in conf[row]])
            for row in range(len(rows))
        ]
    rows.climb(target.n_layers)
    return found


def confidences(logits: Tensor, layer: int, n_layers: int) -> Tensor:
    """`[n, 41]`: the largest probability at the layer's temperature for every alpha of the grid."""
    below = logits - logits.amax(-1, keepdim=True)
    masses = [(below / annealed(alpha, layer, n_layers)).exp().sum(-1) for alpha in GRID]
    return 1.0 / torch.stack(masses, -1)
