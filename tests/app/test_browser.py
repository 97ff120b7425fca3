"""What only a browser can tell: the stream paints without script runs, clicks arrive, nothing is mounted twice."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from app.served import Served, free_port, served
from support.exit_trace import exit_events
from support.rank_trace import rank_events
from support.traces import write_trace
from tools.chromium import chromium, executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)

_COUNT_RUNS = """() => {
  window.runs = 0;
  const app = document.querySelector('[data-test-script-state]');
  new MutationObserver(() => { if (app.dataset.testScriptState === 'running') window.runs += 1; })
    .observe(app, { attributes: true, attributeFilter: ['data-test-script-state'] });
}"""
_WAIT_MS = 30_000


# What a page of another test has left behind is gone before the first script of the next one runs.
_FORGET = "if (!window.name) { window.name = 'seen'; localStorage.clear(); sessionStorage.clear(); }"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One context for all pages: what one has fetched, the next need not fetch and compile."""
    with chromium() as found:
        context = found.new_context()
        context.add_init_script(_FORGET)
        yield context


@pytest.fixture
def open_at(browser: Any) -> Iterator[Callable[..., Any]]:
    """A page of its own, which must not have said anything on its console by the end."""
    pages: list[tuple[Any, list[str]]] = []

    def opened(address: str, width: int = 1280, height: int = 900, dark: bool = False) -> Any:
        browser.clear_cookies()
        page = browser.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text) if _ours(message) else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        pages.append((page, said))
        page.set_default_timeout(_WAIT_MS)
        page.goto(address)
        return page

    yield opened
    for page, _ in pages:
        page.close()
    assert [words for _, said in pages for words in said] == []


@pytest.fixture(scope="module")
def one_port() -> int:
    """For one live server after the other: a browser keeps what it fetched by the address."""
    return free_port()


@pytest.fixture
def live(one_port: int) -> Iterator[Served]:
    with served(port=one_port) as found:
        yield found


@pytest.fixture
def talking(one_port: int) -> Iterator[Served]:
    """A model that is sent messages."""
    with served(None, one_port, "talks") as found:
        yield found


@pytest.fixture
def opened(one_port: int) -> Iterator[Served]:
    """What somebody gets who asked for nothing."""
    with served(None, one_port, "open") as found:
        yield found


@pytest.fixture
def shared(one_port: int) -> Iterator[Served]:
    """What other machines reach: pages without the key watch."""
    with served(None, one_port, "shared") as found:
        yield found


@pytest.fixture(scope="module")
def recorded(chain_trace: Path) -> Iterator[Served]:
    with served(chain_trace) as found:
        yield found


@pytest.fixture(scope="module")
def exits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(write_trace(tmp_path_factory.mktemp("exits") / "exits", exit_events())) as found:
        yield found


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(write_trace(tmp_path_factory.mktemp("trees") / "trees", rank_events())) as found:
        yield found


def _ours(message: Any) -> bool:
    """Errors, but for Streamlit's own question on a page below the root, where its server lives: it answers by 404."""
    return message.type == "error" and "/_stcore/" not in message.location.get("url", "")


def _start(page: Any, pace: str | None = None) -> None:
    page.get_by_text("Start", exact=True).wait_for()
    if pace:
        option = page.get_by_role("option", name=pace)

        def offered() -> bool:
            """A list that opens while the script runs is closed again by what it writes."""
            _settled(page)
            if not option.is_visible():
                page.get_by_label("Pace", exact=True).click()
                page.wait_for_timeout(100)
            return bool(option.is_visible())

        _until(offered, "no list of paces")
        option.click()
        _settled(page)
    page.get_by_text("Start", exact=True).click()


def _settled(page: Any) -> None:
    page.wait_for_selector("[data-test-script-state=notRunning]")


def _address(page: Any) -> str:
    return str(page.evaluate("location.href"))  # `page.url` is what was last heard of


def _round(page: Any) -> int:
    found = re.search(r"r(\d+) ", page.locator(".stage .time .place").inner_text())
    return int(found[1]) if found else 0


