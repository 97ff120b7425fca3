"""One case as it is played: what is known at first, what was opened, the answer and its marks."""

import random
import tarfile
import tempfile
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from specviz.check import check_pair, read_side
from specviz.check.findings import FAULTS
from specviz.errors import SpecvizError
from specviz.judge import Evidence
from specviz.judge.evidence import PairChecked
from specviz.runlog.fold import Run
from specviz.trace import read_events
from specviz.trace.bundled import assets
from specviz.trace.files import packed_path
from specviz.view.clinic.exhibits import Exhibit, exhibits_of

RUN, PLAIN = "run.sv.jsonl", "plain.sv.jsonl"  # of a case; PLAIN: without drafts, where there is one
HEALTHY = 0  # in place of a fault
N_STEPS = 4  # next steps to choose from
LEAVE_IT = "Leave it as it is: nothing is wrong."


@dataclass(frozen=True, slots=True)
class ClinicMarks:
    """`fault`, `step`: whether they are right; `false_alarm`: a fault was named of a healthy run. `opened`: how many
    exhibits; `decides`: the title of each that decides it, and whether it was opened."""

    fault: bool
    step: bool
    false_alarm: bool
    opened: int
    decides: tuple[tuple[str, bool], ...]

    @property
    def words(self) -> str:
        """For people, in a line."""
        fault = "right" if self.fault else "a false alarm" if self.false_alarm else "another one"
        step = "right" if self.step else "another one"
        decides = ", ".join(f"{title} ({'opened' if seen else 'not opened'})" for title, seen in self.decides)
        return f"fault: {fault} · next step: {step} · opened: {self.opened}" + (
            f" · what decides it: {decides}" if decides else ""
        )


@dataclass
class PlayedCase:
    """`number`: from 1; `fault`: 1 to 16, or `HEALTHY`; `steps`: next steps to choose from, `right_step` the place of
    the right one."""

    number: int
    name: str
    fault: int
    symptom: str
    exhibits: tuple[Exhibit, ...]
    decides: tuple[str, ...]
    steps: tuple[str, ...]
    right_step: int
    opened: set[str] = field(default_factory=set)

    @property
    def lead(self) -> str:
        """What a case begins with."""
        return f"Case {self.number} of {len(case_names())}. Somebody posts: {self.symptom}"

    @property
    def how(self) -> str:
        """How it is played."""
        return f"{len(self.exhibits)} things can be opened; the fewer it takes, the better. Some runs are healthy."

    @property
    def following(self) -> int | None:
        """The number of the next case; None behind the last one."""
        return self.number + 1 if self.number < len(case_names()) else None

    def open(self, key: str) -> Exhibit:
        """Look at an exhibit. Raises SpecvizError for one that the case has not."""
        exhibit = next((exhibit for exhibit in self.exhibits if exhibit.key == key), None)
        if exhibit is None:
            raise SpecvizError(f"no exhibit '{key}'; there are {', '.join(known.key for known in self.exhibits)}")
        self.opened.add(key)
        return exhibit

    def marks(self, fault: int, step: int) -> ClinicMarks:
        """Of an answer: a fault, or `HEALTHY`, and the place of a next step."""
        return ClinicMarks(
            fault == self.fault,
            step == self.right_step,
            fault != HEALTHY and self.fault == HEALTHY,
            len(self.opened),
            tuple((each.title, each.key in self.opened) for each in self.exhibits if each.key in self.decides),
        )

    @property
    def answer(self) -> str:
        """What it was."""
        return (
            "nothing: the run is healthy" if self.fault == HEALTHY else f"fault {self.fault}: {FAULTS[self.fault - 1]}"
        )


@cache
def case_texts() -> dict[int, dict[str, Any]]:
    """By fault: what somebody posts, the next step, what decides."""
    text = (assets("clinic") / "cases.toml").read_text(encoding="utf-8")
    return {int(fault): entry for fault, entry in tomllib.loads(text).items()}


def case_names() -> list[str]:
    """Of those that come along, in an order that tells nothing; a number in it is what one plays."""
    names = sorted(path.name for path in assets("clinic").iterdir() if path.is_dir())
    random.Random(7).shuffle(names)
    return names


def case_folder(number: int) -> Path:
    """Where the case of that number lies, from 1. Raises SpecvizError."""
    names = case_names()
    if not 1 <= number <= len(names):
        raise SpecvizError(f"no case {number}; there are 1 to {len(names)}")
    return assets("clinic") / names[number - 1]


def case_run(folder: Path) -> Path:
    """The recording of a case."""
    return packed_path(folder / RUN)


def read_case(number: int) -> PlayedCase:
    """The case of that number, from 1. Raises SpecvizError."""
    folder = case_folder(number)
    name = folder.name
    planted, kind, _ = name.split("-")
    texts, about = case_texts(), case_texts()[int(planted)]
    ill, rng = kind == "ill", random.Random(number)
    right = about["next"] if ill else LEAVE_IT
    others = [entry["next"] for entry in texts.values() if entry is not about]
    steps = [about["next"], LEAVE_IT, *rng.sample(others, N_STEPS - 2)]  # of a twin as of a fault: none gives it away
    rng.shuffle(steps)
    return PlayedCase(
        number,
        name,
        int(planted) if ill else HEALTHY,
        about["posts"] if ill else about["suspects"],
        exhibits_of(evidence_in(folder)),
        tuple(about["decides"]),
        tuple(steps),
        steps.index(right),
    )


def evidence_in(folder: Path) -> Evidence:
    """All that a case holds: its run, a second one without drafts and the folders of two models where it has them.
    Raises TraceError.
    """
    second = packed_path(folder / PLAIN)
    evidence = Evidence()
    for path in (case_run(folder), second) if second.exists() else (case_run(folder),):
        evidence += Evidence.of_run(Run().extend(read_events(path)))
    return evidence + pair_in(folder / "files.tar.gz")


def pair_in(archive: Path) -> Evidence:
    """What checking the model folders `target` and `draft` of an archive found; nothing where there is none.

    Written file by file: `tarfile`'s own safe way is not in every Python 3.11.
    """
    if not archive.exists():
        return Evidence()
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive) as files:
        sides = [Path(scratch, side) for side in ("target", "draft")]
        for side in sides:
            side.mkdir()
        for member in files:
            of, name = Path(member.name).parent.name, Path(member.name).name
            if member.isfile() and of in ("target", "draft") and (stored := files.extractfile(member)):
                Path(scratch, of, name).write_bytes(stored.read())
        target, draft = (read_side(str(side)) for side in sides)
        return Evidence(pairs=(PairChecked(tuple(check_pair(target, draft))),))
