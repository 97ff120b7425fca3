"""What this package brings for known models: drafters trained for them, a folder a model beside the embedded pair."""

from pathlib import Path

from specviz.local_models.catalogue import KNOWN
from specviz.local_models.found import local_path, shipped_models
from specviz.local_models.store import origin


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


def usual_draft(target: str | None) -> str | None:
    """The draft model of a target where none is named: what pays best for a known one; None: there is none."""
    known = None if target is None else known_name(target)
    return None if known is None else KNOWN[known].draft
