"""Decode in tests: a session from models, method and knobs in one call, and plain references."""

from collections.abc import Callable
from typing import Any

import torch

from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.run.local import make_drafter
from specviz.methods import get_method
from specviz.probability.plan import Draws
from specviz.verifiers import get_verifier


def session(
    target: Any,
    draft: Any,
    prompt: list[int],
    method: str = "draft",
    verifier: str = "walk",
    eos: tuple[int, ...] = (),
    sink: Any = None,
    texts: Any = None,
    drafter: Any = None,
    draws: Callable[[int], Draws] | None = None,
    **knobs: Any,
) -> Session:
    """A session over adapters or bare library models."""
    first, second = (m if m is None or hasattr(m, "new_cache") else ModelAdapter(m) for m in (target, draft))
    chosen = get_method(method)
    snapshot = chosen.table.knobs({"max_new_tokens": 40, **knobs})
    models = FactoryModels(first, second, 640)
    parts = SessionConfig(models, drafter or make_drafter(chosen, models, snapshot), get_verifier(verifier))
    return Session(parts, prompt, chosen.table, snapshot, eos=frozenset(eos), sink=sink, texts=texts, draws=draws)


def greedy(model: Any, prompt: list[int], n: int, eos: int | None = None) -> list[int]:
    """The library's own greedy continuation."""
    out = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=n,
        do_sample=False,
        eos_token_id=eos,
        pad_token_id=0,
    )
    new: list[int] = out[0, len(prompt) :].tolist()
    return new
