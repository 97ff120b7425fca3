"""Figures as JSON: what is drawn is what the frame says, and nothing of a token is ever markup."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app import barred
from specviz.numerals import number
from specviz.runlog.fold import fold
from specviz.trace import read_events
from specviz.view import Frame, Player
from specviz.view.blocks import Plot, PlotCurve, series_plot
from specviz.view.frame.parts import Residual, ResidualEntry, Series
from specviz.view.panels.overview.build import overview
from specviz.view.panels.overview.model import RunBlocks
from specviz.view.stage import page as painted
from specviz.view.words.palette import STYLES, glyph
from specviz_app.figures.bars import bars_html
from specviz_app.figures.blocks import fig_plot
from specviz_app.figures.tree import fig_pq, fig_residual, fig_tests, tree_rows
from specviz_app.launcher import GROUNDS
from specviz_app.ui.viewer import Viewer
from support.traces import make_events


class _Ended:
    """A source that has said everything."""

    live, ended, silence = False, True, None

    def __init__(self, events: list[Any]) -> None:
        self._events = events

    def poll(self) -> list[Any]:
        events, self._events = self._events, []
        return events

    def send(self, command: object) -> None:
        raise AssertionError(command)

    def close(self) -> None:
        pass


def _viewer(**recipe: Any) -> Viewer:
    return Viewer.of("x", _Ended(make_events(**recipe)))


def _blocks(**recipe: Any) -> tuple[RunBlocks, int]:
    """The numbers of a run, and of how many rounds."""
    run = fold(make_events(**recipe))
    figures = overview(run)
    assert figures.blocks is not None
    return figures.blocks, len(run.rounds)


def _json(figure: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(figure.to_json())
    return plain


@pytest.fixture(scope="module")
def moments() -> list[Frame]:
    viewer = _viewer(shape="tree", temperature=0.7)
    assert viewer.player.next_rejection()
    return viewer.moments()


def test_tokens_are_never_markup() -> None:
    events = make_events(temperature=0.8, new_tokens=20)
    bad = "<a href='javascript:1'>x</a><b>"
    for event in events:
        if type(event).__name__ in ("Node", "Closing") and getattr(event, "text", None):
            event.text = bad
    viewer = Viewer.of("x", _Ended(events))
    for figure in (fig_tests(viewer.frame.tree.nodes), fig_pq(viewer.frame.tree.nodes)):
        text = figure.to_json()
        assert "<a" not in text
        assert "\\u003ca" not in text
        assert "&lt;a" in text


def test_the_band_of_a_test_is_where_u_keeps_the_token() -> None:
    viewer = _viewer(temperature=0.8, new_tokens=20)
    assert viewer.player.next_rejection()
    tested = [n for n in viewer.frame.tree.nodes if n.values.u is not None and n.values.thr is not None]
    spec = _json(fig_tests(viewer.frame.tree.nodes))
    bands, marks = spec["data"][:-1], spec["data"][-1]
    assert marks["y"] == [n.values.u for n in tested]
    for band, node in zip(bands, tested, strict=True):
        assert (node.values.u < band["y"][1]) is (node.mark == "accepted")


def test_p_and_q_are_those_of_the_nodes() -> None:
    nodes = [n for n in _viewer(temperature=0.8, new_tokens=20).frame.tree.nodes if n.id >= 0]
    q, p = _json(fig_pq(nodes))["data"]
    assert (q["y"], p["y"]) == ([n.values.q for n in nodes], [n.values.p for n in nodes])


def test_the_table_twin_has_every_node_in_reading_order(moments: list[Frame]) -> None:
    tree = moments[-1].tree
    rows = tree_rows(tree)
    assert len(rows) == len(tree.nodes)
    assert rows[0]["node"] == "root"
    assert all(row["status"].split()[0] for row in rows)


def test_intervals_are_drawn_from_edge_to_edge() -> None:
    series = Series("s", "kept / tested", (1, 2), (0.8, 0.5), (0.7, None), (0.9, None), (40, 1))
    drawn = barred.read(series_plot(series, "position", "Acceptance"))
    assert drawn.values == {0: [0.8, 0.5]}
    assert drawn.intervals == [pytest.approx((0.7 / 1.04, 0.9 / 1.04), abs=1e-4)]  # of a field up to 1.04
    assert drawn.tips == ["position 1\nshare: .80 [.70, .90], n 40", "position 2\nshare: .50, n 1"]
    assert "not defined" in fig_plot(series_plot(Series("s", "", (), (), (), (), (), "not defined"), "x", "")).to_json()


def test_the_histogram_carries_the_geometric_curve() -> None:
    figures, n_rounds = _blocks(temperature=0.8, new_tokens=60)
    (_, rounds), (name, fit) = barred.values(figures.histogram).items()
    assert sum(rounds) == n_rounds
    assert sum(fit) == pytest.approx(n_rounds, rel=1e-9)
    assert name.startswith("geometric, α .")
    assert bars_html(figures.histogram).count('class="path') == 1
    plain, _ = _blocks(shape="none")
    assert "nothing was drafted" in fig_plot(plain.histogram).to_json()


def test_stages_and_marks_say_their_words() -> None:
    figures, _ = _blocks(temperature=0.8, new_tokens=60)
    stages = barred.read(figures.stages)
    names = list(map(str, figures.stages.xs))
    assert stages.words[: len(names)] == names
    texts = [word for word in stages.words[len(names) :] if word.endswith(" ms")]
    assert texts == [f"{number(ms)} ms" for ms in stages.values[0]]
    assert [name[0] for name in barred.values(figures.marks)] == [glyph(curve.mark) for curve in figures.marks.curves]


def test_bars_stand_where_their_numbers_do() -> None:
    """Numbers that no bar has have room as well; a bar below 0 hangs; what is stacked begins where the other ends."""
    apart = Plot("k", "t", "more", (-1, 2), (PlotCurve("n", (3, -1)),), "count")
    html = bars_html(apart)
    assert [re.sub("<.*?>", "", name) for name in re.findall(r"<span>.*?</span>", html)] == ["-1", "0", "1", "2"]
    assert html.count('class="slot') == 4
    (low, up), (down, long) = [(float(a), float(b)) for a, b in re.findall(r"--lo:([\d.]+)%;--long:([\d.]+)%", html)]
    assert low == pytest.approx(down + long, abs=0.02), "both begin at 0"
    assert up == pytest.approx(3 * long, abs=0.05)
    piled = Plot("k", "t", "", ("a",), (PlotCurve("n", (3,)), PlotCurve("m", (1,))), "count", stacked=True, flat=True)
    (low, long), (second, _) = re.findall(r"--lo:([\d.]+)%;--long:([\d.]+)%", bars_html(piled))
    assert float(low) == 0
    assert float(second) == pytest.approx(float(long))


def test_the_residual_shows_what_was_drawn() -> None:
    entries = (ResidualEntry("▁rug", 0.8, ".80", True, False), ResidualEntry("▁sofa", 0.2, ".20", False, True))
    drawn = _json(fig_residual(Residual("Residual", entries)))
    assert drawn["data"][0]["x"] == [0.8, 0.2]
    assert drawn["layout"]["yaxis"]["ticktext"][0].startswith(glyph("recovered"))


def test_figures_know_no_streamlit(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "import sys, specviz_app.figures.blocks, specviz_app.figures.tree;sys.exit('streamlit' in sys.modules)"
    roots = [str(Path(__file__).parents[2] / name) for name in ("", "app")]
    words = [sys.executable, "-c", f"import sys; sys.path[:0]={roots}\n{code}"]
    done = subprocess.run(words, cwd=tmp_path, check=False)
    assert done.returncode == 0


def test_a_recorded_file_and_its_events_give_one_picture(chain_trace: Path) -> None:
    events = read_events(chain_trace)
    a, b = Player(fold(events), animate=False), Viewer.of("x", _Ended(events))
    a.seek_index(0)
    assert a.frame().tree == b.frame.tree


def _brightness(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("ground", ["light", "dark"])
@pytest.mark.parametrize("mark", ["untested", "pruned"])
def test_tokens_that_were_never_tested_can_be_read_on_the_stage(ground: str, mark: str) -> None:
    """Their sign in its own colour, and their words in the ink of the picture, which lets the ground through."""
    style, under, sheet = STYLES[mark], GROUNDS[ground], painted.style()
    inks = dict(zip(("light", "dark"), re.findall(r"--ink: (#\w{6})", sheet), strict=True))
    match = re.search(rf"\.node\[data-mark={mark}\] \{{ opacity: ([.\d]+)", sheet)
    share = float(match[1]) if match else 1.0
    for name in ("backgroundColor", "secondaryBackgroundColor"):
        own = style.dark if ground == "dark" else style.light
        assert _contrast(own, under[name]) >= 4.5
        assert _contrast(_through(inks[ground], under[name], share), under[name]) >= 4.5


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_brightness(one), _brightness(other)))
    return (high + 0.05) / (low + 0.05)


def _through(ink: str, under: str, share: float) -> str:
    """A colour that covers so much of what is under it."""
    mixed = (round(share * int(ink[k : k + 2], 16) + (1 - share) * int(under[k : k + 2], 16)) for k in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in mixed)
