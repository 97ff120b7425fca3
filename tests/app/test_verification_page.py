"""The page Verification: what is drawn is what the view says, on case D, or a reason."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app import barred, onstage
from app.conftest import Open, box
from specviz.runlog.fold import fold
from specviz.view import Frame, Options, Player
from specviz.view.blocks import Plot, twin
from specviz.view.panels.verification import pictures
from specviz.view.panels.verification.build import VerificationPanel
from specviz.view.panels.verification.model import VerificationModel
from specviz.view.panels.verification.rules import survival
from specviz.view.words.palette import glyph
from specviz_app.figures.bars import bars_html
from specviz_app.figures.blocks import fig_heat, fig_plot, heat_rows, table_rows
from specviz_app.figures.verification import fig_scan, fig_stairs, scan_alt, scan_rows, stairs_rows
from specviz_app.server.core import Settings
from specviz_app.server.server import current
from support.traces import make_events, write_trace
from support.worked_trace import worked_events


@pytest.fixture(scope="module")
def case_d(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("d") / "case-d", worked_events())


@pytest.fixture(scope="module")
def hsd_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    events = make_events(temperature=0.8, verifier="hsd", gamma=6, new_tokens=80, noise=0.5)
    return write_trace(tmp_path_factory.mktemp("hsd") / "hsd", events)


def moments(**worked: Any) -> list[Frame]:
    player = Player(fold(worked_events(**worked)), animate=False)
    at = player.builder.steps(0)
    feed: Any = Options(shown=("verification",))
    out = []
    for k in range(len(at.moments)):
        player.place = at.cursor(0, k)
        out.append(player.frame(feed))
    return out


def found(**worked: Any) -> VerificationModel:
    last = VerificationPanel.of(moments(**worked)[-1])
    assert last is not None
    return last


def spec(figure: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(figure.to_json())
    return plain


def test_the_scan_plays_one_verdict_a_stop_from_right_to_left() -> None:
    figure = spec(fig_scan(moments()))
    verdicts = [next(t for t in f["data"] if t["name"] == "verdict")["text"] for f in figure["frames"]]
    bad, good = glyph("rejected"), glyph("accepted")
    assert verdicts[0] == ["", "", "", "", "", ""]
    assert ["", "", "", "", "", bad] in verdicts
    assert ["", "", "", "", bad, bad] in verdicts
    assert verdicts[-1] == [f"{good}*", good, good, f"{good} STOP", bad, bad]
    assert len(figure["layout"]["sliders"][0]["steps"]) == len(figure["frames"])


def test_the_bars_are_the_keep_chances_and_the_diamonds_the_draws() -> None:
    figure = spec(fig_scan(moments()))
    traces = {t["name"]: t for t in figure["data"]}
    assert traces["h"]["y"] == pytest.approx([101 / 821, 1, 1, 1, 0, 0])
    assert [a + b for a, b in zip(traces["h"]["y"], traces["1 − h"]["y"], strict=True)] == pytest.approx([1] * 6)
    assert traces["u"]["y"] == [0.9, 0.35, 0.71, 0.27, 0.44, 0.08]
    assert traces["h"]["customdata"] == [0, 1, 2, 3, 4, 5]  # a click names the node
    assert traces["h"]["marker"]["pattern"]["shape"] == ["/", "/", "/", "", "", ""]  # kept with a longer prefix


def test_the_table_is_the_scan_row_by_row() -> None:
    scan = found().scan
    assert scan is not None
    rows = {row[""]: row for row in scan_rows(scan)}
    assert rows["h  keep"]["1 she"] == ".123"
    assert rows["verdict"]["4 ▁45"] == "✓ STOP"
    assert rows["u"]["how to read it"] == "passes if u < h"
    assert scan_alt(scan).startswith(
        "Backward scan over 6 drafted tokens: stops at 4; kept though its own test fails: she."
    )


def test_the_staircase_marks_a_ratio_of_zero_on_the_floor() -> None:
    stairs = found().stairs
    figure = spec(fig_stairs(stairs))
    ratio = next(t for t in figure["data"] if t["name"].startswith("r"))
    assert ratio["marker"]["symbol"][4:] == ["circle", "triangle-down", "triangle-down"]
    assert ratio["y"][5] < min(ratio["y"][:5])
    assert "0" in figure["layout"]["yaxis"]["ticktext"]
    assert [row["r"] for row in stairs_rows(stairs)] == ["1", ".820", "1.03", "1.59", "6.12", "0", "0"]


def rows_of(block: Plot) -> list[dict[str, Any]]:
    return table_rows(twin(block))


def test_branches_add_up() -> None:
    block = pictures.branches_plot(found())
    drawn = barred.read(block)
    agreed, plus, minus = drawn.values.values()
    assert [a + m for a, m in zip(agreed, minus, strict=True)] == pytest.approx([1] * 6, abs=1e-5)
    assert plus[1] == pytest.approx(0.02525)
    assert "4 ■" in drawn.words
    assert rows_of(block)[1]["D- draft mass in excess"] == pytest.approx(0.20525)


def test_the_closing_row_stands_against_p_and_q() -> None:
    block = pictures.closing_plot(found().closing)
    assert barred.values(block) == {
        "c·p": pytest.approx([0.75, 0.25]),
        "q": pytest.approx([0.5, 0.2]),
        "left": pytest.approx([0.25, 0.05]),
    }
    assert [row["token"] for row in rows_of(block)] == ["▁hours", "▁h"]
    assert [cells[0].value for cells in twin(block).rows] == [True, False]  # which one was drawn


def test_the_rules_stand_one_below_the_other() -> None:
    comparison = found().comparison
    heat = pictures.rules_heat(comparison)
    bad, good, never = glyph("rejected"), glyph("accepted"), glyph("untested")
    assert heat.rows[1] == "▶ blockwise = hsd"
    assert [square.text for square in heat.squares[0]] == [bad, *[never] * 5]
    assert [square.text for square in heat.squares[1]] == [good] * 4 + [bad] * 2
    assert [kept for kept, _ in heat.right] == ["0 of 6", "4 of 6", "4 of 6"]
    assert comparison is not None
    shares = [square.share for square in heat.squares[1]]
    assert shares == pytest.approx(list(comparison.rules[1].keep))
    assert [row["kept"] for row in heat_rows(heat)[:3]] == ["0 of 6", "4 of 6", "4 of 6"]
    assert spec(fig_heat(heat))["data"]


def test_survival_is_drawn_beside_what_every_rule_must_give() -> None:
    block = found().survival
    assert block is not None
    lines = {name: ys for name, ys in barred.values(block).items() if name != "observed"}
    assert set(lines) == {"token-wise, expected", "▶ blockwise = hsd, expected", "hsd_naive, expected"}
    assert lines["▶ blockwise = hsd, expected"] == pytest.approx([1, 1, 1, 1, 0, 0], abs=1e-5)
    assert rows_of(block)[0]["token-wise, expected"] == pytest.approx(0.82, abs=1e-5)


def test_the_paired_difference_counts_drafts() -> None:
    block = pictures.paired_plot(found().paired)
    assert block.xs == (4,)
    assert list(barred.values(block).values()) == [[1], [1]]
    assert rows_of(block)[0]["blockwise = hsd"] == 1


def test_one_draft_has_a_mean_and_no_interval() -> None:
    for paired in found().paired:
        assert paired.gain.interval is None
        assert "4 (n 1 too small) tokens kept a draft" in paired.words


@pytest.mark.parametrize("dark", [False, True])
def test_tokens_are_never_markup(dark: bool) -> None:
    hostile = ("<b>x</b>", "<script>", "[red]", "\x1b[31m", "&amp;", '"><i>')
    all_moments = moments(texts=hostile)
    last = VerificationPanel.of(all_moments[-1])
    assert last is not None
    figures = (
        fig_scan(all_moments, dark),
        fig_heat(pictures.rules_heat(last.comparison), dark),
    )
    texts = [figure.to_json().replace("\\u003c", "<").replace("\\u003e", ">") for figure in figures]
    texts += [bars_html(plot, dark) for plot in (pictures.branches_plot(last), pictures.closing_plot(last.closing))]
    for text in texts:
        for tag in ("<script", "<i>", "<b>x", "\x1b"):
            assert tag not in text


def test_nothing_is_a_reason_not_an_empty_axis() -> None:
    figures = (
        fig_stairs(None),
        fig_heat(pictures.rules_heat(None)),
        fig_plot(survival(None, None)),
        fig_plot(pictures.closing_plot(None)),
        fig_plot(pictures.paired_plot(())),
    )
    assert all(spec(figure)["layout"]["annotations"][0]["text"] for figure in figures)


# The page itself ----------------------------------------------------------------------------------------------------


def test_the_page_shows_the_scan_of_the_round_in_the_address(hsd_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=hsd_trace), "verification", at="r2")
    assert not at.exception
    assert any("Round 2 · γ=6 · rule hsd" in str(h.value) for h in at.get("html"))
    assert len(barred.charts(at)) == 7
    assert all(barred.charts(at))
    assert list(at.dataframe[0].value[""])[:3] == ["r  joint p/q", "c  capped", "D+ │ D-"]


def test_choosing_a_position_moves_the_sentence_and_the_address(case_d: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=case_d), "verification")
    box(at, "scan-position").set_value(0).run()
    assert not at.exception
    assert any("Alone it would have failed: .900 ≥ .123." in str(h.value) for h in at.get("html"))
    place = at.query_params["at"]
    assert (place if isinstance(place, str) else place[0]) == "r37/n0"


def test_the_scan_goes_with_the_picture_above_it(hsd_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=hsd_trace), "verification")
    onstage.go(at, "r2")
    assert not at.exception
    place = at.query_params["at"]
    assert (place if isinstance(place, str) else place[0]).startswith("r2")
    assert any("Round 2 · " in str(h.value) for h in at.get("html"))


@pytest.mark.parametrize(("name", "words"), [("tree_trace", "no sampled chain"), ("greedy", "nothing is drawn")])
def test_a_run_without_a_chain_gives_the_reason(
    name: str, words: str, open_page: Open, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    path = write_trace(tmp_path / "g", make_events()) if name == "greedy" else request.getfixturevalue(name)
    at = open_page(Settings(replay=path), "verification")
    assert not at.exception
    notice = at.info[0].value.replace("\\", "")
    assert words in notice
    assert "--verifier hsd" in notice


@pytest.mark.parametrize("page", ["overview", "rounds", "verification", "trace"])
def test_not_lossless_is_told_in_red_on_every_page(page: str, tmp_path: Path, open_page: Open) -> None:
    path = write_trace(tmp_path / "ref", worked_events("hsd_ref"))
    at = open_page(Settings(replay=path), page)
    assert not at.exception
    head = msgspec.json.decode(current().stages.run(onstage.handed(at)["run"]).head())
    assert head["tone"] == "broken"
    assert head["badge"].startswith("NOT LOSSLESS · TV 1/9 on the toy")
