"""Keys that take something out of the screen: its picture, pages, tables, a link to where one is.

Files go into the working folder, under a name that is free; on a screen in a browser they are downloaded.
"""

import io
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from textual.app import App

from specviz.sources import TraceFile
from specviz.sources.big_trace import BigTrace
from specviz.sources.bundled import bundled_traces, trace_name
from specviz.tables import zipped
from specviz.trace.private import open_like
from specviz.view import CLOSING, ROOT
from specviz.view.stage.page import page
from specviz_tui.common.actions import Actions
from specviz_tui.common.keymap import Key
from specviz_tui.screens.dialogs import ListChoice, PickScreen

LONG = 2_000  # rounds above which a whole run is written by the command line, not while a screen waits
CHOICES = (
    ListChoice("svg", "screen as SVG", "as it stands here"),
    ListChoice("json", "node as JSON", "its records"),
    ListChoice("html", "run as a page", "one file that plays, for a browser"),
    ListChoice("csv", "run as tables", "CSV of rounds, nodes and tests, zipped"),
    ListChoice("link", "link to this place", "the command that opens it, copied (Y)"),
)


class ExportActions(Actions):
    """What is exported."""

    order = 58
    KEYS = (
        Key("export", "e", "export", "e", "export: picture, node, page, tables, link", "Run", "export", 12),
        Key("link", "Y", "link", "Y", "copy the command that opens this place", "Tree"),
    )

    @property
    def app(self) -> App[Any]:
        return self.controller.screen.app

    def action_export(self) -> None:
        """Ask what."""
        hint = "downloads · " if self.app.is_web else f"to {Path.cwd()} · "
        self.controller.push(PickScreen("Export", list(CHOICES), hint, enters="makes it"), self._take_out)

    def _take_out(self, what: str) -> None:
        if self.frame is None:
            return
        makes: dict[str, Callable[[], None]] = {
            "svg": self._screen_picture,
            "json": self._node,
            "html": lambda: self._whole("html", "specviz export --html", self._page),
            "csv": lambda: self._whole("csv.zip", "specviz export --csv tables", self._csv_tables),
            "link": self.action_link,
        }
        makes[what]()

    # Of the moment ---------------------------------------------------------------------------------------------------

    def _stem(self, node: bool = False) -> str:
        assert self.frame is not None
        query = f"-q{self.frame.query}" if self.frame.query else ""
        selected = self.frame.selected
        place = "" if selected is None else {ROOT: "-root", CLOSING: "-closing"}.get(selected, f"-n{selected}")
        return f"specviz-{self.frame.run.run}{query}-r{self.frame.round}{place if node else ''}"

    def _screen_picture(self) -> None:
        assert self.frame is not None
        picture = self.app.export_screenshot(title=f"specviz r{self.frame.round}")
        self._write(f"{self._stem()}.svg", picture.encode())

    def _node(self) -> None:
        record = self.controller.recorded_node()
        if record is not None:
            self._write(f"{self._stem(node=True)}.json", msgspec.json.format(msgspec.json.encode(record), indent=2))

    # Of the run ------------------------------------------------------------------------------------------------------

    def _whole(self, ending: str, command: str, make: Callable[[], bytes]) -> None:
        assert self.frame is not None
        run = self.player.run
        if not run.rounds:
            self.controller.notify("no round yet")
        elif len(run.rounds) > LONG:
            instead = f": {command} {self._source_name() or 'TRACE'} does it" if command else ""
            self.controller.notify(f"{len(run.rounds):,} rounds are too many to be written while you wait{instead}")
        else:
            self._write(f"specviz-{self.frame.run.run}.{ending}", make())

    def _page(self) -> bytes:
        builder = self.player.builder
        return page(builder, trace_name(self._source_name() or self.feed.name)).encode("utf-8")

    def _csv_tables(self) -> bytes:
        return zipped(self.player.run, "csv")

    # Where to --------------------------------------------------------------------------------------------------------

    def _trace(self) -> Path | None:
        source = self.feed.source
        return source.trace.path if isinstance(source, TraceFile | BigTrace) else self.feed.recording

    def _source_name(self) -> str:
        """The file of what is on screen, or the name of one that comes along; nothing where there is none."""
        path = self._trace()
        if path is None:
            return ""
        return next((name for name, bundled in bundled_traces().items() if bundled == path), str(path))

    def action_link(self) -> None:
        """The command that opens this place, to the clipboard of the terminal, and on the screen to be read."""
        name, frame = self._source_name(), self.frame
        if frame is None or not frame.round:
            self.controller.notify("no round yet")
            return
        if not name:
            self.controller.notify("this run is in no file that a link could open; R records it", severity="warning")
            return
        node = f"/n{frame.selected}" if frame.selected is not None and frame.selected >= 0 else ""
        link = shlex.join(["specviz", "tui", name, "--at", f"q{frame.query}/r{frame.round}{node}"])
        self.app.copy_to_clipboard(link)
        self.controller.notify(f"copied: {link}", title="Link", timeout=10)

    def _write(self, name: str, data: bytes) -> None:
        if self.app.is_web:
            self.app.deliver_binary(io.BytesIO(data), save_filename=name)
            return
        path, trace = _free(Path(name)), self._trace()
        try:
            with open_like(path, [trace] if trace is not None and trace.exists() else []) as file:
                file.write(data)
        except OSError as error:
            self.controller.notify(f"cannot write {path}: {error.strerror or error}", severity="error")
            return
        self.controller.notify(f"written: {path}, {len(data) / 1e3:,.0f} kB")


def _free(path: Path) -> Path:
    """A name that nothing has, so that nothing is written over: `NAME`, `NAME-2`, .."""
    stem, dot, ending = path.name.partition(".")
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{stem}-{number}{dot}{ending}")
    return free
