"""5: the vocabularies differ. Healthy: one tokenizer."""

import json
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.trace.bundled import assets
from specviz_lab.clinic.plant import Bench, small, texts, with_draft

FAULT = 5
SYMPTOM = "The draft model writes gibberish; .5 % of it is accepted."
PLANT = "the draft model's ids are permuted from 300 on, in its rows and in its tokenizer's file"
FIRST, MOST = 300, 1200  # ids that both files hold: the evidence is to be small


def ill(bench: Bench) -> None:
    order = torch.arange(4096)
    order[FIRST:] = FIRST + torch.randperm(4096 - FIRST, generator=bench.rng)

    def embed(adapter: ModelAdapter, tokens: list[int], positions: list[int]) -> Any:
        return adapter.embed([int(order[token]) for token in tokens], positions)

    def logits(adapter: ModelAdapter, hidden: Any) -> Any:
        return adapter.logits(hidden)[:, order]

    bench.run(with_draft(small(), embed=embed, logits=logits), texts(bench.seed), tokens=64)
    shuffled = torch.randperm(MOST - FIRST, generator=bench.rng) + FIRST
    _folders(bench, [*range(FIRST), *(int(k) for k in shuffled)])


def well(bench: Bench) -> None:
    bench.run(small(), texts(bench.seed), tokens=80)
    _folders(bench, list(range(MOST)))


def _folders(bench: Bench, order: list[int]) -> None:
    """Both tokenizers; the draft's names its ids in this order."""
    for side, ids in (("target", list(range(MOST))), ("draft", order)):
        source = assets(f"models/pair/{side}")
        config = json.loads((source / "config.json").read_text())
        folder = bench.files(side, {**config, "vocab_size": MOST})
        _tokenizer(source, folder, ids)


def _tokenizer(source: Path, folder: Path, ids: list[int]) -> None:
    """The first words of a tokenizer, and the merges that make them."""
    whole = json.loads((source / "tokenizer.json").read_text())
    words = sorted(whole["model"]["vocab"], key=whole["model"]["vocab"].__getitem__)[:MOST]
    place = {words[old]: new for new, old in enumerate(ids)}
    whole["model"]["vocab"] = dict(sorted(place.items(), key=lambda item: item[1]))
    merges = [merge if isinstance(merge, list) else merge.split(" ") for merge in whole["model"]["merges"]]
    whole["model"]["merges"] = [merge for merge in merges if all(w in place for w in (*merge, "".join(merge)))]
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    (folder / "tokenizer_config.json").write_text((source / "tokenizer_config.json").read_text())
