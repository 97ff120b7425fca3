"""Drafters for every architecture the engine knows: sized like the target, fed by its states, same tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.methods import get_method
from specviz.methods.eagle3.drafter import Eagle, StaticTree
from specviz.methods.medusa.drafter import Medusa
from specviz.methods.medusa.drafter import Trained as Heads
from specviz.methods.specblock.drafter import SpecBlock
from specviz.verifiers import get_verifier
from specviz_train.common.own_text import OwnWindows
from specviz_train.trees import block_drafter, eagle3, medusa
from support.driver import session as plain_session
from support.models import CONFIGS, build

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]


TIED = ["llama", "gpt2", "gemma3"]  # head and embedding are one tensor


@pytest.mark.parametrize(("name", "tied"), [*((name, False) for name in CONFIGS), *((name, True) for name in TIED)])
def test_every_drafter_runs_over_every_architecture(name: str, tied: bool) -> None:
    """Freshly begun networks, as training begins them: drafts come, and the text is plain decoding's."""
    adapter = ModelAdapter(build(name, seed=2, dtype=torch.float64, tie_word_embeddings=tied))
    assert (adapter.head.weight.data_ptr() == adapter.embedding.weight.data_ptr()) == tied
    windows, nowhere = OwnWindows.behind(np.zeros((1, 8), dtype=np.int32), 2), Path()
    blocks = block_drafter._begin(block_drafter.BlockDrafterRequest(None, nowhere, nowhere, 1), adapter, windows)
    eagle = eagle3._begin(eagle3.Eagle3Request(None, nowhere, nowhere, 1), adapter, windows)
    heads = medusa._begin(medusa.MedusaRequest(None, nowhere, nowhere, 1), adapter, windows)
    for part in (blocks, eagle, heads):
        part.network.to(adapter.dtype).requires_grad_(False)
    shares = ((0.5, 0.2), (0.4, 0.3), (0.3, 0.2), (0.2, 0.1))
    config = heads.config.__class__(**{**_fields(heads.config), "right": shares})
    for called, drafter in (
        ("specblock", SpecBlock(blocks, adapter)),
        ("eagle3", Eagle(eagle, adapter)),
        ("static_tree", StaticTree(eagle, shares, adapter)),
        ("medusa", Medusa(Heads(config, heads.network, heads.vocabulary), adapter)),
    ):
        method, knobs = get_method(called), {"max_new_tokens": 10, "temperature": 0.8}
        whole = {"node_budget": 60} | knobs
        want = plain_session(adapter, None, PROMPT, method="ar", **knobs).generate()
        parts = SessionConfig(FactoryModels(adapter, None, 900), drafter, get_verifier("walk"))
        run = Session(parts, PROMPT, method.table, method.table.knobs(whole))
        drafted = sum(len(done.draft) for done in run.rounds())
        assert run.new_tokens == want, called
        assert drafted > 10, called


def _fields(config: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in config.__dataclass_fields__}
