"""`specviz learn`: lessons on recordings. Without a name they are listed, with what one has done of each."""

import importlib.util
from pathlib import Path

import click

from specviz.cli.flags import flag, text
from specviz.cli.look.tui import has_screen, show_app
from specviz.errors import MissingExtra, SpecvizError
from specviz.sources.lesson_progress import check_marks, first_unlearnt, kept_progress
from specviz.sources.lessons import bundled_lessons, lesson_id


@click.command("learn")
@click.argument("lesson", required=False)
@flag("--teach", "Before a class: answers stay hidden until L is pressed, and only L goes on.")
@text("--marks", "FILE", "Write there, as JSON, what was answered, and what of it right at the first try.")
@flag("--ascii ascii_only", "ASCII characters only.")
def command(lesson: str | None, teach: bool, marks: str | None, ascii_only: bool) -> int:
    """Learn speculative decoding on recordings: LESSON is a number or a name; without one all are listed.

    A lesson asks before it shows. It runs in the terminal, over a recording that comes along: no model is needed.

    \b
      specviz learn
      specviz learn 1
      specviz learn 3 --teach --marks class.json
    """
    path = None if marks is None else Path(marks).expanduser()
    if path is not None:
        check_marks(path)
    if lesson is None:
        if teach or marks is not None:
            raise SpecvizError("--teach and --marks go with a lesson: specviz learn 1 --teach")
        click.echo(_listed())
        return 0
    id = lesson_id(lesson)
    if importlib.util.find_spec("textual") is None:
        raise MissingExtra("tui", "lessons run in the terminal, by textual, which is not installed; it")
    if not has_screen():
        raise SpecvizError("no terminal: a lesson needs one; 'specviz learn' lists them all")
    from specviz_tui.screens.library import LessonStart, Library

    return show_app(lambda: None, Library(ascii=ascii_only, learning=LessonStart(id, teach, path)))


def _listed() -> str:
    """A line a lesson, with a mark for those gone through, and how to begin one."""
    progress, lines = kept_progress(), []
    lessons = bundled_lessons()
    width = max(len(lesson.title) for lesson in lessons.values())
    for id, lesson in lessons.items():
        result = progress.get(id)
        mark = f"✓ {result.right}/{result.asked}" if result is not None else ""
        lines.append(f"{lesson.number}  {lesson.title:<{width}}  {mark:<6}  {lesson.about}".rstrip())
    number = lessons[first_unlearnt(lessons)].number
    return "\n".join([*lines, "", f"specviz learn {number} begins the next one; ✓ right at the first try/asked"])
