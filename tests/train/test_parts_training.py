"""`specviz train kangaroo` and `train skip-set`: end to end on a random target, gone on with, measured, refused."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import load
from specviz.errors import SpecvizError
from specviz.methods.early_exit.heads import FinalHead
from specviz.methods.kangaroo.adapter import Adapter, AdapterShape, pick
from specviz.methods.self_skip.model import load as load_set
from specviz.methods.self_skip.spec import SkipSet
from specviz_train import recipe
from specviz_train.common import corpus, files, own_text, training_text
from specviz_train.common.console import Console
from specviz_train.common.decoding import Decoded, decode, gain
from specviz_train.common.loop import Loop
from specviz_train.common.optim import Budget
from specviz_train.common.own_text import OwnTextConfig
from specviz_train.common.training_text import WindowFeed
from specviz_train.exits import objective
from specviz_train.kangaroo import train as kangaroo
from specviz_train.kangaroo.train import AdapterObjective
from specviz_train.self_skip import search as skip_costs
from specviz_train.self_skip import train as skip_set
from specviz_train.self_skip.search import Trials, choices, ranked, search, set_of
from specviz_train.train import command
from support.models import build, planted, save
from train.little_text import little_corpus


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A target of four layers in a folder, a little text, and budgets in steps."""
    documents = little_corpus()
    monkeypatch.setattr(corpus, "gather", lambda wanted: documents)
    for module, values in (
        (own_text, {"HEADS": OwnTextConfig(64, 12, 40)}),
        (training_text, {"MOST_CHARS": {"train": 2e4, "held out": 4e3}, "LEAST_TOKENS": 160}),
        (objective, {"WINDOWS": 4, "LENGTH": 32, "POSITIONS": 96}),
        (kangaroo, {"N_PROMPTS": 1, "PROMPT": 8, "N_NEW": 12}),
        (skip_set, {"N_PROMPTS": 1, "PROMPT": 8, "N_NEW": 8}),
        (skip_set, {"MEASURED_NEW": 8}),
        (skip_costs, {"TURNS": 2}),
    ):
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(
        kangaroo.KangarooRequest, "share", lambda request, share: Budget(steps=2 if share < 0.25 else 90)
    )
    monkeypatch.setattr(skip_set.SkipSetRequest, "budget", Budget(steps=9))
    return save(build("llama", seed=5, num_hidden_layers=4), tmp_path / "target")


def asked_kangaroo(target, tmp_path, **changes):
    settings = {"target": target, "out": tmp_path / "out", "work": tmp_path / "work", "minutes": 1, **changes}
    return kangaroo.KangarooRequest(**settings)


def test_an_adapter_learns_and_is_found_by_the_target(small, tmp_path):
    request = asked_kangaroo(small, tmp_path, out=Path(small) / "kangaroo", layers=(1, 2))
    numbers = kangaroo.train_kangaroo(request, Console())
    trained = pick(load(small, "target", None, None).adapter, None)
    assert trained is not None
    assert trained.layer == numbers["layer"] in (1, 2)
    assert set(numbers["tried"]) == {"1", "2"}
    assert set(numbers["decoding"]) == {"code", "sums"}
    assert all(0 <= share <= 1 for row in numbers["decoding"].values() for share in row["kept_by_position"])
    page = (request.out / "README.md").read_text(encoding="utf-8")
    assert "--layers 1,2" in page
    assert (
        str(tmp_path) not in page + (request.out / "card.json").read_text() + (request.out / "config.json").read_text()
    )
    ET.parse(request.out / "reliability.svg")


def test_a_finished_training_does_nothing_again(small, tmp_path):
    request = asked_kangaroo(small, tmp_path, layers=(1,))
    numbers = kangaroo.train_kangaroo(request, Console())
    losses = [loss for _, loss in numbers["training"]["curve"]]
    assert losses[-1] < losses[0] - 0.05  # a random target has little to teach; what it has is taken
    weights = (request.out / "adapter.safetensors").read_bytes()
    assert kangaroo.train_kangaroo(request, Console())["training"] == numbers["training"]
    assert (request.out / "adapter.safetensors").read_bytes() == weights
    with pytest.raises(SpecvizError, match="begun with layers"):
        kangaroo.train_kangaroo(asked_kangaroo(small, tmp_path, layers=(2,)), Console())
    with pytest.raises(SpecvizError, match="layers 1 to 3"):
        kangaroo.train_kangaroo(asked_kangaroo(small, tmp_path, layers=(4,)), Console())


