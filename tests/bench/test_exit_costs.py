"""Early exit in the bench: counts by hand, the library's own loop beside ours, and classes it cannot leave early."""

import pytest

from specviz.errors import SpecvizError
from specviz.events import Event, ExitRound, LayerTrace
from specviz_lab.bench.exit_costs import costs_of_records, costs_of_splits
from specviz_lab.bench.measure import Split
from specviz_lab.bench.peers import PeerArm, Peers, exit_layer, refusal
from specviz_lab.bench.report.speed import sheets
from specviz_lab.bench.settings import CLIMBERS, DRAFTED, OURS, BenchSettings, contestants
from specviz_lab.bench.speed import bench
from support.models import build, planted, save, tokenizer
from support.traces import plain_round

MS = 1_000_000


def climb(widths: list[int], times: list[int]) -> LayerTrace:
    return LayerTrace(
        r=1,
        row=0,
        pos=4,
        token=1,
        source="root",
        exit_layer=2,
        terminal=False,
        draft_token=1,
        raw_conf=None,
        layer_from=1,
        past_len=[],
        width=widths,
        layer_ns=times,
        fill_after=[],
    )


def one_round(r: int, rows: int, calls: int, took: float, offered: int, kept: int) -> list[Event]:
    start, commit, end = plain_round(
        r, 5, rows - 1, kept, stage_ms={"draft": took / 4, "target": took * 3 / 4, "other": 9}
    )
    cost = ExitRound(
        r=r,
        n_rows=rows,
        layer_calls=calls,
        cells=rows * 6,
        head_tests=rows,
        saved_calls=0,
        wasted_cells=0,
        predicted_ns=offered,
    )
    return [start, climb([1, rows], [1_000, 3_000]), cost, commit, end]


def test_counts_and_times_by_hand() -> None:
    """Rounds of 3, 1 and 3 rows: 3 + 1 + 2 tokens, 10 + 6 + 12 layer calls, 18 + 6 + 18 cells, 7 tests."""
    runs = [[*one_round(1, 3, 10, 8, 6 * MS, 2), *one_round(2, 1, 6, 2, 3 * MS, 0)], one_round(1, 3, 12, 12, 8 * MS, 1)]
    costs = costs_of_records(runs, 6, lambda rows: 500.0 * rows)
    assert costs is not None
    assert costs.tokens_per_round == 6 / 3
    assert costs.layer_calls_per_token == 28 / 6
    assert costs.cells_per_token == 42 / 6
    assert costs.head_tests_per_token == 7 / 6
    assert costs.widths == {1: 1, 3: 2}
    # `other` is not the loop's: what is compared is drafting and the target's pass
    assert [(at.width, at.n, at.measured_us, at.predicted_us) for at in costs.rounds] == [
        (1, 1, 2_000, 3_000),
        (3, 2, 10_000, 7_000),
    ]
    assert costs.prediction_ratio == pytest.approx(17 / 22)
    # every round has a call of one row of 1 us, and one of its rows of 3 us
    assert [(at.width, at.n, at.measured_us, at.predicted_us) for at in costs.layers] == [
        (1, 4, 1.0, 0.5),
        (3, 2, 3.0, 1.5),
    ]


def test_plain_rounds_cost_the_whole_target() -> None:
    costs = costs_of_records([plain_round(1, 5, 0, 0, closing="bonus")], 7, None)
    assert costs is not None
    assert (costs.layer_calls_per_token, costs.cells_per_token, costs.widths) == (7, 7, {1: 1})
    assert (costs.head_tests_per_token, costs.rounds, costs.prediction_ratio) == (None, [], None)
    assert costs_of_records([], 7, None) is None


