"""The saved page in a browser: from disk, with the network off, and nothing but the keyboard."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
import specviz
from specviz.events import Closing, Commit, Event, Node, Prefill, RoundEnd
from specviz.trace import read_events
from specviz.view import Player
from specviz.view.stage.chromium import chromium, executable
from specviz.view.stage.document import one_round
from specviz.view.words.palette import STYLES
from support.rank_trace import rank_events
from support.recordings import RECORDINGS
from support.traces import make_events, write_trace

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)

_WAIT_MS = 30_000
_MARKS = "all => Object.fromEntries(all.map(node => [node.dataset.node, node.dataset.mark]))"
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as chrome:
        yield chrome


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of sampled trees, saved."""
    return specviz.show(RECORDINGS["code-tree"]).save(tmp_path_factory.mktemp("tree") / "tree.html")


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """A page from disk without a network, which must not have said anything or asked for anything by the end."""
    errors: list[str] = []
    contexts: list[Any] = []

    def at(path: Path, place: str = "", width: int = 1440, height: int = 900, **media: str) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **media)
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.set_default_timeout(_WAIT_MS)
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda asked: errors.append(asked.url) if not asked.url.startswith("file:") else None)
        page.goto(f"file://{path}" + (f"#at={place}" if place else ""))
        page.locator(".node").first.wait_for()
        return page

    yield at
    for context in contexts:
        context.close()
    assert errors == []


def _phase(page: Any) -> int:
    return int(page.locator(".stage").get_attribute("data-phase"))


def _place(page: Any) -> str:
    return str(page.locator(".time .place").inner_text())


def _said(page: Any) -> str:
    return str(page.locator(".said").inner_text())


def _changed(page: Any, before: str) -> None:
    """Until the place is another one."""
    page.wait_for_function("before => document.querySelector('.time .place').innerText !== before", arg=before)


def _press(page: Any, key: str) -> None:
    before = _place(page)
    page.keyboard.press(key)
    _changed(page, before)


def test_it_begins_to_play_and_space_holds_it(tree: Path, opened: Open) -> None:
    page = opened(tree)
    _changed(page, _place(page))
    page.keyboard.press(" ")
    held = _place(page)
    page.get_by_role("button", name="play (space)").wait_for()
    page.wait_for_timeout(2500)
    assert _place(page) == held


def test_every_phase_is_painted_as_the_document_says(tree: Path, opened: Open) -> None:
    player = Player(animate=False)
    player.extend(read_events(RECORDINGS["code-tree"]))
    document = one_round(player.builder, 1)
    page = opened(tree, "r1")
    known: dict[str, str] = {}
    for moment in document.moments:
        _press(page, "ArrowRight")
        page.wait_for_function("said => document.querySelector('.said').textContent === said", arg=moment.sentence)
        assert _phase(page) == moment.phase
        known |= {str(document.looks[at].id): document.looks[at].mark for at in moment.nodes}
        assert page.locator(".round").last.locator(".node").evaluate_all(_MARKS) == known
    assert {moment.phase for moment in document.moments} == {1, 2, 3, 4, 5, 6}


def test_the_keyboard_alone_reaches_a_rejection_and_its_sentence(tree: Path, opened: Open) -> None:
    page = opened(tree, "r1")
    _press(page, "}")
    assert _phase(page) == 4
    assert "rejected" in _said(page)
    assert page.locator(".why .headline").inner_text().startswith("REJECTED")
    assert page.locator(".stage .test .needle").count() == 1
    first = _place(page)
    _press(page, "}")
    _press(page, "{")
    assert _place(page) == first
    _press(page, "End")
    _press(page, "Home")
    assert _place(page).startswith("r1 ")


def test_arrows_walk_the_tree_when_it_has_the_focus(tree: Path, opened: Open) -> None:
    page = opened(tree, "r2")
    page.locator(".node[data-node='-1']").focus()
    held = _place(page)
    page.keyboard.press("ArrowRight")
    child = page.evaluate("document.activeElement.dataset.node")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.node") not in (child, "-1")
    assert _place(page) == held
    chosen = page.evaluate("document.activeElement.dataset.node")
    assert page.locator(".why .title").inner_text().split()[-2].endswith(f"n{chosen}")
    page.wait_for_function("place => location.hash === place", arg=f"#at=r2/n{chosen}")
    page.keyboard.press("Escape")
    assert page.get_by_role("button", name="follow the action").count() == 0


def test_a_node_of_the_address_is_chosen(tree: Path, opened: Open) -> None:
    page = opened(tree, "r2/closing")
    assert page.locator(".node.chosen").get_attribute("data-node") == "-2"


def test_who_wants_no_motion_sees_ended_rounds(tree: Path, opened: Open) -> None:
    page = opened(tree, reduced_motion="reduce")
    page.wait_for_function("() => document.querySelector('.stage').dataset.phase === '6'")
    assert page.evaluate("document.getAnimations().length") == 0
    _changed(page, _place(page))
    assert _phase(page) == 6


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_marks_have_the_colours_of_the_ground(ground: str, tree: Path, opened: Open) -> None:
    page = opened(tree, "r2", color_scheme=ground)
    assert page.locator(".stage").get_attribute("data-theme") == ground
    style = STYLES["rejected"]
    wanted = style.dark if ground == "dark" else style.light
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.stage')).getPropertyValue('--m-rejected')") == wanted
    )
    page.get_by_role("button", name="light or dark").click()
    assert page.locator(".stage").get_attribute("data-theme") != ground


