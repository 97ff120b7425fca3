"""`specviz lab ablate`: rows from real runs of a small pair, claims and clocks by arithmetic, bad input in one line."""

import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest
import torch

from specviz.cli import main
from specviz.cost.model_clock import Rates, run_facts
from specviz.engine.run.local import load_pair
from specviz.events import RoundEnd
from specviz.metrics.estimate import Estimate
from specviz_lab.bench.ablation import (
    Ablation,
    AblationSettings,
    OnClock,
    RecordedRuns,
    VariantResult,
    ablate,
    arms_of,
    claims_of,
    disturb,
)
from specviz_lab.bench.ours import OurArm
from specviz_lab.bench.settings import VARIANTS, BenchSettings
from specviz_lab.bench.statistics import PairedRatio
from support.branch_trace import worked
from support.traces import make_header

Captured = pytest.CaptureFixture[str]
Folders = tuple[str, str]
SMALL = ("--max-new-tokens", "10", "--repeats", "1", "--limit", "2", "--threads", "1", "--gamma", "3")


@pytest.fixture(scope="module")
def report(pair: Folders) -> Ablation:
    settings = BenchSettings((), 3, 16, 1, limit=2, target=pair[0], draft=pair[1], threads=1, lanes="serial")
    return ablate(AblationSettings(settings, ratios=(1.0, 20.0)), "specviz lab ablate", lambda _: None)


def test_every_variant_is_run_and_writes_the_target_s_text(report: Ablation) -> None:
    assert [row.name for row in report.rows] == [variant.name for variant in VARIANTS]
    assert [(e.arm, e.n_equal, e.n) for e in report.equality] == [(v.name, 2, 2) for v in VARIANTS[1:]]
    by_name = {row.name: row for row in report.rows}
    assert by_name["- hrad"].knobs["hrad"] == by_name["- both"].knobs["hrad"] == ["none"]
    assert by_name["- branches"].knobs["k_max"] == by_name["- both"].knobs["k_max"] == 1
    assert by_name["specbranch"].knobs["k_max"] > 1
    assert {row.name for row in report.rows if row.rollback_rate is None} <= {"ar", "lookahead"}
    assert all(isinstance(row.over_ar, PairedRatio) for row in report.rows[1:])


def test_one_branch_is_all_there_is_without_branches(report: Ablation) -> None:
    by_name = {row.name: row for row in report.rows}
    assert set(by_name["- branches"].branch_hit_rate or {}) == {1}
    assert set(by_name["pearl"].branch_hit_rate or {}) == {1}
    assert max(by_name["specbranch"].branch_hit_rate or {}) >= 1
    assert by_name["specbranch"].hrad == "fallback", "no classifier was trained for this pair"
    assert any("no classifier" in note for note in report.notes)


def test_plain_decoding_is_the_measure_of_the_modelled_clock(report: Ablation) -> None:
    plain = report.rows[0]
    assert [at.speedup.value for at in plain.modelled] == pytest.approx([1, 1, 1])
    assert [at.c for at in plain.modelled] == [report.costs["c"], 1.0, 20.0]
    sps = next(row for row in report.rows if row.name == "sps")
    assert sps.modelled[0].overlap_efficiency == pytest.approx(0, abs=1e-9)
    assert sps.modelled[2].speedup.value > sps.modelled[1].speedup.value, "drafting is dear when c is small"


def runs_of(n: int) -> RecordedRuns:
    header = make_header(level="summary", method="specbranch", knobs={})
    return RecordedRuns([[header, *(e for records in worked() for e in records)] for _ in range(n)], list(range(n)))


def test_runs_add_up_as_queries_of_their_own() -> None:
    one, three = runs_of(1), runs_of(3)
    costs = Rates(t=1, c=4, kappa_q=0)
    for field in ("bubble_target", "bubble_draft", "wasted_share"):
        assert getattr(three.on_clock(costs), field) == pytest.approx(getattr(one.on_clock(costs), field))
    assert one.on_clock(costs).speedup.value == pytest.approx(24 / 15)
    assert one.on_clock(costs).wasted_share == pytest.approx(11.5 / 14)
    metrics = three.metrics()
    assert (metrics.n_queries, metrics.n_rounds) == (3, 9)
    assert metrics.rollback_rate is not None
    assert metrics.rollback_rate.value == pytest.approx(10 / 14)


def row(name: str, rollback: float, speed: float) -> VariantResult:
    clock = OnClock(
        c=4,
        speedup=Estimate(value=speed, n=2),
        seconds=[(2 * speed, 2.0), (3 * speed, 3.0)],
        bubble_target=0,
        bubble_draft=0,
        overlap_efficiency=1,
        wasted_share=0,
    )
    return VariantResult(
        name=name,
        method=name,
        knobs={},
        lanes="serial",
        hrad=None,
        hrad_ms=0.0,
        tokens_per_second=None,
        over_ar=None,
        modelled=[clock],
        rollback_rate=Estimate(value=rollback, n=2),
        rollback_rate_tokens=None,
        draft_acceptance_rate=None,
        accepted_run_length=None,
        block_efficiency=None,
        branch_hit_rate=None,
        hrad_confusion=None,
    )


