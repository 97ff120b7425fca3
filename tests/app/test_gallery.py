"""The gallery: of every recording what its own overview says, and the way to it."""

from pathlib import Path

import pytest

from app.conftest import Open
from specviz.runlog.fold import fold
from specviz.sources import gallery
from specviz.sources.gallery import gallery_card
from specviz.trace import read_events
from specviz.view.panels.overview.build import overview
from specviz_app.server.core import Settings
from support.recordings import RECORDINGS
from support.traces import make_events, write_trace


@pytest.mark.parametrize("name", ["code-draft", "code-tree", "code-ar"])
def test_a_card_says_what_the_overview_says(name: str) -> None:
    run = fold(read_events(RECORDINGS[name]))
    overview_blocks = overview(run)
    assert overview_blocks.blocks is not None
    card = gallery_card(RECORDINGS[name])
    assert card is not None
    rows = {row.label: row.value for row in overview_blocks.blocks.numbers.rows}
    assert card.numbers
    assert all(rows[label] == value for label, value in card.numbers)
    assert card.pays == overview_blocks.judgement.speed_text
    first = [run.rounds.point(k) for k in range(len(card.bars))]
    assert card.bars == tuple((p.n_accepted or 0, p.n_emitted or 0) for p in first)


def test_what_is_no_run_or_too_long_has_no_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "x.sv.jsonl"
    other.write_text("hello")
    assert gallery_card(other) is None
    assert gallery_card(tmp_path / "gone") is None
    monkeypatch.setattr(gallery, "_LARGEST", 10)
    assert gallery_card(write_trace(tmp_path / "long", make_events())) is None


def test_it_opens_over_the_page_and_leads_to_a_recording(open_page: Open) -> None:
    at = open_page(Settings())
    assert not [button for button in at.button if str(button.key).startswith("play-")]
    at.button(key="gallery").click().run()
    assert not at.exception
    offered = {str(button.key).removeprefix("play-") for button in at.button if str(button.key).startswith("play-")}
    assert offered == set(RECORDINGS)
    at.button(key="play-code-tree").click().run()
    assert not at.exception
    assert at.selectbox(key="src").value == "code-tree"


def test_a_hostile_question_is_text_in_it(tmp_path: Path, open_page: Open) -> None:
    events = make_events()
    for event in events:
        if type(event).__name__ == "Prefill":
            event.text = "<img src=x onerror=alert(1)>"
    at = open_page(Settings(replay=write_trace(tmp_path / "bad", events)))
    at.button(key="gallery").click().run()
    cards = [str(block.value) for block in at.get("html") if "sv-gallery" in str(block.value)]
    assert any("&lt;img" in card for card in cards)
    assert not any("<img" in card for card in cards)
