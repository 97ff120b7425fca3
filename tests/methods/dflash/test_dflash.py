"""Parallel block drafter: packed = incremental, how far a block is verified, its exact law, plain decoding's text."""

import random
from itertools import accumulate, pairwise
from operator import mul
from pathlib import Path
from typing import Any

import pytest
import torch

from methods.specblock.small import FEATURES, SHAPE, Text
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.events import DraftStep, Node, RoundEnd
from specviz.methods import get_method
from specviz.methods.dflash.drafter import MaskedBlock
from specviz.methods.dflash.network import (
    KIND,
    MaskedBlockNetwork,
    MaskedConfig,
    MaskedShape,
    Trained,
    block_behind,
    packed_blocks,
)
from specviz.methods.trained.calls import CallCache
from specviz.methods.trained.layers import LayerShape
from specviz.methods.trained.parts import fingerprint
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.probability.table_models import CASE_C, Table, law
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import deviation
from support.driver import session as plain_session
from support.models import build
from support.table_session import HISTORY, law_by_rounds
from support.told import Told

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
METHOD = get_method("dflash")
SLOTS = 5


def loud(network: MaskedBlockNetwork) -> MaskedBlockNetwork:
    """Large weights: what a row should not see would be noticed."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.mul_(15.0)
    return network


def test_packed_is_incremental() -> None:
    """Blocks behind three anchors in one forward, against the text fed in rounds; the last is not the text's last."""
    rng = torch.Generator().manual_seed(0)
    net = loud(MaskedBlockNetwork(MaskedShape(SHAPE.layer, FEATURES, SLOTS, 2), rng).double()).requires_grad_(False)
    text, calls = Text(16), CallCache(net, Text(16).embed)
    anchors = [3, 4, 11]
    whole = packed_blocks(net, text.embed, text.features, text.tokens, torch.tensor([anchors]))
    for k, (begin, anchor) in enumerate(pairwise([-1, *anchors])):
        pairs = slice(begin + 1, anchor + 1)
        calls.first(text.features[0, pairs], text.tokens[0, begin + 2 : anchor + 2].tolist())
        for _ in range(2):  # a block leaves nothing behind
            alone = block_behind(net, calls, int(text.tokens[0, anchor + 1]))
            torch.testing.assert_close(alone, whole[0, k], rtol=0, atol=1e-10)


def made(adapter: Any, layer: LayerShape, slots: int = SLOTS, vocabulary: Vocabulary | None = None) -> Trained:
    vocabulary = vocabulary or Vocabulary(adapter.vocab)
    target = fingerprint(adapter) if isinstance(adapter, ModelAdapter) else ""
    taps = (adapter.n_layers,)
    config = MaskedConfig.describing(adapter, target, taps, vocabulary.n_draft, layer, slots=slots, n_layers=2)
    net = MaskedBlockNetwork(config.shape, torch.Generator().manual_seed(2)).to(adapter.head.weight.dtype)
    net.join(adapter, vocabulary)
    return Trained(config, loud(net).requires_grad_(False), vocabulary)


def session(adapter: Any, trained: Trained, verifier: str = "walk", prompt: Any = PROMPT, **knobs: Any) -> Session:
    eos = frozenset(knobs.pop("eos", ()))
    asked = METHOD.table.knobs({"max_new_tokens": 36, "confidence": 0.0, **knobs})
    drafter = MaskedBlock(trained, adapter, asked["draft_mode"])
    parts = SessionConfig(FactoryModels(adapter, None, 900), drafter, get_verifier(verifier))
    return Session(parts, prompt, METHOD.table, asked, eos=eos)


def off(table: Table, length: int, verifier: str, eos: tuple[int, ...] = (), **knobs: Any) -> float:
    """How far the law of `length` new tokens is from the target's, every random decision enumerated."""
    target = Told(table)
    trained = made(target, LayerShape(8, 2, 1, 4, 8), slots=2)
    settings = {"temperature": 1.0, "gamma": 2, "max_new_tokens": length, **knobs}
    begun = session(target, trained, verifier, (0, 1, 0), eos=eos, **settings)
    return float(deviation(law_by_rounds(begun, stateless=[trained, trained.network]), law(table, length, [*eos])))


RULES = [("walk", "argmax"), ("tokenwise", "argmax"), ("tokenwise", "sampled"), ("walk", "shared")]


@pytest.mark.parametrize(("verifier", "mode"), RULES)
def test_the_law_is_the_target_s(verifier: str, mode: str) -> None:
    """Also where drafts end early, by an end token or because the block is unsure."""
    for table, length, more in (
        (HISTORY.p, 3, {}),
        (HISTORY.p, 3, {"confidence": 0.3}),
        (HISTORY.p, 3, {"eos": (1,)}),
        (CASE_C.p, 2, {}),
    ):
        assert off(table, length, verifier, draft_mode=mode, **more) < 1e-12


