"""Lessons that come along: their texts, the recordings that lessons alone are over, and their scripts."""

from functools import cache

from specviz.errors import SpecvizError, suggestion
from specviz.runlog.fold import fold
from specviz.trace import read_events
from specviz.trace.bundled import all_bundled, assets
from specviz.view.lessons import Lesson, LessonScript, make_script, read_lesson
from specviz.view.play.player import Player


@cache
def bundled_lessons() -> dict[str, Lesson]:
    """The lessons by id, in their order."""
    paths = sorted(assets("lessons").glob("*.toml"))
    return {path.stem: read_lesson(path.stem, path.read_text(encoding="utf-8")) for path in paths}


def lesson_id(name: str) -> str:
    """A lesson by its number or its name. Raises SpecvizError for one that is not there."""
    lessons = bundled_lessons()
    by_name = {key: id for id, lesson in lessons.items() for key in (id, str(lesson.number), id.partition("-")[2])}
    if name in by_name:
        return by_name[name]
    raise SpecvizError(f"no lesson '{name}'{suggestion(name, dict.fromkeys(lessons))}")


@cache
def lesson_script(id: str) -> LessonScript:
    """The script of a lesson that comes along, by its id."""
    return make_script(bundled_lessons()[id], open_recording)


def open_recording(name: str) -> Player:
    """A recording that lessons may be over, at rest. Raises SpecvizError for another."""
    traces = all_bundled()
    if name not in traces:
        raise SpecvizError(f"no recording '{name}' is bundled{suggestion(name, dict.fromkeys(traces))}")
    return Player(fold(read_events(traces[name])), animate=False)


def lesson_minutes() -> str:
    """How long the lessons that come along take, each: `4 to 7 minutes`."""
    each = [lesson.minutes for lesson in bundled_lessons().values()]
    return f"{min(each)} to {max(each)} minutes"


def next_lesson(id: str) -> str | None:
    """The lesson behind this one; None behind the last."""
    ids = list(bundled_lessons())
    at = ids.index(id) + 1
    return ids[at] if at < len(ids) else None
