"""EAGLE-3: its tree by hand, packed = incremental = batched, and the text of plain decoding."""

import math
import random
from typing import Any

import pytest
import torch

from methods.specblock.small import FEATURES, SHAPE, VOCAB, Text
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.errors import ModelError
from specviz.methods.common.tree_builder import Levels
from specviz.methods.eagle3 import drafter as drafting
from specviz.methods.eagle3 import drafter as files
from specviz.methods.eagle3.drafter import Eagle, EagleNetwork, EagleShape
from specviz.methods.eagle3.spec import EAGLE3
from specviz.methods.specblock.network import packed
from specviz.methods.trained.calls import BlockSlot, BlockStart, CallCache
from specviz.methods.trained.layers import LayerShape
from specviz.methods.trained.parts import fingerprint, taps
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.probability.draft import ROOT
from specviz.verifiers import get_verifier
from support.driver import session as plain_session
from support.models import build

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]


def network(seed: int = 0) -> EagleNetwork:
    """Large random weights."""
    net = EagleNetwork(EagleShape(SHAPE.layer, FEATURES, VOCAB), torch.Generator().manual_seed(seed)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() > 1:
                parameter.mul_(15)
    return net.requires_grad_(False)


def test_packed_is_incremental_is_batched() -> None:
    """Seven unrolled steps at every anchor, the text fed in rounds, and all nodes of a level at once."""
    net, text, anchor, n = network(), Text(16), 5, 6
    whole = packed(net, text.embed, text.features, text.tokens, torch.tensor([[2, anchor]]), (1,) * n)
    calls = CallCache(net, text.embed)
    for at, end in ((0, 3), (3, 4), (4, 6)):
        root = calls.first(text.features[0, at:end], text.tokens[0, at + 1 : end + 1].tolist())
    torch.testing.assert_close(root, whole[0][0, anchor], rtol=0, atol=1e-10)
    chain, other = (BlockSlot(1, calls.first_row, 0),), (BlockSlot(1, calls.first_row, 0),)
    for step in range(1, n + 1):
        starts = [BlockStart(int(text.tokens[0, anchor + 1 + step]), step, chain), BlockStart(3, step, other)]
        h, rows = calls.later(starts)
        torch.testing.assert_close(h[0], whole[step][0, 1], rtol=0, atol=1e-10)
        assert (h[0] - h[1]).abs().max() > 1e-3  # another branch
        chain, other = (*chain, BlockSlot(step + 1, rows[0], 0)), (*other, BlockSlot(step + 1, rows[1], 0))


def test_the_layer_reads_token_and_stream() -> None:
    """Attention reads both, the residual stream is f alone: with silent layers the output is f."""
    net, text = network(), Text(3)
    with torch.no_grad():
        net.layer.o.weight.zero_()
        net.layer.down.weight.zero_()
    rows = CallCache(net, text.embed).first(text.features[0], text.tokens[0, 1:].tolist())
    torch.testing.assert_close(rows[0], net.conditions(text.features[0, -1]))


def offers(parents: list[int], seed: int, k: int = 10) -> list[tuple[list[int], list[float]]]:
    rng = random.Random(seed)
    collected = []
    for _ in parents:
        logs = sorted((math.log(rng.random() * 0.3 + 1e-3) for _ in range(k)), reverse=True)
        collected.append((rng.sample(range(1000), k), logs))
    return collected


def test_710_candidates_for_8_calls() -> None:
    """k + 7 k^2 with k = 10; the 60 kept ones are the best of all and closed under parents."""
    levels, calls = Levels(10, 8), 0
    parents = [ROOT]
    while parents:
        levels.offer(parents, offers(parents, calls))
        calls += 1
        parents = levels.next()
    assert (calls, len(levels.nodes)) == (8, 710)
    kept = levels.pruned(60)
    worst = min(levels.nodes[n].cum for n in kept)
    assert len(kept) == 60
    assert all(node.cum <= worst for n, node in enumerate(levels.nodes) if n not in kept)
    assert max(node.depth for node in levels.nodes) == 8


def test_levels_by_hand() -> None:
    """The two best of a level are run, not the two best of all; end tokens are never run."""
    low = [math.log(x) for x in (0.5, 0.3)]
    levels = Levels(2, 3, ends=lambda token: token == 9)
    levels.offer([ROOT], [([1, 2], low)])
    assert levels.next() == [0, 1]
    levels.offer([0, 1], [([9, 3], low), ([4, 5], low)])
    assert [levels.nodes[n].token for n in levels.next()] == [3, 4]  # .15 each, the earlier first; 9 ends the text
    levels.offer(levels.next(), [([6, 7], low), ([8, 6], low)])
    assert levels.next() == []
    assert [levels.nodes[n].token for n in levels.pruned(3)] == [1, 2, 9]


def made(adapter: ModelAdapter, seed: int = 0, vocabulary: Vocabulary | None = None) -> files.Trained:
    width = int(adapter.head.weight.shape[1])
    vocabulary = vocabulary or Vocabulary(adapter.vocab)
    config = files.EagleConfig.describing(
        adapter, fingerprint(adapter), taps(adapter.n_layers), vocabulary.n_draft, LayerShape(width, 4, 2, 8, 24)
    )
    net = EagleNetwork(config.shape, torch.Generator().manual_seed(seed)).to(adapter.dtype).requires_grad_(False)
    return files.Trained(config, net, vocabulary)


def session(adapter: ModelAdapter, trained: files.Trained, **knobs: Any) -> Session:
    table = EAGLE3.table
    parts = SessionConfig(FactoryModels(adapter, None, 900), Eagle(trained, adapter), get_verifier("walk"))
    eos = frozenset(knobs.pop("eos", ()))
    return Session(parts, PROMPT, table, table.knobs({"max_new_tokens": 36, "node_budget": 60, **knobs}), eos=eos)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("first", [1, 3])
def test_numbers_that_are_not_finite_draft_nothing(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, first: int, value: float
) -> None:
    """From the first call of a round on or from a later one: no draft, a word about it, the text as ever."""
    trained = made(target)
    right, calls = trained.network.norm_and_head, 0

    def odd(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal calls
        calls += 1
        normed, logits = right(states)
        if calls >= first:
            logits[-1, 5:] = value
        return normed, logits

    monkeypatch.setattr(trained.network, "norm_and_head", odd)
    run = session(target, trained, max_new_tokens=12)
    done = next(iter(run.rounds()))
    assert [fact.code for fact in done.facts] == ["draft_not_finite"]
    assert (len(done.draft), calls) == (0, first)
    rest = plain_session(target, None, PROMPT, method="ar", max_new_tokens=12).generate()
    assert [*done.tokens, *(token for more in run.rounds() for token in more.tokens)] == rest


def test_a_level_says_what_each_node_says_alone(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every expanded node of a round, against a fresh cache that runs its path one node at a time."""
    trained, honest, seen = made(target), drafting.best, []

    def watching(ctx: Any, vocabulary: Any, logits: Any, paths: Any, k: int) -> Any:
        seen.extend(zip([tuple(path) for path in paths], logits, strict=True))
        return honest(ctx, vocabulary, logits, paths, k)

    monkeypatch.setattr(drafting, "best", watching)
    next(iter(session(target, trained, k_max=3, d_max=4).rounds()))
    fresh = session(target, trained)
    fresh.prefill()
    assert len(seen) == 1 + 3 * 3
    for path, logits in seen:
        with torch.inference_mode():
            rows, calls = fresh.drafter.text.root(), fresh.drafter.text.calls
            chain: tuple[BlockSlot, ...] = (BlockSlot(1, calls.first_row, 0),)
            for depth, token in enumerate(path, 1):
                h, (row,) = calls.later([BlockStart(token, depth, chain)])
                rows, chain = h[0], (*chain, BlockSlot(depth + 1, row, 0))
            torch.testing.assert_close(trained.network.head_logits(rows)[0], logits, rtol=0, atol=1e-9)


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=1, dtype=torch.float64))


@pytest.mark.parametrize("temperature", [0, 0.7, 1.0])
def test_tokens_are_those_of_plain_decoding(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """Knobs redrawn before every round, weights moved in every call; a drafter that knows the text accepts much."""
    common = {"temperature": temperature, "seed": 3, "max_new_tokens": 36}
    want = plain_session(target, None, PROMPT, method="ar", **common).generate()
    truth, honest = [*PROMPT, *want], drafting.best
    for right in (False, True):
        trained, rng, noise, most = made(target), random.Random(1), torch.Generator().manual_seed(1), 0

        def knowing(
            ctx: Any,
            vocabulary: Any,
            logits: Any,
            paths: Any,
            k: int,
            right: bool = right,
            net: Any = trained.network,
            noise: Any = noise,
        ) -> Any:
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter.add_(0.05 * torch.randn(parameter.shape, generator=noise, dtype=parameter.dtype))
            logits = logits.clone()
            for row, path in enumerate(paths):
                pos = ctx.n + len(path)
                if right and pos < len(truth):
                    logits[row, truth[pos]] += 9.0
            return honest(ctx, vocabulary, logits, paths, k)

        monkeypatch.setattr(drafting, "best", knowing)
        run = session(target, trained, **common)
        for done in run.rounds():
            most = max(most, done.n_accepted)
            for name, values in (("node_budget", [0, 1, 5, 60]), ("d_max", [1, 3, 8, 16]), ("k_max", [1, 4, 10])):
                run.request(name, rng.choice(values))
        assert run.new_tokens == want
        assert most >= (6 if right else 0)


def test_calls_and_limits(target: ModelAdapter) -> None:
    """One call a level, as many levels as the text has room for; an end token ends the text."""
    trained = made(target)
    want = plain_session(target, None, PROMPT, method="ar", max_new_tokens=36).generate()
    for d_max in (1, 3, 8):
        for done in session(target, trained, d_max=d_max, k_max=3).rounds():
            room = 36 - (done.n - len(PROMPT)) - 1
            assert done.n_draft_calls == min(d_max, max(room, 0))
    run = session(target, trained, eos=(want[7],))
    assert run.generate() == want[: want.index(want[7]) + 1]


def test_a_reduced_vocabulary_is_mapped(target: ModelAdapter) -> None:
    counts = torch.randperm(target.vocab, generator=torch.Generator().manual_seed(3))
    vocabulary = Vocabulary.most_frequent(counts, 90)
    run = session(target, made(target, vocabulary=vocabulary), repetition_penalty=1.2, ban=["id:7"])
    drafted = {token for done in run.rounds() for token in done.draft.tokens}
    assert vocabulary.ids is not None
    assert drafted
    assert drafted <= set(vocabulary.ids.tolist()) - {7}


def test_folders(target: ModelAdapter, tmp_path: Any) -> None:
    files.KIND.write(tmp_path, made(target))
    trained = files.KIND.load(tmp_path, target)
    knobs = EAGLE3.table.knobs({"drafter": [str(tmp_path)]})
    assert drafting.make(FactoryModels(target, None, 64), knobs).trained is trained
    (tmp_path / "config.json").write_text('{"format": "specviz-block-drafter", "version": 1}')
    with pytest.raises(ModelError, match="these are no EAGLE-3 drafter"):
        files.KIND.read(tmp_path, target)
    with pytest.raises(ModelError, match="no EAGLE-3 drafter for the target"):
        files.KIND.pick(target, None)
