"""What can be taken from the stage: by the route, and by the menu above the picture."""

import http.client
import io
import json
import zipfile
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

import pytest
from PIL import Image

from app.served import Served, served
from specviz.errors import SpecvizError
from specviz_app.server.sharing import TYPES, Taken, taken
from specviz_app.server.stages import Stages


def test_every_kind_is_a_file_of_its_kind(chain_trace: Path) -> None:
    stages = Stages()
    run = stages.run(stages.offer(chain_trace, "run"))
    assert ElementTree.fromstring(run.share(Taken("svg", 1))).tag.endswith("svg")
    assert Image.open(io.BytesIO(run.share(Taken("png", 1)))).format == "PNG"
    assert Image.open(io.BytesIO(run.share(Taken("gif", 0)))).format == "GIF"
    for kind in ("csv", "parquet"):
        with zipfile.ZipFile(io.BytesIO(run.share(Taken(kind)))) as archive:
            assert archive.namelist() == [f"{name}.{kind}" for name in ("rounds", "nodes", "tests")]


def test_moment_node_and_theme_are_those_that_were_asked_for(chain_trace: Path) -> None:
    stages = Stages()
    run = stages.run(stages.offer(chain_trace, "run"))
    asked = (Taken("svg", 1), Taken("svg", 1, 0), Taken("svg", 1, theme="dark"), Taken("svg", 2), Taken("svg", 1, 1))
    assert len({run.share(each) for each in asked}) == len(asked)
    with pytest.raises(SpecvizError, match="no round 999"):
        run.share(Taken("svg", 999))
    with pytest.raises(SpecvizError, match="no moment 99"):
        run.share(Taken("svg", 1, 99))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"share": "exe"}, "no file of kind 'exe'"),
        ({"share": "svg", "theme": "pink"}, "no theme 'pink'"),
        ({"share": "svg", "round": "one"}, "'one' is no number"),
        ({"share": "svg", "node": "٣"}, "is no number"),
        ({"share": "svg", "moment": "9" * 40}, "is no number"),
    ],
)
def test_what_cannot_be_asked_is_refused(words: dict[str, str], said: str) -> None:
    with pytest.raises(SpecvizError, match=said):
        taken(words)


def test_the_words_of_an_address() -> None:
    words = {"share": "png", "round": "3", "moment": "2", "node": "-2", "theme": "dark"}
    assert taken(words) == Taken("png", 3, 2, -2, "dark")


def _get(server: Served, token: str, **query: object) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    connection.request("GET", f"/api/stage?{urlencode(query)}", headers={"X-Specviz-Token": token})
    answer = connection.getresponse()
    found = answer.status, answer.headers["content-type"], answer.read()
    connection.close()
    return found


def test_the_route_wants_the_token(chain_trace: Path) -> None:
    with served(chain_trace) as server:
        status, _, body = _get(server, "guessed", run="x", share="svg")
        assert status == 403
        status, _, body = _get(server, server.token, run="x", share="svg")
        assert (status, json.loads(body)["ok"]) == (404, False)


def test_every_kind_has_a_type() -> None:
    assert set(TYPES) == {"svg", "png", "gif", "csv", "parquet"}
