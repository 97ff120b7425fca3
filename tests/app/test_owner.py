"""Who may command the core where other machines reach the server."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from app.conftest import Open
from app.fakes import fake_settings
from app.served import Served, served
from specviz_app.server.server import ONLY_OWNER, current
from specviz_app.ui.parts import plain


def test_where_only_this_machine_reaches_it_every_page_may(open_page: Open) -> None:
    at = open_page(fake_settings(), "live")
    at.button(key="load").click().run()
    assert not at.exception
    assert current().core.loaded


def test_a_page_without_the_key_watches_and_one_with_it_commands(open_page: Open) -> None:
    at = open_page(fake_settings(), "live")
    current().share()
    at.button(key="load").click().run()
    assert plain(ONLY_OWNER) in [error.value for error in at.error]
    assert not current().core.loaded
    at.session_state["owner-key"] = current().owner
    at.button(key="load").click().run()
    assert current().core.loaded


def test_the_key_leaves_the_address_for_the_session(open_page: Open) -> None:
    at = open_page(fake_settings(), key="abc")
    assert not at.exception
    assert "key" not in at.query_params
    assert at.session_state["owner-key"] == "abc"


def _command(server: Served, token: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)
    connection.request("POST", "/api/command", '{"cmd":"pause"}', {"X-Specviz-Token": token})
    answer = connection.getresponse()
    reply = json.loads(answer.read())
    connection.close()
    return answer.status, reply.get("message", "")


@pytest.mark.parametrize("token", ["", "own"])
def test_the_token_of_a_page_that_watches_commands_nothing(token: str) -> None:
    with served(None, 0, "shared") as server:
        assert _command(server, server.token if token else "") == (403, ONLY_OWNER)
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)
        connection.request("GET", f"/api/events?view=stage&token={server.token}")
        assert connection.getresponse().status == 200
        connection.close()
