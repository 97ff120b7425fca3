"""`specviz models convert`: pickled weights to safetensors, once, by a loader that runs nothing of what it reads.

Published tuned lenses, heads and drafters are often pickled; specviz opens none of those when it decodes. Only tensors
come through: a file that holds anything else is refused with its name.
"""

import re
import warnings
from pathlib import Path
from typing import Any

import click

from specviz.cli.flags import flag
from specviz.cli.look.written import refuse_place
from specviz.errors import ModelError

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
WRAPPERS = ("state_dict", "model_state_dict", "model")  # what a checkpoint may keep its tensors under


@click.command("convert")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="File to write [default: beside it, .safetensors].")
@flag("--force", "Write over a file that is there.")
def command(source: Path, out: Path | None, force: bool) -> None:
    """Turn pickled weights into safetensors, without running anything they contain.

    SOURCE is a file, or a folder with exactly one pickled file in it.
    """
    file = _file(source)
    written = out or file.with_suffix(".safetensors")
    if file.suffix == ".safetensors":
        raise ModelError(f"{file} is safetensors already; it needs no conversion")
    refuse_place(written, file, force)
    tensors = read(file)
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(tensors, written)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"cannot write {written}: {_first(error)}") from error
    written.chmod(0o644)
    click.echo(written)


def _file(source: Path) -> Path:
    if source.is_file():
        return source
    if not source.exists():
        raise ModelError(f"{source}: no such file or folder")
    pickles = sorted(path for path in source.iterdir() if path.suffix in PICKLED) if source.is_dir() else []
    if len(pickles) == 1:
        return pickles[0]
    held = f"it holds {len(pickles)} ({', '.join(path.name for path in pickles[:4])})" if pickles else "there is none"
    raise ModelError(f"{source}: no single pickled file ({held}); name one that ends in {', '.join(PICKLED)}")


def read(file: Path) -> dict[str, Any]:
    """The tensors of a pickled file by name. Raises ModelError in one line for one that holds anything else."""
    import pickle

    import torch

    try:
        with warnings.catch_warnings(action="ignore"):  # about how it was pickled
            held = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(f"{file}: holds more than weights{_named(error)}, so it is not opened") from None
    except Exception as error:  # a torn file trips the unpickler anywhere
        raise ModelError(f"{file}: cannot be read as pickled weights: {_first(error)}") from None
    inner = next((held[name] for name in WRAPPERS if isinstance(held, dict) and isinstance(held.get(name), dict)), held)
    wrong = _wrong(inner) if isinstance(inner, dict) else "its top level"
    if wrong is not None:
        raise ModelError(f"{file}: no plain table of tensors ({wrong}); save its state_dict() alone")
    return {str(name): tensor.detach().clone().contiguous() for name, tensor in inner.items()}  # none may share memory


def _wrong(table: dict[Any, Any]) -> str | None:
    """The first entry that safetensors cannot hold, and why; None when all can be."""
    import torch

    for name, value in table.items():
        if not isinstance(value, torch.Tensor):
            return str(name)
        whole = value.layout == torch.strided and not (value.is_meta or value.is_quantized or value.is_nested)
        if not whole or value.dtype == torch.complex128:
            return f"{name} is sparse, nested, quantized, empty of data or of 128 bits"
    if len({str(name) for name in table}) < len(table):
        return "two entries have one name"
    return None if table else "it is empty"


def _named(error: Exception) -> str:
    """What a refused file would have run, where the loader says it."""
    match = re.search(r"GLOBAL ([\w.]+)", str(error))
    return f" ({match[1]})" if match else ""


def _first(error: Exception) -> str:
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:160]