def _until(true: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + _WAIT_MS / 1000
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def _stage_place(page: Any) -> str:
    return str(page.locator(".stage .time .place").inner_text())


def test_the_stage_plays_and_is_walked_without_a_script_run(recorded: Served, open_at: Callable[..., Any]) -> None:
    """It begins by itself; only where somebody stays goes into the address, by one run of the script."""
    page = open_at(recorded.url)
    page.locator(".stage .node").first.wait_for()
    _settled(page)
    page.evaluate(_COUNT_RUNS)
    before = _stage_place(page)
    _until(lambda: _stage_place(page) != before, "it does not play")
    assert page.evaluate("window.runs") == 0
    assert "at=" not in _address(page)
    page.keyboard.press("}")
    page.locator(".stage .why .headline", has_text="REJECTED").wait_for()
    rejected = _stage_place(page).split()[0]
    _until(lambda: f"at={rejected}" in _address(page), "the address does not follow")
    _settled(page)
    assert page.locator(".stage .said", has_text="rejected").count() == 1, "the place is lost when the script runs"
    page.locator("svg.tree .node").first.click()
    _until(lambda: "root" in _address(page), "a click on a node is not in the address")


_BACK_AFTER = """ms => {
    const pushed = history.pushState;
    history.pushState = (...given) => {
        pushed.apply(history, given);
        history.pushState = pushed;
        setTimeout(() => { window.wentBack = true; history.back(); }, ms);
    };
}"""


@pytest.mark.parametrize("ms", [0, 20, 40, 60, 80, 120, 160])
def test_the_way_back_is_found_however_early_it_is_pressed(
    ms: int, recorded: Served, open_at: Callable[..., Any]
) -> None:
    """Also while the script of the move still runs, whose answer then never comes."""
    page = open_at(f"{recorded.url}/stage?at=r3")
    page.locator(".stage .node").first.wait_for()
    page.keyboard.press("]")
    _until(lambda: "at=r4" in _address(page), "the address does not follow")
    page.wait_for_selector("[data-test-script-state=notRunning]")
    page.evaluate(_BACK_AFTER, ms)
    page.keyboard.press("]")
    _until(lambda: page.evaluate("window.wentBack === true"), "the address does not follow")  # and the stage did before
    _until(lambda: _stage_place(page).startswith("r4 "), "there is no way back")
    assert "at=r4" in _address(page)


def test_the_stage_opens_at_the_place_of_the_address_and_other_pages_at_its_own(
    recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{recorded.url}/stage?at=r3/closing")
    page.locator(".stage .node.chosen[data-node='-2']").wait_for()
    assert _stage_place(page).startswith("r3 ")
    page.keyboard.press("]")
    _until(lambda: "at=r4" in _address(page), "the address does not follow")
    page.keyboard.press("]")
    _until(lambda: "at=r5" in _address(page), "the address does not follow")
    page.go_back()
    _until(lambda: _stage_place(page).startswith("r4 "), "there is no way back")
    page.get_by_role("link", name="Round explorer").click()
    _tree(page, "round-tree")
    assert "at=r4" in _address(page)


def test_the_stage_is_saved_as_one_file(recorded: Served, open_at: Callable[..., Any], tmp_path: Path) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2")
    page.locator(".stage .node").first.wait_for()
    assert page.locator(".share .menu").is_hidden()
    page.get_by_role("button", name="save or share").click()
    with page.expect_download() as coming:
        page.get_by_role("menuitem", name="the run as one HTML file").click()
    assert coming.value.suggested_filename == "chain.html"
    saved = tmp_path / "chain.html"
    coming.value.save_as(saved)
    again = open_at(f"file://{saved}#at=r3")
    again.locator(".stage .node").first.wait_for()
    assert _stage_place(again).startswith("r3 ")
    assert again.locator(".share").count() == 0, "a saved page has nobody to ask for files"


def test_a_moment_is_taken_away_as_a_picture(recorded: Served, open_at: Callable[..., Any], tmp_path: Path) -> None:
    """By the keyboard: the menu, its second entry; the file shows the node that is chosen; Escape closes the menu."""
    page = open_at(f"{recorded.url}/stage?at=r2/closing")
    page.locator(".stage .node.chosen[data-node='-2']").wait_for()
    opener = page.get_by_role("button", name="save or share")
    opener.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    with page.expect_download() as coming:
        page.keyboard.press("Enter")
    assert coming.value.suggested_filename == "chain-r2-closing.svg"
    drawn = tmp_path / "moment.svg"
    coming.value.save_as(drawn)
    assert "r2: phase 6/6 COMMIT" in drawn.read_text("utf-8")
    page.locator(".share [role=status]", has_text="saved as chain-r2-closing.svg").wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".share .menu").is_hidden()
    assert opener.evaluate("element => element.getRootNode().activeElement === element")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_stage_fits_a_phone_and_takes_the_page_s_ground(
    dark: bool, recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2", 390, 844, dark)
    page.locator(".stage .node").first.wait_for()
    assert page.locator(".stage").get_attribute("data-theme") == ("dark" if dark else "light")
    page.get_by_role("button", name="save or share").click()
    menu = page.locator(".share .menu").bounding_box()
    assert menu["x"] >= 0
    assert menu["x"] + menu["width"] <= 390
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("element => element.scrollWidth <= element.clientWidth")


def test_the_stream_paints_round_after_round_without_a_script_run(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(live.url)
    _start(page, "full speed")
    _until(lambda: _round(page) >= 1, "nothing is painted")
    _settled(page)
    page.evaluate(_COUNT_RUNS)
    before = _round(page)
    _until(lambda: _round(page) >= before + 10, "the stream stands still")
    assert page.evaluate("window.runs") == 0


def test_a_knob_change_is_acknowledged_and_mounts_nothing_anew(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(live.url)
    _start(page, "held")  # a run that goes on may end before the knob is there
    page.locator(".state", has_text="PAUSED").wait_for()
    page.locator(".livebar [data-do=step]").click()
    _until(lambda: _round(page) == 1, "no step")
    page.locator(".stage").evaluate("element => { element.tagged = 'the same' }")
    slider = page.locator("[data-testid=stSlider]", has_text="γ gamma").get_by_role("slider")
    slider.focus()
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    page.get_by_role("button", name="Apply at the next round").click()
    page.locator(".knob.sent", has_text="requested 6").wait_for()
    page.locator(".livebar [data-do=step]").click()
    page.locator(".livebar [data-do=step]").click()
    page.locator(".knob.moved", has_text=re.compile(r"in force from r\d+")).wait_for()
    page.locator(".knobs .last", has_text="gamma 4→6").wait_for()
    assert page.locator(".knob input[aria-label='γ gamma']").input_value() == "6"
    assert page.locator(".stage").evaluate("element => element.tagged") == "the same"
    assert "draft.gamma=6" in _address(page)


def test_tokens_that_look_like_markup_are_text(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(live.url)
    _start(page, "full speed")
    page.locator(".stage svg.tree text", has_text="<img").first.wait_for()
    assert page.locator(".stage img").count() == 0


def test_hold_step_and_stop_work_from_the_component(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(live.url)
    _start(page, "held")
    page.locator(".state", has_text="PAUSED").wait_for()
    page.locator(".livebar [data-do=step]").click()
    _until(lambda: _round(page) == 1, "no step")
    page.locator(".livebar [data-do=step]").click()
    _until(lambda: _round(page) == 2, "no second step")
    page.locator(".livebar .hold").click()
    _until(lambda: _round(page) > 3, "it does not go on")
    page.locator(".livebar .halt").click()
    page.locator(".state", has_text="ENDED").wait_for()


def test_a_click_on_a_node_asks_why_and_the_keyboard_does_too(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(live.url)
    _start(page, "held")
    page.locator(".state", has_text="PAUSED").wait_for()
    page.locator(".livebar [data-do=step]").click()
    page.locator(".stage .node[data-mark=accepted], .stage .node[data-mark=rejected]").first.click()
    page.locator(".stage .why .unpin").wait_for()
    assert re.search(r"(ACCEPTED|REJECTED)", page.locator(".stage .why").inner_text())
    _until(lambda: "at=r1%2Fn" in _address(page) or "at=r1/n" in _address(page), "the address does not say it")
    root = page.locator(".stage .node[data-mark=root]")
    root.focus()
    root.press("Enter")
    page.locator(".stage .why", has_text="ROOT").wait_for()


def test_the_server_goes_and_the_page_says_so(live: Served, browser: Any) -> None:
    page = browser.new_page()
    page.goto(live.url)
    page.locator(".state", has_text="IDLE").wait_for(timeout=_WAIT_MS)
    live.interrupt()
    page.locator(".wrong", has_text="connection to the server is lost").wait_for(timeout=_WAIT_MS)
    page.close()


def _tree(page: Any, key: str) -> Any:
    """The stage's painter where a page shows one round."""
    found = page.locator(f".st-key-{key} .stage")
    found.locator(".node").first.wait_for()
    _settled(page)
    return found


@pytest.mark.parametrize(("path", "key"), [("rounds", "round-tree"), ("ranks", "ranks-tree")])
def test_the_tree_of_a_round_plays_without_a_script_run_and_a_node_can_be_clicked(
    path: str, key: str, trees: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{trees.url}/{path}?at=r2")
    tree = _tree(page, key)
    page.evaluate(_COUNT_RUNS)
    tree.locator("[data-do=play]").click()
    _until(lambda: tree.get_attribute("data-phase") == "2", "it does not begin anew")
    tree.locator("select").select_option("8")
    _until(lambda: tree.get_attribute("data-phase") == "6", "it does not come to its end")
    assert page.evaluate("window.runs") == 0
    tree.locator(".node").nth(2).click()
    _until(lambda: "at=r2%2Fn" in _address(page), "the click chooses nothing")
    _settled(page)
    page.go_back()
    _until(lambda: "at=r2&" in f"{_address(page)}&", "there is no way back")


def test_another_verifier_decides_the_round_again_and_is_put_back(
    recorded: Served, open_at: Callable[..., Any]
) -> None:
    """It says at all times that it is what if, and no script runs for it."""
    page = open_at(f"{recorded.url}/stage?at=r2")
    page.locator(".stage .whatif input[aria-label*=gamma]").wait_for()
    _settled(page)
    page.evaluate(_COUNT_RUNS)
    marks = "all => all.map(node => node.dataset.mark)"
    was = page.locator(".stage .node").evaluate_all(marks)
    slider = page.locator(".whatif input[aria-label*=gamma]")
    own = slider.input_value()
    slider.focus()
    slider.press("Home")
    page.locator(".stage.asks .iff .words", has_text="with gamma").wait_for()
    assert slider.evaluate("element => element.getRootNode().activeElement === element"), "it is dropped"
    assert "accepted" not in page.locator(".stage .node").evaluate_all(marks)
    page.locator(".whatif select").select_option("walk")
    page.locator(".iff .words", has_text="under walk").wait_for()
    slider.focus()  # which leaves the other keys to the picture
    page.keyboard.press("]")
    _until(lambda: _stage_place(page).startswith("r3 ") and "what if" in _stage_place(page), "the change is lost")
    page.keyboard.press("[")
    _until(lambda: _stage_place(page).startswith("r2 "), "there is no way back")
    page.keyboard.press("Escape")
    _until(lambda: page.locator(".stage.asks").count() == 0, "it is not put back")
    assert page.locator(".stage .node").evaluate_all(marks) == was
    _until(lambda: slider.input_value() == own, "the slider stays where it was")
    slider.focus()
    slider.press("ArrowLeft")
    page.locator(".stage.asks").wait_for()
    slider.press("ArrowRight")  # by hand to where it stood
    _until(lambda: page.locator(".stage.asks").count() == 0, "the recording is not restored")
    _until(lambda: page.locator(".stage .node").evaluate_all(marks) == was, "another round is shown")
    assert "⚠ not lossless" in page.locator(".whatif select").inner_text()
    assert page.evaluate("window.runs") <= 2  # for the places that the address was told


def test_another_u_of_a_node_decides_it_again(recorded: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2")
    page.locator(".stage .whatif input[aria-label*=gamma]").wait_for()
    page.keyboard.press("}")
    page.locator(".stage .why .headline", has_text="REJECTED").wait_for()
    slider = page.locator(".udraw input")
    slider.wait_for()
    slider.focus()
    slider.press("Home")
    page.locator(".stage .why .headline", has_text="WHAT IF: ACCEPTED").wait_for()


def test_a_panel_opens_below_the_stage_at_its_place_and_moves_it(recorded: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2")
    tab = page.get_by_role("tab", name="Verification")
    tab.wait_for()
    _settled(page)
    assert page.get_by_role("tab", name="Learning").get_attribute("aria-disabled") == "true"
    page.locator(".stage").evaluate("element => { element.tagged = 'the same' }")
    tab.click()
    _until(lambda: "panel=verification" in _address(page), "the panel is not in the address")
    page.locator(".st-key-panel").get_by_label("Position").wait_for()
    _settled(page)
    bars = page.locator(".st-key-scan .barlayer .point path")
    bars.first.wait_for()
    page.wait_for_timeout(800)
    bars.nth(1).click(force=True)
    _until(lambda: "at=r2%2Fn" in _address(page), "a click in the panel is not in the address")
    page.locator(".stage .unpin:not([hidden])").wait_for()
    page.keyboard.press("]")
    _until(lambda: "at=r3" in _address(page), "the address does not follow")
    page.locator(".st-key-panel", has_text="Round 3").wait_for()
    assert page.locator(".stage").first.evaluate("element => element.tagged") == "the same"
    tab.click()
    _until(lambda: "panel=" not in _address(page), "the panel does not close")
    page.go_back()
    page.locator(".st-key-panel").wait_for()


def test_the_scan_plays_without_a_script_run_and_a_click_chooses_a_position(
    recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{recorded.url}/verification?at=r2")
    page.get_by_text("▶ play the scan").wait_for()
    _settled(page)
    page.evaluate(_COUNT_RUNS)
    bars = page.locator(".st-key-scan .barlayer .point path")
    before = bars.first.get_attribute("style")
    page.get_by_text("▶ play the scan").click()
    _until(lambda: bars.first.get_attribute("style") != before, "the scan does not play")
    assert page.evaluate("window.runs") == 0
    page.wait_for_timeout(6000)  # it comes to its end
    bars.nth(1).click(force=True)
    _until(lambda: "at=r2%2Fn" in _address(page), "a click on a bar chooses nothing")


def test_verification_follows_a_run_that_goes_on(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(live.url)
    _start(page, "held")
    page.locator(".state", has_text="PAUSED").wait_for()
    page.locator(".livebar [data-do=step]").click()
    _until(lambda: _round(page) == 1, "no step")
    page.get_by_role("link", name="Verification").click()
    _until(lambda: "at=r1" in _address(page), "the page does not open")
    page.evaluate("() => { window.told = location.href }")
    command = {"cmd": "resume", "id": 0}
    answer = page.request.post(f"{live.url}/api/command", data=command, headers={"x-specviz-token": live.token})
    assert answer.ok
    _until(lambda: int(re.findall(r"at=r(\d+)", _address(page))[0]) > 2, "the page stands still")


def test_a_click_on_a_cell_chooses_it_and_one_on_the_map_moves_the_sliders(
    exits: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{exits.url}/early-exit?at=r7")
    _click(page, ".st-key-layers-heat", 0.02, 0.9)
    page.locator(".sv-why h4", has_text="L1 × ").wait_for()
    page.get_by_role("radio", name="other settings").click()
    _click(page, ".st-key-try-map-alpha", 0.5, 0.3)
    _until(lambda: re.search(r"try\.alpha=[12]", _address(page)), "the sliders stay")


def test_a_click_on_a_confusion_cell_lists_it_and_a_line_leads_to_its_round(
    trees: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{trees.url}/ranks?show=the+run&at=r1")
    _click(page, ".st-key-ranks-confusion", 0.14, 0.14)
    page.get_by_text("A line leads to its round").wait_for()
    lines = page.locator(".st-key-ranks-entries-0-0 canvas").first
    lines.evaluate("element => element.scrollIntoView({block: 'center'})")
    page.wait_for_timeout(800)
    box = lines.bounding_box()
    page.mouse.click(box["x"] + 16, box["y"] + 52)
    page.locator(".st-key-ranks-tree").wait_for()
    _until(lambda: re.search(r"at=r([2-9]|1\d)", _address(page)), "the line leads nowhere")


def test_a_click_on_the_best_tables_moves_the_sliders(trees: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{trees.url}/ranks?show=other+widths")
    ground = page.locator(".st-key-widths-frontier .scatterlayer .trace").first.locator(".point")
    ground.first.wait_for()
    _settled(page)
    page.wait_for_timeout(800)
    ground.last.click(force=True)
    _until(lambda: re.search(r"try\.w\d=", _address(page)), "the sliders stay")


def test_a_click_on_a_bar_tells_about_it(recorded: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{recorded.url}/lanes?at=r2")
    page.locator(".sv-why h4", has_text="target pass").wait_for()
    bars = page.locator(".st-key-lanes-chart .barlayer .point path")
    bars.first.wait_for()
    _settled(page)
    page.wait_for_timeout(800)
    bars.first.click(force=True)
    page.locator(".sv-why h4", has_text="draft").wait_for()


def _click(page: Any, place: str, across: float, down: float) -> None:
    """A click at a share of a plot's width and height."""
    ground = page.locator(f"{place} .nsewdrag").first
    ground.wait_for()
    _settled(page)
    page.wait_for_timeout(800)  # the plot takes its size
    ground.scroll_into_view_if_needed()
    box = ground.bounding_box()
    page.mouse.click(box["x"] + box["width"] * across, box["y"] + box["height"] * down)


def test_keys_go_from_round_to_round(recorded: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{recorded.url}/rounds?at=r2")
    _tree(page, "round-tree")
    page.keyboard.press("ArrowRight")
    _until(lambda: "at=r3" in _address(page), "the right arrow does nothing")
    _settled(page)
    page.keyboard.press("ArrowLeft")
    _until(lambda: "at=r2" in _address(page), "the left arrow does nothing")


@pytest.mark.parametrize("name", ["overview", "rounds", "verification", "early-exit", "lanes", "ranks", "trace"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_shows_every_page_without_scrolling_sideways(
    name: str, dark: bool, recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{recorded.url}/{name}", 390, 844, dark)
    page.locator(".sv-run").wait_for()
    _settled(page)
    wide = page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
    assert wide <= 390
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("element => element.scrollWidth <= element.clientWidth")
    ground = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 384) is dark


def test_the_live_page_fits_a_phone(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(live.url, 390, 844, True)
    _start(page, "full speed")
    _until(lambda: _round(page) >= 1, "nothing is painted")
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("element => element.scrollWidth <= element.clientWidth")
    canvas = page.locator(".stage .canvas")
    assert canvas.evaluate("element => element.getBoundingClientRect().right") <= 390


def _say(page: Any, message: str) -> None:
    box = page.get_by_placeholder("Message to")
    box.fill(message)
    box.press("Enter")


def test_a_conversation_takes_one_script_run_a_message_and_mounts_nothing_anew(
    talking: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(talking.url)
    page.get_by_role("button", name="explain").click()
    _until(lambda: _round(page) >= 2, "no answer")
    assert page.locator(".talk .text").inner_text()
    page.locator(".stage").evaluate("element => { element.tagged = 'the same' }")
    page.locator(".livebar .halt").click()
    page.locator(".state", has_text="ENDED").wait_for()
    _settled(page)
    page.evaluate(_COUNT_RUNS)
    _say(page, "and then?")
    page.locator(".sv-turn", has_text="and then?").wait_for()
    page.locator(".state", has_text="LIVE").wait_for()
    _until(lambda: _round(page) >= 3, "no second answer")
    assert page.evaluate("window.runs") == 1
    assert page.locator(".sv-turn").count() == 3
    assert page.locator(".stage").evaluate("element => element.tagged") == "the same"


def test_a_message_that_is_refused_comes_back_into_the_box(talking: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(talking.url)
    page.get_by_role("button", name="explain").wait_for()
    _settled(page)
    _say(page, "this is too long")
    page.get_by_text("no space is left").first.wait_for()
    box = page.get_by_placeholder("Message to")
    _until(lambda: box.input_value() == "this is too long", "the message is lost")
    assert page.locator(".sv-turn").count() == 0


def test_another_tab_shows_the_message_without_being_touched(talking: Served, open_at: Callable[..., Any]) -> None:
    first, second = open_at(talking.url), open_at(talking.url)
    for page in (first, second):
        page.get_by_role("button", name="explain").wait_for()
        _settled(page)
    _say(first, "why?")
    _until(lambda: _round(first) >= 1, "no answer")
    second.reload()
    second.locator(".sv-turn", has_text="why?").wait_for()
    first.locator(".livebar .halt").click()
    first.locator(".state", has_text="ENDED").wait_for()
    _settled(first)
    _say(first, "and then?")
    second.locator(".sv-turn", has_text="and then?").wait_for()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_conversation_fits_a_phone(dark: bool, talking: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(talking.url, 390, 844, dark)
    page.get_by_role("button", name="explain").click()
    _until(lambda: _round(page) >= 1, "nothing is painted")
    assert page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)") <= 390
    for part in (".stage", ".stage .canvas", ".stage .text", ".sv-turn"):
        assert page.locator(part).first.evaluate("element => element.getBoundingClientRect().right") <= 390


def test_who_wants_no_motion_sees_ended_rounds_alone(live: Served, browser: Any) -> None:
    page = browser.new_page()
    page.emulate_media(reduced_motion="reduce")
    page.set_default_timeout(_WAIT_MS)
    page.goto(live.url)
    _start(page, "watch")
    _until(lambda: _round(page) == 2, "no second round")
    nodes = page.locator(".stage svg.tree .node")
    while _round(page) < 4:  # whatever phase it is in: every drafted token has its verdict, and the round its end
        marks = nodes.evaluate_all("all => all.map(node => node.dataset.mark)")
        assert "drafted" not in marks
        assert {"bonus", "recovered"} & set(marks)
    page.close()


def test_every_page_can_be_linked_to_and_the_address_names_the_run(
    recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(recorded.url)
    page.locator(".stage .node").first.wait_for()
    _until(lambda: "/stage?src=" in _address(page), "the first page has no address of its own")
    page = open_at(f"{recorded.url}/overview?src=chain")
    page.locator(".sv-run").wait_for()
    again = open_at(f"{recorded.url}/overview?src=explain-tree")
    again.locator(".sv-run", has_text="draft · tree").wait_for()
    assert again.get_by_text("Page not found").count() == 0
    assert page.get_by_role("combobox", name="Run to look at").input_value() == "chain"
    lost = open_at(f"{recorded.url}/rounds?src=nope")
    lost.get_by_text("There is no run").wait_for()
    _until(lambda: "src=chain" in _address(lost), "the address names no run")
    assert lost.get_by_role("combobox", name="Run to look at").input_value() == "chain"


def _unbroken(page: Any, what: str) -> None:
    """No error on the page, nothing of a traceback, and the sidebar is there."""
    assert page.locator("[data-testid=stException]").count() == 0, what
    assert page.locator("[data-testid=stAlertContentError]").all_inner_texts() == [], what
    assert page.get_by_label("Run to look at").count() >= 1, what


def _forward(page: Any) -> Any:
    return page.get_by_role("button", name="round ▶")


@pytest.mark.parametrize(("name", "trace"), [("rounds", "explain-draft"), ("ranks", "explain-specblock")])
def test_real_clicks_walk_a_bundled_recording(
    name: str, trace: str, recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{recorded.url}/{name}?src={trace}")
    _forward(page).wait_for()
    for k in range(9):  # slowly: it fell at the second to eighth
        _settled(page)
        _forward(page).click()
        _until(lambda k=k: f"at=r{k + 2}" in _address(page) or "q" in _address(page), f"press {k + 1} does nothing")
        _unbroken(page, f"press {k + 1}")
    for _ in range(6):  # quickly
        _forward(page).click(no_wait_after=True)
    _settled(page)
    _unbroken(page, "six presses at once")
    page.get_by_role("combobox", name="Run to look at").click()  # in the middle of a round
    page.get_by_role("option", name="summarise-ngram").click()
    _until(lambda: "src=summarise-ngram" in _address(page), "the recording stays")
    _settled(page)
    _forward(page).click()
    _settled(page)
    _unbroken(page, "another recording")


def _follow(page: Any, words: str) -> None:
    """Say it on the stage, and wait for the first round."""
    box = page.locator(".composer textarea")
    box.wait_for()
    _settled(page)
    box.fill(words)
    box.press("Enter")
    page.locator(".stage .node").first.wait_for()


def _newest(page: Any) -> int:
    """Rounds that the stage knows of."""
    return int(page.locator(".stage .time .track").get_attribute("aria-valuemax") or 0)


def test_the_stage_follows_the_core_without_a_script_run(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage")
    _follow(page, "go on")
    _settled(page)
    page.evaluate(_COUNT_RUNS)
    before = _newest(page)
    _until(lambda: _newest(page) >= before + 2, "it does not go on")
    assert page.evaluate("window.runs") == 0
    assert page.locator(".stage img").count() == 0
    page.locator(".livebar select").select_option("0")
    _until(lambda: _newest(page) >= before + 12, "it does not go at the core's own pace")
    page.locator(".livebar .halt").click()
    page.locator(".livebar .state", has_text="ENDED").wait_for()


def test_the_stage_holds_steps_looks_back_and_comes_back(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage")
    _follow(page, "go on")
    _until(lambda: _newest(page) >= 3, "it does not go on")
    page.locator(".livebar .hold").click()
    page.locator(".livebar .state", has_text="PAUSED").wait_for()
    held = _newest(page)
    page.locator(".livebar [data-do=step]").click()
    _until(lambda: _newest(page) == held + 1, "no step")
    page.locator(".livebar .hold").click()
    page.locator("svg.tree").focus()
    page.keyboard.press("Home")
    _until(lambda: _stage_place(page).startswith("r1 "), "there is no way back")
    _until(lambda: "at=r1" in _address(page), "the address does not say where it looks")
    seen = _newest(page)
    _until(lambda: _newest(page) > seen, "the core waits for who looks back")
    assert _stage_place(page).startswith("r1 ")
    page.keyboard.press("l")
    _until(lambda: not _stage_place(page).startswith("r1 "), "there is no way to live")
    assert page.locator(".livebar .golive.on").count() == 1
    _until(lambda: "at=" not in _address(page), "the address stays behind")


def test_a_knob_below_the_tree_is_requested_and_in_force(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage")
    _follow(page, "go on")
    slider = page.locator(".knob input[aria-label='γ gamma']")
    slider.focus()
    slider.press("ArrowRight")
    knob = page.locator(".knob.moved", has_text="in force from r")
    knob.wait_for()
    assert slider.input_value() == "5"
    page.locator(".knobs .last", has_text="gamma 4→5").wait_for()


def test_a_conversation_on_the_stage(talking: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{talking.url}/stage")
    page.get_by_role("button", name="explain").click()
    page.locator(".stage .node").first.wait_for()
    page.locator(".livebar .halt").click()
    page.locator(".livebar .state", has_text="ENDED").wait_for()
    _settled(page)
    _follow(page, "<b>and then?</b>")
    page.locator(".above .turn-user", has_text="<b>and then?</b>").wait_for()
    assert page.locator(".above > *").count() == 3
    assert page.locator(".above b").count() == 0
    page.locator(".livebar .halt").click()
    page.locator(".livebar .state", has_text="ENDED").wait_for()
    page.locator(".composer textarea").fill("this is too long")
    page.keyboard.press("Enter")
    page.locator(".wrong", has_text="no space is left").wait_for()
    _until(lambda: page.locator(".composer textarea").input_value() == "this is too long", "the message is lost")


_HIDE = """() => {
  window.away = true;
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => window.away });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_viewers_follow_one_run_and_a_hidden_one_gives_up_its_stream(live: Served, open_at: Callable[..., Any]) -> None:
    pages = [open_at(f"{live.url}/stage") for _ in range(2)]
    _follow(pages[0], "go on")
    pages[1].locator(".stage .node").first.wait_for()
    _until(lambda: _newest(pages[1]) >= 3, "the second viewer sees nothing")
    hide = (
        "Object.defineProperty(document, 'hidden', { configurable: true, get: () => window.away }); window.away = true;"
    )
    pages[1].evaluate(f"() => {{ {hide} document.dispatchEvent(new Event('visibilitychange')); }}")
    pages[1].wait_for_timeout(500)
    still = _newest(pages[1])
    _until(lambda: _newest(pages[0]) > still + 2, "the first viewer stands still")
    assert _newest(pages[1]) == still
    pages[1].evaluate("() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); }")
    _until(lambda: _newest(pages[1]) > still + 2, "it does not come back")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_live_stage_fits_a_phone(dark: bool, live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage", 390, 844, dark)
    _follow(page, "go on")
    assert page.locator(".stage").get_attribute("data-theme") == ("dark" if dark else "light")
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("element => element.scrollWidth <= element.clientWidth")
    for part in (".composer", ".livebar", ".steer"):
        assert page.locator(part).evaluate("element => element.getBoundingClientRect().right") <= 390


def test_the_first_minute_plays_is_walked_and_put_away(opened: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(opened.url)
    page.locator(".stage .node").first.wait_for()
    before = _stage_place(page)
    _until(lambda: _stage_place(page) != before, "it does not play")
    step = page.locator(".welcome .n")
    assert step.inner_text() == "1 of 4"
    page.locator(".welcome .next").click()
    page.keyboard.press("ArrowRight")
    _until(lambda: step.inner_text() == "3 of 4", "the key that is asked for does not go on")
    page.keyboard.press("}")
    _until(lambda: step.inner_text() == "4 of 4", "the key that is asked for does not go on")
    page.locator(".welcome [data-do=away]").click()
    assert page.locator(".welcome").count() == 0
    _settled(page)
    page.get_by_role("link", name="Trace").click()
    page.locator(".sv-run").wait_for()
    page.get_by_role("link", name="Stage").click()
    page.locator(".stage .node").first.wait_for()
    assert page.locator(".welcome").count() == 0


def test_run_it_here_goes_on_live_from_the_same_prompt(opened: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(opened.url)
    page.locator(".stage .node").first.wait_for()
    _settled(page)
    page.locator(".welcome .here").click()
    page.locator(".livebar .state", has_text="LIVE").wait_for()
    page.locator(".stage .node").first.wait_for()
    assert page.locator(".knob input[aria-label='γ gamma']").is_enabled()
    assert page.locator(".welcome").count() == 0


def test_who_only_watches_sees_the_run_and_moves_nothing(shared: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{shared.url}/stage")
    page.get_by_text("You are watching").wait_for()
    assert page.locator(".composer textarea").is_disabled()
    assert page.locator(".livebar .hold").is_disabled()


def test_a_run_that_another_one_followed_plays_like_a_recording(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage")
    _follow(page, "first")
    _until(lambda: _newest(page) >= 4, "it does not go on")
    _follow(page, "second")
    _until(lambda: _newest(page) < 4, "it does not follow the second run")
    past = open_at(f"{live.url}/stage?src=run+1,+draft")
    past.locator(".stage .node").first.wait_for()
    assert past.locator(".livebar").count() == 0
    assert past.locator(".knob input").count() == past.locator(".whatif .knob input").count()  # as what if alone


def test_both_settings_of_a_moved_knob_are_laid_side_by_side(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage")
    _follow(page, "go on")
    page.locator(".livebar select").select_option("0")
    both = page.locator(".knobs .both")
    assert both.is_hidden()
    slider = page.locator(".knob input[aria-label='γ gamma']")
    slider.focus()
    slider.press("ArrowRight")
    both.wait_for()
    assert both.inner_text() == "A/B: the same prompt with γ 4 and with γ 5"
    both.click()
    page.get_by_text("A/B 1 of 2, γ 4").wait_for()
    page.wait_for_url(re.compile(r"/compare\?"))
    page.locator(".score .token").first.wait_for()
    assert "γ 4" in page.locator("[data-testid=stMultiSelect]").inner_text()
    assert "γ 5" in page.locator("[data-testid=stMultiSelect]").inner_text()


def test_compare_below_the_stage_moves_it_and_the_other_way_round(opened: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{opened.url}/stage?src=code-tree&at=r2&panel=compare&with=code-ar&with=code-draft")
    page.locator(".score .token").first.wait_for()
    _settled(page)
    was = _address(page)
    page.locator('.score .token[data-lane="0"]').nth(9).click()
    _until(lambda: _address(page) != was, "the address does not say it")
    place = page.locator(".stage .time .place")
    at = re.search(r"at=(r\d+)", _address(page))
    assert at is not None
    _until(lambda: place.inner_text().startswith(f"{at[1]} "), "the stage stands still")
    here = page.locator('.score .token.here[data-lane="0"]')
    _until(lambda: here.get_attribute("data-at") == "9", "the cursor is elsewhere")
    page.locator(".stage svg.tree").focus()
    page.keyboard.press("Home")
    _until(lambda: here.get_attribute("data-at") == "0", "the texts stand still")
    page.go_back()
    _until(lambda: place.inner_text().startswith(f"{at[1]} "), "there is no way back")