def test_a_peer_s_passes_by_hand() -> None:
    """Two drafts from 2 of 6 layers and one pass of three rows; then one draft; five tokens in two rounds."""
    split = Split(n_tokens=5, n_rounds=2, calls=[(2, 1), (2, 1), (6, 3), (2, 2), (6, 2)])
    costs = costs_of_splits([split])
    assert costs is not None
    assert costs.tokens_per_round == 5 / 2
    assert costs.layer_calls_per_token == (2 + 2 + 6 + 2 + 6) / 5
    assert costs.cells_per_token == (2 + 2 + 18 + 4 + 12) / 5
    assert costs.widths == {2: 1, 3: 1}
    assert costs_of_splits([Split(n_tokens=5, n_rounds=5)]) is None


@pytest.fixture(scope="module")
def four_layers(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(planted(seed=1, layers=4)[0], tmp_path_factory.mktemp("deep") / "target")


def test_the_library_s_early_exit_is_counted_as_it_runs(four_layers: str) -> None:
    """Every draft is one pass of the first layers, every round one of all; the prompt is not counted."""
    settings = BenchSettings(contestants("hf-early-exit,hf-generate"), gamma=3, target=four_layers, exit_layer=1)
    peers = Peers(settings)
    early, plain = (PeerArm(arm, settings, peers) for arm in settings.arms)
    prompt = tokenizer()("abcabc")["input_ids"]
    assert early.ready(prompt, 20, 0)() == plain.ready(prompt, 20, 0)()
    costs, alone = (arm.split(prompt, 20, 0) for arm in (early, plain))
    drafts = [rows for depth, rows in costs.calls if depth == 1]
    whole = [rows for depth, rows in costs.calls if depth == 4]
    assert len(whole) == costs.n_rounds
    assert len(drafts) == costs.n_drafted == sum(whole) - len(whole)
    assert alone.calls == [(4, 1)] * 20
    assert peers.model("target").config.num_hidden_layers == 4


def test_a_class_that_looks_elsewhere_is_refused_before_anything_is_timed() -> None:
    """GPT-2 runs all its blocks whatever its configuration says: the library would draft with the whole model."""
    model = build("gpt2")
    assert refusal(model, 1) == "GPT2LMHeadModel runs 3 layers however many its configuration names"
    assert model.config.num_hidden_layers == 3, "put back"
    with pytest.raises(SpecvizError, match="leave it out of --methods"):
        exit_layer(model, 1)
    assert refusal(build("llama"), 1) is None
    with pytest.raises(SpecvizError, match="give one from 1 to 2"):
        exit_layer(build("llama"), 3)
    assert exit_layer(build("llama"), None) == 1


def test_a_report_of_early_exit_has_its_own_tables(four_layers: str) -> None:
    names = "ar,specbound,layerskip,ngram,hf-early-exit"
    settings = BenchSettings(
        contestants(names),
        gamma=3,
        max_new_tokens=12,
        repeats=1,
        limit=1,
        target=four_layers,
        threads=1,
        knobs={"specbound": {"tau": 0.0}},
    )
    report = bench(settings, "specviz lab bench", lambda _: None)
    assert all(e.n_equal == e.n for e in report.equality)
    costs = {arm.name: arm.exits for arm in report.arms}
    assert all(costs[name] is not None for name in names.split(","))
    plain, bound = costs["ar"], costs["specbound"]
    assert plain is not None
    assert bound is not None
    assert (plain.layer_calls_per_token, plain.widths) == (4, {1: 12})
    assert sum(n for n in bound.widths.values()) == round(12 / bound.tokens_per_round)
    assert bound.head_tests_per_token is not None
    assert bound.rounds
    assert bound.layers
    assert bound.prediction_ratio is not None
    assert {"Early exit", "Rounds by rows", "Layer calls by rows"} <= {sheet.title for sheet in sheets(report)}


def test_every_method_can_be_measured_by_its_name() -> None:
    assert {"sps", "adaedl", "lookahead", "pearl", "specbranch", "specbound", "kangaroo"} <= set(OURS)
    assert "draft" not in OURS, "its layouts stand in its place"
    assert {"sps", "pearl", "specbranch", "chain", "hf-assisted"} <= DRAFTED
    assert not DRAFTED & (CLIMBERS | {"ar", "ngram", "lookahead"})
