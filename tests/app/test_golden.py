"""Every phase of the stage against its golden picture; and that the comparison sees what it should, and no more.

How pictures are made and compared, and why no font of the machine is in them: `tools.golden`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
pytest.importorskip("fontTools", reason="fonttools is not installed (extra dev)")
import specviz
from specviz.view.stage import chromium as system
from specviz.view.stage.chromium import chromium, executable
from specviz.view.words.palette import Phase
from tools.golden import FLAGS, GOLDEN, MOST, RECORDING, SCENES, Scene, apart, go_to, golden, painted, picture, stage

pytestmark = [
    pytest.mark.audit,
    pytest.mark.skipif(
        executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(*FLAGS) as chrome:
        yield chrome


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return specviz.show(RECORDING).save(tmp_path_factory.mktemp("golden") / "stage.html")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_the_stage_looks_as_in_its_picture(scene: Scene, browser: Any, saved: Path, tmp_path: Path) -> None:
    image = painted(browser, saved, scene)
    share = apart(image, Image.open(golden(scene)))
    if share > MOST:
        image.save(tmp_path / "now.png")
    assert share <= MOST, (
        f"it is {share} of 255 from {golden(scene).name}, {MOST} are allowed; painted was {tmp_path / 'now.png'}. "
        "If that was meant: python -m tools.golden"
    )


def test_there_is_a_picture_for_every_scene_and_no_other() -> None:
    assert sorted(path.name for path in GOLDEN.glob("*.png")) == sorted(golden(scene).name for scene in SCENES)


# What a person would see and the comparison must: each is done to the settled picture of the tests.
_SEEN = {
    "a node stands three pixels lower": "document.querySelector('.node[data-mark=accepted]').style.translate = '0 3px'",
    "a node is missing": "document.querySelector('.node[data-mark=accepted]').style.display = 'none'",
    "a bar is half as long": "{ const bar = document.querySelector('.node[data-mark=accepted] .fill.q');"
    " bar.style.width = `${parseFloat(bar.style.width) / 2}px`; }",
    "a line of the path is not lit": "document.querySelector('.edges .won').classList.remove('won')",
    "a mark has the colour of another": "document.querySelector('.stage').style.setProperty('--m-rejected', "
    "document.querySelector('.stage').style.getPropertyValue('--m-bonus'))",
    "u stands elsewhere": "document.querySelector('.test .needle').style.left = '50%'",
    "a token of the text is gone": "document.querySelector('.turn:not([hidden]) .token').remove()",
}
# What no person would see: a fifth of a pixel, and a shade.
_UNSEEN = {
    "the tree lies a fifth of a pixel lower": "document.querySelector('.camera').style.translate = '.2px .2px'",
    "the ground is a shade darker": "document.querySelector('.stage').style.filter = 'brightness(.97)'",
}


@pytest.mark.parametrize("what", _SEEN)
def test_a_picture_in_which_something_is_other_is_told_apart(what: str, browser: Any, saved: Path) -> None:
    scene = Scene(Phase.ACCEPT, "light")
    with stage(browser, saved, "light", moving=False) as page:
        go_to(page, scene)
        page.evaluate(f"() => {{ {_SEEN[what]} }}")
        assert apart(picture(page), Image.open(golden(scene))) > MOST


@pytest.mark.parametrize("what", _UNSEEN)
def test_a_picture_in_which_nothing_is_seen_to_be_other_passes(what: str, browser: Any, saved: Path) -> None:
    scene = Scene(Phase.ACCEPT, "light")
    with stage(browser, saved, "light", moving=False) as page:
        go_to(page, scene)
        page.evaluate(f"() => {{ {_UNSEEN[what]} }}")
        assert apart(picture(page), Image.open(golden(scene))) <= MOST


def test_the_fonts_of_the_machine_are_not_in_the_picture(browser: Any, saved: Path, tmp_path: Path) -> None:
    """A browser that finds no font at all, and hints those it finds, paints the same."""
    (tmp_path / "fonts.conf").write_text("<fontconfig></fontconfig>", encoding="utf-8")
    poor = browser.browser_type.launch(
        executable_path=executable(),
        args=[*system.FLAGS, "--font-render-hinting=full"],
        env={**os.environ, "FONTCONFIG_FILE": str(tmp_path / "fonts.conf")},
    )
    try:
        for phase in (Phase.ACCEPT, Phase.COMMIT):
            scene = Scene(phase, "light")
            assert apart(painted(poor, saved, scene), Image.open(golden(scene))) <= MOST
    finally:
        poor.close()
