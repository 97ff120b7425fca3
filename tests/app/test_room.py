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
from specviz_app.server.core import Settings
from specviz_app.server.room import Leave, PresenterPlace, PresenterSession, decode_said
from specviz_app.server.server import current


def _told(room: PresenterSession) -> str | None:
    """Who presents."""
    reply = json.loads(room.state()[1])
    return reply["lead"]["who"] if reply["lead"] else None


def test_the_page_that_moved_last_presents_and_leaves() -> None:
    room = PresenterSession()
    assert _told(room) is None
    first = room.state()
    room.hear(PresenterPlace(who="a", src="x", index=3))
    assert room.state()[0] != first[0], "another number: something has changed"
    room.hear(PresenterPlace(who="b", src="x", index=5))
    assert _told(room) == "b"
    room.hear(Leave(who="a"))
    assert _told(room) == "b"
    room.hear(Leave(who="b"))
    assert _told(room) is None


def test_a_file_is_shown_to_others_only_while_it_is_presented(tmp_path: Path) -> None:
    room = PresenterSession()
    room.show("mine (upload)", tmp_path)
    assert room.shown("mine (upload)") is None, "nobody presents yet"
    room.hear(PresenterPlace(who="a", src="mine (upload)"))
    assert room.shown("mine (upload)") == tmp_path
    assert room.shown("another") is None
    room.hear(Leave(who="a"))
    assert room.shown("mine (upload)") is None


@pytest.mark.parametrize(
    "line", [b"", b"{}", b'{"room":"fly","who":"a"}', b'{"room":"lead","who":"a"}', b'{"room":"leave"}']
)
def test_what_no_page_says_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_said(line)


def _say(server: Served, token: str, **word: Any) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)
    connection.request("POST", "/api/room", json.dumps(word), {"X-Specviz-Token": token})
    answer = connection.getresponse()
    reply = json.loads(answer.read())
    connection.close()
    return answer.status, reply


def _heard(server: Served, n: int) -> list[dict[str, Any]]:
    """The next `n` words about the room on the stream of a page that shows a recording."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)
    connection.request("GET", f"/api/events?view=room&token={server.token}")
    answer = connection.getresponse()
    assert answer.status == 200
    frames: list[dict[str, Any]] = []
    kind = ""
    while len(frames) < n:
        line = answer.readline().decode().strip()
        kind = line[7:] if line.startswith("event: ") else kind
        if line.startswith("data: ") and kind == "room":
            frames.append(json.loads(line[6:]))
            if len(frames) < n:
                assert _say(server, server.token, room="leave", who="a")[0] == 200
    connection.close()
    return frames


def test_where_the_page_that_presents_stands_is_told_to_all(chain_trace: Path) -> None:
    with served(chain_trace) as server:
        assert _say(server, server.token, room="lead", who="a", src="chain", index=2, k=1, node=4)[0] == 200
        first, second = _heard(server, 2)
        assert first["lead"] | {"index": 2, "k": 1, "node": 4, "src": "chain"} == first["lead"]
        assert second["lead"] is None


def test_who_only_watches_does_not_present(chain_trace: Path) -> None:
    with served(chain_trace, 0, "shared") as server:  # its pages have not the owner's token
        status, reply = _say(server, server.token, room="lead", who="a", src="chain")
        assert status == 403
        assert "the key" in reply["message"]
        assert _say(server, "wrong", room="leave", who="a")[0] == 403
        assert _say(server, server.token, room="fly", who="a")[0] == 400


def _handed(at: Any) -> dict[str, Any]:
    """What the picture was given."""
    data: dict[str, Any] = json.loads(at.get("bidi_component")[0].proto.json)
    return data


def test_the_address_says_that_a_page_presents_and_its_file_is_shown_to_others(
    open_page: Open, chain_trace: Path
) -> None:
    data = _handed(open_page(Settings(replay=chain_trace), "stage", mode="present"))
    room = current().room
    assert (data["mode"], data["roomKey"], data["play"], data["welcome"]) == ("present", current().owner, True, [])
    room.hear(PresenterPlace(who="a", src=data["src"]))
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
