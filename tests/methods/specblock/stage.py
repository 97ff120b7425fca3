"""Sessions of block drafters over small real models, and drafters that know the text."""

from typing import Any

import numpy as np
import torch

from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.methods.specblock import grower as drafting
from specviz.methods.specblock.drafter import SpecBlock
from specviz.methods.specblock.growth import PRESETS
from specviz.methods.specblock.network import BlockConfig, BlockNetwork, Trained
from specviz.methods.specblock.spec import METHOD as SPECBLOCK
from specviz.methods.trained.parts import fingerprint, taps
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.verifiers import get_verifier


def config(adapter: ModelAdapter, **changes: Any) -> BlockConfig:
    """A small drafter's, for this target."""
    width = int(adapter.head.weight.shape[1])
    return BlockConfig(
        **{
            "target": fingerprint(adapter),
            "target_name": adapter.name,
            "target_layers": adapter.n_layers,
            "target_width": width,
            "embed_width": adapter.embedding.weight.shape[1],
            "taps": taps(adapter.n_layers),
            "vocab": adapter.vocab,
            "draft_vocab": adapter.vocab,
            "width": 16,
            "heads": 4,
            "kv_heads": 2,
            "head_dim": 8,
            "ff": 24,
            "rope_theta": 1e4,
            "rope_mode": "offset",
            "rank_width": 8,
            **changes,
        }
    )


def trained(adapter: ModelAdapter, seed: int = 0, vocabulary: Vocabulary | None = None, **changes: Any) -> Trained:
    """Random weights."""
    shape = config(adapter, **changes)
    net = BlockNetwork(shape.shape, torch.Generator().manual_seed(seed)).to(adapter.device, adapter.dtype)
    return Trained(shape, net.requires_grad_(False), vocabulary or Vocabulary(adapter.vocab))


class Hearsay:
    """Stands in front of `offers`: adds weight to the token that will be written, in a share of the places."""

    def __init__(self, truth: list[int], right: float, salt: int = 0) -> None:
        self.truth, self.right, self.salt, self.honest = truth, right, salt, drafting.offers

    def __call__(self, ctx: Any, vocabulary: Any, logits: Any, judge: Any, paths: Any, reading: Any) -> Any:
        # In place: what is on record must be what was offered.
        for k, path in enumerate(paths):
            for slot in range(logits.shape[1]):
                pos = ctx.n + len(path) + slot
                luck = np.random.default_rng((self.salt, pos, slot)).random()
                if pos < len(self.truth) and luck < self.right:
                    logits[k, slot, self.truth[pos]] += 12.0
        return self.honest(ctx, vocabulary, logits, judge, paths, reading)


def session(
    adapter: ModelAdapter,
    prompt: list[int],
    drafter: Trained,
    eos: tuple[int, ...] = (),
    sink: Any = None,
    texts: Any = None,
    verifier: str = "walk",
    **knobs: Any,
) -> Session:
    """A session of `specblock` with that drafter."""
    table = SPECBLOCK.table
    budget = PRESETS[knobs.get("preset", "paper")].budget  # all of it, whatever pays
    snapshot = table.knobs({"max_new_tokens": 40, "node_budget": budget, **knobs})
    parts = SessionConfig(FactoryModels(adapter, None, 900), SpecBlock(drafter, adapter), get_verifier(verifier))
    return Session(parts, prompt, table, snapshot, eos=frozenset(eos), sink=sink, texts=texts)
