"""What a page shows of runs that take too long, or a quiet machine: kept in `benchmarks/papers/NAME.json`.

`counts`: of decoded prompts, from which tables are worked out anew every time, and which `--measure` decodes again;
`tables`: cells as a clock gave them. Each says how it came about, on which machine, when.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specviz.comparison import machine
from specviz.errors import SpecvizError
from specviz.metrics.differences import RatioOfSums
from specviz_lab.papers.table import ComputedTable, rows_of

FOLDER = Path(__file__).parents[3] / "benchmarks" / "papers"
Counted = dict[str, float]  # what one prompt came to, by name


def kept(name: str, part: str, key: str) -> dict[str, Any]:
    """One entry of a paper's file. Raises SpecvizError where there is none."""
    path = FOLDER / f"{name}.json"
    try:
        entry: dict[str, Any] = json.loads(path.read_text("utf-8"))[part][key]
    except (OSError, KeyError) as error:
        raise SpecvizError(
            f"{path.name} of benchmarks/papers has no {part} of {key}: it is part of a checkout"
        ) from error
    return entry


def clocked(name: str, key: str) -> ComputedTable:
    """A table that a clock gave."""
    entry = kept(name, "tables", key)
    return ComputedTable(tuple(entry["columns"]), rows_of(entry["rows"]), _note(entry))


def counts(name: str, key: str) -> tuple[dict[str, dict[str, Counted]], str]:
    """Prompts by their place, of each its settings by name; and where these are from."""
    entry = kept(name, "counts", key)
    names = entry["names"]
    prompts = {
        place: {arm: dict(zip(names, numbers, strict=True)) for arm, numbers in arms.items()}
        for place, arms in entry["prompts"].items()
    }
    return prompts, _note(entry)


def keep_counts(name: str, key: str, prompts: Mapping[str, Mapping[str, Mapping[str, float]]], command: str) -> None:
    """Write them over those that are there."""
    path = FOLDER / f"{name}.json"
    known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    names = list(next(iter(next(iter(prompts.values())).values())))
    lines = {
        place: {arm: [counts[n] for n in names] for arm, counts in arms.items()} for place, arms in prompts.items()
    }
    where = {"machine": machine.processor(), "date": f"{datetime.now(UTC):%Y-%m-%d}", "how": f"`{command}`"}
    known.setdefault("counts", {})[key] = {**where, "names": names, "prompts": lines}
    path.parent.mkdir(exist_ok=True)
    path.write_text(_text(known), "utf-8")


def ratio(prompts: Iterable[Counted], top: str, bottom: str) -> RatioOfSums:
    """Of two sums, with prompts as the units."""
    counts = list(prompts)
    return RatioOfSums([of[top] for of in counts], [of[bottom] for of in counts])


def _note(entry: Mapping[str, Any]) -> str:
    return f"{entry['machine']}, {entry['date']}: {entry['how']}"


def _text(known: Mapping[str, Any]) -> str:
    """A line for every prompt and setting, so that a diff tells what moved."""
    text = json.dumps(known, indent=1, ensure_ascii=False)
    return re.sub(r"\[\s+([-\d.,\s]+?)\s+\]", lambda numbers: f"[{' '.join(numbers[1].split())}]", text) + "\n"
