"""A name means one number: every command and both front-ends over the recordings that come with the package, each
beside what `specviz stats --json` says, and that beside a count of the lines themselves.

Of the terminal the lines are read that its widgets paint; of the dashboard what a page is handed, which is all that a
browser gets: elements of Streamlit's pages, and the wire of the stage.
"""

import base64
import csv
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.conftest import (
    Open,
    open_page,  # noqa: F401 (a fixture)
    server,  # noqa: F401 (a fixture)
)
from cli.conftest import (
    Cli,
    cli,  # noqa: F401 (a fixture)
)
from specviz.cli.run.result import Result, StreamResult
from specviz.engines.watch.picture import _positions
from specviz.events import Calibration, End, RoundEnd
from specviz.events.outside import Outside
from specviz.judge import Evidence, RoundsCounted
from specviz.metrics import METRICS, Tally, measure
from specviz.runlog.fold import fold
from specviz.sources.big_trace import BigTrace
from specviz.sources.bundled import bundled_traces
from specviz.sources.live_run import IdleWords, LiveRun
from specviz.sources.trace_summary import trace_summary
from specviz.tables import TABLES, WHOLE
from specviz.trace import read_events
from specviz.trace.indexing import write_index
from specviz.view import Options, Player
from specviz.view.blocks import Facts, TableBlock
from specviz.view.clinic.exhibits import exhibits_of
from specviz.view.compare import comparison
from specviz.view.compare.figures import ROWS
from specviz.view.panels import all_panels
from specviz.view.panels.lanes.build import LanesPanel
from specviz.view.panels.learning.build import LearningPanel
from specviz.view.panels.overview.build import OverviewPanel
from support.seen import NAME, NUMBER, WORDS, Seen, in_columns, is_estimate, numbers_of, says, spoken
from support.traces import make_events, plain_round, plain_run, write_trace

TRACES = bundled_traces()
PLACED = ("position_acceptance", "depth_acceptance", "survival")
ALL = Options(shown=tuple(panel.id for panel in all_panels()))
METRICS_ALONE = {"overview": "overview", "exits": "exits", "ranks": "ranks-run"}  # lists of facts, by their panels
every_recording = pytest.mark.parametrize("name", TRACES)


def _stats(cli: Cli, path: Path) -> dict[str, Any]:  # noqa: F811
    """What all others are held against."""
    stats: dict[str, Any] = numbers_of(json.loads(cli("stats", path, "--json").out)["metrics"])
    return stats


def _unlike(seen: list[Seen], stats: dict[str, Any]) -> list[Seen]:
    """Numbers that are not those of `stats` under the same name."""
    assert seen
    return [number for number in seen if not says(number.text, stats[NAME.get(number.name, number.name)])]


# Commands ------------------------------------------------------------------------------------------------------------


@every_recording
def test_every_command_gives_the_same_number_under_the_same_name(name: str, cli: Cli) -> None:  # noqa: F811
    path = TRACES[name]
    stats = _stats(cli, path)
    # A stream has several prompts, and a run beside itself is paired: values are still those of the run.
    compared = json.loads(cli("compare", path, path, "--json").out)["metrics"]
    whole = {name for name, _, _ in ROWS if stats[name] is not None}
    assert compared.keys() == {value for value in stats if value.partition("@")[0] in PLACED and "@" in value} | whole
    for metric, values in compared.items():
        assert [value["value"] for value in values] == [stats[metric]] * 2, metric


@every_recording
def test_every_command_prints_the_same_number_under_the_same_name(name: str, cli: Cli) -> None:  # noqa: F811
    path = TRACES[name]
    stats = _stats(cli, path)
    numbers = list(_printed(cli("stats", path).out, stats))
    numbers += in_columns("compare", cli("compare", path, path).out.splitlines(), 2)
    for line in cli("diagnose", path).out.splitlines():
        numbers += [
            Seen("diagnose", "over_plain", text) for text in re.findall(rf"than plain decoding: ({NUMBER})", line)
        ]
    numbers += _decoded(path, stats)
    numbers += in_columns("whatif", cli("whatif", path, "--verifier", "walk").out.splitlines())
    numbers += spoken("lists of recordings", _pace(path))
    numbers += _exhibited(path)
    assert {number.where for number in numbers} >= {"stats", "compare", "run", "lists of recordings", "clinic"}
    single = {name for name in METRICS if isinstance(stats[name], int | float) or is_estimate(stats[name])}
    assert single - {"over_plain"} <= {number.name for number in numbers if number.where == "stats"}
    assert not _unlike(numbers, stats)


