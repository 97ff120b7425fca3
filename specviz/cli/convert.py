"""`specviz convert`: pickled weights to safetensors, once, by a loader that runs nothing of what it reads.

Published tuned lenses, heads and drafters are often pickled; specviz opens none of those when it decodes. Only tensors
come through: a file that holds anything else is refused with its name.
"""

from pathlib import Path
from typing import Any

import click

from specviz.errors import ModelError

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
WRAPPERS = ("state_dict", "model_state_dict", "model")  # what a checkpoint may keep its tensors under


@click.command("convert")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="File to write [default: beside it, .safetensors].")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def command(source: Path, out: Path | None, force: bool) -> None:
    """Turn pickled weights into safetensors, without running anything they contain.

    SOURCE is a file, or a folder with exactly one pickled file in it.
    """
    file = _file(source)
    written = out or file.with_suffix(".safetensors")
    if written.exists() and not force:
        raise ModelError(f"{written} is there already; give --force to write over it, or another --out")
    tensors = read(file)
    from safetensors.torch import save_file

    try:
        save_file(tensors, written)
    except OSError as error:
        raise ModelError(f"cannot write {written}: {error.strerror or error}") from error
    written.chmod(0o644)
    click.echo(written)


def _file(source: Path) -> Path:
    if source.is_file():
        return source
    found = sorted(path for path in source.iterdir() if path.suffix in PICKLED) if source.is_dir() else []
    if len(found) == 1:
        return found[0]
    held = f"it holds {len(found)} ({', '.join(path.name for path in found[:4])})" if found else "there is none"
    raise ModelError(f"{source}: no single pickled file ({held}); name one that ends in {', '.join(PICKLED)}")


def read(file: Path) -> dict[str, Any]:
    """The tensors of a pickled file by name. Raises ModelError in one line for one that holds anything else."""
    import pickle

    import torch

    try:
        held = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(f"{file}: holds more than weights, so it is not opened: {_first(error)}") from None
    except Exception as error:  # a torn file trips the unpickler anywhere
        raise ModelError(f"{file}: cannot be read as pickled weights: {_first(error)}") from None
    inner = next((held[name] for name in WRAPPERS if isinstance(held, dict) and isinstance(held.get(name), dict)), held)
    wrong = None if isinstance(inner, dict) else "its top level"
    for name, value in inner.items() if isinstance(inner, dict) else ():
        wrong = wrong or (None if isinstance(value, torch.Tensor) else str(name))
    if wrong is not None or not inner:
        raise ModelError(f"{file}: no plain table of tensors ({wrong or 'it is empty'}); save its state_dict() alone")
    return {str(name): tensor.detach().clone().contiguous() for name, tensor in inner.items()}  # none may share memory


def _first(error: Exception) -> str:
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:160]