def test_an_interrupted_training_ends_with_the_same_adapters(tmp_path):
    """The same steps in one go and in two, the second from the checkpoint: the same weights to the last bit."""
    target = ModelAdapter(build("llama", seed=5).requires_grad_(False))
    ids, shape = np.random.default_rng(0).integers(0, 256, 4_000).astype(np.int32), AdapterShape.of(target)

    def trained(folder, stops):
        folder.mkdir()
        for steps in stops:
            adapters = {layer: Adapter(shape).begin(target.norm, 3) for layer in (1, 2)}
            feed = WindowFeed({"own": ids}, mix={"own": 1.0})
            learnt = AdapterObjective(target.model, FinalHead(target), adapters, feed, "soft", 3, shape)
            run = Loop(learnt, Budget(steps=6), folder / "adapters.pt")
            while run.ledger.steps < steps:
                run.advance()
            run.save()
        return torch.cat([parameter.detach().flatten() for a in adapters.values() for parameter in a.parameters()])

    assert torch.equal(trained(tmp_path / "once", [6]), trained(tmp_path / "twice", [2, 6]))


def test_an_adapter_is_trained_to_say_what_the_target_says():
    """The loss is the cross-entropy with the target's law, after the whole text before: worked out again by hand."""
    target = ModelAdapter(build("llama", seed=5, dtype=torch.float64).requires_grad_(False))
    shape = AdapterShape.of(target)
    adapter = Adapter(shape, torch.float64).begin(target.norm, 1)
    with torch.no_grad():
        adapter.attention.o_proj.weight.fill_(0.05)
    learnt = AdapterObjective(target.model, FinalHead(target), {2: adapter}, WindowFeed({}), "soft", 0, shape)
    windows, keep = torch.randint(0, 250, (2, 9), generator=torch.Generator().manual_seed(0)), torch.tensor([3, 14])
    (loss,) = learnt.losses(windows, keep)
    out = target.model(windows, output_hidden_states=True)
    total = 0.0
    for row, place in ((0, 3), (1, 5)):
        states = out.hidden_states[2][row : row + 1, : place + 1]
        rope = learnt.rope.at(states, list(range(place + 1)), torch.arange(place + 1)[None])
        logs = FinalHead(target).scores(adapter.norm(adapter(states, rope)[0, -1:]))[0].log_softmax(-1)
        total -= float(out.logits[row, place, : target.vocab].softmax(-1) @ logs.detach())
    assert float(loss.detach()) == pytest.approx(total / 2)


def test_layers_that_were_tried_are_not_tried_again(small, tmp_path, monkeypatch):
    """Trying takes longer than a short training: what an interruption leaves of it is kept, layer by layer."""
    request, tried = asked_kangaroo(small, tmp_path, layers=(1, 2)), []

    def cost(target, adapter, shape, layer, prompts):
        tried.append(layer)
        if tried == [1, 2]:
            raise KeyboardInterrupt
        return {"tokens_per_round": 2.0, "layer_calls_per_token": 3.0, "ns_per_token": 100 + layer}

    monkeypatch.setattr(kangaroo, "_cost", cost)
    with pytest.raises(KeyboardInterrupt):
        kangaroo.train_kangaroo(request, Console())
    assert kangaroo.train_kangaroo(request, Console())["layer"] == 1
    assert tried == [1, 2, 2]


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ({1: (1.5, 100), 2: (1.7, 100.5), 3: (2.0, 103)}, 2),  # 1 and 2 cost alike
        ({1: (1.5, 100), 5: (2.5, 110)}, 1),
    ],
)
def test_the_layer_is_the_cheapest_and_of_equals_the_one_with_fewest_rounds(rows, best):
    tried = {layer: {"tokens_per_round": tokens, "ns_per_token": ns} for layer, (tokens, ns) in rows.items()}
    assert kangaroo.chosen(tried) == best


