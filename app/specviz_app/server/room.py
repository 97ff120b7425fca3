"""`Room`: several pages look at one run together: where the page that presents stands, and how many follow it.

A page of the owner says where it stands whenever its picture moves (`Lead`), pages that follow say that they do
(`Follow`). Both say it again from time to time; who is silent for long has gone. May be called from any thread.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from specviz.errors import SpecvizError

SILENT_S = 25.0  # after which somebody has gone; pages say that they are here every few seconds
MOST_FOLLOWERS = 256  # that are counted
_LONGEST_NAME = 40


class _Said(msgspec.Struct, tag_field="room", kw_only=True):
    """`who`: the page, by a name that it made up."""

    who: str


class Lead(_Said, tag="lead"):
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
    again: bool = False


class Follow(_Said, tag="follow"):
    """A page follows the one that presents."""


class Leave(_Said, tag="leave"):
    """It does not any more, or presents no longer."""


_decoder: "msgspec.json.Decoder[Lead | Follow | Leave]" = msgspec.json.Decoder(Lead | Follow | Leave)


def decode_said(line: bytes) -> Lead | Follow | Leave:
    """What a page says. Raises msgspec.ValidationError/DecodeError."""
    return _decoder.decode(line)


class Room:
    """At most one page presents: the one that moved last. `clock` in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._lead: Lead | None = None
        self._heard = 0.0  # when the page that presents last said something
        self._followers: dict[str, float] = {}
        self._shown: tuple[str, Path] | None = None
        self._version = 0
        self._told = b""

    def hear(self, said: Lead | Follow | Leave) -> int:
        """What a page says; how many follow. Raises SpecvizError for a name that is too long."""
        if not 0 < len(said.who) <= _LONGEST_NAME:
            raise SpecvizError(f"a page is named by 1 to {_LONGEST_NAME} characters")
        with self._lock:
            now = self._clock()
            if isinstance(said, Lead):
                self._take(said, now)
            elif isinstance(said, Follow):
                if said.who in self._followers or len(self._followers) < MOST_FOLLOWERS:
                    self._followers[said.who] = now
            else:
                self._followers.pop(said.who, None)
                if self._lead is not None and self._lead.who == said.who:
                    self._lead = self._shown = None
            self._forget(now)
            return len(self._followers)

    def _take(self, said: Lead, now: float) -> None:
        """Of two that present the one that moved last is followed: who only repeats where it stands takes nothing."""
        held = self._lead
        if held is None or held.who == said.who or not said.again:
            self._lead, self._heard = msgspec.structs.replace(said, again=False), now

    def _forget(self, now: float) -> None:
        """Under the lock: those who have been silent for long; and whether there is something new to tell."""
        if self._lead is not None and now - self._heard > SILENT_S:
            self._lead = None
        self._followers = {who: heard for who, heard in self._followers.items() if now - heard <= SILENT_S}
        told = msgspec.json.encode({"lead": self._lead, "n": len(self._followers)})
        if told != self._told:
            self._told = told
            self._version += 1

    def told(self) -> tuple[int, bytes]:
        """What every page is told, as JSON, and its number: another one, it has changed."""
        with self._lock:
            self._forget(self._clock())
            return self._version, self._told

    # A file that only the page that presents has ---------------------------------------------------------------------

    def show(self, name: str, path: Path) -> None:
        """The page that presents shows this file to those who follow."""
        with self._lock:
            self._shown = (name, path)

    def shown(self, name: str) -> Path | None:
        """That file, by its name; None when another one is shown, or nobody presents."""
        with self._lock:
            self._forget(self._clock())
            if self._lead is None or self._shown is None or self._shown[0] != name:
                return None
            return self._shown[1]
