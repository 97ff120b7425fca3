"""A drafted token goes from its line of a trace to the screen through few functions.

Counted are functions that take or return its line, its text or a record with it. Who asks about it on the way (metrics,
reasons, other panels, the text strip) is no part of it.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
from textual.strip import Strip

import specviz
from specviz.view.stage.chromium import chromium, executable
from specviz_app.server.stages import RunStore
from specviz_tui.widgets.tree import TreeCanvas
from support.live import WIDE, replay_app
from support.traces import make_events, write_trace

TOKEN = "zebra77"
MOST = 20
LINE = 2_000  # bytes: a longer piece of the file is no line of a node
ROOT = Path(__file__).parents[2]
ASIDE = (
    "specviz/metrics", "specviz/cost", "specviz/judge", "specviz/view/why", "specviz/view/panels", "specviz/whatif",
    "specviz/view/stage/words.py", "tui/specviz_tui/panels", "widgets/text_strip.py", "widgets/tree_side.py",
    "widgets/tree_rows.py",
)  # fmt: skip
NOT_OURS = ("/tests/", "/site-packages/")  # the environment may lie in the checkout
STRIP = ("strip", "_strip_tokens")  # make what stands in the text strip


def holds(value: Any, deep: bool = True) -> bool:
    if isinstance(value, bytes):
        return len(value) < LINE and TOKEN.encode() in value
    if isinstance(value, str | Strip):
        return TOKEN in (value if isinstance(value, str) else value.text)
    if not deep or isinstance(value, type):
        return False
    if isinstance(value, msgspec.Struct):
        return any(holds(getattr(value, name), False) for name in value.__struct_fields__)
    if is_dataclass(value):
        return any(holds(getattr(value, field.name, None), False) for field in fields(value))
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return any(holds(part, False) for part in parts)


def aside(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name in STRIP or any(part in frame.f_code.co_filename for part in ASIDE):
            return True
        frame = frame.f_back
    return False


@contextmanager
def the_way() -> Iterator[dict[str, None]]:
    """The functions of ours that the token goes through meanwhile, in order."""
    way: dict[str, None] = {}

    def look(frame: FrameType, event: str, value: object) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(str(ROOT)):
            return
        if any(part in code.co_filename for part in NOT_OURS) or code.co_qualname in way:
            return
        taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        passed = [value] if event == "return" else [frame.f_locals.get(name) for name in taken]
        if any(map(holds, passed)) and not aside(frame):
            way[code.co_qualname] = None

    sys.setprofile(look)
    try:
        yield way
    finally:
        sys.setprofile(None)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A tree of which one node is the token."""
    events = make_events(shape="tree", temperature=0.7, new_tokens=12)
    node = next(event for event in events if event.__struct_config__.tag == "node" and event.r == 2)
    node.text = TOKEN
    return write_trace(tmp_path / "zebra", events)


async def test_to_its_glyph(trace: Path) -> None:
    with the_way() as way:
        app = replay_app(trace, at="r2")
        async with app.run_test(size=WIDE) as pilot:
            await pilot.pause()
            frame = app.screen.query_one(TreeCanvas).frame
    assert frame is not None
    assert TOKEN in {node.shown for node in frame.tree.nodes}
    assert {"Trace.read", "ColumnGrid._node", "TreeCanvas.render_line"} <= set(way), "the whole way was seen"
    assert len(way) <= MOST, "\n".join(way)


def to_the_browser(trace: Path) -> dict[str, None]:
    store = RunStore()
    run = store.run(store.offer(trace, "zebra"))
    with the_way() as way:
        page = run.rounds(1, 1)
    assert TOKEN.encode() in page
    assert {"Trace.read", "_node", "_short"} <= set(way), "the whole way was seen"
    return way


def test_to_the_browser(trace: Path) -> None:
    way = to_the_browser(trace)
    assert len(way) <= MOST, "\n".join(way)


# The same question of the painter's functions, whose arguments are asked about where each begins; reasons and the text
# strip are aside here as well.
HOLDS = """token => { window.way = {}; const aside = / at (Inspector|Scale|Talk)\\.| at (fly|lift) /;
  window.holds = (values) => [...values].some((value) => value === token
  || value && !(value instanceof Node) && typeof value === "object"
     && [...(value instanceof Map ? value.values() : Object.values(value))].includes(token))
  && !aside.test(new Error().stack); }"""


def arguments(text: str) -> str:
    """What a function of JavaScript is given, as an expression within it."""
    if arrow := re.match(r"(?:async )?(\w+|\([^()]*\)) =>", text):
        return "[" + ", ".join(re.findall(r"[\w$]+", arrow[1])) + "]"
    return "arguments"


def watch(browser: Any, source: str, script: Mapping[str, Any], functions: Iterable[Mapping[str, Any]]) -> int:
    """Note in the page's `way` every named function that is given the token; to how many that was put."""

    def at(offset: int) -> dict[str, Any]:
        above = source.count("\n", 0, offset)
        column = offset - (source.rfind("\n", 0, offset) + 1) + (0 if above else script["startColumn"])
        return {"scriptId": script["scriptId"], "lineNumber": script["startLine"] + above, "columnNumber": column}

    taken: list[dict[str, Any]] = []
    for function in functions:
        name, span = function["functionName"], function["ranges"][0]
        text = source[span["startOffset"] : span["endOffset"]]
        where = {"start": at(span["startOffset"]), "end": at(span["endOffset"])}
        places = browser.send("Debugger.getPossibleBreakpoints", where)["locations"] if name else []
        place = next((place for place in places if place not in taken), None)
        if place:
            noted = f"(holds({arguments(text)}) && (way[{json.dumps(name)}] = true), false)"
            browser.send("Debugger.setBreakpoint", {"location": place, "condition": noted})
            taken.append(place)
    return len(taken)


@pytest.mark.skipif(executable() is None, reason="no chromium on this machine")
def test_to_the_pixel(trace: Path, tmp_path: Path) -> None:
    way = to_the_browser(trace)
    saved = specviz.show(trace).save(tmp_path / "stage.html")
    with chromium() as browser:
        stage = browser.new_page()
        devtools = stage.context.new_cdp_session(stage)
        scripts: list[Any] = []
        devtools.on("Debugger.scriptParsed", lambda script: scripts.append(script))
        for order in ("Debugger.enable", "Profiler.enable", "Profiler.startPreciseCoverage"):
            devtools.send(order)
        stage.goto(f"file://{saved}#at=r1")
        stage.locator(".node").first.wait_for()
        ran = devtools.send("Profiler.takePreciseCoverage")["result"]
        painter = max((one for one in ran if one["url"] == f"file://{saved}"), key=lambda one: len(one["functions"]))
        script = next(one for one in scripts if one["scriptId"] == painter["scriptId"])
        source = devtools.send("Debugger.getScriptSource", {"scriptId": script["scriptId"]})["scriptSource"]
        stage.evaluate(HOLDS, TOKEN)
        assert watch(devtools, source, script, painter["functions"]) > 100
        stage.keyboard.press("]")
        stage.locator(".node .word", has_text=TOKEN).wait_for()
        stage.keyboard.press("[")
        stage.locator(".node .word", has_text=TOKEN).wait_for(state="detached")
        stage.keyboard.press(" ")  # it plays until the token is there
        stage.locator(".node .word", has_text=TOKEN).wait_for()
        painted = stage.evaluate("Object.keys(way)")
    assert {"makeNode", "dressNode"} <= set(painted), "the whole way through the painter was seen"
    assert len(way) + len(painted) <= MOST, "\n".join([*way, *painted])