def _pace(path: Path) -> str:
    """How a recording stands in lists, which read its first and last lines alone."""
    summary = trace_summary(path)
    assert summary is not None
    return summary.pace


def _exhibited(path: Path) -> Iterator[Seen]:
    """The evidence of a case of the clinic."""
    run, tally = fold(read_events(path)), Tally().add_all(read_events(path))
    for exhibit in exhibits_of(Evidence(rounds=(RoundsCounted(run, tally, tally.summary()),))):
        for block in exhibit.blocks:
            if isinstance(block, TableBlock):
                yield from in_columns("clinic", ("  ".join(cell.text for cell in row) for row in block.rows))


def test_lists_of_recordings_count_passes_where_a_round_goes_on_with_the_block_of_the_one_before(
    tmp_path: Path,
    cli: Cli,  # noqa: F811
) -> None:
    """Tokens a pass and tokens a block are two numbers there, and go by two names."""
    events = make_events(temperature=0.8, verifier="hsd_naive", gamma=5, new_tokens=60, seed=2)
    ended = [event for event in events if isinstance(event, RoundEnd)]
    (end,) = (event for event in events if isinstance(event, End))
    end.totals = {"n_rounds": len(ended), "n_new_tokens": sum(event.n_emitted for event in ended)}  # as a core does
    path = write_trace(tmp_path / "carried", events)
    stats = _stats(cli, path)
    assert stats["n_blocks"] < stats["n_rounds"]
    numbers = [*spoken("lists of recordings", _pace(path)), *_terminal(path)]
    assert not _unlike(numbers, stats)
    (pace,) = (number for number in numbers if number.where == "lists of recordings")
    assert not says(pace.text, stats["mean_acceptance_length"])


def _printed(out: str, stats: dict[str, Any]) -> Iterator[Seen]:
    """The line of the run, then every table: a name, its value, its interval."""
    for line in out.splitlines():
        words, *cells = re.split(r" {2,}", line.strip())
        name = words.replace("stage_ms ", "stage_ms@")
        if name in stats and cells and re.fullmatch(rf"{NUMBER}|—", cells[0]):
            ends = cells[1].split(" .. ") if len(cells) > 1 else []
            yield Seen("stats", name, cells[0] + (f" [{ends[0]}, {ends[1]}]" if len(ends) == 2 else ""))
        elif " · " in line and "plain decoding" in line:
            yield from spoken("stats", line)
        elif (rate := re.match(rf"({NUMBER}): a pass of", line)) is not None:
            yield Seen("stats", "over_plain", rate[1])


def _decoded(path: Path, stats: dict[str, Any]) -> Iterator[Seen]:
    """What `specviz run` says at the end of this very run."""
    for result in (Result(), StreamResult()):
        for event in read_events(path):
            result(event)
        assert numbers_of(result.as_json()["metrics"]).keys() == stats.keys()
        assert json.loads(json.dumps(numbers_of(result.as_json()["metrics"]))) == stats
        for line in result.summary():
            yield from spoken("run", line)
            yield from (Seen("run", "acceptance", text) for text in re.findall(rf"^acceptance  ({NUMBER}) \(", line))


