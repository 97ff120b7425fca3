"""Which methods can run with a loaded pair, and what the others lack. Configs are read, no trained part is loaded."""

import json
from pathlib import Path

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.hub import snapshot
from specviz.engine.model.files.kinship import made_for
from specviz.engine.model.pair import Pair
from specviz.events import Missing
from specviz.local_models.catalogue import part_folders, to_install
from specviz.local_models.found import embedded_pair
from specviz.local_models.shipped import known_name
from specviz.local_models.store import stored_name
from specviz.methods import Method, Part


def missing(method: Method, pair: Pair) -> Missing | None:
    """What the method lacks beside this pair; None: it can run."""
    if method.needs_draft and pair.draft is None:
        return Missing(why="it drafts with a second model and none was loaded", command="start with --draft FOLDER")
    return None if method.part is None else missing_part(method.part, pair.target.adapter)


def missing_part(part: Part, target: ModelAdapter) -> Missing | None:
    """Whether a trained part lies with the target, made for its very weights."""
    folders = [folder for folder in shipped(target, part.beside, part.beside) if _made_for(folder, target)]
    if any((folder / part.file).is_file() for folder in folders) or own_folder(part, target) is not None:
        return None
    name, folder = named(target), Path(str(named(target))).is_dir()
    install = None if name is None else to_install(known_name(name), part.beside)
    if install is not None:
        return Missing(why=f"no {part.what} for the target {target.name}", command=install, knob=part.knob)
    return Missing(
        why=f"no {part.what} for the target {target.name}",
        command=part.command(name, folder, bool(folders)),
        then="" if (name and folder) or folders else f"--{part.knob} {part.beside}",
        knob=part.knob,
    )


def own_folder(part: Part, target: ModelAdapter) -> Path | None:
    """The target's own folder, where it brings such a part as it was published."""
    folder = _folder(target)
    return folder if folder is not None and part.own(folder) else None


def unread(part: Part, target: ModelAdapter) -> str:
    """What to say of such a part in the target's own folder that is not read here, behind its name; "" for none."""
    folder = _folder(target)
    words = "" if folder is None else part.unread(folder)
    return f" ({words})" if words else ""


def _folder(target: ModelAdapter) -> Path | None:
    name = str(getattr(target.model, "name_or_path", "") or "")
    return Path(name) if Path(name).is_dir() else snapshot(name) if name else None


def named(target: ModelAdapter) -> str | None:
    """How a command line names the target; None: it is the embedded one, or was never given a name."""
    name = str(getattr(target.model, "name_or_path", "") or "")
    return None if not name or Path(name) == embedded_pair() / "target" else stored_name(name) or name


def shipped(
    target: ModelAdapter, embedded: str, beside: str, file: str = "config.json", loose: bool = False
) -> list[Path]:
    """Where parts may lie that nobody named: `embedded` beside the embedded pair, `beside` in the target's own folder
    and in installed packages of parts.

    Both are patterns of folders with `file` in them; `loose`: the target's own folder may be one. What is found there
    may be another model's: compare fingerprints before loading.
    """
    own = str(getattr(target.model, "name_or_path", "") or "")
    folders = [*sorted(embedded_pair().glob(embedded)), *([Path(own)] if own and loose else ())]
    folders += sorted(Path(own).glob(beside)) if own and Path(own).is_dir() else ()
    patterns = dict.fromkeys((beside, embedded))
    folders += [path for pattern in patterns for parts in part_folders() for path in sorted(parts.glob(pattern))]
    return [folder for folder in folders if (folder / file).is_file()]


def _made_for(folder: Path, target: ModelAdapter) -> bool:
    """Whether its config names this target; one that cannot be read is none, and is told of where it is loaded."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and made_for(config.get("target"), target)
