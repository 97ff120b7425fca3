"""`specviz lab papers`: what it prints and writes, and how it refuses."""

import json
from pathlib import Path
from typing import Any

from docs.pages import DOCS

Cli = Any


def test_tables_are_printed_and_are_data(cli: Cli) -> None:
    done = cli("lab", "papers", "hsd", "--quick")
    assert done.code == 0
    assert "11/9 = 1.222" in done.out
    toys = json.loads(cli("lab", "papers", "hsd", "--quick", "--json").out)["hsd"]["toys"]
    assert toys[0]["HSD, blockwise"] == "11/9 = 1.222"


def test_a_page_is_written_between_its_markers(cli: Cli, tmp_path: Path) -> None:
    page = (DOCS / "papers" / "hsd.md").read_text("utf-8")
    (tmp_path / "hsd.md").write_text(page.replace("11/9 = 1.222", "0"), "utf-8")
    assert cli("lab", "papers", "hsd", "--quick", "--page", tmp_path).code == 0
    assert (tmp_path / "hsd.md").read_text("utf-8") == page


def test_refusals(cli: Cli, tmp_path: Path) -> None:
    assert cli("lab", "papers", "hds").line == "no paper 'hds'; did you mean 'hsd'?"
    assert "has no page hsd.md" in cli("lab", "papers", "hsd", "--page", tmp_path).line
