"""A small real pair on which hits, misses and rejections, forks and cuts all happen."""

import torch

from specviz.engine.model.adapter import ModelAdapter
from support.models import blurred, build

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]


def sharp_pair() -> tuple[ModelAdapter, ModelAdapter]:
    """A target and a noisy copy of it in float64, both sharpened: random models are unsure of everything."""
    models = build("llama", seed=1, dtype=torch.float64), blurred(build("llama", seed=1, dtype=torch.float64), 0.03)
    for model in models:
        with torch.no_grad():
            model.lm_head.weight.mul_(2.5)
    return ModelAdapter(models[0]), ModelAdapter(models[1])