def asked_set(target, tmp_path, **changes):
    settings = {"target": target, "out": tmp_path / "out", "work": tmp_path / "work", "minutes": 1, **changes}
    return skip_set.SkipSetRequest(**settings)


def test_a_set_is_found_and_written_for_its_target(small, tmp_path):
    request = asked_set(small, tmp_path)
    numbers = skip_set.train_skip_set(request, Console())
    target = load(small, "target", None, None).adapter
    assert str(load_set(request.out, target).skips) == numbers["left_out"]
    trials = Trials.at(request.work / "trials.json")
    assert len(trials.cost) == numbers["tried"] == 9
    page = (request.out / "README.md").read_text(encoding="utf-8")
    assert "specviz train skip-set" in page
    assert str(tmp_path) not in page + "".join(path.read_text() for path in request.out.glob("*.json"))
    before = (request.work / "trials.json").read_bytes()
    assert skip_set.train_skip_set(request, Console())["left_out"] == numbers["left_out"]
    assert (request.work / "trials.json").read_bytes() == before
    with pytest.raises(SpecvizError, match="begun with seed=0"):
        skip_set.train_skip_set(asked_set(small, tmp_path, seed=1), Console())


def toy_cost(skips: SkipSet) -> float:
    """Least at the set a2 a3 m1 m4; single flips from it all cost more, as does everything else."""
    wanted = {("a", 2), ("a", 3), ("m", 1), ("m", 4)}
    chosen = {("a", k) for k in skips.attention} | {("m", k) for k in skips.mlp}
    return len(wanted ^ chosen) + 0.3 * ((("a", 2) in chosen) != (("m", 1) in chosen))


def hunted(path, seed, stops):
    """A search that is cut short after every number of trials, and begun again from its book."""
    for limit in stops:
        trials = Trials.at(path)
        new = 0

        def cost(skips, trials=trials):
            nonlocal new
            if str(skips) not in trials.cost:
                new += 1
                trials.cost[str(skips)] = toy_cost(skips)
                trials.save()
            return trials.cost[str(skips)]

        best = search(choices(5), cost, lambda trials=trials, limit=limit: len(trials.cost) < limit, seed)
    return best, list(trials.cost), new


@pytest.mark.parametrize("seed", range(4))
def test_the_search_finds_the_best_of_a_small_space_and_goes_on_where_it_stopped(tmp_path, seed):
    best, tried, _ = hunted(tmp_path / "once.json", seed, [200])
    assert set_of(best) == SkipSet(frozenset({2, 3}), frozenset({1, 4}))
    assert len(tried) == 200 < 2**10
    again, tried_again, new = hunted(tmp_path / "twice.json", seed, [70, 200])
    assert (again, tried_again) == (best, tried)
    assert new == 130


def test_a_search_without_an_order_to_go_by_ends(tmp_path):
    """A limit of one trial, and one larger than there are sets to try nearby."""
    assert hunted(tmp_path / "a.json", 0, [1])[0] == frozenset()


def test_sublayers_are_ranked_by_harm_for_the_time_they_save():
    harm = {("a", 1): 0.2, ("m", 1): 0.3, ("a", 2): 0.1, ("m", 2): 0.4}
    assert ranked(harm, {"a": 1.0, "m": 2.0}) == [("a", 2), ("m", 1), ("a", 1), ("m", 2)]


def test_harm_is_what_the_best_tokens_lose():
    """A model whose layers do almost nothing is hurt by no loss of one; a random one is."""
    windows = torch.randint(0, 250, (2, 24), generator=torch.Generator().manual_seed(0))
    idle = skip_costs.harm(ModelAdapter(planted(0, layers=3)[0]), windows)
    busy = skip_costs.harm(ModelAdapter(build("llama", seed=5)), windows)
    assert max(idle.values()) < 0.1
    assert max(busy.values()) > 0.3
    assert set(idle) == set(choices(3))


def test_costs_are_of_what_is_left():
    costs = skip_costs.SublayerCosts(None, 100.0, 5.0, 8.0, 2.0)
    assert costs.step(SkipSet()) == 100
    assert costs.step(SkipSet(frozenset({1, 2}), frozenset({2, 3}))) == 100 - 10 - 16 - 2
    target = ModelAdapter(build("llama", seed=5))
    measured = skip_costs.measure(target)
    assert skip_costs.SublayerCosts.of(json.loads(json.dumps(measured.as_dict()))) == measured
    assert measured.whole > 0


