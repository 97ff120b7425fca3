"""`specviz compare` of sets: planted changes are found, equal sets have none, gates close where they should."""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pytest

from cli.conftest import Cli
from specviz.comparison.recorded import read_set
from specviz.errors import SpecvizError
from specviz.events import Event, Header, ModelInfo, Models, Prefill
from specviz.events.outside import Outside
from specviz.metrics.registry import RATIOS
from specviz.metrics.sets import Beside
from specviz.trace import Writer
from specviz.view.compare import SideBySide, comparison_of, parse_rules
from support.traces import make_events, plain_round, plain_run, write_trace

GAMMA = 4
COUNTS = Outside(engine="vLLM", chains=True)  # every draft is a chain: counts tell what is kept by position


def _write(path: Path, kept: Sequence[Sequence[int]], ms: float = 2.0) -> Path:
    """A run of queries, for each the accepted tokens of its rounds; every query has its own prompt and domain."""
    rounds: list[list[Event]] = []
    for q, prompt in enumerate(kept):
        n = 5 + q
        for r, accepted in enumerate(prompt, 1):
            rounds.append(plain_round(r, n, GAMMA, accepted, q=q, ms=ms))
            n += accepted + 1
    events = plain_run(rounds, outside=COUNTS)
    for event in events:
        if isinstance(event, Prefill):
            event.domain = "even" if event.q % 2 == 0 else "odd"
    return write_trace(path, events)


def _kept(less: int = 0) -> list[list[int]]:
    return [[max(0, (3 * q + r) % (GAMMA + 1) - less) for r in range(12)] for q in range(6)]


def test_a_set_beside_itself_has_no_change_and_no_width(tmp_path: Path) -> None:
    numbers = read_set(str(_write(tmp_path / "a", _kept())))
    report = comparison_of([numbers, numbers])
    assert report.texts[0].n_same == report.numbers.n_paired == 6
    summed = [row for row in report.numbers.rows if row.name in RATIOS]  # a speed-up is none, and has no pairs
    changes = [row.beside[1].difference for row in (*summed, *report.numbers.places["survival"])]
    assert {numbers and (numbers.value, numbers.interval) for numbers in changes} == {(0.0, (0.0, 0.0))}


def _numbers(report: SideBySide) -> dict[str, tuple[Beside, ...]]:
    rows = (*report.numbers.rows, *chain.from_iterable(report.numbers.places.values()))
    return {row.name: row.beside for row in rows}


def test_numbers_are_those_of_the_rounds_and_a_drop_is_sure(tmp_path: Path) -> None:
    a, b = (read_set(str(_write(tmp_path / name, _kept(less)))) for name, less in (("a", 0), ("b", 1)))
    report = comparison_of([a, b])
    for which in (0, 1):
        kept = [n for prompt in _kept(which) for n in prompt]
        numbers = {name: prompt[which].value for name, prompt in _numbers(report).items()}
        values = {name: prompt.value for name, prompt in numbers.items() if prompt is not None}
        assert values["block_efficiency"] == pytest.approx(sum(kept) / len(kept) + 1)
        assert values["draft_acceptance_rate"] == pytest.approx(sum(kept) / len(kept) / GAMMA)
        # The sum of what is kept to each position is what was accepted.
        assert sum(values[f"survival@{k}"] for k in range(1, GAMMA + 1)) == pytest.approx(sum(kept) / len(kept))
        tested = values["position_acceptance@1"] * values["position_acceptance@2"]
        assert values["survival@2"] == pytest.approx(tested)
    change = _numbers(report)["block_efficiency"][1]
    assert change.ratio is not None
    assert change.ratio.interval is not None
    assert change.ratio.interval[1] < 0
    assert report.numbers.kinds.keys() == {"even", "odd"}


def test_the_first_token_that_differs_is_named(tmp_path: Path) -> None:
    a, b = (
        read_set(str(write_trace(tmp_path / name, make_events(temperature=1.0, seed=3, verifier=rule, gamma=3))))
        for name, rule in (("a", "tokenwise"), ("b", "walk"))
    )
    mine, other = a.requests[0].written, b.requests[0].written
    (parting,) = comparison_of([a, b]).texts[0].partings[:1]
    assert mine[: parting.at] == other[: parting.at]
    assert mine[parting.at : parting.at + 1] != other[parting.at : parting.at + 1]


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("block_efficiency drops 5%", 1),
        ("block_efficiency drops by 5% surely", 1),
        ("block_efficiency drops 90%", 0),
        ("block_efficiency rises 1%", 0),
        ("acceptance changes 0.05; block_efficiency rises 1%", 1),
        ("position@1 drops 0.9", 0),
        ("survival@1 drops 0.1; tokens_per_s changes 90%", 1),
        ("depth@1 drops 0.1 surely", 1),
        ("text differs", 1),
    ],
)
def test_gates(rule: str, code: int, cli: Cli, tmp_path: Path) -> None:
    paths = [_write(tmp_path / name, _kept(less)) for name, less in (("a", 0), ("b", 1))]
    done = cli("compare", *paths, "--json", "--fail-if", rule)
    assert done.code == code, done
    assert any(prompt["holds"] for prompt in json.loads(done.out)["fail_if"]) is bool(code)


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        ("block_eficiency drops 5%", "did you mean 'block_efficiency'"),
        ("acceptance drop 5%", "did you mean 'drops'"),
        ("acceptance", "is no condition"),
        ("position drops 5%", "no metric 'position'"),
        ("position@0 drops 5%", "no metric 'position@0'"),
        ("acceptance drops 0%", "above 0"),
        ("", "is no condition"),
    ],
)
def test_a_rule_that_is_none_is_one_line(rule: str, settings: str) -> None:
    with pytest.raises(SpecvizError, match=settings):
        parse_rules([rule])


