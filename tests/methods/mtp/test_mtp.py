"""MTP layer: packed = incremental, where its chain stops, exact law, text of plain decoding, file, first weights."""

import math
import random
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from methods.specblock.small import SHAPE, WIDTH, Text
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.errors import ModelError
from specviz.events import DraftStep, Node, RoundEnd
from specviz.methods import get_method
from specviz.methods.common.runner import DraftSampler
from specviz.methods.mtp.drafter import Mtp
from specviz.methods.mtp.network import KIND, MtpConfig, MtpNetwork, Trained
from specviz.methods.specblock.network import packed
from specviz.methods.trained.calls import BlockSlot, BlockStart, CallCache
from specviz.methods.trained.layers import LayerShape
from specviz.methods.trained.part_kind import SCALE
from specviz.methods.trained.parts import fingerprint
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.probability.table_models import CASE_C, Table, law
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import deviation
from specviz_train.common.own_text import OwnTextConfig, OwnWindows, continued
from specviz_train.trees.block_drafter import layer_like
from specviz_train.trees.mtp import passed, settle
from support.driver import session as plain_session
from support.models import build
from support.table_session import HISTORY, law_by_rounds
from support.told import Told

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
METHOD = get_method("mtp")


def network(shape: LayerShape, vocab: int, seed: int = 0, large: float = 15.0) -> MtpNetwork:
    """Large random weights, and a head of its own."""
    rng = torch.Generator().manual_seed(seed)
    net = MtpNetwork(shape, rng).double()
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() > 1:
                parameter.mul_(large)
    net.head = torch.randn(vocab, shape.width, generator=rng, dtype=torch.float64)
    return net.requires_grad_(False)


def test_packed_is_incremental() -> None:
    """Five unrolled steps behind an anchor, against the text fed in rounds and a chain run token by token."""
    net, text, anchor, n = network(SHAPE.layer, 40), Text(16, n_features=WIDTH), 5, 5
    whole = packed(net, text.embed, text.features, text.tokens, torch.tensor([[2, anchor]]), (1,) * n)
    calls = CallCache(net, text.embed)
    for at, end in ((0, 3), (3, 4), (4, 6)):
        root = calls.first(text.features[0, at:end], text.tokens[0, at + 1 : end + 1].tolist())
    torch.testing.assert_close(root, whole[0][0, anchor], rtol=0, atol=1e-10)
    chain: tuple[BlockSlot, ...] = (BlockSlot(1, calls.first_row, 0),)
    for step in range(1, n + 1):
        h, (row,) = calls.later([BlockStart(int(text.tokens[0, anchor + 1 + step]), step, chain)])
        torch.testing.assert_close(h[0], whole[step][0, 1], rtol=0, atol=1e-10)
        chain = (*chain, BlockSlot(step + 1, row, 0))


def config(adapter: Any, vocabulary: Vocabulary, layer: LayerShape) -> MtpConfig:
    target = fingerprint(adapter) if isinstance(adapter, ModelAdapter) else ""
    return MtpConfig.describing(adapter, target, (adapter.n_layers,), vocabulary.n_draft, layer)


def made(adapter: ModelAdapter, vocabulary: Vocabulary | None = None) -> Trained:
    width = int(adapter.head.weight.shape[1])
    vocabulary = vocabulary or Vocabulary(adapter.vocab)
    layer = LayerShape(width, 4, 2, 8, 24)
    net = MtpNetwork(layer, torch.Generator().manual_seed(0)).to(adapter.dtype).requires_grad_(False)
    net.join(adapter, vocabulary)
    return Trained(config(adapter, vocabulary, layer), net, vocabulary)


def session(adapter: Any, trained: Trained, verifier: str = "walk", prompt: Any = PROMPT, **knobs: Any) -> Session:
    eos = frozenset(knobs.pop("eos", ()))
    asked = METHOD.table.knobs({"max_new_tokens": 36, **knobs})
    drafter = Mtp(trained, adapter, asked["draft_mode"])
    parts = SessionConfig(FactoryModels(adapter, None, 900), drafter, get_verifier(verifier))
    return Session(parts, prompt, METHOD.table, asked, eos=eos)


