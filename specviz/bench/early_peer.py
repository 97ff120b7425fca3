"""The library's own early exit: `generate(assistant_early_exit=E)`, where the model class supports it.

It sets the layer count in the model's configuration while it drafts, so it works only for classes whose forward looks
there for every pass; others would draft with the whole model and say nothing. That is tried, not believed.
"""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from specviz.errors import SpecvizError

if TYPE_CHECKING:
    from collections.abc import Iterator


def exit_layer(model: Any, wanted: int | None) -> int:
    """The layer to draft from: the one asked for, else half of them. Raises SpecvizError when it cannot be done."""
    n_layers = int(model.config.get_text_config().num_hidden_layers)
    layer = max(1, n_layers // 2) if wanted is None else wanted
    if not 1 <= layer < n_layers:
        raise SpecvizError(f"--exit-layer {layer}: the target has {n_layers} layers; give one from 1 to {n_layers - 1}")
    why = refusal(model, layer)
    if why is not None:
        raise SpecvizError(f"hf-early-exit does not run on this target: {why}; leave it out of --methods")
    return layer


@torch.inference_mode()
def refusal(model: Any, layer: int) -> str | None:
    """Why the library's early exit would not leave at that layer; None when it does."""
    base = getattr(model, model.base_model_prefix, None)
    layers = next((getattr(base, name) for name in ("layers", "h") if hasattr(base, name)), None)
    if base is None or layers is None or not hasattr(base.config, "num_hidden_layers"):
        return f"{type(model).__name__} has no layers where the library looks for them"
    if len(layers) <= layer:
        return f"it has {len(layers)} layers"
    ran: list[int] = []
    hooks = [module.register_forward_hook(lambda *_, k=k: ran.append(k)) for k, module in enumerate(layers)]
    try:
        with short(model, layer):
            model(torch.tensor([[0]], device=model.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    if ran == list(range(layer)):
        return None
    return f"{type(model).__name__} runs {len(ran)} layers however many its configuration names"


@contextmanager
def short(model: Any, layer: int) -> "Iterator[None]":
    """The model with that many layers, in the way the library does it."""
    config = getattr(model, model.base_model_prefix).config
    before, config.num_hidden_layers = config.num_hidden_layers, layer
    try:
        yield
    finally:
        config.num_hidden_layers = before
