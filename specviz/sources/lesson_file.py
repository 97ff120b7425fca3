"""`lesson_file(id)`: a lesson that comes along as one HTML file, with the rounds of its recording that it needs."""

from specviz.sources.lessons import bundled_lessons, lesson_script, next_lesson, open_recording
from specviz.view.stage.page import lesson_page


def lesson_file_name(id: str) -> str:
    """`lesson-3.html`."""
    return f"lesson-{bundled_lessons()[id].number}.html"


def lesson_file(id: str, siblings: bool = False) -> str:
    """`id`: as `lesson_id` gives it. `siblings`: the next lesson lies beside it, under its `lesson_file_name`."""
    script = lesson_script(id)
    following = next_lesson(id) if siblings else None
    beside = (lesson_file_name(following), bundled_lessons()[following].title) if following is not None else None
    return lesson_page(open_recording(script.trace).builder, script, beside)
