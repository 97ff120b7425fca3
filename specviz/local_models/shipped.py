"""What installed packages bring for known models: drafters trained for them, a package of parts a model."""

from pathlib import Path

from specviz.local_models.catalogue import KNOWN
from specviz.local_models.named import path_of
from specviz.local_models.store import origin


def known_name(target: str) -> str | None:
    """The known model that a name, folder or hub id stands for; None: it is none of them."""
    folder = path_of(target) or Path(target)
    came = origin(folder if folder.is_dir() else folder.parent)
    if came is not None and came.model in KNOWN:
        return came.model
    hubs = {known.hub: known.name for known in KNOWN.values()}
    cached = (part.removeprefix("models--").replace("--", "/") for part in folder.parts)
    return next((hubs[name] for name in (target, *cached) if name in hubs), None)


def shipped_folder(target: str) -> Path | None:
    """Where the parts that an installed package brings for a target lie; None: there are none."""
    known = known_name(target)
    parts = None if known is None else KNOWN[known].parts
    return None if parts is None else parts.folder()


def usual_draft(target: str | None) -> str | None:
    """The draft model of a target where none is named: what pays best for a known one; None: there is none."""
    known = None if target is None else known_name(target)
    return None if known is None else KNOWN[known].draft
