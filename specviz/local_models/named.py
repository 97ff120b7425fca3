"""What a model's name stands for: the one reading of it that every command, screen and loader has.

A name is a folder, a GGUF file, a name of `specviz models list`, or a hub id; what lies at that path comes first. That
a draft model may be the target itself in fewer bits is told in `specviz.self_drafts`.
"""

import os.path
from pathlib import Path

from specviz import model_folder
from specviz.errors import ModelError, nearest
from specviz.local_models.catalogue import KNOWN
from specviz.local_models.found import LM_STUDIO, OLLAMA, local_path, other_names
from specviz.local_models.gguf_header import is_gguf


def path_of(name: str) -> Path | None:
    """The folder or file that a name stands for, whatever it holds; None: nothing here, so it may be a hub id.

    Raises ModelError for a name that the system refuses to look up.
    """
    path = Path(os.path.expanduser(name))
    return local_path(name) if model_folder.kind_of(path) == "nothing" else path


def checked_path(name: str, option: str) -> Path | None:
    """The same, once its files were looked at; no weight is read. `option`: the flag that names it, for the error.

    Raises ModelError, in one line, where it can be no model.
    """
    shown = model_folder.shown(name)
    try:
        path = path_of(name)
        if path is None:
            _refuse_absent(name)
        elif path.is_dir():
            model_folder.check(path)
        elif not is_gguf(path):
            raise ModelError("this file is not GGUF; give a model's folder, a GGUF file or a hub id")
    except ModelError as error:
        raise ModelError(f"{option} {shown}: {error}") from None
    return path


def _refuse_absent(name: str) -> None:
    """Raises ModelError for what is not here and cannot be had from the hub under that name."""
    if name in KNOWN:
        raise ModelError(f"it is not here yet; specviz models get {name} fetches it")
    if model_folder.is_path(name):
        near = model_folder.suggested(name)
        raise ModelError(f"no such folder{near or '; give a folder that save_pretrained wrote, or a hub id'}")
    if name.startswith((OLLAMA, LM_STUDIO)):
        close = nearest(name, other_names())
        near = f"did you mean '{close}'?" if close else "specviz models list shows those there are"
        raise ModelError(f"no such model here; {near}")