def test_folders_patterns_and_what_is_nothing(cli: Cli, tmp_path: Path) -> None:
    path = _write(tmp_path / "a", _kept())
    assert json.loads(cli("compare", tmp_path, tmp_path / "*.gz", "--json").out)["texts"][0]["n_same"] == 6
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("hello\n")
    assert "without a trace" in cli("compare", path, tmp_path / "empty").line
    assert "no file fits" in cli("compare", path, tmp_path / "no*").line
    assert "not a specviz trace" in cli("compare", path, tmp_path / "text.txt").line
    assert (
        "'position@9 drops 1%': survival@9 was not counted"
        in cli("compare", path, path, "--fail-if", "position@9 drops 1%").line
    )
    assert "is what is read" in cli("compare", path, path, "-o", path).line


def test_a_recording_of_the_package_goes_by_its_name(cli: Cli, tmp_path: Path) -> None:
    by_name = cli("compare", "explain-tree", "explain-tree", "--json")
    assert json.loads(by_name.out)["texts"][0]["n_same"] == 1
    assert "explain-treee" in cli("compare", "explain-tree", "explain-treee").line


def test_the_report_stands_alone_and_escapes_what_it_shows(cli: Cli, tmp_path: Path) -> None:
    paths = [_write(tmp_path / f"<b>{name}", _kept(less)) for name, less in (("a", 0), ("b", 1))]
    out = tmp_path / "report.html"
    assert cli("compare", *paths, "-o", out, "--fail-if", "text differs").code == 1
    page = out.read_text("utf-8")
    assert "http" not in page
    assert "<script" not in page
    assert "<b>a" not in page
    assert "&lt;b&gt;a" in page
    assert "color-scheme: light dark" in page
    assert "already" in cli("compare", *paths, "-o", out).line


def test_every_setting_that_differs_is_told(cli: Cli, tmp_path: Path) -> None:
    """Sampling, the machine and the models too: else a gate blames what was not changed."""
    bf16 = Models(target=ModelInfo(name="table", vocab=6, dtype="bfloat16", hash="b" * 32))
    changes = {"temperature": 0.9, "top_p": 0.5, "seed": 3, "max_new_tokens": 7}
    runs = [make_events(new_tokens=8, seed=0), make_events(new_tokens=8, seed=3)]
    header = runs[1][0]
    assert isinstance(header, Header)
    header.knobs, header.models, header.env = header.knobs | changes, bf16, {"threads": 4, "products": "compiled"}
    paths = [write_trace(tmp_path / name, events) for name, events in zip("ab", runs, strict=True)]
    settings = json.loads(cli("compare", *paths, "--json").out)["settings"]
    assert settings.keys() >= changes.keys() | {"target", "target weights", "threads", "products"}
    assert settings["top_p"] == ["1", ".50"]


def test_nothing_is_said_of_texts_that_are_not_on_record(cli: Cli, tmp_path: Path) -> None:
    """An engine's counts tell how many tokens came; two unlike runs of one length are not equal for that."""
    paths = [tmp_path / "a.sv.jsonl", tmp_path / "b.sv.jsonl"]
    for path, kept in zip(paths, ([2, 0], [0, 2]), strict=True):
        with Writer(path, "vLLM", known="counts", chains=True) as writer:
            for n in kept:
                writer.round(n_drafted=4)
                writer.committed([-1] * (n + 1), [""] * (n + 1), n_accepted=n)
        path.with_name(path.name + ".gz").rename(path.with_suffix(".gz"))
    done = cli("compare", *(path.with_suffix(".gz") for path in paths), "--fail-if", "text differs")
    assert done.code == 1
    assert "not on record" in done.out
    assert "fails  text differs  texts are not on record" in done.out
    assert "equal" not in done.out
    compared = json.loads(cli("compare", *(path.with_suffix(".gz") for path in paths), "--json").out)
    assert (compared["n_same"], compared["parted"]) == (None, None)
    assert "texts are not on record" in compared["words"]
