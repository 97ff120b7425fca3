"""The stage's own files, and `page`: painter and run in one file that opens from disk, with no server and no network.

The run is packed and written in base64, so that no token in it can end a script or be taken for markup.
"""

import base64
import re
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Literal, get_args

from specviz.text import running
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.document import document

MODULES = (
    "dom",
    "pages",
    "node",
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
    "vector",
    "pose",
)  # each before those that use it
# Behind them, for a page with a server: a run that goes on, what if, the panels below the picture.
LIVE = ("feed", "livebar", "steer", "talker", "follow", "live", "welcome", "whatifrow", "whatif", "panelrow", "room")
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
    return _html(builder, name, range(len(builder.run.rounds)), "openFile();")


def posed_page(builder: FrameBuilder, indexes: Sequence[int], theme: Theme = "light", width: int = 800) -> str:
    """Some rounds as a page that is a picture, `width` pixels wide, for who drives it from outside (`pictures`)."""
    return _html(builder, "", indexes, f'poseFile("{theme}", {width});')


def _html(builder: FrameBuilder, name: str, indexes: Sequence[int], begins: str) -> str:
    title = escape(running(f"{name} · specviz"))
    run = builder.run
    what = f"{run.header.method}, {len(run.rounds)} rounds" if run.header is not None else "no run"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="{escape(running(f"A run of speculative decoding that plays: {what}"))}">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<style>
html, body {{ margin: 0; }}
{style()}</style>
</head>
<body>
<noscript>This page plays a run; it needs JavaScript.</noscript>
<script id="run" type="text/plain">{packed(document(builder, name, indexes))}</script>
<script type="module">
{painter("file")}
{begins}
</script>
</body>
</html>
"""


def packed(pieces: Iterable[bytes]) -> str:
    """Pieces of a text, packed by gzip and written in base64; the same pieces give the same letters."""
    engine = zlib.compressobj(9, wbits=_GZIP)
    return base64.b64encode(b"".join([*map(engine.compress, pieces), engine.flush()])).decode("ascii")
