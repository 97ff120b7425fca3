"""`PresenterSession`: several pages look at one run together: where the page that presents stands.

A page of the owner says where it stands whenever its picture moves (`PresenterPlace`), and that it has gone
(`Leave`). To follow is to listen. May be called from any thread.
"""

import threading
from pathlib import Path
from typing import Any

import msgspec


class _Said(msgspec.Struct, tag_field="room", kw_only=True):
    """`who`: the page, by a name that it made up."""

    who: str


class PresenterPlace(_Said, tag="lead"):
    """Where the page that presents stands: a run by its name in the list, a round and its moment by index, the node
    that is chosen, the panel that is open, and what was changed for a what if. `live`: at the newest round of a run
    that goes on; `plays`: the picture goes on by itself, at `speed` times the usual one.
    """

    src: str
    index: int = 0
    k: int = 0
    node: int | None = None
    panel: str = ""
    live: bool = False
    plays: bool = False
    speed: float = 1.0
    change: dict[str, Any] | None = None
    lesson: str = ""
    lesson_step: int = 0
    lesson_shown: bool = False


class Leave(_Said, tag="leave"):
    """It presents no longer."""


_decoder: "msgspec.json.Decoder[PresenterPlace | Leave]" = msgspec.json.Decoder(PresenterPlace | Leave)


def decode_said(line: bytes) -> PresenterPlace | Leave:
    """What a page says. Raises msgspec.ValidationError/DecodeError."""
    return _decoder.decode(line)


class PresenterSession:
    """At most one page presents: the one that moved last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lead: PresenterPlace | None = None
        self._shown: tuple[str, Path] | None = None
        self._version = 0

    def hear(self, message: PresenterPlace | Leave) -> None:
        """What a page says."""
        with self._lock:
            if isinstance(message, PresenterPlace):
                self._lead = message
            elif self._lead is not None and self._lead.who == message.who:
                self._lead = self._shown = None
            self._version += 1

    def state(self) -> tuple[int, bytes]:
        """What every page is told, as JSON, and its number: another one, it may have changed."""
        with self._lock:
            return self._version, msgspec.json.encode({"lead": self._lead})

    def show(self, name: str, path: Path) -> None:
        """The page that presents shows this file to those who follow."""
        with self._lock:
            self._shown = (name, path)

    def shown(self, name: str) -> Path | None:
        """That file, by its name; None when another one is shown, or nobody presents."""
        with self._lock:
            return self._shown[1] if self._lead is not None and self._shown and self._shown[0] == name else None
