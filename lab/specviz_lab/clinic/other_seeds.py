"""What the judge made of seeds that are not recorded, kept as a file: who reads a score sees when it was had, and
whether anybody had looked at these cases before."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from specviz.errors import SpecvizError
from specviz.trace.bundled import assets
from specviz_lab.clinic.levels import LEVELS, Level
from specviz_lab.clinic.score import Answer, Score


class LevelScore(msgspec.Struct, frozen=True):
    """`silent`: planted cases that were not named; `wrong`: cases that another fault was named of, twins among them."""

    score: Score
    silent: list[str]
    wrong: list[str]


class SeedScores(msgspec.Struct, frozen=True):
    """Of one scoring. `unseen`: nobody had looked at a case of these seeds before."""

    date: str
    seeds: list[int]
    unseen: bool
    levels: dict[Level, LevelScore]


def kept_file() -> Path:
    """Where they are kept. Raises SpecvizError where this is no checkout."""
    folder = assets("clinic").parents[2] / "benchmarks"
    if not folder.is_dir():
        raise SpecvizError("scores of other seeds are kept in benchmarks, which is part of a checkout: run it there")
    return folder / "clinic-seeds.json"


def read_kept(path: Path) -> list[SeedScores]:
    """Oldest first; nothing where there is no such file. Raises SpecvizError for one that is something else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[SeedScores]) if path.exists() else []
    except (OSError, msgspec.DecodeError) as error:
        raise SpecvizError(f"{path} is no file of scores: {error}") from None


def keep(path: Path, answers: Sequence[Answer], unseen: bool) -> None:
    """Add a scoring, in place of one of the same seeds that were seen. Raises SpecvizError where `unseen` is not so."""
    kept, seeds = read_kept(path), sorted({answer.case.seed for answer in answers})
    known = sorted({seed for scores in kept for seed in scores.seeds} & set(seeds))
    if unseen and known:
        raise SpecvizError(f"--unseen: {path} has scores of seed {', '.join(map(str, known))} already; make others")
    levels = {level: _of_level([a for a in answers if a.level == level]) for level in LEVELS}
    same = SeedScores(datetime.now(UTC).date().isoformat(), seeds, unseen, levels)
    kept = [*(scores for scores in kept if scores.unseen or scores.seeds != seeds), same]
    path.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def _of_level(answers: Sequence[Answer]) -> LevelScore:
    return LevelScore(
        Score.of(answers),
        [a.case.name for a in answers if a.case.ill and not a.fault],
        [f"{a.case.name}: {a.fault} {a.certainty}" for a in answers if a.fault and not a.right],
    )
