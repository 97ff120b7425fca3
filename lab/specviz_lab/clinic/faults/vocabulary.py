"""5: the vocabularies differ. Healthy: one tokenizer."""

from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz_lab.clinic.plant import N_IDS, Bench, small, texts, tokenizer, with_draft

FAULT = 5
PLANT = "the draft model's ids are permuted from 300 on, in its rows and in its tokenizer's file"
FIRST = 300


def ill(bench: Bench) -> None:
    order = torch.arange(4096)
    order[FIRST:] = FIRST + torch.randperm(4096 - FIRST, generator=bench.rng)

    def embed(adapter: ModelAdapter, tokens: list[int], positions: list[int]) -> Any:
        return adapter.embed([int(order[token]) for token in tokens], positions)

    def logits(adapter: ModelAdapter, hidden: Any) -> Any:
        return adapter.logits(hidden)[:, order]

    bench.run(with_draft(small(), embed=embed, logits=logits), texts(bench.seed), tokens=64)
    shuffled = torch.randperm(N_IDS - FIRST, generator=bench.rng) + FIRST
    _folders(bench, [*range(FIRST), *(int(k) for k in shuffled)])


def well(bench: Bench) -> None:
    bench.run(small(), texts(bench.seed), tokens=80)
    _folders(bench, list(range(N_IDS)))


def _folders(bench: Bench, order: list[int]) -> None:
    """Both models; the draft's tokenizer names its ids in this order."""
    bench.model("target")
    tokenizer(bench.model("draft", num_hidden_layers=1), order)
