"""The static tree: EAGLE-3's network on a shape found by counting, and the text of plain decoding."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from methods.eagle3.test_eagle import PROMPT, made
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.errors import ModelError
from specviz.methods.eagle3 import drafter as eagle_drafter
from specviz.methods.eagle3 import drafter as static
from specviz.methods.eagle3.drafter import KIND, FixedLevels, StaticTree, Trained
from specviz.methods.eagle3.spec import STATIC_TREE
from specviz.methods.trained.rank_shapes import NAME, best_paths, read_table, write_table
from specviz.probability.draft import ROOT
from specviz.verifiers import get_verifier
from support.driver import session as plain_session
from support.models import build

RIGHT = ((0.6, 0.2, 0.1, 0.05), (0.5, 0.3, 0.05), (0.4, 0.3, 0.2), (0.3, 0.25, 0.2), (0.3, 0.2))


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=1, dtype=torch.float64))


def session(adapter: ModelAdapter, trained: Trained, **knobs: Any) -> Session:
    table = STATIC_TREE.table
    eos = frozenset(knobs.pop("eos", ()))
    parts = SessionConfig(FactoryModels(adapter, None, 900), StaticTree(trained, RIGHT, adapter), get_verifier("walk"))
    return Session(parts, PROMPT, table, table.knobs({"max_new_tokens": 36, **knobs}), eos=eos)


def test_the_shape_is_the_same_whatever_is_offered() -> None:
    """Each expanded node gets the ranks its path has; only nodes with children on the shape are run."""
    paths = [(0,), (1,), (0, 0), (0, 2), (1, 0), (0, 2, 1)]
    levels = FixedLevels(paths, lambda token: token == 99)
    levels.offer([ROOT], [([10, 11, 12], [-0.1, -1.0, -2.0])])
    assert levels.next() == [0, 1]
    levels.offer([0, 1], [([20, 21, 22], [-0.1, -1.0, -2.0]), ([30, 31, 32], [-0.1, -1.0, -2.0])])
    assert [(node.token, node.rank) for node in levels.nodes[2:]] == [(20, 1), (22, 3), (30, 1)]
    assert levels.next() == [3]
    levels.offer([3], [([40, 41], [-0.1, -1.0])])
    assert levels.path(5) == [10, 22, 41]
    assert levels.next() == []
    ended = FixedLevels(paths, lambda token: token == 99)
    ended.offer([ROOT], [([99, 11], [-0.1, -1.0])])
    assert ended.next() == [1]
    short = FixedLevels(paths, lambda token: False)  # a vocabulary of one token lacks the second rank
    short.offer([ROOT], [([10], [-0.1])])
    assert [node.token for node in short.nodes] == [10]


def test_drafts_have_the_best_paths_of_the_table(target: ModelAdapter) -> None:
    """The same ranks every round, as deep as budget and room allow, one call a level that has parents."""
    for budget, d_max in ((20, 8), (7, 2), (1, 8)):
        run = session(target, made(target), node_budget=budget, d_max=d_max)
        for done in run.rounds():
            room = 36 - (done.n - len(PROMPT)) - 1
            paths = best_paths(RIGHT, budget, min(d_max, room)) if room else []
            ranks: dict[int, tuple[int, ...]] = {ROOT: ()}
            for node in done.draft.nodes:
                ranks[node.id] = (*ranks[node.parent], node.src["rank"] - 1)
            assert {path for path in ranks.values() if path} == set(paths)
            assert done.n_draft_calls == len({len(path) for path in paths})


@pytest.mark.parametrize("temperature", [0, 0.7, 1.0])
def test_tokens_are_those_of_plain_decoding(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    common = {"temperature": temperature, "seed": 3}
    want = plain_session(target, None, PROMPT, method="ar", max_new_tokens=36, **common).generate()
    truth, honest, most = [*PROMPT, *want], eagle_drafter.best, 0
    trained, noise = made(target), torch.Generator().manual_seed(1)

    def knowing(ctx: Any, vocabulary: Any, logits: Any, paths: Any, k: int) -> Any:
        with torch.no_grad():
            for parameter in trained.network.parameters():
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=noise, dtype=parameter.dtype))
        for row, path in enumerate(paths):
            if ctx.n + len(path) < len(truth):
                logits[row, truth[ctx.n + len(path)]] += 9.0
        return honest(ctx, vocabulary, logits, paths, k)

    monkeypatch.setattr(eagle_drafter, "best", knowing)
    run = session(target, trained, **common)
    for number, done in enumerate(run.rounds()):
        most = max(most, done.n_accepted)
        run.request("node_budget", [60, 5, 0, 256, 1][number % 5])
        run.request("d_max", [8, 3, 1][number % 3])
    assert run.new_tokens == want
    assert most >= 4


def test_a_table_belongs_to_one_drafter(target: ModelAdapter, tmp_path: Path) -> None:
    KIND.write(tmp_path, made(target))
    knobs = STATIC_TREE.table.knobs({"drafter": [str(tmp_path)]})
    with pytest.raises(ModelError, match=r"no static_tree.json in it.*specviz train static-tree"):
        static.make_static(FactoryModels(target, None, 64), knobs)
    write_table(tmp_path, RIGHT)
    assert static.make_static(FactoryModels(target, None, 64), knobs).right == RIGHT
    table = json.loads((tmp_path / NAME).read_text())
    for odd in ([[5]], [[-1]], [[1e20]], [[float("nan")]], [["1"]], ["1"], [], {}, 10**400):
        (tmp_path / NAME).write_text(json.dumps(table | {"right": odd}))
        with pytest.raises(ModelError, match=r"no table of ranks, rows of shares between 0 and 1"):
            read_table(tmp_path)
    (tmp_path / NAME).write_text(json.dumps(table | {"version": 2}))
    with pytest.raises(ModelError, match=r"in version 1; calibrate it with"):
        read_table(tmp_path)
    write_table(tmp_path, RIGHT)
    for broken, reason in (
        ("[" * 100_000 + "]" * 100_000, "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "no table"),
        ('{"right": [], "drafter": "", "format": "x"}', "no table"),
        (json.dumps(json.loads((tmp_path / NAME).read_text()) | {"right": [[0.5], []]}), "no table"),
    ):
        whole = (tmp_path / NAME).read_text()
        (tmp_path / NAME).write_text(broken)
        with pytest.raises(ModelError, match=reason) as refused:
            read_table(tmp_path)
        assert "\n" not in str(refused.value)
        (tmp_path / NAME).write_text(whole)
    KIND.write(tmp_path, made(target, seed=9))
    with pytest.raises(ModelError, match="counted with other weights"):
        read_table(tmp_path)
