"""The page Compare: what it says of recorded runs, what it does without enough of them, and its picture."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app import barred
from app.conftest import Open
from specviz.runlog.fold import Run, fold
from specviz.trace import read_events
from specviz.view.compare import SideBySide, comparison, score
from specviz.view.stage.chromium import chromium, executable
from specviz_app.server.core import Settings
from support.recordings import RECORDINGS

SAME, PARTED = ("code-tree", "code-ar"), ("code-hsd", "code-draft", "code-ar")


def _runs(names: tuple[str, ...]) -> list[tuple[str, Run]]:
    return [(name, fold(read_events(RECORDINGS[name]))) for name in names]


def _found(names: tuple[str, ...]) -> SideBySide:
    return comparison(_runs(names))


def _html(at: Any) -> str:
    return " ".join(str(block.value) for block in at.get("html"))


@pytest.mark.parametrize("names", [SAME, PARTED])
def test_it_says_what_the_view_says(names: tuple[str, ...], open_page: Open) -> None:
    at = open_page(Settings(), "compare", runs=list(names))
    assert not at.exception
    assert not at.error
    compared = _found(names)
    assert compared.text.words in _html(at).replace("&#x27;", "'")
    assert at.subheader[0].value == f"Token {compared.text.n_same + 1 if compared.text.parted else 1}"
    table = at.dataframe[0].value
    assert list(table[""]) == [row.label for row in compared.numbers.rows]
    assert list(table["B − A"]) == [row.differences[1] for row in compared.numbers.rows]
    assert all(barred.charts(at))


def test_the_position_stands_in_the_address(open_page: Open) -> None:
    at = open_page(Settings(), "compare", runs=list(SAME), token="7")
    assert at.subheader[0].value == "Token 7"
    shown = _found(SAME).text.lanes[0].tokens[6]
    assert f"<code>{shown.shown}</code>" in _html(at)
    for bad in ("0", "x", "99999", "٣"):
        assert open_page(Settings(), "compare", runs=list(SAME), token=bad).subheader[0].value == "Token 1"


def test_one_run_is_too_few_and_says_so(open_page: Open) -> None:
    at = open_page(Settings(), "compare", runs=["code-tree"])
    assert "two to 6" in at.info[0].value
    assert not at.exception


def test_another_prompt_has_no_picture_but_numbers(open_page: Open) -> None:
    at = open_page(Settings(), "compare", runs=["code-tree", "sums-tree"])
    assert not at.exception
    assert "different prompts" in _html(at)
    assert at.dataframe


def test_names_that_are_not_here_are_left_out(open_page: Open) -> None:
    at = open_page(Settings(), "compare", runs=["code-tree", "<b>gone</b>", "code-ar"])
    assert not at.exception
    assert at.multiselect(key="runs").value == ["code-tree", "code-ar"]


def test_the_picture_holds_a_window_of_a_long_text() -> None:
    text = _found(SAME).text
    whole, part = score(text), score(text, 10, 8)
    for lane, other in zip(whole.lanes, part.lanes, strict=True):
        assert lane.tokens[10:18] == other.tokens
        assert all(10 <= block.first < block.stop <= 18 for block in other.blocks)
        covered = [at for block in other.blocks for at in range(block.first, block.stop)]
        assert covered == list(range(10, 10 + len(other.tokens)))


_HOSTILE = "</script><img src=x onerror=window.broken=1>"


@pytest.mark.skipif(executable() is None, reason="no chromium")
def test_a_click_moves_the_cursor_of_all_lanes(tmp_path: Path) -> None:
    """The component alone in a page: one cursor, keys, text as text."""
    data: dict[str, Any] = msgspec.to_builtins(score(_found(PARTED).text))
    data["lanes"][0]["tokens"][2][0] = _HOSTILE
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 900, "height": 700})
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(_alone(tmp_path, data).as_uri())
        page.locator(".token").first.wait_for()
        assert page.locator(".token").count() == sum(len(lane["tokens"]) for lane in data["lanes"])
        assert page.locator(".token").nth(2).text_content() == _HOSTILE
        assert page.locator(".parting").count() == 1
        page.locator('.token[data-at="4"][data-lane="1"]').click()
        assert page.locator(".token.here").count() == len(data["lanes"])
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowUp")
        assert page.evaluate("document.activeElement.dataset.lane + ' ' + document.activeElement.dataset.at") == "0 5"
        page.wait_for_function("window.told.length && window.told.at(-1)[1] === 5")
        assert not page.evaluate("window.broken")
        lefts = page.locator('.token[data-at="5"]').evaluate_all("all => new Set(all.map((e) => e.offsetLeft)).size")
        assert lefts == 1, "one position, one column"
        assert problems == []


def _alone(folder: Path, document: dict[str, Any]) -> Path:
    """A page with the component in it."""
    assets = Path(__file__).parents[2] / "assets" / "specviz_assets" / "compare"
    script = (assets / "compare.js").read_text("utf-8").replace("export default function", "const mount = function")
    data = json.dumps({"score": document, "at": 0}).replace("</", "<\\/")
    set_trigger = "setTriggerValue: (name, value) => window.told.push([name, value])"
    page = folder / "page.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><style>{(assets / 'compare.css').read_text('utf-8')}</style>"
        f"<div id=root><div class=mount></div></div><script type=module>{script};window.told = [];"
        f"mount({{ data: {data}, parentElement: document.getElementById('root'), {set_trigger} }});</script>",
        encoding="utf-8",
    )
    return page
