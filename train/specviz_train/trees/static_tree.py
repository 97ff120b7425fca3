"""The whole of `specviz train static-tree`: the shape of a fixed tree, for an EAGLE-3 drafter or Medusa heads.

The target writes greedily after held-in beginnings; along that text every place ahead of the drafter is asked where the
target's token stands. Nothing is trained. Published drafters come without such a table; it is put beside their weights.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specviz.engine.model.files import loading
from specviz.methods.eagle3 import drafter as eagle_files
from specviz.methods.medusa import drafter as medusa_files
from specviz.methods.trained.parts import OPTION, read_config
from specviz.methods.trained.rank_shapes import best_paths, expected, write_table
from specviz_train.common import own_text, training_text
from specviz_train.common.console import Console
from specviz_train.common.corpus import CorpusRequest
from specviz_train.common.own_text import OwnWindows, TextWriter
from specviz_train.trees.losses import PlaceResult, Shares, counted_ranks, heads_of, levels_of
from specviz_train.trees.objective import TargetOutputs

TREE = 60


@dataclass(frozen=True, slots=True)
class StaticTreeRequest:
    """What the command line asks for. `drafter`: the folder that gets the table; None: the one beside the target."""

    target: str | None
    drafter: str | None
    windows: int = 48
    seed: int = 0
    packages: bool = False
    texts: tuple[Path, ...] = ()
    device: str | None = None
    chat: bool | None = None


def train_static_tree(request: StaticTreeRequest, console: Console) -> tuple[Path, dict[str, Any]]:
    """Count, write the table into the drafter's folder; the folder, and what the table promises."""
    loaded = loading.load(request.target, "target", request.device, None)
    adapter = loaded.adapter
    heads = request.drafter is not None and _is_medusa(Path(request.drafter))
    kind = medusa_files.KIND if heads else eagle_files.KIND
    folder = kind.folder(adapter, request.drafter)
    trained: Any = kind.load(folder, adapter)  # refused before anything is written
    console.say("reading and encoding the text")
    wanted = CorpusRequest(request.packages, request.texts, training_text.N_SUM_PAGES, request.seed)
    chat = training_text.in_turns(request.chat, loaded.tokenizer)
    text = training_text.gathered(wanted, loaded.tokenizer, chat)
    writer = TextWriter(adapter.model, text, loading.stop_tokens(loaded))
    with console.count("writing", request.windows, "windows") as report:
        parts = [*_written(writer, request, report)]

    def places(seen: TargetOutputs) -> Sequence[PlaceResult]:
        if heads:
            return heads_of(trained, seen)
        return levels_of(trained, adapter.embedding, seen, trained.config.trained_steps)

    right = counted_ranks(adapter, trained, OwnWindows.joined(parts), places)
    _keep(folder, right)
    worth = expected(right, best_paths(right, TREE))
    console.say(f"the best {TREE} paths are expected to bring {worth:.2f} tokens a round besides the target's own")
    return folder, {"right": right, "expected": worth}


def _written(
    writer: TextWriter, request: StaticTreeRequest, report: Callable[[int, str], None]
) -> Iterator[OwnWindows]:
    """Greedy windows, a batch at a time."""
    done, how = 0, replace(own_text.TREES, temperatures=(0.0,))
    while done < request.windows:
        rows = min(own_text.TREES.rows, request.windows - done)
        windows = writer.batch((request.seed, done), how, rows)
        done += rows
        report(done, "")
        yield windows


def _is_medusa(folder: Path) -> bool:
    """Whether a folder holds Medusa heads, ours or published ones; what is wrong with it is said by its kind."""
    if not (folder / "config.json").is_file():
        return False
    config = read_config(folder, OPTION, medusa_files.KIND.advice)
    return config.get("format") == medusa_files.KIND.format or "medusa_num_heads" in config


def _keep(folder: Path, right: Shares) -> None:
    """Heads of ours carry their table in their config; all others beside their weights."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    if config.get("format") != medusa_files.KIND.format:
        write_table(folder, right)
        return
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({**config, "right": right}, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