def off(table: Table, length: int, verifier: str, eos: tuple[int, ...] = (), **knobs: Any) -> float:
    """How far the law of `length` new tokens is from the target's, every random decision enumerated."""
    target, layer = Told(table), LayerShape(8, 2, 1, 4, 8)
    net = network(layer, table.vocab, seed=2)
    net.head = target.head.weight
    vocabulary = Vocabulary(table.vocab)
    trained = Trained(config(target, vocabulary, layer), net, vocabulary)
    settings = {"temperature": 1.0, "gamma": 2, "max_new_tokens": length, **knobs}
    begun = session(target, trained, verifier, (0, 1, 0), eos=eos, **settings)
    return float(deviation(law_by_rounds(begun, stateless=[trained, net]), law(table, length, [*eos])))


RULES = [("walk", "argmax"), ("tokenwise", "argmax"), ("tokenwise", "sampled"), ("walk", "shared")]


@pytest.mark.parametrize(("verifier", "mode"), RULES)
def test_the_law_is_the_target_s(verifier: str, mode: str) -> None:
    """Also where drafts end early, by an end token or because the layer is unsure."""
    for table, length, more in (
        (HISTORY.p, 4, {}),
        (HISTORY.p, 4, {"p_min": 0.6}),
        (HISTORY.p, 4, {"eos": (1,)}),
        (CASE_C.p, 2, {}),
    ):
        assert off(table, length, verifier, draft_mode=mode, **more) < 1e-12