def test_tokens_and_the_time_line_lead_to_their_rounds(tree: Path, opened: Open) -> None:
    page = opened(tree, "r5")
    page.locator(".turn[data-index='1'] .token").first.click()
    page.wait_for_function("() => document.querySelector('.time .place').innerText.startsWith('r2 ')")
    box = page.locator(".time .track").bounding_box()
    page.mouse.click(box["x"] + box["width"] - 3, box["y"] + 30)
    page.wait_for_function("() => document.querySelector('.time .place').innerText.startsWith('r19 ')")


def test_it_fits_a_phone(tree: Path, opened: Open) -> None:
    page = opened(tree, "r2", width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for name in (".talk", ".tree", ".why", ".time"):
        assert page.locator(f".stage {name}").first.bounding_box()["width"] > 300


_HARM = "</script><img src=x onerror='window.broken=1'>"


def test_tokens_that_look_like_markup_are_text(tmp_path: Path, opened: Open) -> None:
    events = [_spelled(event) for event in make_events(temperature=0.8, new_tokens=12)]
    saved = specviz.show(write_trace(tmp_path / "harm", events)).save(tmp_path / "harm.html")
    page = opened(saved, "r2")
    assert "<img" in page.locator(".talk .text").inner_text()
    assert page.locator("img").count() == 0
    assert page.evaluate("window.broken") is None


def _spelled(event: Event) -> Event:
    if isinstance(event, Node | Closing | Prefill):
        return msgspec.structs.replace(event, text=_HARM)
    if isinstance(event, Commit):
        return msgspec.structs.replace(event, texts=[_HARM] * len(event.texts))
    return event


def test_it_plays_in_the_frame_of_a_notebook(browser: Any) -> None:
    """A frame without an origin: no storage, no address of its own."""
    errors: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content(f"<!doctype html><body>{specviz.show(RECORDINGS['code-draft'])._repr_html_()}</body>")
    frame = page.frame_locator("iframe")
    frame.locator(".node").first.wait_for(timeout=_WAIT_MS)
    frame.locator(".stage[data-phase='2']").wait_for(timeout=_WAIT_MS)
    frame.get_by_role("button", name="next rejection").click()
    frame.locator(".why .headline", has_text="REJECTED").wait_for(timeout=_WAIT_MS)
    page.wait_for_timeout(600)  # the place would go into the address now
    assert errors == []
    page.close()


def test_another_place_in_the_address_is_gone_to(tree: Path, opened: Open) -> None:
    page = opened(tree, "r2")
    page.evaluate("() => { location.hash = '#at=r7/root' }")
    page.wait_for_function("() => document.querySelector('.time .place').innerText.startsWith('r7 ')")
    assert page.locator(".node.chosen").get_attribute("data-node") == "-1"
    page.keyboard.press("End")
    page.keyboard.press("}")
    page.locator(".said", has_text="No rejection comes after").wait_for()


_KEPT = """() => {
  const box = document.querySelector(".canvas").getBoundingClientRect();
  const kept = [...document.querySelectorAll(".round:last-of-type .node.won")];
  const out = kept.filter((node) => {
    const card = node.querySelector(".card").getBoundingClientRect();
    return card.top < box.top || card.bottom > box.bottom || card.left < box.left || card.right > box.right;
  });
  const letter = (one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a;
  return { n: kept.length, out: out.length, least: Math.min(...kept.map((node) => letter(node.querySelector(".word")))),
    rest: document.querySelector(".rest").textContent };
}"""


def _to_round(page: Any, r: int) -> None:
    page.evaluate(f"location.hash = '#at=r{r}'")
    page.wait_for_function(f"document.querySelector('.time .place').innerText.startsWith('r{r} ')")


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1440, 900), (390, 844)])
def test_in_the_end_all_of_the_kept_path_of_a_large_tree_is_read(
    tmp_path: Path, opened: Open, width: int, height: int
) -> None:
    events = rank_events(temperature=0.8, budget=64, widths=(6, 8, 10, 0), beam=20)
    page = opened(
        specviz.show(write_trace(tmp_path / "large", events)).save(tmp_path / "large.html"),
        "r1",
        width,
        height,
        reduced_motion="reduce",
    )
    n_gathered = 0
    for r in range(1, 1 + sum(isinstance(event, RoundEnd) for event in events)):
        _to_round(page, r)
        seen = page.evaluate(_KEPT)
        assert seen["n"] > 1, "the root, and what closes the round"
        assert seen["out"] == 0, r
        assert seen["least"] > 10.95, r
        n_gathered += bool(seen["rest"])
    assert n_gathered


def test_what_was_not_kept_is_a_count_until_it_is_looked_at(tmp_path: Path, opened: Open) -> None:
    events = rank_events(temperature=0.8, budget=64, widths=(6, 8, 10, 0), beam=20)
    page = opened(
        specviz.show(write_trace(tmp_path / "large", events)).save(tmp_path / "large.html"),
        "r1",
        1280,
        720,
        reduced_motion="reduce",
    )
    away = page.locator(".round:last-of-type .node.away")
    n_away, rest = away.count(), page.locator(".round:last-of-type .rest").first
    assert n_away > 20
    assert rest.text_content() == f"+ {n_away} not kept"
    assert away.evaluate_all("all => all.filter(each => getComputedStyle(each).opacity !== '0').length") == 0
    page.keyboard.press("0")  # all of the tree
    page.wait_for_function("!document.querySelector('.node.away')")
    _to_round(page, 2)
    assert away.count() > 20
    _press(page, "ArrowLeft")  # to where the last token came: the tree stands as it stood
    assert away.count() == 0
    _press(page, "ArrowRight")
    assert away.count() > 20
    left = away.first.get_attribute("data-node")
    page.evaluate(f"location.hash = '#at=r2/n{left}'")
    page.wait_for_function(f"document.querySelector('.node.chosen')?.dataset.node === '{left}'")
    assert away.count() == 0
