"""A file of what a target wrote: grown batch by batch, gone on with after an interruption, shared by trainers.

It says whose it is: which target wrote it, in chats or behind plain text, at which temperatures. A text of another
target teaches the wrong thing, so it is refused.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from specviz.errors import SpecvizError
from specviz_train.common.console import Console
from specviz_train.common.files import keep, kept, save_arrays, unreadable
from specviz_train.common.optim import Budget
from specviz_train.common.target_text import HEADS, OwnWindows, TextWriter, Windows, trees_writing
from specviz_train.common.workers import Workers

FORMAT = "specviz-own-text"
Facts = Mapping[str, Any]
_APART = 10_000  # batches between the numbers of one process and those of the next


def grown(
    path: Path,
    budget: Budget,
    console: Console,
    write: Callable[[int], OwnWindows],
    prompt: int = 0,
    facts: Facts | None = None,
) -> OwnWindows:
    """All windows of `path`, more of them written while there is time.

    `write` makes batch number n; `prompt`: see `read`; `facts`: what a new file says of itself.
    """
    batches, seconds = read(path, prompt) if path.exists() else ([], 0.0)
    told = {} if facts is None else {"facts": np.array(json.dumps(dict(facts)))}
    with console.bar("own text", budget) as report:
        while not batches or budget.progress(seconds, len(batches)) < 1.0:
            began = time.monotonic()
            batches.append(write(len(batches)))
            seconds += (took := time.monotonic() - began)
            ids, written = (np.stack([getattr(each, name) for each in batches]) for name in ("ids", "written"))
            save_arrays(path, batches=ids, written=written, seconds=np.array(seconds), **told)
            report(budget.progress(seconds, len(batches)), 0.0, batches[-1].ids.size / took)
    return OwnWindows.joined(batches)


def read(path: Path, prompt: int = 0) -> tuple[list[OwnWindows], float]:
    """The batches in a file and the seconds they took. Raises SpecvizError in one line for what is no such file.

    `prompt`: tokens that were given of every window, where the file is of before it said so itself.
    """
    try:
        with path.open("rb") as stream, np.load(stream) as arrays:
            batches, seconds = arrays["batches"], float(arrays["seconds"])
            if "written" not in arrays.files:
                return [OwnWindows.behind(each, prompt) for each in batches], seconds
            pairs = zip(batches, arrays["written"], strict=True)
            return [OwnWindows(ids, written) for ids, written in pairs], seconds
    except (OSError, ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
        raise unreadable(path, error) from error


def facts_of(path: Path) -> dict[str, Any]:
    """What a file says of itself. Raises SpecvizError for one that `specviz train text` did not write."""
    try:
        with path.open("rb") as stream, np.load(stream) as arrays:
            found = json.loads(str(arrays["facts"]))
    except (OSError, ValueError, KeyError, EOFError, TypeError, RecursionError, BadZipFile) as error:
        raise _no_text(path) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise _no_text(path)
    return found


def _no_text(path: Path) -> SpecvizError:
    return SpecvizError(f"--own-text {path}: not what a target wrote; make such a file with specviz train text")


def given(path: Path, target: str, chat: bool) -> OwnWindows:
    """The windows of a file, for the target with the fingerprint `target`. Raises SpecvizError for another's."""
    facts = facts_of(path)
    if facts.get("target") != target:
        raise SpecvizError(
            f"--own-text {path}: written by another target ({facts.get('target_name')}); "
            "let this one write with specviz train text"
        )
    if facts.get("chat") != chat:
        kinds = {True: ("chats", "--chat"), False: ("plain text", "--raw")}
        (wrote, flag), (asked, _) = kinds[bool(facts.get("chat"))], kinds[chat]
        raise SpecvizError(f"--own-text {path}: it holds {wrote}, and {asked} was asked for; give {flag}")
    return OwnWindows.joined(read(path)[0])


def written_for_heads(writer: TextWriter, work: Path, budget: Budget, seed: int, console: Console) -> Windows:
    """`[n, length]` windows the target wrote; goes on from what `work` holds."""
    return grown(work / "own_text.npz", budget, console, lambda number: writer.batch((seed, number), HEADS)).ids


def written_for_trees(
    writer: TextWriter,
    work: Path,
    budget: Budget,
    seed: int,
    console: Console,
    workers: Workers | None = None,
    length: int = 0,
) -> OwnWindows:
    """Windows the target wrote; goes on from what the files in `work` hold. Every process writes its share."""
    workers = workers or Workers()
    files = [work / ("own_text.npz" if rank == 0 else f"own_text-{rank}.npz") for rank in range(workers.count)]
    how = trees_writing(length)
    grown(
        files[workers.rank], budget, console, lambda n: writer.batch((seed, n + _APART * workers.rank), how), how.prompt
    )
    workers.wait()
    return OwnWindows.joined([batch for path in files for batch in read(path, how.prompt)[0]])


def first_windows(work: Path, windows: OwnWindows) -> OwnWindows:
    """The windows there were when the run in `work` began: what is counted on text is, however much came since."""
    path = work / "begun.json"
    if not path.exists():
        keep(path, {"windows": len(windows.ids)})
    n = kept(path).get("windows", 0)
    return OwnWindows(windows.ids[:n], windows.written[:n])