def test_decoding_is_counted():
    """Against what the rounds say by themselves: an adapter that is right, and plain decoding."""
    target = ModelAdapter(planted(0, layers=4)[0])
    from methods.kangaroo.kangaroo_stage import adapter_for
    from specviz.methods.kangaroo.drafter import over

    adapter = adapter_for(target, 2, noise=0.0)
    prompts = [[5, 6, 7], [100, 90, 80]]
    own = decode(target, lambda models: over(models, adapter, "argmax"), "kangaroo", prompts, 13, tau=0.0, w_max=3)
    assert (own.tokens, own.rounds) == (26, 8)  # 3 kept and one free token a round, the last cut to one
    assert own.by_position() == [1.0, 1.0, 1.0]
    assert own.tested[:4] == [6, 6, 6, 0]
    assert own.layer_calls == 6 * (4 + 3 * 2) + 2 * 4
    plain = decode(target, lambda models: None, "ar", prompts, 13)
    assert (plain.tokens, plain.rounds, plain.layer_calls, plain.by_position()) == (26, 26, 26 * 4, [])


def test_speeds_are_compared_at_their_best_turns():
    """Two prompts; a slow turn of either counts for nothing. 2 s and 3 s against 1 s and 1 s for as many tokens."""
    plain = iter([(2.0, 9.0, 8.0), (7.0, 3.0, 8.0)])
    other = iter([(5.0, 1.0, 6.0), (1.0, 9.0, 9.0)])

    def timed(script):
        left = []

        def run(prompts):
            if not left:
                left.extend(next(script))
            return Decoded(tokens=10, rounds=1, seconds=left.pop(0))

        return run

    assert gain(timed(plain), timed(other), [[1], [2]]) == pytest.approx(5 / 2)


@pytest.mark.parametrize("name", ["kangaroo", "skip-set"])
@pytest.mark.parametrize("words", [["--minutes", "0"], ["--text", "missing.txt"]])
def test_bad_options_exit_with_2(name, words):
    result = CliRunner().invoke(command, [name, *words])
    assert result.exit_code == 2
    assert words[0] in result.output


@pytest.mark.parametrize("torn", ["{", "[]", '{"cost": 3, "seconds": 1}', "{}", "\x00"])
@pytest.mark.parametrize("name", ["trials.json", "settings.json"])
def test_a_torn_book_is_refused_in_one_line(name, torn, tmp_path):
    """Writing is atomic; what else may lie there under that name is not believed."""
    path = tmp_path / name
    path.write_text(torn, encoding="utf-8")
    read = Trials.at if name == "trials.json" else lambda _: recipe.claim(tmp_path, tmp_path / "out", {"seed": 0})
    with pytest.raises(SpecvizError) as refused:
        read(path)
    assert "--work" in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_what_is_kept_is_read_again(tmp_path):
    files.keep(tmp_path / "a.json", {"seconds": 1.5, "cost": {"a1": 2.0}})
    assert files.kept(tmp_path / "a.json") == {"seconds": 1.5, "cost": {"a1": 2.0}}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_set_with_too_few_tokens_a_round_costs_more_the_more_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = {
        "a1": Decoded(tokens=20, rounds=10, predicted_ns=200.0),
        "m1": Decoded(tokens=10, rounds=10, predicted_ns=90.0),
    }
    monkeypatch.setattr(skip_costs.SkipSetPricer, "decoded", lambda pricer, skips, n_new: trials[str(skips)])

    def cheapest(yields: float) -> str:
        pricer = skip_costs.SkipSetPricer(None, None, [], yields)  # type: ignore[arg-type]
        return min(trials, key=lambda name: pricer.ns_per_token(SkipSet.parse([name]), 8))

    assert cheapest(0.0) == "m1"  # nine a token in place of ten
    assert cheapest(1.5) == "a1"
    assert cheapest(1.01) == "m1"  # a hundredth is a tenth of its price
    assert cheapest(1.02) == "a1"
