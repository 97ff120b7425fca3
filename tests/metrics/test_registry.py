"""Metrics are declared by decorating a formula, and shown by `stats`, its JSON, the header line and the docs."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.errors import SpecvizError
from specviz.metrics import METRICS, Estimate, measure, metric, ratio
from specviz.metrics.registry import RATIOS, RoundFigures, SummedRun
from specviz.view.frame.series import header_metrics
from support.traces import make_events, write_trace

# In the order of the JSON.
NAMES = [
    "n_queries",
    "n_rounds",
    "n_blocks",
    "n_cut",
    "n_drafted",
    "n_tested",
    "n_accepted",
    "n_emitted",
    "n_draft_calls",
    "n_syncs",
    "mean_acceptance_length",
    "mean_accepted",
    "draft_acceptance_rate",
    "test_acceptance_rate",
    "block_efficiency",
    "accepted_run_length",
    "rollback_rate",
    "rollback_rate_tokens",
    "branch_hit_rate",
    "branch_mass",
    "hrad_confusion",
    "draft_calls_per_round",
    "modelled_speedup",
    "bucket_confusion",
    "bucket_accuracy",
    "coverage",
    "slot_accuracy",
    "block_counts",
    "depth_counts",
    "adapted",
    "layer_calls_per_token",
    "cells_per_token",
    "head_tests_per_token",
    "exit_rate",
    "mean_exit_layer",
    "wrong_exit_rate",
    "draft_precision",
    "tokens_per_second",
    "time_to_first_token_s",
    "round_ms",
    "stage_ms",
    "drafting_share",
    "overhead",
    "overlap_efficiency",
    "bubble_target",
    "bubble_draft",
    "wasted_draft_s",
    "accepted_histogram",
    "share_above",
    "survival",
    "position_acceptance",
    "depth_acceptance",
    "same_draft",
    "modelled",
    "over_plain",
]
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
EVENTS = make_events(temperature=1.0, new_tokens=40)


@pytest.fixture
def registry() -> Iterator[None]:
    """Leaves the registry as it was."""
    kept: list[tuple[dict[str, Any], dict[str, Any]]] = [(METRICS, {**METRICS}), (RATIOS, {**RATIOS})]
    yield
    for place, before in kept:
        place.clear()
        place.update(before)


def test_the_names_of_the_contract_in_its_order() -> None:
    assert list(METRICS) == NAMES


def test_every_metric_has_words_a_unit_and_a_group() -> None:
    for spec in METRICS.values():
        assert all((spec.unit, spec.help, spec.group, spec.definition)), spec.name


def test_the_table_of_the_docs_is_the_registry() -> None:
    rows = [line for line in DOCS.read_text("utf-8").splitlines() if line.startswith("| `")]
    cells = ((spec.name, spec.unit, spec.summary.replace("|", "\\|")) for spec in METRICS.values())
    wanted = [f"| `{name}` | {unit} | {words} |" for name, unit, words in cells]
    assert rows == wanted, "docs/metrics.md should have:\n" + "\n".join(wanted)


@pytest.mark.usefixtures("registry")
def test_a_new_metric_is_one_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    @ratio("long_rounds", unit="share", help="rounds that gave 3 tokens or more", header=("long", "3 tokens or more"))
    def _long_rounds(at: RoundFigures) -> tuple[int, int]:
        """Rounds with n_emitted >= 3 / rounds."""
        return int(at.end.n_emitted >= 3), 1

    @metric("n_odd", unit="rounds", help="rounds with an odd number")
    def _n_odd(run: SummedRun) -> int:
        """Rounds whose number is odd."""
        return run.n_rounds // 2

    @metric("by_length", unit="share", help="blocks of so many tokens")
    def _by_length(run: SummedRun) -> dict[int, Estimate]:
        counts = run.counts("n_emitted")
        return {n: Estimate(value=counts[n] / run.n_blocks, n=run.n_blocks) for n in sorted(counts)}

    metrics = measure(EVENTS)
    assert metrics.long_rounds.n == metrics.n_rounds
    assert metrics["n_odd"] == metrics.n_rounds // 2
    path = str(write_trace(tmp_path / "run", EVENTS))
    assert main(["stats", path]) == 0
    words = "rounds that gave 3 tokens or more"
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert any(row[:1] == ["long_rounds"] and " ".join(row).endswith(words) for row in rows)
    assert ["n_odd", str(metrics.n_odd)] in rows
    assert any("by_length" in row for row in rows)
    assert main(["stats", path, "--json"]) == 0
    assert '"long_rounds":{"value":' in capsys.readouterr().out
    assert [name.label for name in header_metrics(metrics)][-1] == "long"


@pytest.mark.usefixtures("registry")
def test_a_round_without_terms_adds_nothing() -> None:
    @ratio("never", unit="share", help="of nothing")
    def _never(at: RoundFigures) -> tuple[int, Fraction] | None:
        return None

    assert measure(EVENTS).never is None


def test_a_name_is_declared_once() -> None:
    with pytest.raises(SpecvizError, match="'survival' already"):
        metric("survival", unit="share", help="another one")(lambda run: None)
    assert METRICS["survival"].help != "another one"


def test_an_unknown_metric_is_no_attribute() -> None:
    metrics = measure(EVENTS)
    assert not hasattr(metrics, "no_such_metric")
    assert "no_such_metric" not in metrics
