"""11: a grammar works on one side only. Healthy: on both."""

from functools import cache
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz_lab.clinic.plant import Bench, small, texts, with_draft, with_target

FAULT = 11
PLANT = "the target's logits are masked to what a grammar of lower-case words and numbers allows, the draft's are not"


def _masked(adapter: ModelAdapter, hidden: Any) -> Any:
    return adapter.logits(hidden).masked_fill(_forbidden(), float("-inf"))


@cache
def _forbidden() -> Any:
    """Bool `[V]`."""
    tokenizer = small().target.tokenizer
    texts = [tokenizer.decode([token]) for token in range(small().target.adapter.vocab)]
    return torch.tensor([not (text and all(c.islower() or c in ' 0123456789{}":,_' for c in text)) for text in texts])


def ill(bench: Bench) -> None:
    bench.run(with_target(small(), logits=_masked), texts(bench.seed), tokens=64)


def well(bench: Bench) -> None:
    bench.run(with_draft(with_target(small(), logits=_masked), logits=_masked), texts(bench.seed), tokens=80)
