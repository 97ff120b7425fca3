"""What somebody has learnt: the lessons gone through, kept beside the program's own state; and marks for a teacher."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import platformdirs

from specviz.errors import SpecvizError
from specviz.view.lessons import LessonScript


class LessonMark(msgspec.Struct, frozen=True):
    """One question of a lesson: its step, from 1, every answer that was given in order, and whether the first one was
    right. `passed`: the answer was asked for before it was found."""

    step: int
    question: str
    answers: tuple[str, ...] = ()
    first_right: bool = False
    passed: bool = False


class LessonResult(msgspec.Struct, frozen=True):
    """A lesson gone through: questions answered right at the first try, of how many."""

    right: int
    asked: int


Progress = dict[str, LessonResult]  # by the lesson's id


def _file() -> Path:
    return Path(platformdirs.user_state_dir("specviz")) / "lessons.json"


def kept_progress() -> Progress:
    """Every lesson that was gone through; none where the file cannot be read."""
    try:
        return msgspec.json.decode(_file().read_bytes(), type=Progress)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def keep_progress(id: str, result: LessonResult) -> None:
    """The best result of a lesson stays. Raises SpecvizError where it cannot be written."""
    progress = kept_progress()
    before = progress.get(id)
    if before is not None and before.right >= result.right and before.asked == result.asked:
        return
    path = _file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(msgspec.json.format(msgspec.json.encode({**progress, id: result})))
    except OSError as error:
        raise SpecvizError(f"progress is not kept: cannot write {path}: {error.strerror or error}") from error


def first_unlearnt(ids: Iterable[str]) -> str:
    """The first of these lessons that was not gone through; the first one when all were."""
    progress, ids = kept_progress(), list(ids)
    return next((id for id in ids if id not in progress), ids[0])


def write_marks(path: Path, script: LessonScript, marks: tuple[LessonMark, ...]) -> None:
    """Put the marks of a lesson into a file, beside those of other lessons. Raises SpecvizError."""
    lessons = _marks_in(path)
    lessons[script.id] = msgspec.to_builtins({"title": script.title, "asked": script.n_questions, "marks": marks})
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode({"lessons": lessons})) + b"\n")
    except OSError as error:
        raise SpecvizError(f"cannot write '{path}': {error.strerror or error}; name another file") from error


def _marks_in(path: Path) -> dict[str, object]:
    """What a file of marks holds. Raises SpecvizError for a file that is something else, which is not written over."""
    if not path.exists():
        return {}
    try:
        lessons = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, object]])["lessons"]
    except OSError as error:
        raise SpecvizError(f"cannot read '{path}': {error.strerror or error}; name another file") from error
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        raise SpecvizError(f"'{path}' is there already and holds no marks of lessons; name another file") from None
    return lessons


def check_marks(path: Path) -> None:
    """Raises SpecvizError where marks cannot be written, before anybody has answered."""
    if path.is_dir():
        raise SpecvizError(f"--marks {path}: it is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise SpecvizError(f"--marks {path}: there is no folder {path.absolute().parent}; make it or name another")
    _marks_in(path)
    try:
        path.open("ab").close()
        if not path.stat().st_size:
            path.unlink()
    except OSError as error:
        raise SpecvizError(f"cannot write '{path}': {error.strerror or error}; name another file") from error
