"""Which methods work with a target, told from what lies beside it: nothing of the model is loaded."""

from pathlib import Path

from specviz.local_models.choices import EMBEDDED
from specviz.local_models.found import local_path, shipped_models
from specviz.local_models.shipped import shipped_folder
from specviz.methods import Method, all_methods


def methods_for(target: str) -> str:
    """`16 of 18 methods work with it; not trained for it yet: eagle3, medusa`. The core has the last word."""
    methods = all_methods()
    lacking = [name for name, method in methods.items() if not _has_part(target, method)]
    said = f"{len(methods) - len(lacking)} of {len(methods)} methods work with it"
    return said + (f"; not trained for it yet: {', '.join(lacking)}" if lacking else "")


def _has_part(target: str, method: Method) -> bool:
    part = method.part
    return part is None or any((folder / part.beside / part.file).is_file() for folder in _places(target))


def _places(target: str) -> list[Path]:
    """Folders in which parts of a target lie."""
    if target == EMBEDDED:
        return [shipped_models() / "pair"]
    own = local_path(target) or Path(target).expanduser()
    return [folder for folder in (shipped_folder(target), own) if folder is not None]