@every_recording
def test_tables_add_up_to_the_counts_of_the_same_name(name: str, cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    path = TRACES[name]
    stats = _stats(cli, path)
    n = 0
    for table in WHOLE:
        names = [column.name for column in table.columns if column.name in METRICS]
        if names:
            asked = ", ".join(f"sum({number}) {number}" for number in names)
            (row,) = json.loads(cli("stats", path, "--sql", f"select {asked} from {table.name}", "--json").out)["rows"]
            assert row == {number: stats[number] for number in names}, table.name
            n += len(names)
    assert cli("export", path, "--csv", tmp_path).code == 0
    for table in TABLES:
        rows = list(csv.DictReader((tmp_path / f"{table.name}.csv").read_text(encoding="utf-8").splitlines(True)))
        for number in {column.name for column in table.columns} & METRICS.keys():
            assert sum(int(row[number]) for row in rows) == stats[number], (table.name, number)
            n += 1
    assert n > 10


# Front-ends ----------------------------------------------------------------------------------------------------------


def _at_the_end(path: Path) -> Player:
    player = Player(fold(read_events(path)), animate=False)
    player.seek_index(len(player.run.rounds) - 1)
    return player


def _facts(model: Any) -> Iterator[Facts]:
    """Every list of facts that a panel shows, wherever it lies in its model."""
    if isinstance(model, Facts):
        yield model
    elif isinstance(model, list | tuple):
        for part in model:
            yield from _facts(part)
    elif is_dataclass(model) and not isinstance(model, type):
        for field in fields(model):
            yield from _facts(getattr(model, field.name))


@every_recording
def test_the_terminal_paints_the_numbers_of_stats(name: str, cli: Cli) -> None:  # noqa: F811
    pytest.importorskip("textual", reason="textual is not installed (extra tui)")
    stats = _stats(cli, TRACES[name])
    assert not _unlike(list(_terminal(TRACES[name])), stats)


@every_recording
def test_a_run_that_is_counted_by_its_index_has_the_numbers_of_stats(name: str, cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """As a long recording is opened, whose rounds are not read again: what the terminal says of it."""
    pytest.importorskip("textual", reason="textual is not installed (extra tui)")
    write_index(TRACES[name], tmp_path / "index")
    live = LiveRun(BigTrace(TRACES[name], tmp_path / "index"), IdleWords("", ""), animate=False)
    live.tick(0.0)
    live.live_player.seek_index(len(live.run.rounds) - 1)
    painted = list(_painted(live.live_player))
    live.close()
    assert {each.where for each in painted} >= {"first lines", "judged", "Overview", "Compare"}
    assert not _unlike(painted, _stats(cli, TRACES[name]))


def test_the_speed_that_a_curve_is_held_against_is_that_of_stats(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """`Measured at γ 4: 47.1 tokens/s`, as `specviz stats` and the panel of lanes say it; no recording that comes along
    is long enough for the curve."""
    header, *events = make_events(temperature=0.8, new_tokens=200)
    costs = Calibration(widths=[1, 17], target_ns=[2_000_000, 2_000_000])  # as the passes of the run
    path = write_trace(tmp_path / "long", [header, costs, *events])
    lanes = LanesPanel.of(_at_the_end(path).frame(ALL))
    assert lanes is not None
    assert lanes.pay is not None
    for line in (" ".join(cli("stats", path).out.split()), lanes.pay.point_text):
        (speed,) = re.findall(rf"Measured at γ \d+: ({NUMBER}) tokens/s", line)
        assert says(speed, _stats(cli, path)["tokens_per_second"])


def _terminal(path: Path) -> Iterator[Seen]:
    yield from _painted(_at_the_end(path))


def _painted(player: Player) -> Iterator[Seen]:
    from specviz_tui.common.blocks import painted
    from specviz_tui.common.paint import Painter
    from specviz_tui.compare import views
    from specviz_tui.panels import overview_views
    from specviz_tui.widgets.status_line import metric

    painter, cells = Painter(), 120
    frame = player.frame(ALL)
    for shown in frame.metrics:
        yield Seen("first lines", shown.label, metric(shown).plain.removeprefix(f"{shown.label} "))
    overview = OverviewPanel.of(frame)
    assert overview is not None
    yield from spoken("judged", overview_views.judgement(overview, painter, cells).plain.partition("\n")[0])
    yield from in_columns("Overview", overview_views.numbers(overview, painter, cells).plain.splitlines())
    assert overview.blocks is not None
    for curve in (*overview.blocks.curves, overview.blocks.stages):
        name = "stage_ms" if curve is overview.blocks.stages else curve.key
        for line in painted([] if curve.missing else [curve], painter, cells).plain.splitlines():
            place = re.match(rf" +(\w+) +({NUMBER})", line)
            assert place is not None
            yield Seen("curves", f"{name}@{place[1]}", place[2])
    for panel in all_panels():
        for facts in _facts(panel.of(frame)):
            assert facts.key != METRICS_ALONE.get(panel.id) or {row.label for row in facts.rows} <= NAME.keys()
            yield from in_columns(panel.title, painted([facts], painter, cells).plain.splitlines())
    rows = comparison([("a", player.run), ("b", player.run)]).numbers.rows
    yield from in_columns("Compare", (line.plain for line in views.numbers(rows, "AB", cells)), 2)


@every_recording
def test_the_dashboard_hands_a_page_the_numbers_of_stats(name: str, cli: Cli, open_page: Open) -> None:  # noqa: F811
    pytest.importorskip("streamlit", reason="streamlit is not installed (extra web)")
    stats = _stats(cli, TRACES[name])
    numbers = [*_wire(name), *_pages(name, open_page)]
    assert not _unlike(numbers, stats)


def _wire(name: str) -> Iterator[Seen]:
    """The head that the stage fetches, the same in a saved page, and the state that is sent while a run goes on."""
    from specviz.view.stage.now import stage_now
    from specviz_app.server.stages import RunStore

    store = RunStore()
    run = store.run(store.offer(TRACES[name], name))
    packed = re.search(r'<script id="run" type="text/plain">([^<]*)<', run.page())
    assert packed is not None
    saved = json.loads(gzip.decompress(base64.b64decode(packed[1])))["head"]
    player = _at_the_end(TRACES[name])
    now = msgspec.json.decode(msgspec.json.encode(stage_now(player, player.frame(), name)))
    for where, head in (("stage", json.loads(run.head())), ("saved page", saved), ("live", now)):
        for metric in head["metrics"]:
            yield Seen(where, metric["name"], metric["text"])
            assert NAME[metric["label"]] == metric["name"]
    for panel in saved.get("panels", ()):
        for part in panel["parts"]:
            yield from in_columns("saved page", ("  ".join(row) for row in part.get("rows", ())))


def _pages(name: str, open_page: Open) -> Iterator[Seen]:  # noqa: F811
    """The panels below the stage that show facts, and Compare."""
    from specviz_app.server.core import Settings

    frame = _at_the_end(TRACES[name]).frame(ALL)
    for panel, page in (("overview", "overview"), ("exits", "early-exit"), ("ranks", "ranks")):
        labels = [row.label for facts in _facts(frame.panels[panel]) for row in facts.rows if row.label in NAME]
        if labels:
            at = open_page(Settings(), page, src=name, **({} if panel == "overview" else {"show": "the run"}))
            assert not at.exception
            numbers = [Seen(panel, metric.label, metric.value) for metric in at.metric if metric.label in NAME]
            assert [number.name for number in numbers] == labels
            yield from numbers
            yield from spoken(panel, at.markdown[0].value.replace("\\", "") if panel == "overview" else "")
    at = open_page(Settings(), "compare", runs=[name, next(other for other in TRACES if other != name)])
    for row in at.dataframe[0].value.to_dict("records"):
        yield Seen("compare", row[""], row["A"])


def test_what_is_learnt_tells_every_prompt_as_run_does() -> None:
    """`tok/round` of a prompt: the bandit's record of it, and what the rounds of that prompt come to."""
    path = TRACES["stream-specblock"]
    result = StreamResult()
    for event in read_events(path):
        result(event)
    learning = LearningPanel.of(_at_the_end(path).frame(ALL))
    assert learning is not None
    (table,) = (block for block in learning.blocks if isinstance(block, TableBlock))
    numbers = [row[table.heads.index("tok/round")].text for row in table.rows]
    counted = [query["metrics"]["mean_acceptance_length"] for query in result.as_json()["queries"]]
    assert len(numbers) == len(counted) > 1
    assert all(map(says, numbers, counted))


def test_another_digit_is_seen_wherever_it_stands(cli: Cli) -> None:  # noqa: F811
    """The comparison itself: no number of a screen passes with any of its numbers one up in its last digit."""
    assert len(NAME) == sum(map(len, WORDS.values())), "words that mean two metrics"
    path = TRACES["sum-specblock"]
    stats = _stats(cli, path)
    for number in [*_printed(cli("stats", path).out, stats), *_decoded(path, stats), *_terminal(path)]:
        for digits in re.finditer(r"[\d,]*\.?\d+", number.text):
            last = digits.end() - 1
            wrong = f"{number.text[:last]}{(int(number.text[last]) + 1) % 10}{number.text[last + 1 :]}"
            assert _unlike([number._replace(text=wrong)], stats), (number, wrong)


def test_every_card_of_the_gallery_has_the_numbers_of_stats(cli: Cli, open_page: Open) -> None:  # noqa: F811
    pytest.importorskip("streamlit", reason="streamlit is not installed (extra web)")
    from specviz_app.server.core import Settings

    at = open_page(Settings())
    at.button(key="gallery").click().run()
    cards = [str(number.value) for number in at.get("html") if '<div class="sv-gallery"' in str(number.value)]
    assert len(cards) == len(TRACES)
    for card in map(unescape, cards):
        name = re.search("<h4>(.*?)</h4>", card)
        assert name is not None
        numbers = [Seen("gallery", *pair) for pair in re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", card)]
        numbers += spoken("gallery", re.sub("<[^>]*>", " ", card))
        assert not _unlike(numbers, _stats(cli, TRACES[name[1]])), name[1]


@pytest.mark.parametrize("name", ["story-pearl", "code-specbranch", "quote-ngram", "explain-draft", "sum-eagle3"])
def test_compare_counts_what_a_count_of_the_lines_gives(name: str, cli: Cli) -> None:  # noqa: F811
    """Drafts of several lengths, some judged a round after they were drafted: only those so deep count at a place, and
    time is that of whole rounds."""
    begun: dict[str, Any] = {}
    places: dict[int, int] = {}
    rounds, took, deepest, tested, kept = [], 0, 0, set[int](), set[int]()
    by_place: dict[str, Counter[int]] = defaultdict(Counter)
    for line in gzip.decompress(TRACES[name].read_bytes()).splitlines():
        event = json.loads(line)
        if event["ev"] == "round_start":
            begun, deepest, tested, kept = event, 0, set(), set()
        elif event["ev"] == "node":
            places[event["node"]] = event["pos"]
        elif event["ev"] == "verify" and event["status"] != "pruned":
            depth = places[event["node"]] - begun["n"] + 1
            deepest = max(deepest, depth)
            tested |= {depth} if event["order"] is not None else set()
            kept |= {depth} if event["order"] is not None and event["status"] == "accepted" else set()
        elif event["ev"] == "round_end":
            rounds.append((event["n_accepted"], deepest, event["n_emitted"]))
            took += event["t"] - begun["t"]
            by_place["tested"].update(tested)
            by_place["kept"].update(kept)
    metrics = json.loads(cli("compare", TRACES[name], TRACES[name], "--json").out)["metrics"]
    values = {metric: number[0]["value"]["value"] for metric, number in metrics.items()}
    for k in range(1, max(deep for _, deep, _ in rounds) + 1):
        reached = [accepted >= k for accepted, deep, _ in rounds if deep >= k]
        assert values[f"survival@{k}"] == pytest.approx(sum(reached) / len(reached))
        if n := by_place["tested"][k]:
            assert values[f"position_acceptance@{k}"] == pytest.approx(by_place["kept"][k] / n)
    assert values["tokens_per_second"] == pytest.approx(sum(emitted for *_, emitted in rounds) * 1e9 / took)


def test_kept_by_position_of_a_server_is_survival_where_drafts_are_of_one_length() -> None:
    """`watch` has counters alone: rounds, and of them those that kept each position."""
    kept = [0, 3, 1, 3, 2, 0, 3, 3]
    counts = Outside(engine="vLLM", chains=True)
    metrics = measure(plain_run([plain_round(r, 5 + 4 * r, 3, n) for r, n in enumerate(kept, 1)], outside=counts))
    for at in _positions(len(kept), [sum(n >= k for n in kept) for k in (1, 2, 3)]):
        survival, tested = (metrics[name][at.position + 1] for name in ("survival", "position_acceptance"))
        assert (at.kept, (at.low, at.high), at.n) == (survival.value, survival.interval, survival.n)
        assert at.conditional == pytest.approx(tested.value)
