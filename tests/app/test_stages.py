"""The route of the stage: who may ask, what comes, and what is said of a round that is not there; and its page."""

import http.client
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

import specviz
from app.conftest import Open
from app.served import Served, served
from specviz.errors import SpecvizError
from specviz.events import encode
from specviz.runlog.fold import fold
from specviz.trace import Recorder, read_events
from specviz.view import Player
from specviz.view.stage.document import head, one_round, wire
from specviz_app.server import stages
from specviz_app.server.core import Settings
from specviz_app.server.server import current
from specviz_app.server.stages import MOST_ROUNDS, RunStore
from support.traces import make_events, write_trace


def _player(path: Path) -> Player:
    player = Player(animate=False)
    player.extend(read_events(path))
    return player


def _plain(document: Any) -> Any:
    return json.loads(msgspec.json.encode(document))


def test_head_and_rounds_are_those_of_the_document(chain_trace: Path) -> None:
    opened, builder = RunStore(), _player(chain_trace).builder
    run = opened.run(opened.offer(chain_trace, "chain"))
    assert json.loads(run.head()) == _plain(head(builder, "chain"))
    last = len(builder.run.rounds) - 1
    assert json.loads(run.rounds(last - 1, 5)) == [json.loads(wire(one_round(builder, k))) for k in (last - 1, last)]


def test_the_saved_page_is_that_of_the_command(chain_trace: Path) -> None:
    stages = RunStore()
    assert stages.run(stages.offer(chain_trace, "chain")).page() == specviz.show(chain_trace).html


def test_one_request_gets_so_many_rounds_at_most(chain_trace: Path) -> None:
    stages = RunStore()
    run = stages.run(stages.offer(chain_trace, "chain"))
    assert len(json.loads(run.rounds(0, 1000))) == min(MOST_ROUNDS, len(_player(chain_trace).run.rounds))
    assert len(json.loads(run.rounds(0, 0))) == 1


def test_a_file_that_grew_is_another_run(tmp_path: Path) -> None:
    stages, path = RunStore(), write_trace(tmp_path / "a", make_events(new_tokens=8))
    first = stages.offer(path, "a")
    assert stages.offer(path, "a") == first
    path.unlink()
    second = stages.offer(write_trace(tmp_path / "a", make_events(new_tokens=16)), "a")
    assert second != first


def test_a_file_that_is_still_recorded_is_one_run_that_grows(tmp_path: Path) -> None:
    """Also over its end; one that is recorded in its place afterwards is another."""
    stages, path, events = RunStore(), tmp_path / "grows.sv.jsonl", make_events(new_tokens=40)
    recorder = Recorder(path)
    half = len(events) // 2
    for event in events[:half]:
        recorder.write(event)
    key = stages.offer(path, "grows")
    run, before = stages.run(key), len(fold(read_events(path)).rounds)  # what has come to the file
    assert len(json.loads(run.head())["points"]) == before
    for event in events[half:]:
        recorder.write(event)
    assert stages.offer(path, "grows") == key
    whole = fold(events).rounds
    assert before < len(whole)
    assert len(json.loads(run.rounds(len(whole) - 1, 1))) == 1
    grown = json.loads(run.head())
    assert len(grown["points"]) == len(whole)
    assert not grown.get("more"), "nothing was read on"
    recorder.close()
    assert stages.offer(path, "grows") == key
    assert stages.run(key) is run
    assert len(json.loads(run.head())["points"]) == len(whole)
    recorder.path.unlink()
    write_trace(path, make_events(new_tokens=48))
    assert stages.offer(path, "grows") != key


def test_what_no_page_offered_is_not_read(chain_trace: Path) -> None:
    with pytest.raises(SpecvizError, match="reload"):
        RunStore().run(str(chain_trace))


def _ask(server: Served, query: str, token: str | None = None) -> tuple[int, Any]:
    return _sent(server, "GET", f"/api/stage?{query}", None, token)


def _wonder(server: Served, body: str, token: str | None = None) -> tuple[int, Any]:
    return _sent(server, "POST", "/api/whatif", body, token)


def _sent(server: Served, how: str, where: str, body: str | None, token: str | None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)
    headers = {"X-Specviz-Token": server.token if token is None else token}
    connection.request(how, where, body=body, headers=headers)
    answer = connection.getresponse()
    reply = json.loads(answer.read())
    connection.close()
    return answer.status, reply


def test_the_route_wants_the_token_and_says_what_is_wrong(chain_trace: Path) -> None:
    with served(chain_trace) as server:
        for token in ("", "wrong"):
            status, reply = _ask(server, "run=x", token)
            assert (status, reply["ok"]) == (403, False)
        for query, words in (("run=x", "reload"), ("", "reload"), ("run=x&round=1", "reload")):
            status, reply = _ask(server, query)
            assert (status, reply["ok"]) == (404, False)
            assert words in reply["message"]


def test_what_if_wants_the_token_and_says_what_is_wrong(chain_trace: Path) -> None:
    with served(chain_trace) as server:
        assert _wonder(server, "{}", "wrong")[0] == 403
        for body, status, words in (
            ("{}", 400, "run"),
            ("nonsense", 400, "bad question"),
            ('{"run": "x", "round": 0}', 409, "reload"),
            ('{"run": "live1", "round": 0}', 409, "runs that are over"),
            ('{"run": "x", "round": 0, "pad": "' + "x" * (64 << 10) + '"}', 413, "short"),
        ):
            got, reply = _wonder(server, body)
            assert got == status, body[:40]
            assert words in reply["message"]


