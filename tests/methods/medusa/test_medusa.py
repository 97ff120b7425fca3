"""Medusa: its heads, its fixed tree of ranks, and the text of plain decoding."""

import json
import random
from typing import Any

import pytest
import torch

from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.errors import ModelError
from specviz.methods.medusa import drafter
from specviz.methods.medusa.drafter import Medusa, MedusaHeads
from specviz.methods.medusa.spec import METHOD as MEDUSA
from specviz.methods.trained.parts import fingerprint
from specviz.methods.trained.rank_shapes import best_paths
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.verifiers import get_verifier
from support.driver import session as plain_session
from support.models import build

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
RIGHT = ((0.6, 0.2, 0.1), (0.5, 0.3, 0.05), (0.4, 0.3, 0.2), (0.3, 0.25, 0.2))


def made(adapter: ModelAdapter, vocabulary: Vocabulary | None = None) -> drafter.Trained:
    vocabulary = vocabulary or Vocabulary(adapter.vocab)
    width = int(adapter.head.weight.shape[1])
    config = drafter.MedusaConfig(
        fingerprint(adapter), adapter.name, adapter.n_layers, width, adapter.vocab, vocabulary.n_draft, 4, RIGHT
    )
    rows = adapter.head.weight[: adapter.vocab].detach()
    heads = MedusaHeads(4, width, vocabulary.n_draft)
    heads.begin(rows if vocabulary.ids is None else rows[vocabulary.ids])
    return drafter.Trained(config, heads.to(adapter.dtype).requires_grad_(False), vocabulary)


def session(adapter: ModelAdapter, trained: drafter.Trained, prompt: list[int] = PROMPT, **knobs: Any) -> Session:
    table = MEDUSA.table
    eos = frozenset(knobs.pop("eos", ()))
    parts = SessionConfig(FactoryModels(adapter, None, 900), Medusa(trained, adapter), get_verifier("walk"))
    return Session(parts, prompt, table, table.knobs({"max_new_tokens": 36, **knobs}), eos=eos)


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=1, dtype=torch.float64))


def test_one_head_is_the_formula() -> None:
    """`W2 (f + SiLU(W1 f + b))`, all heads at once or one by one; untrained ones are the target's head."""
    rng = torch.Generator().manual_seed(0)
    heads = MedusaHeads(3, 6, 11)
    rows, states = torch.randn(11, 6, generator=rng), torch.randn(5, 6, generator=rng)
    heads.begin(rows).requires_grad_(False)
    torch.testing.assert_close(heads(states), (states @ rows.T)[:, None].expand(-1, 3, -1))
    for parameter in heads.parameters():
        parameter.normal_(generator=rng)
    for j in range(3):
        turned = heads.inner[j] @ states[2] + heads.bias[j]
        want = heads.outer[j] @ (states[2] + turned * torch.sigmoid(turned))
        torch.testing.assert_close(heads(states)[2, j], want)
        torch.testing.assert_close(heads.one(j, states)[2], want)


def test_the_tree_is_the_best_paths_of_the_heads_ranks(target: ModelAdapter) -> None:
    """Node (r1, r2, ..) holds rank r_d of head d; heads read the state behind the root's own token."""
    trained = made(target)
    rng = torch.Generator().manual_seed(4)
    with torch.no_grad():
        trained.network.inner.normal_(generator=rng)
    run = session(target, trained, node_budget=20)
    done = next(iter(run.rounds()))
    with torch.no_grad():
        out = target.model(torch.tensor([PROMPT[:-1]]), output_hidden_states=True)
    best = trained.network(out.hidden_states[-1][:, -1])[0].topk(3).indices.tolist()
    want = {tuple(best[d][rank] for d, rank in enumerate(path)) for path in best_paths(RIGHT, 20)}
    assert {done.draft.path(node) for node in range(len(done.draft))} == want
    assert done.n_draft_calls == 1


