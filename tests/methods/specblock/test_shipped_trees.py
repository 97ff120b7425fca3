"""The drafters of trees that ship with the embedded target: its own, as good as promised, and none moves a token."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from specviz.commands import Start
from specviz.engine.model.files.loading import Loaded, embedded, load
from specviz.engine.run.local import LocalRun, Pair
from specviz.events import Event, RoundEnd
from specviz.methods.eagle3 import drafter as eagle_files
from specviz.methods.specblock import network as block_files

PAIR = embedded("target").parent
PROMPTS = [path.read_text(encoding="utf-8") for path in sorted((PAIR.parents[1] / "prompts").glob("code-*.txt"))]
N = 64
MOST_BYTES = 40 * 2**20  # of all assets but what is trained for models that do not come along


@cache
def target() -> Loaded:
    return load(None, "target", None, None)


@cache
def decoded(method: str, **knobs: Any) -> tuple[float, float, list[str]]:
    """Over the code prompts at temperature 0: tokens a round, most drafter calls of a round, the texts."""
    rounds: list[RoundEnd] = []
    texts = []
    for prompt in PROMPTS:
        out: list[Event] = []
        start = Start(prompt=prompt, method=method, knobs={"max_new_tokens": N, **knobs}, level="none")
        run = LocalRun(Pair(target(), None), start, out.append)
        list(run.rounds())
        texts.append(run.text)
        rounds += [event for event in out if isinstance(event, RoundEnd)]
    return (
        sum(record.n_emitted for record in rounds) / len(rounds),
        max(record.n_draft_calls for record in rounds),
        texts,
    )


def test_they_are_found_for_the_embedded_target() -> None:
    adapter = target().adapter
    assert block_files.KIND.pick(adapter, None).config.target_layers == adapter.n_layers
    assert eagle_files.KIND.pick(adapter, None).config.target_layers == adapter.n_layers


def test_two_calls_of_the_block_drafter_bring_three_tokens_and_more_than_one_call() -> None:
    """Sixty nodes either way; EAGLE-3 pays a call a level for its tree."""
    one, one_call, _ = decoded("specblock", blocks=1, node_budget=60)
    two, two_calls, _ = decoded("specblock", blocks=2, node_budget=60)
    assert two > one
    assert two >= 3.0
    assert (one_call, two_calls) == (1, 2)
    assert decoded("eagle3", node_budget=60)[1] == 8


def test_the_card_says_the_same_of_held_out_code() -> None:
    rows = json.loads((PAIR / "block-drafter" / "card.json").read_text(encoding="utf-8"))["decoding"]
    code = {
        row["knobs"]["blocks"]: row["mean_acceptance_length"]
        for row in rows
        if row["text"] == "code" and set(row["knobs"]) == {"blocks"}
    }
    assert code[2] >= 3.0
    assert code[2] > code[1]


@pytest.mark.parametrize("method", ["specblock", "eagle3", "static_tree"])
def test_no_token_moves(method: str) -> None:
    length, _, texts = decoded(method)
    assert texts == decoded("ar")[2]
    assert length > 2


def test_all_assets_together_are_small_but_the_parts_of_other_models() -> None:
    """Those have a limit of their own (`tests/train/test_shipped_smollm2.py`)."""
    folder = Path(PAIR).parents[1]
    own = [path for path in folder.rglob("*") if path.is_file()]
    parts = [path for path in own if "models" in path.parts and "pair" not in path.parts]
    assert sum(path.stat().st_size for path in set(own) - set(parts)) < MOST_BYTES
