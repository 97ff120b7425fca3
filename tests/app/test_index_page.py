"""The page that Streamlit answers with says where its server is, and everything else goes through as it is."""

import http.client
import re
from pathlib import Path
from urllib.parse import urlsplit

from app.served import Served, served
from specviz_app.server.index_page import PARTS

_SAID = "window.__streamlit = { BACKEND_BASE_URL: location.origin }"


def _got(server: Served, path: str, accept: str) -> tuple[str, str, int]:
    """The kind of the answer, its text, and the length that it says."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)
    connection.request("GET", path, headers={"Accept": accept, "Accept-Encoding": "gzip, br"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    kind, length = answer.headers["Content-Type"], int(answer.headers.get("Content-Length", len(body)))
    assert length == len(body)
    return kind, body.decode("utf-8", "replace"), answer.status


def test_pages_know_their_server_and_nothing_else_is_changed(chain_trace: Path) -> None:
    with served(chain_trace) as server:
        for path in ("/", "/stage", "/overview?at=r3"):
            kind, text, status = _got(server, path, "text/html,*/*")
            assert (kind.partition(";")[0], status) == ("text/html", 200)
            assert text.count(_SAID) == 1
            assert text.index(_SAID) < text.index('type="module"'), "before Streamlit's own script runs"
            ahead = re.findall(r'import\("([^"]+)"\)', text)  # what draws charts, tables, numbers and the like
            assert [path.rpartition("/")[2].partition(".")[0] for path in ahead] == list(PARTS)
            assert all(_got(server, path, "*/*")[2] == 200 for path in ahead)
        assert _got(server, "/_stcore/health", "text/html,*/*")[1] == "ok"
        assert _SAID not in _got(server, "/stage", "*/*")[1]
