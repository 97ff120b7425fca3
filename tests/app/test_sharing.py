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
from specviz.view.stage.chromium import chromium, executable
from specviz_app.server.sharing import TYPES, Taken, taken
from specviz_app.server.stages import RunStore

drawn = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)


def test_tables_are_zipped(chain_trace: Path) -> None:
    stages = RunStore()
    run = stages.run(stages.offer(chain_trace, "run"))
    for kind in ("csv", "parquet"):
        with zipfile.ZipFile(io.BytesIO(run.share(Taken(kind)))) as archive:
            assert archive.namelist() == [f"{name}.{kind}" for name in ("rounds", "nodes", "tests")]
    with pytest.raises(SpecvizError, match="no round 999"):
        run.share(Taken("gif", 999))


@drawn
def test_the_film_of_a_round(chain_trace: Path) -> None:
    stages = RunStore()
    run = stages.run(stages.offer(chain_trace, "run"))
    assert Image.open(io.BytesIO(run.share(Taken("gif", 0, "dark")))).format == "GIF"


@drawn
def test_a_moment_is_saved_by_the_page_itself(chain_trace: Path) -> None:
    """As SVG and as PNG, with the node that is chosen; the window is as wide as it will."""
    with served(chain_trace) as server, chromium() as browser:
        page = browser.new_page(viewport={"width": 1300, "height": 800})
        page.goto(f"{server.url}/stage?at=r2")
        page.locator(".stage .node").first.wait_for()
        for kind in ("svg", "png"):
            page.get_by_role("button", name="save or share").click()
            with page.expect_download() as download:
                page.locator(f"[data-share={kind}]").click()
            assert download.value.suggested_filename.endswith(f"-r2.{kind}")
            data = Path(download.value.path()).read_bytes()
            if kind == "svg":
                root = ElementTree.fromstring(data)
                size = [int(root.attrib[name]) * 2 for name in ("width", "height")]
                assert len(root.find(".//{*}image").attrib["href"]) > 1000, "the time line is drawn"
            else:
                assert list(Image.open(io.BytesIO(data)).size) == size
        assert page.locator(".posed").count() == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"share": "exe"}, "no file of kind 'exe'"),
        ({"share": "gif", "theme": "pink"}, "no theme 'pink'"),
        ({"share": "gif", "round": "one"}, "'one' is no number"),
        ({"share": "gif", "round": "٣"}, "is no number"),
        ({"share": "gif", "round": "9" * 40}, "is no number"),
    ],
)
def test_what_cannot_be_asked_is_refused(words: dict[str, str], message: str) -> None:
    with pytest.raises(SpecvizError, match=message):
        taken(words)


def test_the_words_of_an_address() -> None:
    assert taken({"share": "gif", "round": "3", "theme": "dark"}) == Taken("gif", 3, "dark")


def _get(server: Served, token: str, **query: object) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    connection.request("GET", f"/api/stage?{urlencode(query)}", headers={"X-Specviz-Token": token})
    answer = connection.getresponse()
    reply = answer.status, answer.headers["content-type"], answer.read()
    connection.close()
    return reply


def test_the_route_wants_the_token(chain_trace: Path) -> None:
    with served(chain_trace) as server:
        status, _, body = _get(server, "guessed", run="x", share="gif")
        assert status == 403
        status, _, body = _get(server, server.token, run="x", share="gif")
        assert (status, json.loads(body)["ok"]) == (404, False)


def test_every_kind_has_a_type() -> None:
    assert set(TYPES) == {"gif", "csv", "parquet"}
