"""What this package brings for known models: drafters trained for them, a folder a model beside the embedded pair."""

from importlib.resources import files
from pathlib import Path

from specviz.local_models.catalogue import KNOWN
from specviz.local_models.found import local_path
from specviz.local_models.store import origin


def shipped_models() -> Path:
    """The folder of the models and parts in this package."""
    return Path(str(files("specviz_assets"))) / "models"


def known_name(target: str) -> str | None:
    """The known model that a name, folder or hub id stands for; None: it is none of them."""
    folder = local_path(target) or Path(target)
    came = origin(folder if folder.is_dir() else folder.parent)
    if came is not None and came.model in KNOWN:
        return came.model
    hubs = {known.hub: known.name for known in KNOWN.values()}
    cached = (part.removeprefix("models--").replace("--", "/") for part in folder.parts)
    return next((hubs[name] for name in (target, *cached) if name in hubs), None)


def shipped_folder(target: str) -> Path | None:
    """Where the parts that come with this package for a target lie; None: there are none."""
    known = known_name(target)
    folder = None if known is None else shipped_models() / known
    return folder if folder is not None and folder.is_dir() else None


def shipped_draft(target: str | None) -> str | None:
    """The draft model that comes with this package for a target; None: there is none."""
    folder = None if target is None else shipped_folder(target)
    return str(folder / "draft") if folder is not None and (folder / "draft" / "config.json").is_file() else None