def test_a_draw_by_another_law_than_is_on_record_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = DraftSampler.token
    monkeypatch.setattr(DraftSampler, "token", lambda self, depth, law: drawn(self, depth, law.flip(0)))
    assert off(HISTORY.p, 3, "tokenwise", draft_mode="sampled") > 1e-3


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=1, dtype=torch.float64))


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_tokens_are_those_of_plain_decoding(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """Knobs redrawn before every round; a layer that knows the text is kept whole."""
    common = {"temperature": temperature, "seed": 3, "max_new_tokens": 36}
    want = plain_session(target, None, PROMPT, method="ar", **common).generate()
    truth = [*PROMPT, *want]
    for right in (False, True):
        trained, rng, most = made(target), random.Random(1), 0
        run = session(target, trained, **common)

        def knowing(states: torch.Tensor, right: bool = right, run: Session = run, net: Any = trained.network) -> Any:
            normed, logits = MtpNetwork.norm_and_head(net, states)
            logits = logits.clone()
            pos = len(run.tokens) + run.drafter.text.calls.kv_len - run.drafter.text.calls.pairs
            if right and pos < len(truth):
                logits[..., truth[pos]] += 50.0
            return normed, logits

        monkeypatch.setattr(trained.network, "norm_and_head", knowing)
        for done in run.rounds():
            most = max(most, done.n_accepted)
            run.request("gamma", rng.choice([0, 1, 3, 6]))
            run.request("p_min", rng.choice([0.0, 0.01, 0.5]))
        assert run.new_tokens == want
        assert most >= (6 if right else 0)


def test_it_stops_before_a_token_it_is_unsure_of(loaded: Any, run: Any, tmp_path: Path) -> None:
    """On record: every drafted token was at least as probable as asked, the look that stopped was not."""
    KIND.write(tmp_path, made(loaded[0].target.adapter))
    _, free = run("mtp", drafter=[str(tmp_path)], gamma=6)
    known = sorted({event.conf for event in free if isinstance(event, DraftStep)})
    bound = (known[9] + known[10]) / 2  # not one of them: what is on record is rounded
    _, events = run("mtp", drafter=[str(tmp_path)], gamma=6, p_min=bound)
    looks = {pair: [e for e in events if isinstance(e, DraftStep) and e.r == pair] for pair in {e.r for e in events}}
    nodes = {event.node: event for event in events if isinstance(event, Node)}
    for end in (event for event in events if isinstance(event, RoundEnd)):
        *before, last = looks[end.r] or [None]
        assert not any(look.stopped for look in before)
        assert (end.draft_end == "low_conf") == (last is not None and last.stopped)
    every = [look for pair in looks.values() for look in pair]
    assert {look.node for look in every if not look.stopped} == {*nodes}
    assert all((look.conf < bound) == look.stopped for look in every)
    assert {look.stopped for look in every} == {True, False}
    for look in every:
        if look.node is not None:
            assert look.conf == pytest.approx(math.exp(nodes[look.node].log_conf), rel=1e-3)
            assert look.pos == nodes[look.node].pos


@pytest.mark.parametrize("first", [1, 3])
def test_numbers_that_are_not_finite_draft_nothing(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    trained, calls, right = made(target), [], MtpNetwork.norm_and_head

    def odd(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        calls.append(None)
        normed, logits = right(trained.network, states)
        return normed, logits * (float("nan") if len(calls) >= first else 1.0)

    monkeypatch.setattr(trained.network, "norm_and_head", odd)
    run = session(target, trained, max_new_tokens=12)
    done = next(iter(run.rounds()))
    assert [fact.code for fact in done.facts if not isinstance(fact, DraftStep)] == ["draft_not_finite"]
    assert len(done.draft) == first - 1
    rest = plain_session(target, None, PROMPT, method="ar", max_new_tokens=12).generate()
    assert [*done.tokens, *(token for more in run.rounds() for token in more.tokens)] == rest


def test_its_file_holds_the_layer_alone(target: ModelAdapter, tmp_path: Path) -> None:
    """Head and embedding are the target's, also where it speaks of some tokens only."""
    few = Vocabulary.most_frequent(torch.randperm(target.vocab, generator=torch.Generator().manual_seed(3)), 120)
    KIND.write(tmp_path, made(target, few))
    with safe_open(tmp_path / KIND.weights, "pt") as file:
        assert not [name for name in file.keys() if name.startswith(("head", "embed"))]  # noqa: SIM118
    trained = KIND.load(tmp_path, target)
    assert torch.equal(trained.network.head, target.head.weight[few.ids])
    assert (
        session(target, trained).generate()
        == plain_session(target, None, PROMPT, method="ar", max_new_tokens=36).generate()
    )


def test_eight_bits_are_half_the_file_and_nearly_the_weights(target: ModelAdapter, tmp_path: Path) -> None:
    """Each within half a step of its row's scale, and a little for the scale's own sixteen bits."""
    large = made(target)
    small = replace(large, config=replace(large.config, bits=8))
    for folder, trained in (("large", large), ("small", small)):
        KIND.write(tmp_path / folder, trained)
    size = {folder: (tmp_path / folder / KIND.weights).stat().st_size for folder in ("large", "small")}
    assert size["small"] < 0.75 * size["large"]  # matrices this small have scales and headers beside them
    loaded_part = KIND.load(tmp_path / "small", target)
    theirs = dict(loaded_part.network.named_parameters())
    for name, weights in large.network.named_parameters():
        step = weights.abs().amax(-1, keepdim=True) / 127
        assert bool(((theirs[name] - weights).abs() <= 0.5 * step + 0.008 * weights.abs()).all()), name
    assert loaded_part.config.bits == 8
    assert (
        session(target, loaded_part).generate()
        == plain_session(target, None, PROMPT, method="ar", max_new_tokens=36).generate()
    )


@pytest.mark.parametrize("odd", ["lost", "short", "whole", "infinite", "bits"])
def test_eight_bits_that_cannot_be_right_are_refused(target: ModelAdapter, tmp_path: Path, odd: str) -> None:
    trained = made(target)
    KIND.write(tmp_path, replace(trained, config=replace(trained.config, bits=8)))
    tensors = load_file(tmp_path / KIND.weights)
    if odd == "lost":
        tensors["layer.x.weight" + SCALE] = tensors["layer.q.weight" + SCALE].clone()
    elif odd == "short":
        tensors["layer.q.weight" + SCALE] = tensors["layer.q.weight" + SCALE][1:]
    elif odd == "whole":
        del tensors["layer.q.weight" + SCALE]
    elif odd == "infinite":
        tensors["layer.q.weight" + SCALE][0] = float("inf")
    else:
        path = tmp_path / "config.json"
        path.write_text(path.read_text().replace('"bits": 8', '"bits": 12'))
    save_file(tensors, tmp_path / KIND.weights)
    reasons = {
        "lost": "which is nothing",
        "short": r"is \[31\] for 'layer.q.weight', which is \[32, 32\] of int8",
        "whole": "of type int8; weights are floating point",
        "infinite": "holds NaN or infinite",
        "bits": "says bits = 12; it must be 8 or 16",
    }[odd]
    with pytest.raises(ModelError, match=reasons) as refused:
        KIND.load(tmp_path, target)
    assert "\n" not in str(refused.value)


def windows_of(target: ModelAdapter, n: int = 16, length: int = 40) -> OwnWindows:
    """What the target writes at temperature 1 behind single tokens."""
    rng = torch.Generator().manual_seed(2)
    streams = [iter([[token]]) for token in range(n)]
    return continued(target.model, streams, OwnTextConfig(n, 1, length, (1.0,)), rng)


def with_gains(target: ModelAdapter, large: float) -> ModelAdapter:
    """The target with a final norm of gains of both signs."""
    with torch.no_grad():
        gains = torch.randn(32, generator=torch.Generator().manual_seed(4), dtype=torch.float64).sign() * large
        target.norm.weight.copy_(gains)
    return target


def test_over_a_right_guess_it_begins_as_the_target_s_last_layer() -> None:
    """Given what that reads, in the coordinates of its last state, it leaves the last state; its logits are right."""
    target = with_gains(ModelAdapter(build("llama", seed=1, dtype=torch.float64)), 1.7)
    net = MtpNetwork(layer_like(target), torch.Generator().manual_seed(0)).double()
    net.join(target, Vocabulary(target.vocab))
    text = windows_of(target)
    settle(net, target, text)
    ids = torch.from_numpy(text.ids[:2].astype("int64"))
    with torch.no_grad():
        out = target.model(input_ids=ids, output_hidden_states=True)
        rows = target.norm.weight * out.hidden_states[target.n_layers - 1]
        kept = passed(target, text)
        rows = rows / kept.left.square().mean(-1).sqrt().mean()
        left = net(rows[:, :, None], torch.arange(ids.shape[1])[None], lambda index, k, v: (k, v), None)[:, :, 0]
        torch.testing.assert_close(
            left / left.norm(dim=-1, keepdim=True),
            out.hidden_states[-1] / out.hidden_states[-1].norm(dim=-1, keepdim=True),
            rtol=0,
            atol=1e-5,
        )
        torch.testing.assert_close(net.head_logits(left), out.logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("architecture", "guessed"), [("llama", "read"), ("gpt2", "left")])
def test_its_first_guess_hears_the_token_and_is_better_than_none(architecture: str, guessed: str) -> None:
    """Before any step, on text that it was not fitted on; a layer that is not like ours lends nothing."""
    target = ModelAdapter(build(architecture, seed=1, dtype=torch.float64))
    net = MtpNetwork(LayerShape(32, 4, 2, 8, 24), torch.Generator().manual_seed(0)).double()
    seeded = deepcopy(net)
    text = windows_of(target, 48)
    settle(net, target, OwnWindows(text.ids[:40], text.written[:40]))
    kept = passed(target, OwnWindows(text.ids[40:], text.written[40:]))

    def near(of: MtpNetwork, last: torch.Tensor, token: torch.Tensor) -> float:
        rows = of.begin(last[None].double(), token[None].double())[0, :, 0]
        return float(torch.nn.functional.cosine_similarity(rows.detach(), getattr(kept, guessed), dim=-1).mean())

    right = near(net, kept.last, kept.token)
    assert right > near(net, kept.last, kept.token.roll(1, 0)) + 0.05
    assert right > near(seeded, kept.last, kept.token) + 0.2
    assert torch.equal(net.layer.gate.weight, seeded.layer.gate.weight) == (guessed == "left")
