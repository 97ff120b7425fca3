"""Compares a folder's weight files with what its model needs: missing tensors, unused ones, and tensors of odd types.

`transformers` fills missing weights at random and ignores unknown ones, which would make the output meaningless.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specviz import model_folder
from specviz.errors import ModelError
from specviz.mtp_layers import own_mtp, own_mtp_layers


def refuse_holes(option: str, model: Any, loading_info: Mapping[str, Any]) -> None:
    """Raises ModelError unless every weight was in the folder: the library fills gaps with random numbers."""
    kind = type(model).__name__
    mismatched = sorted(loading_info.get("mismatched_keys") or (), key=str)
    if mismatched:
        name, shape, wanted = (*mismatched[0], None, None)[:3]
        shapes = f"is {list(shape)}, config.json makes it {list(wanted)}" if shape is not None else "has another shape"
        more = f" (and {len(mismatched) - 1} more)" if len(mismatched) > 1 else ""
        raise ModelError(f"{option}: tensor '{name}' {shapes}{more}; the folder's files do not fit")
    missing = sorted(loading_info.get("missing_keys") or ())
    if missing:
        named = ", ".join(f"'{name}'" for name in missing[:3])
        raise ModelError(
            f"{option}: {len(missing)} of the weights of a {kind} are missing: {named}"
            f"{', ..' if len(missing) > 3 else ''}; {_advice(missing, loading_info.get('unexpected_keys') or ())}"
        )
    errors = loading_info.get("error_msgs")
    if errors:
        raise ModelError(f"{option}: cannot be loaded: {' '.join(str(errors).split())[:300]}")


def _advice(missing: list[str], unexpected: Any) -> str:
    if all("head" in name or "embed_out" in name for name in missing):
        return "it holds a model without a language head: give one saved as a causal LM"
    if unexpected:
        return f"it holds {len(unexpected)} tensors of other names, such as '{sorted(unexpected)[0]}'"
    return "config.json asks for more than the weight files hold: mend it, or save the model again"


# What weights may be stored as without a quantisation that the library knows how to undo.
_FLOATS = re.compile(r"(F|BF)\d+.*")


def refuse_odd_types(option: str, model: Any, folder: Path | None) -> None:
    """Raises ModelError for weights stored as whole numbers or truth values: read as they stand they mean nothing."""
    if folder is None or getattr(model.config, "quantization_config", None) is not None:
        return
    floating = {name for name, parameter in model.named_parameters() if parameter.is_floating_point()}
    endings = {name.split(".", 1)[-1] for name in floating}  # a base model's file leaves the first part out
    for path in model_folder.weight_files(folder):
        for tensor in model_folder.tensors(path):
            is_weight = tensor.name in floating or tensor.name in endings or tensor.name.split(".", 1)[-1] in endings
            if is_weight and not _FLOATS.fullmatch(tensor.dtype):
                raise ModelError(
                    f"{option}: tensor '{tensor.name}' is stored as {tensor.dtype}, and config.json names no "
                    "quantization; weights are floating point"
                )


def left_out(option: str, model: Any, loading_info: Mapping[str, Any]) -> str | None:
    """What to say of tensors in the files that the model has no place for; None: there are none.

    Raises ModelError for layers beyond those that config.json names: without them it is another model.
    """
    names = sorted(loading_info.get("unexpected_keys") or ())
    config = model.config.get_text_config()
    n_layers = getattr(config, "num_hidden_layers", 0)
    own = n_layers + own_mtp_layers(config.to_dict())
    beyond = [name for name in names if n_layers and (model_folder.layer_of(name) or 0) >= own]
    if beyond:
        layers = len({model_folder.layer_of(name) for name in beyond})
        raise ModelError(
            f"{option}: config.json names {n_layers} layers, and the weight files hold {layers} more "
            f"('{beyond[0]}'): mend num_hidden_layers, or save the model again"
        )
    mtp = own_mtp(names)  # the method mtp has a place for them
    names = [name for name in names if mtp is None or not name.startswith(mtp.prefix)]
    if not names:
        return None
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"a {type(model).__name__} has no place for tensor '{model_folder.shown(names[0])}'{more}: left out"
