"""Looking at a run together: who presents, who follows, who may, and what the address says of it."""

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from app.conftest import Open
from app.served import Served, served
from specviz.errors import SpecvizError
from specviz_app.server.core import Settings
from specviz_app.server.room import MOST_FOLLOWERS, SILENT_S, Follow, Lead, Leave, Room, decode_said
from specviz_app.server.server import current


class Clock:
    """Seconds that go by when somebody says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _told(room: Room) -> tuple[str | None, int]:
    """Who presents, and how many follow."""
    told = json.loads(room.told()[1])
    return (told["lead"]["who"] if told["lead"] else None), told["n"]


def test_the_page_that_moved_last_presents_and_leaves() -> None:
    room = Room()
    assert _told(room) == (None, 0)
    room.hear(Lead(who="a", src="x", index=3))
    room.hear(Lead(who="b", src="x", index=5))
    assert _told(room)[0] == "b"
    room.hear(Lead(who="a", src="x", index=3, again=True))
    assert _told(room)[0] == "b", "who only repeats where it stands takes nothing from who moved"
    room.hear(Leave(who="a"))
    assert _told(room)[0] == "b"
    room.hear(Leave(who="b"))
    assert _told(room)[0] is None


def test_who_is_silent_for_long_has_gone() -> None:
    clock = Clock()
    room = Room(clock)
    room.hear(Lead(who="a", src="x"))
    assert room.hear(Follow(who="b")) == 1
    clock.now = SILENT_S - 1
    room.hear(Lead(who="a", src="x", again=True))
    clock.now = SILENT_S + 1
    assert _told(room) == ("a", 0)
    clock.now = 2 * SILENT_S
    assert _told(room) == (None, 0)


def test_another_number_means_that_something_has_changed() -> None:
    room = Room()
    first = room.told()[0]
    assert room.told()[0] == first
    room.hear(Lead(who="a", src="x", k=2))
    second = room.told()[0]
    assert second != first
    room.hear(Lead(who="a", src="x", k=2, again=True))
    assert room.told()[0] == second, "a repeated word is nothing new"


def test_followers_are_counted_as_far_as_a_class_goes() -> None:
    room = Room()
    assert [room.hear(Follow(who=f"page {k}")) for k in range(MOST_FOLLOWERS + 2)][-1] == MOST_FOLLOWERS
    assert room.hear(Leave(who="page 0")) == MOST_FOLLOWERS - 1
    with pytest.raises(SpecvizError, match="1 to 40 characters"):
        room.hear(Follow(who="x" * 41))


def test_a_file_is_shown_to_others_only_while_it_is_presented(tmp_path: Path) -> None:
    room = Room()
    room.show("mine (upload)", tmp_path)
    assert room.shown("mine (upload)") is None, "nobody presents yet"
    room.hear(Lead(who="a", src="mine (upload)"))
    assert room.shown("mine (upload)") == tmp_path
    assert room.shown("another") is None
    room.hear(Leave(who="a"))
    assert room.shown("mine (upload)") is None


@pytest.mark.parametrize(
    "line", [b"", b"{}", b'{"room":"fly","who":"a"}', b'{"room":"lead","who":"a"}', b'{"room":"follow"}']
)
def test_what_no_page_says_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_said(line)


def _say(server: Served, token: str, **word: Any) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)
    connection.request("POST", "/api/room", json.dumps(word), {"X-Specviz-Token": token})
    answer = connection.getresponse()
    said = json.loads(answer.read())
    connection.close()
    return answer.status, said


def _heard(server: Served, n: int) -> list[dict[str, Any]]:
    """The next `n` words about the room on the stream of a page that shows a recording."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)
    connection.request("GET", f"/api/events?view=room&token={server.token}")
    answer = connection.getresponse()
    assert answer.status == 200
    found: list[dict[str, Any]] = []
    kind = ""
    while len(found) < n:
        line = answer.readline().decode().strip()
        kind = line[7:] if line.startswith("event: ") else kind
        if line.startswith("data: ") and kind == "room":
            found.append(json.loads(line[6:]))
            if len(found) < n:
                assert _say(server, server.token, room="follow", who=f"page {len(found)}")[0] == 200
    connection.close()
    return found


def test_where_the_page_that_presents_stands_is_told_to_all(chain_trace: Path) -> None:
    with served(chain_trace) as server:
        status, said = _say(server, server.token, room="lead", who="a", src="chain", index=2, k=1, node=4)
        assert (status, said["n"]) == (200, 0)
        first, second = _heard(server, 2)
        assert first["lead"] == {**second["lead"], "index": 2, "k": 1, "node": 4, "src": "chain"}
        assert (first["n"], second["n"]) == (0, 1)


def test_who_only_watches_follows_and_does_not_present(chain_trace: Path) -> None:
    with served(chain_trace, 0, "shared") as server:  # its pages have not the owner's token
        assert _say(server, server.token, room="follow", who="a") == (200, {"ok": True, "n": 1})
        status, said = _say(server, server.token, room="lead", who="a", src="chain")
        assert status == 403
        assert "the key" in said["message"]
        assert _say(server, "wrong", room="follow", who="a")[0] == 403
        assert _say(server, server.token, room="fly", who="a")[0] == 400


def _handed(at: Any) -> dict[str, Any]:
    """What the picture was given."""
    found: dict[str, Any] = json.loads(at.get("bidi_component")[0].proto.json)
    return found


def test_the_address_says_that_a_page_presents_and_its_file_is_shown_to_others(
    open_page: Open, chain_trace: Path
) -> None:
    data = _handed(open_page(Settings(replay=chain_trace), "stage", mode="present"))
    room = current().room
    assert (data["mode"], data["roomKey"], data["play"], data["welcome"]) == ("present", current().owner, True, [])
    room.hear(Lead(who="a", src=data["src"]))
    assert room.shown(data["src"]) == chain_trace


def test_a_page_that_follows_does_not_play_on_its_own(open_page: Open, chain_trace: Path) -> None:
    data = _handed(open_page(Settings(replay=chain_trace), "stage", mode="follow"))
    assert (data["mode"], data["play"]) == ("follow", False)
    assert current().room.shown(data["src"]) is None


def test_another_mode_is_none(open_page: Open, chain_trace: Path) -> None:
    assert _handed(open_page(Settings(replay=chain_trace), "stage", mode="<b>"))["mode"] == ""


def test_who_only_watches_gets_no_key_to_present_with(open_page: Open, chain_trace: Path) -> None:
    open_page(Settings(replay=chain_trace), "stage")
    current().share()
    from streamlit.testing.v1 import AppTest

    from app.conftest import PAGE

    again = AppTest.from_string(PAGE.format(page="stage"), default_timeout=60)
    again.query_params["mode"] = "present"
    assert _handed(again.run())["roomKey"] == ""
    assert current().room._shown is None