def test_a_round_is_decided_again_and_refusals_are_one_line(chain_trace: Path, open_page: Open) -> None:
    from specviz_app.server.answers import post_whatif

    open_page(Settings(replay=chain_trace), "stage")
    key = current().stages.offer(chain_trace, "chain")

    def asked(**more: Any) -> tuple[int, Any]:
        answer = post_whatif(current(), json.dumps({"run": key, "round": 1, **more}).encode())
        return answer.status_code, json.loads(bytes(answer.body))

    status, plain = asked()
    assert (status, plain.get("round")) == (200, None)
    status, again = asked(verifier="walk", knobs={"gamma": 1})
    assert status == 200
    assert again["verifier"] == "walk"
    assert again["round"]["moments"][0]["sentence"].startswith("What if: under walk, with gamma 1")
    for more, words in (
        ({"verifier": "nope"}, "nope"),
        ({"uniforms": {"0": 2.0}}, "lies in"),
        ({"uniforms": {"x": 0.5}}, "'x'"),
        ({"knobs": {"temperature": 1.0}}, "models"),
    ):
        status, reply = asked(**more)
        assert (status, reply["ok"]) == (409, False)
        assert words in reply["message"]


@pytest.mark.parametrize("view", ["losers", "none", "ranks"])
def test_rounds_are_drawn_as_a_page_asks(view: str, chain_trace: Path) -> None:
    stages = RunStore()
    run = stages.run(stages.offer(chain_trace, "chain"))
    assert json.loads(run.rounds(1, 1, view))[0]["index"] == 1
    with pytest.raises(SpecvizError, match="no view 'x'"):
        run.rounds(1, 1, "x")


@pytest.mark.parametrize("word", ["-1", "x", "1e3", "9999999999", "9999"])
def test_a_round_that_is_not_there_is_one_line(word: str, chain_trace: Path, open_page: Open) -> None:
    from starlette.datastructures import QueryParams

    from specviz_app.server.answers import played

    open_page(Settings(replay=chain_trace), "stage")
    key = current().stages.offer(chain_trace, "chain")
    answer = played(current(), QueryParams({"run": key, "round": word}))
    assert answer.status_code == 404
    assert not json.loads(bytes(answer.body))["ok"]


def test_the_page_mounts_the_picture_with_a_key_and_no_round(chain_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=chain_trace), "stage")
    assert not at.exception
    assert not at.error
    assert not at.info
    data = str(at.get("bidi_component")[0].proto)
    match = re.search(r"\b[0-9a-f]{24}\b", data)
    assert match, data
    assert json.loads(current().stages.run(match[0]).head())["name"] == "chain"
    handed = data[data.index(match[0]) - 500 :]
    assert not re.search(r"moments|accepted|tokenwise", handed), "the run itself is handed over"


def test_a_place_that_is_not_there_is_said(chain_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=chain_trace), "stage", at="r999")
    assert "no round 999" in at.warning[0].value


def test_without_a_recording_it_follows_the_core_and_takes_what_is_said(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz_app.ui.library.bundled_traces", dict)
    at = open_page(Settings(), "stage")
    assert not at.exception
    data = str(at.get("bidi_component")[0].proto)
    assert "view=stage" in data
    assert "goes on with" in data
    assert at.selectbox(key="target").value == ""


def test_a_long_recording_is_read_a_part_at_a_time(chain_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "AT_A_TIME", 60)
    whole = _plain(head(_player(chain_trace).builder, "chain"))
    store = RunStore()
    run = store.run(store.offer(chain_trace, "chain"))
    begun = json.loads(run.head())
    assert begun["more"] is True
    assert 0 < len(begun["points"]) < len(whole["points"])
    points, more = begun["points"], True
    while more:  # as a page goes on: from the last round that it has, which may have been read in part
        page = json.loads(run.further(len(points) - 1))
        points, more = [*points[:-1], *page["points"]], page.get("more", False)
    assert points == whole["points"]
    assert page["queries"] == whole["queries"]
    assert json.loads(run.head()) == whole


def test_a_round_that_was_not_read_yet_is_read_when_it_is_asked_for(
    chain_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "AT_A_TIME", 60)
    builder = _player(chain_trace).builder
    store = RunStore()
    run = store.run(store.offer(chain_trace, "chain"))
    last = len(builder.run.rounds) - 1
    assert json.loads(run.rounds(last, 1)) == [json.loads(wire(one_round(builder, last)))]
    with pytest.raises(SpecvizError, match="no round"):
        run.rounds(last + 1, 1)


def test_of_a_damaged_recording_what_stands_before_the_damage_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "AT_A_TIME", 60)
    path = tmp_path / "a.sv.jsonl"
    lines = [encode(event) for event in make_events(temperature=0.8, new_tokens=40)]
    path.write_bytes(b"\n".join([*lines[:-20], b"nonsense", *lines[-20:], b""]))
    store = RunStore()
    run = store.run(store.offer(path, "a"))
    first = json.loads(run.head())["points"]
    with pytest.raises(SpecvizError, match=f"line {len(lines) - 19}"):
        run.page()  # which wants all of it
    assert json.loads(run.head())["points"] == first
    assert json.loads(run.rounds(0, 1))[0]["index"] == 0
