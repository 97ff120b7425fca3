"""The stage's own files, and `page`: painter and run in one file that opens from disk, with no server and no network.

The run is packed and written in base64, so that no token in it can end a script or be taken for markup.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Literal, get_args

import msgspec

from specviz.text import running
from specviz.view.lessons import LessonScript
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.document import document

MODULES = (
    "dom",
    "pages",
    "node",
    "excerpt",
    "tree",
    "talk",
    "inspect",
    "timeline",
    "keys",
    "flight",
    "share",
    "picture",
    "moves",
    "stage",
)  # each before those that use it
POSED = ("vector", "pose")  # behind them, where pictures are made
# Behind them, for a page with a server: a run that goes on, what if, the panels below the picture.
LIVE = (
    *POSED,
    "lesson",
    "feed",
    "livebar",
    "steer",
    "talker",
    "follow",
    "live",
    "welcome",
    "whatifrow",
    "whatif",
    "panelrow",
    "room",
)
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = get_args(Theme)
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?:\{[^}]*\};\n|(?=const|class|function|async))", re.MULTILINE)
_GZIP = 31  # zlib's word for gzip, with no time of day in it
# Nothing is fetched, nothing is sent: what a token might say, it cannot do.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def _read(name: str) -> str:
    return (resources.files("specviz_assets") / "stage" / name).read_text(encoding="utf-8")


@cache
def painter(*last: str) -> str:
    """The painter as one module: its files one after another, what they import of one another left out.

    `last`: files that come behind the stage itself, and use it.
    """
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", _read(f"{name}.js"))) for name in (*MODULES, *last))


@cache
def style(*more: str) -> str:
    """The style sheet of the stage, and those of what else is shown with it."""
    return "\n".join(_read(f"{name}.css") for name in ("stage", *more))


def page(builder: FrameBuilder, name: str) -> str:
    """The whole run as one HTML file. `name`: what the trace is called."""
    run = packed(document(builder, name))
    return _html(_title(builder, name), {"run": run}, style(), painter("file"), "openFile();")


def posed_page(builder: FrameBuilder, indexes: Sequence[int], theme: Theme = "light", width: int = 800) -> str:
    """Some rounds as a page that is a picture, `width` pixels wide, for who drives it from outside (`pictures`)."""
    run = packed(document(builder, "", indexes))
    begins = f'poseFile("{theme}", {width});'
    return _html(_title(builder, ""), {"run": run}, style(), painter(*POSED, "file", "posefile"), begins)


def lesson_page(builder: FrameBuilder, script: LessonScript, following: tuple[str, str] | None = None) -> str:
    """A lesson over its run as one HTML file that teaches. `following`: where the next one lies, and its title.

    Of the run as many rounds lie in it as the lesson goes to, and one more.
    """
    n = min(len(builder.run.rounds), 2 + max(_rounds_of(script)))
    parts = {"run": packed(document(builder, script.trace, range(n))), "lesson": packed([msgspec.json.encode(script)])}
    begins = f"openLesson({', '.join(json.dumps(word) for word in following or ())});"
    title = (f"{script.title} · specviz", f"A lesson about speculative decoding: {script.about}")
    return _html(title, parts, style("lesson"), painter("lesson", "file", "lessonfile"), begins)


def _rounds_of(script: LessonScript) -> Iterator[int]:
    """Every round that a lesson goes to, by its index."""
    yield 0
    for step in script.steps:
        yield step.until.round
        asked = step.question
        for moment in (step.at, *((asked.before, asked.after) if asked is not None else ())):
            if moment is not None:
                yield moment.index


def _title(builder: FrameBuilder, name: str) -> tuple[str, str]:
    """Of a run's page, and what it is in a sentence."""
    run = builder.run
    what = f"{run.header.method}, {len(run.rounds)} rounds" if run.header is not None else "no run"
    return f"{name} · specviz", f"A run of speculative decoding that plays: {what}"


def _html(title: tuple[str, str], parts: Mapping[str, str], styles: str, script: str, begins: str) -> str:
    """`parts`: what lies in the page, packed, by its id."""
    name, about = (escape(running(text)) for text in title)
    lying = "\n".join(f'<script id="{id}" type="text/plain">{part}</script>' for id, part in parts.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="{about}">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{name}</title>
<style>
html, body {{ margin: 0; }}
{styles}</style>
</head>
<body>
<noscript>This page plays a run; it needs JavaScript.</noscript>
{lying}
<script type="module">
{script}
{begins}
</script>
</body>
</html>
"""


def packed(pieces: Iterable[bytes]) -> str:
    """Pieces of a text, packed by gzip and written in base64; the same pieces give the same letters."""
    engine = zlib.compressobj(9, wbits=_GZIP)
    return base64.b64encode(b"".join([*map(engine.compress, pieces), engine.flush()])).decode("ascii")