@pytest.mark.parametrize("temperature", [0, 0.7, 1.0])
def test_tokens_are_those_of_plain_decoding(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """The budget redrawn and the weights moved in every round; with heads that know the text all four are accepted."""
    common = {"temperature": temperature, "seed": 3}
    want = plain_session(target, None, PROMPT, method="ar", max_new_tokens=36, **common).generate()
    truth, honest, rng, most = [*PROMPT, *want], drafter.best, random.Random(1), 0
    trained, noise = made(target), torch.Generator().manual_seed(1)

    def knowing(ctx: Any, vocabulary: Any, logits: Any, paths: Any, k: int) -> Any:
        with torch.no_grad():
            trained.network.inner.add_(0.1 * torch.randn(trained.network.inner.shape, generator=noise).double())
        for head in range(len(logits)):
            if ctx.n + head < len(truth) and rng.random() < 0.8:
                logits[head, truth[ctx.n + head]] += 30.0
        return honest(ctx, vocabulary, logits, paths, k)

    monkeypatch.setattr(drafter, "best", knowing)
    run = session(target, trained, **common)
    for done in run.rounds():
        most = max(most, done.n_accepted)
        run.request("node_budget", rng.choice([0, 1, 9, 63, 256]))
    assert run.new_tokens == want
    assert most == 4


def test_numbers_that_are_not_finite_draft_nothing(target: ModelAdapter) -> None:
    trained = made(target)
    with torch.no_grad():
        trained.network.outer[2, 7, 0] = float("nan")
    run = session(target, trained, max_new_tokens=10)
    rounds = list(run.rounds())
    assert run.new_tokens == plain_session(target, None, PROMPT, method="ar", max_new_tokens=10).generate()
    for done in rounds[:6]:  # later ones have no room for the third head
        assert (len(done.draft), [fact.code for fact in done.facts]) == (0, ["draft_not_finite"])


def test_ends_limits_and_short_prompts(target: ModelAdapter) -> None:
    trained = made(target)
    want = plain_session(target, None, PROMPT, method="ar", max_new_tokens=36).generate()
    run = session(target, trained, eos=(want[5],))
    assert run.generate() == want[: want.index(want[5]) + 1]
    for limit in (1, 2, 5):
        assert session(target, trained, max_new_tokens=limit).generate() == want[:limit]
    short = session(target, trained, prompt=[7], node_budget=63)
    rounds = list(short.rounds())
    assert short.new_tokens == plain_session(target, None, [7], method="ar", max_new_tokens=36).generate()
    assert (len(rounds[0].draft), len(rounds[1].draft)) == (0, 63)


def test_a_reduced_vocabulary_and_folders(target: ModelAdapter, tmp_path: Any) -> None:
    counts = torch.randperm(target.vocab, generator=torch.Generator().manual_seed(3))
    vocabulary = Vocabulary.most_frequent(counts, 90)
    trained = made(target, vocabulary)
    run = session(target, trained, repetition_penalty=1.2, ban=["id:7"])
    drafted = {token for done in run.rounds() for token in done.draft.tokens}
    assert vocabulary.ids is not None
    assert drafted
    assert drafted <= set(vocabulary.ids.tolist()) - {7}
    drafter.KIND.write(tmp_path, trained)
    assert drafter.KIND.load(tmp_path, target).config.right == RIGHT
    knobs = MEDUSA.table.knobs({"drafter": [str(tmp_path)]})
    assert drafter.make(FactoryModels(target, None, 64), knobs).trained.vocabulary.n_draft == 90
    config = json.loads((tmp_path / "config.json").read_text())
    for name, odd in (
        ("heads", 5),
        ("heads", 1e30),
        ("heads", True),
        ("right", [[0.5], [], [0.5], [0.5]]),
        ("right", 4),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | {name: odd}))
        with pytest.raises(ModelError, match=r"config.json says (heads|right) = .*; it must be a .*train one with"):
            drafter.KIND.read(tmp_path, target)
