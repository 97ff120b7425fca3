"""`specviz learn`: lessons on recordings. Without a name they are listed, with what one has done of each."""

import importlib.util
import re
import sys
import textwrap
from pathlib import Path
from shutil import get_terminal_size

import click

from specviz.cli.flags import flag, text
from specviz.cli.look.clinic_game import play
from specviz.cli.look.tui import has_screen, show_app
from specviz.errors import MissingExtra, SpecvizError
from specviz.sources.lesson_progress import check_marks, first_unlearnt, kept_progress
from specviz.sources.lessons import bundled_lessons, lesson_id
from specviz.text import running
from specviz.trace.bundled import all_bundled
from specviz.view.clinic import read_case

CLINIC = "clinic"


@click.command("learn")
@click.argument("lesson", required=False)
@click.argument("case", required=False, type=click.IntRange(min=1))
@flag("--teach", "Before a class: answers stay hidden until L is pressed, and only L goes on.")
@text("--marks", "FILE", "Write there, as JSON, what was answered, and what of it right at the first try.")
@flag("--html", "Write it as one page that teaches in a browser: no server, no network. Without LESSON all of them.")
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    help="With --html: the file, without LESSON the folder [default: lesson-N.html, here].",
)
@flag("--force", "With --html: write over what is there.")
@flag("--ascii ascii_only", "ASCII characters only.")
def command(
    lesson: str | None,
    case: int | None,
    teach: bool,
    marks: str | None,
    html: bool,
    out: Path | None,
    force: bool,
    ascii_only: bool,
) -> int:
    """Learn speculative decoding on recordings: LESSON is a number or a name; without one all are listed.

    A lesson asks before it shows. It runs in the terminal or in a page, over a bundled recording: no model is
    needed. 'clinic' plays a CASE: what somebody posted, evidence on demand; name the fault and the next step.

    \b
      specviz learn
      specviz learn 1
      specviz learn clinic 3
      specviz learn 3 --teach --marks class.json
      specviz learn 3 --html -o lesson.html
    """
    if lesson == CLINIC:
        if teach or html or force or ascii_only or marks is not None or out is not None:
            raise SpecvizError(f"options are of lessons: specviz learn {CLINIC} {case or 1} takes none")
        play(read_case(case or 1), _say, lambda question: click.prompt(question, prompt_suffix=" "))
        return 0
    if case is not None:
        raise SpecvizError(f"only the clinic has cases: specviz learn {CLINIC} {case}")
    if html:
        if teach or marks is not None:
            raise SpecvizError(
                "--teach and --marks are the terminal's: a page is opened with ?teach=1, and gives marks"
            )
        _write(lesson, out, force)
        return 0
    if out is not None or force:
        raise SpecvizError("--out and --force go with --html: specviz learn 1 --html")
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


def _say(words: str) -> None:
    """A paragraph as wide as the terminal; what goes on stands below what it began with."""
    begins = re.match(r" *(?:\S+ {2,})?", words)
    indent = " " * (begins.end() if begins is not None else 0)
    lines = textwrap.wrap(words, get_terminal_size().columns, subsequent_indent=indent)
    click.echo("\n".join(lines))


def _write(lesson: str | None, out: Path | None, force: bool) -> None:
    """One lesson as a file, or all of them into a folder, each leading to the next. Raises SpecvizError."""
    from specviz.cli.look.written import refuse_place, unwritten
    from specviz.sources.lesson_file import lesson_file, lesson_file_name

    ids = list(bundled_lessons()) if lesson is None else [lesson_id(lesson)]
    if lesson is None and out is not None and not out.is_dir():
        raise SpecvizError(
            f"--out {out}: there is no such folder, into which all lessons go; make it, or name a lesson"
        )
    folder = out if lesson is None and out is not None else Path()
    paths = {id: out if lesson is not None and out is not None else folder / lesson_file_name(id) for id in ids}
    for id, path in paths.items():
        refuse_place(path, all_bundled()[bundled_lessons()[id].trace], force)
    for id, path in paths.items():
        try:
            path.write_text(lesson_file(id, siblings=lesson is None), encoding="utf-8")
        except OSError as error:
            raise unwritten(path, error) from None
        click.echo(running(str(path)))


def _listed() -> str:
    """A line a lesson, with a mark for those gone through, and how to begin one."""
    progress, lines = kept_progress(), []
    lessons = bundled_lessons()
    width = max(len(lesson.title) for lesson in lessons.values())
    for id, lesson in lessons.items():
        result = progress.get(id)
        mark = f"✓ {result.right}/{result.asked}" if result is not None else ""
        line = f"{lesson.number}  {lesson.title:<{width}}  {mark:<6}  {lesson.minutes} min  "
        room = max(get_terminal_size().columns - len(line), 20) if sys.stdout.isatty() else len(lesson.about)
        lines.append(line + f"\n{' ' * len(line)}".join(textwrap.wrap(lesson.about, room)))
    number = lessons[first_unlearnt(lessons)].number
    return "\n".join(
        [
            *lines,
            "",
            f"specviz learn {number} begins the next one; ✓ right at the first try/asked",
            f"specviz learn {CLINIC} asks what ails a run, by evidence",
        ]
    )
