"""A name means one number: `stats`, `compare` and `watch` over the recordings that come with the package, each
beside the others and beside a count of the lines themselves."""

import gzip
import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from cli.conftest import (
    Cli,
    cli,  # noqa: F401 (a fixture)
)
from specviz.engines.watch.picture import _positions
from specviz.events.outside import Outside
from specviz.metrics import measure
from specviz.sources.bundled import bundled_traces
from specviz.view.compare.figures import ROWS
from support.traces import plain_round, plain_run

TRACES = bundled_traces()
PLACED = ("position_acceptance", "depth_acceptance", "survival")


def _numbers(stats: dict[str, Any]) -> dict[str, Any]:
    """Every estimate of `stats` by its name, by place with the place behind it."""
    placed = {f"{name}@{at}": found for name in PLACED for at, found in (stats[name] or {}).items()}
    whole = {name: found for name, found in (stats | placed).items() if name not in PLACED}
    plain = whole["over_plain"]
    return whole | {"over_plain": plain["times"] if plain and plain["agrees"] else None}


@pytest.mark.parametrize("name", TRACES)
def test_every_command_gives_the_same_number_under_the_same_name(name: str, cli: Cli) -> None:  # noqa: F811
    path = TRACES[name]
    stats = _numbers(json.loads(cli("stats", path, "--json").out)["metrics"])
    # A stream has several prompts, and a run beside itself is paired: values are still those of the run.
    compared = json.loads(cli("compare", path, path, "--json").out)["metrics"]
    whole = {name for name, _, _ in ROWS if stats[name] is not None}
    assert compared.keys() == {each for each in stats if "@" in each} | whole
    for metric, found in compared.items():
        assert [each["value"] for each in found] == [stats[metric]] * 2, metric


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
    found = {metric: each[0]["value"]["value"] for metric, each in metrics.items()}
    for k in range(1, max(deep for _, deep, _ in rounds) + 1):
        reached = [accepted >= k for accepted, deep, _ in rounds if deep >= k]
        assert found[f"survival@{k}"] == pytest.approx(sum(reached) / len(reached))
        if n := by_place["tested"][k]:
            assert found[f"position_acceptance@{k}"] == pytest.approx(by_place["kept"][k] / n)
    assert found["tokens_per_second"] == pytest.approx(sum(emitted for *_, emitted in rounds) * 1e9 / took)


def test_kept_by_position_of_a_server_is_survival_where_drafts_are_of_one_length() -> None:
    """`watch` has counters alone: rounds, and of them those that kept each position."""
    kept = [0, 3, 1, 3, 2, 0, 3, 3]
    counts = Outside(engine="vLLM", chains=True)
    metrics = measure(plain_run([plain_round(r, 5 + 4 * r, 3, n) for r, n in enumerate(kept, 1)], outside=counts))
    for at in _positions(len(kept), [sum(n >= k for n in kept) for k in (1, 2, 3)]):
        survival, tested = (metrics[name][at.position + 1] for name in ("survival", "position_acceptance"))
        assert (at.kept, (at.low, at.high), at.n) == (survival.value, survival.interval, survival.n)
        assert at.conditional == pytest.approx(tested.value)