def test_a_claim_is_what_the_numbers_say() -> None:
    claims = claims_of([row("sps", 0.5, 2.0), row("pearl", 0.9, 1.5), row("specbranch", 0.6, 1.8)])
    faster = [claim.difference for claim in claims if claim.difference is not None]
    assert [claim.value for claim in faster] == pytest.approx([-0.2, 0.3])
    assert all(claim.interval == pytest.approx((claim.value, claim.value)) for claim in faster), (
        "the same at every prompt"
    )
    assert [(claim.found, claim.holds) for claim in claims] == [
        ((0.6, 0.5), False),
        ((1.8, 2.0), False),
        ((0.6, 0.9), True),
        ((1.8, 1.5), True),
    ]


def test_noise_makes_the_draft_worse_the_same_way_every_time(pair: Folders) -> None:
    loaded = [load_pair(*pair) for _ in range(3)]
    for model, noise in zip(loaded, (0.5, 0.5, 0.0), strict=True):
        disturb(model, noise)
    same, again, plain = (next(iter(p.draft.adapter.model.parameters())) for p in loaded if p.draft)
    assert torch.equal(same, again)
    assert not torch.equal(same, plain)
    assert loaded[0].draft is not None
    assert loaded[0].draft.info.name.endswith("+ noise 0.5")


def test_the_last_line_is_the_report(pair: Folders, capsys: Captured, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    args = ("--target", pair[0], "--draft", pair[1], "--not-timed", "--ratio", "8", "--html", str(page))
    assert main(["lab", "ablate", *SMALL, *args]) == 0
    out = capsys.readouterr().out.splitlines()
    as_json = msgspec.json.decode(out[-1], type=Ablation)
    assert as_json.rows[1].over_ar is None
    assert as_json.settings["ratios"] == [8.0]
    text = "\n".join(out[:-1])
    for word in ("Rollback and speed-up", "Drafts", "Lanes", "The paper's shape", "c = 8", "nothing was timed"):
        assert word in text
    assert "<h2>Rollback and speed-up</h2>" in page.read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--gamma", "0"), "not in the range"),
        (("--ratio", "nan"), "--ratio"),
        (("--draft-noise", "inf"), "finite"),
        (("--knob", "specbranch.epsilo=1"), "did you mean 'epsilon'"),
        (("--target", "x"), "--draft"),
        (("--lanes", "threds"), "threads"),
        (("--prompts", "none.jsonl"), "cannot read"),
        (("--minutes", "nan"), "finite"),
        (("--draft-noise", "nan"), "--draft-noise nan"),
        (("--knob", "specbranch.epsilon=7"), "0..1"),
        (("--knob", "tree.node_budget=3"), "is not measured here"),
        (("--knob", "specbranch.draft_mode=shard"), "did you mean 'shared'"),
    ],
)
def test_bad_input_is_one_line_and_code_two(args: tuple[str, ...], message: str, capsys: Captured) -> None:
    assert main(["lab", "ablate", *args, "-q"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert message in err


def test_json_alone_is_one_object(pair: Folders, capsys: Captured) -> None:
    assert main(["lab", "ablate", *SMALL, "--target", pair[0], "--draft", pair[1], "--not-timed", "--json", "-q"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)["schema"] == "specviz.ablation/1"


@pytest.mark.parametrize("temperature", [0.0, 30.0])
def test_every_draft_forward_stands_on_the_modelled_clock(pair: Folders, temperature: float) -> None:
    """The records give the forwards the drafters counted; void cells are those of the rollback rate."""
    loaded = load_pair(*pair)
    settings = BenchSettings((), 3, temperature=temperature, target=pair[0], draft=pair[1], lanes="serial")
    for variant in VARIANTS:
        (arm,) = (OurArm(one, settings, loaded) for one in arms_of([variant]))
        events = arm.records([5, 77, 12, 5, 77, 12], 24, 1)
        facts = list(run_facts(events))
        ends = [event for event in events if isinstance(event, RoundEnd)]
        counted = [(end.r, end.n_draft_calls, end.n_emitted) for end in ends]
        assert [(f.number, len(f.before) + len(f.beside), f.n_new) for f in facts] == counted, variant.name
        fates = Counter(fate for f in facts for _, fate in f.fates)
        metrics = RecordedRuns([events], [0]).metrics()
        total = sum(fates.values())
        rate = metrics.rollback_rate_tokens
        assert (total == 0) == (rate is None), variant.name
        if rate is not None:
            assert rate.value == pytest.approx(1 - fates.get("accepted", 0) / total), variant.name
            assert sum(f.rows - 1 for f in facts) >= fates.get("accepted", 0) - len(facts), variant.name
