"""What can be looked at: the live run, the trace of the command line, bundled traces, uploads of this tab."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from specviz.errors import SpecvizError
from specviz.sources import Source, TraceFile
from specviz_app.core import Tap
from specviz_app.server import Server

LIVE = "live run"
_SUFFIXES = (".sv.jsonl", ".sv.jsonl.gz", ".jsonl", ".jsonl.gz")


def trace_name(path: Path | str) -> str:
    """A trace's name as it is shown."""
    name = Path(path).name
    return next((name.removesuffix(s) for s in sorted(_SUFFIXES, key=len, reverse=True) if name.endswith(s)), name)


@cache
def bundled() -> dict[str, Path]:
    """The traces that come with the package, by name; those that draft nothing come last."""
    folder = Path(str(resources.files("specviz_assets"))) / "traces"
    files = folder.iterdir() if folder.is_dir() else ()
    found = sorted(files, key=lambda path: (trace_name(path).endswith("-ar"), path.name))
    return {trace_name(path): path for path in found if path.name.endswith(_SUFFIXES)}


@cache
def examples() -> dict[str, str]:
    """Bundled prompts by name."""
    folder = Path(str(resources.files("specviz_assets"))) / "prompts"
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt"))}


def choices(server: Server, uploads: Mapping[str, Path]) -> dict[str, Path | None]:
    """Everything by name, in the order in which it is offered. None stands for the live run."""
    replay = server.settings.replay
    given: dict[str, Path | None] = {trace_name(replay): replay} if replay is not None else {}
    given |= {name: uploads[name] for name in reversed(list(uploads))}
    first: dict[str, Path | None] = {LIVE: None} if server.core.loaded or server.settings.live else {}
    last: dict[str, Path | None] = {} if first else {LIVE: None}
    bundle = {name: path for name, path in bundled().items() if name not in given}
    return {**given, **first, **bundle, **last}


def opened(name: str, server: Server, uploads: Mapping[str, Path]) -> Source:
    """A source by its name. Raises SpecvizError for a trace that cannot be read."""
    found = choices(server, uploads)
    if name not in found:
        raise SpecvizError(f"no trace '{name}' here; choose one on the left")
    path = found[name]
    return Tap(server.core) if path is None else TraceFile(path)