def test_a_length_that_goes_by_drawn_tokens_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the head must not do: let a draft be handed over or not by the token that was drawn."""
    drawn = MaskedBlock._verified

    def peeking(self: MaskedBlock, ctx: Any, tree: Any, looks: Any, chances: Any) -> Any:
        end = drawn(self, ctx, tree, looks[:1], chances[:1])
        if len(tree) and tree.token(0) == 0:
            tree._places.clear()
        return end or "low_conf"

    monkeypatch.setattr(MaskedBlock, "_verified", peeking)
    assert off(HISTORY.p, 3, "tokenwise", draft_mode="sampled") > 1e-3


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=1, dtype=torch.float64))


def of(target: ModelAdapter, vocabulary: Vocabulary | None = None) -> Trained:
    return made(target, LayerShape(int(target.head.weight.shape[1]), 4, 2, 8, 24), vocabulary=vocabulary)


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_tokens_are_those_of_plain_decoding(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """Knobs redrawn before every round; a block that knows the text is kept whole."""
    common = {"temperature": temperature, "seed": 3, "max_new_tokens": 36}
    want = plain_session(target, None, PROMPT, method="ar", **common).generate()
    truth = [*PROMPT, *want]
    for right in (False, True):
        trained, rng, most = of(target), random.Random(1), 0
        run = session(target, trained, **common)

        def knowing(states: torch.Tensor, right: bool = right, run: Session = run, net: Any = trained.network) -> Any:
            logits = MaskedBlockNetwork.head_logits(net, states).clone()
            for place, token in enumerate(truth[len(run.tokens) :][: len(logits)]):
                logits[place, token] += 50.0 * right
            return logits

        monkeypatch.setattr(trained.network, "head_logits", knowing)
        for done in run.rounds():
            most = max(most, done.n_accepted)
            run.request("gamma", rng.choice([0, 1, 3, 8]))
            run.request("confidence", rng.choice([0.0, 0.0, 0.01, 0.5]))
        assert run.new_tokens == want
        assert most >= (SLOTS if right else 0)


def test_it_is_verified_as_far_as_it_is_sure(loaded: Any, run: Any, tmp_path: Path) -> None:
    """On record: the product of confidences at every place; what is behind the bound was filled, and pruned."""
    KIND.write(tmp_path, of(loaded[0].target.adapter))
    _, free = run("dflash", drafter=[str(tmp_path)], gamma=4, confidence=0.0)
    known = sorted({event.conf for event in free if isinstance(event, DraftStep)})
    bound = (known[len(known) // 2] + known[len(known) // 2 - 1]) / 2  # not one of them: what is on record is rounded
    _, events = run("dflash", drafter=[str(tmp_path)], gamma=4, confidence=bound)
    stopped = 0
    for end in (event for event in events if isinstance(event, RoundEnd)):
        looks = [event for event in events if isinstance(event, DraftStep) and event.r == end.r]
        nodes = [event for event in events if isinstance(event, Node) and event.r == end.r]
        assert all(after.conf <= before.conf for before, after in pairwise(looks))
        assert [look.stopped for look in looks] == [look.conf < bound for look in looks]
        assert not any(look.stopped for look in looks[:-1])
        assert [look.node for look in looks if not look.stopped] == [node.node for node in nodes if node.kept]
        assert (end.draft_end == "low_conf") == (bool(looks) and looks[-1].stopped)
        stopped += any(not node.kept for node in nodes)
        assert end.n_draft_calls == bool(looks)
    assert stopped


def test_its_chances_are_multiplied(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, chances = of(target), [0.9, 0.8, 0.5, 0.9, 0.9]
    monkeypatch.setattr(
        trained.network, "sureness", lambda states, logits: torch.tensor(chances, dtype=states.dtype).logit()
    )
    products = [*accumulate(chances, mul)]
    for kept, bound in enumerate([0.95, *((a + b) / 2 for a, b in pairwise(products))]):
        done = next(iter(session(target, trained, confidence=bound).rounds()))
        assert len(done.draft) == kept


@pytest.mark.parametrize("what", ["head_logits", "sureness"])
def test_numbers_that_are_not_finite_draft_nothing(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    trained = of(target)
    own = getattr(MaskedBlockNetwork, what)
    monkeypatch.setattr(trained.network, what, lambda *args: own(trained.network, *args) * float("nan"))
    run = session(target, trained, max_new_tokens=12)
    done = next(iter(run.rounds()))
    assert [fact.code for fact in done.facts] == ["draft_not_finite"]
    assert not len(done.draft)
    rest = plain_session(target, None, PROMPT, method="ar", max_new_tokens=12).generate()
    assert [*done.tokens, *(token for more in run.rounds() for token in more.tokens)] == rest


def test_its_file_comes_back(target: ModelAdapter, tmp_path: Path) -> None:
    """Head and embedding are the target's, also where it speaks of some tokens only."""
    few = Vocabulary.most_frequent(torch.randperm(target.vocab, generator=torch.Generator().manual_seed(3)), 120)
    KIND.write(tmp_path, of(target, few))
    trained = KIND.load(tmp_path, target)
    assert not [name for name in trained.network.state_dict() if name.startswith(("head", "embed"))]
    assert torch.equal(trained.network.head, target.head.weight[few.ids])
    plain = plain_session(target, None, PROMPT, method="ar", max_new_tokens=36).generate()
    assert session(target, trained).generate() == plain
