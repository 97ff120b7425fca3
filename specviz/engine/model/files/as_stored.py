"""A model whose files hold its weights by its own names: made by the library, its weights read from where they lie.

The library's own way goes through what it knows of older names in files of all families, and makes a model without
memory first, by functions that bring an algebra system along: most of the time that a small model takes. Neither is
needed where names and shapes are right as they stand. Where anything is not, there is no model from here, and
the library's own way says what is wrong.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from specviz.engine.model import huge_pages

_PLAIN = ("llama",)  # model types whose files the library reads without conversion
_WEIGHTS, _GENERATION = "model.safetensors", "generation_config.json"
_OTHERS = ("adapter_config.json", "custom_generate")  # what the library would look at besides


def read_as_stored(folder: Path, dtype: torch.dtype) -> Any | None:
    """The library's causal LM of a folder, as its `from_pretrained` gives it; None where that must be asked."""
    needed = all((folder / name).is_file() for name in (_WEIGHTS, _GENERATION))
    if not needed or any((folder / name).exists() for name in _OTHERS):
        return None
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
    from transformers.initialization import no_init_weights

    config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    settings = config.to_dict()
    if config.model_type not in _PLAIN or settings.get("quantization_config") or settings.get("auto_map"):
        return None
    weights = load_file(folder / _WEIGHTS)
    if any(not weight.is_floating_point() for weight in weights.values()):
        return None
    with no_init_weights():
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)
    model.tie_weights()
    wanted = {name: weight.shape for name, weight in model.named_parameters()}  # one that is shared is named once
    if {name: weight.shape for name, weight in weights.items()} != wanted:
        return None
    weights = {name: huge_pages.copied(weight, dtype) for name, weight in weights.items()}
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    model.config.name_or_path = str(folder)
    model.generation_config = GenerationConfig.from_dict(json.loads((folder / _GENERATION).read_text("utf-8")))
    return model.eval()
