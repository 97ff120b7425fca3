"""Public cases: what people posted of their engines, rebuilt as text and small models, and what the judge says of it.

Causes of such cases are what a maintainer or the finder said in the end; where nobody did, what it can only have been.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from specviz.engines.texts.own_line import own_lines
from specviz.judge import Finding, judge
from specviz.judge.reading import read_things
from specviz_lab.clinic.public_models import MODELS, build

FOLDER, CASES = "public", "cases.json"
_MODEL = "@"  # before the name of one of `models.json`
Verdict = Literal["named", "cannot tell", "rightly silent", "silent", "wrong"]
GOOD: tuple[Verdict, ...] = ("named", "cannot tell", "rightly silent")


@dataclass(frozen=True, slots=True)
class PublicCase:
    """`was`: in the end. `faults`: those that it may be called; none where nothing was wrong. `things`: what `specviz
    diagnose` is given: files of `folder`, models that are built, a serving command."""

    thread: str
    was: str
    faults: tuple[int, ...]
    things: tuple[str, ...]
    line: str | None
    folder: Path = Path()


@dataclass(frozen=True, slots=True)
class PublicAnswer:
    """The judge's. `first`: the finding that leads to a fault and stands first."""

    case: PublicCase
    first: Finding | None

    @property
    def verdict(self) -> Verdict:
        """A doubt is right where it is about the right fault; where nothing was wrong it is no accusation."""
        if self.first is None:
            return "silent" if self.case.faults else "rightly silent"
        if self.first.certainty == "cannot tell":
            about = {self.first.fault, *self.first.others}
            return "cannot tell" if not self.case.faults or about & set(self.case.faults) else "wrong"
        return "named" if self.first.fault in self.case.faults else "wrong"

    @property
    def words(self) -> str:
        """What was said, for a table."""
        return "" if self.first is None else f"{self.first.certainty}: {self.first.headline}"


def public_cases(folders: Sequence[Path]) -> Iterator[PublicCase]:
    """Those that lie in `public` of the folders."""
    for folder in folders:
        listed = folder / FOLDER / CASES
        for case in json.loads(listed.read_text(encoding="utf-8")) if listed.is_file() else ():
            yield PublicCase(
                case["thread"],
                case["was"],
                tuple(case["faults"]),
                tuple(case["things"]),
                case.get("line"),
                folder / FOLDER,
            )


def public_answers(folders: Sequence[Path]) -> list[PublicAnswer]:
    """The judge's to every public case. Raises SpecvizError for what cannot be read."""
    return [PublicAnswer(case, _first(case)) for case in public_cases(folders)]


def _first(case: PublicCase) -> Finding | None:
    with TemporaryDirectory(prefix="clinic-") as scratch:
        things = [_thing(case.folder, name, Path(scratch)) for name in case.things]
        findings = judge(read_things(things, own_lines(case.line)).evidence)
    return next((finding for finding in findings if finding.fault), None)


def _thing(folder: Path, name: str, scratch: Path) -> str:
    if name.startswith(_MODEL):
        described = json.loads((folder / MODELS).read_text(encoding="utf-8"))
        return str(build(described, name.removeprefix(_MODEL), scratch))
    return str(folder / name) if (folder / name).exists() else name
