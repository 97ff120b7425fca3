"""`specviz train hrad`: which rounds count and how they are labelled, learning, resuming, measuring, the card."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from methods.branch.test_hrad import blank
from specviz.engine.decode.round import RoundResult
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import load as load_model
from specviz.errors import SpecvizError
from specviz.methods.branch.hrad import load
from specviz.probability.draft import Draft
from specviz_train.cards.page import page
from specviz_train.common import corpus, own_text, training_text
from specviz_train.common.console import Console
from specviz_train.common.own_text import OwnTextConfig
from specviz_train.hrad import objective as fit
from specviz_train.hrad import rounds as hrad_rounds
from specviz_train.hrad import train as hrad
from specviz_train.hrad.objective import FittedHrad, HradObjective, LabelledRounds
from specviz_train.hrad.rounds import HradRounds, RoundCollector, RoundSettings, censored, label
from specviz_train.train import command
from support.models import blurred, build, save

GAMMA = 4


def done(accepted: int, planned: int = GAMMA, finish: Any = None, drafted: int = GAMMA) -> RoundResult:
    """A finished round, as far as its label is concerned."""
    draft = Draft(tokens=(1,) * drafted, parents=tuple(range(-1, drafted - 1)), planned=planned)
    return RoundResult(1, 9, 3, 0, {}, draft=draft, n_accepted=accepted, finish=finish)


def test_labels_of_a_scripted_trace() -> None:
    """Rounds that the end of the text cut are left out, whatever they held: their X is not the target's word."""
    trace = [
        (done(0), 0),
        (done(1), 1),
        (done(GAMMA - 1), 1),
        (done(GAMMA), 2),
        (done(0, drafted=2), 0),  # a drafted stop token ended the draft, and it was rejected
        (done(1, drafted=2), 1),
        (done(GAMMA, finish="eos"), None),
        (done(1, finish="length"), None),
        (done(0, planned=2, drafted=2), None),  # the room allowed no more: X = gamma could not be
        (done(2, planned=2, drafted=2), None),
        (done(2, finish="stop"), None),
    ]
    for one_round, wanted in trace:
        assert censored(one_round, GAMMA) == (wanted is None)
        if wanted is not None:
            assert label(np.array([one_round.n_accepted]), GAMMA).tolist() == [wanted]
    assert label(np.arange(8), 7).tolist() == [0, 1, 1, 1, 1, 1, 1, 2]
    assert label(np.arange(2), 1).tolist() == [0, 2]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_rounds_of_a_prompt_are_those_of_the_session(temperature: float) -> None:
    """Every round but the cut ones, in order, with what it accepted."""
    from support.driver import session as real_session

    target = ModelAdapter(build("llama", seed=2))
    draft = ModelAdapter(blurred(build("llama", seed=2), 0.1))
    collector = RoundCollector(target, draft, frozenset({7}), RoundSettings(GAMMA, temperature, 2, 11))
    prompt = [5, 77, 12, 5, 9, 30]
    examples = collector.of(3, prompt)
    running = real_session(
        target,
        draft,
        prompt,
        "sps",
        "tokenwise" if temperature else "walk",
        eos=(7,),
        seed=14,
        gamma=GAMMA,
        temperature=temperature,
        max_new_tokens=hrad_rounds.N_NEW,
    )
    rounds = list(running.rounds())
    kept = [example for example in rounds if example.finish is None and example.draft.planned == GAMMA]
    assert 0 < len(kept) < len(rounds)
    assert examples.accepted.tolist() == [example.n_accepted for example in kept]
    assert set(examples.prompt.tolist()) == {3}
    assert examples.features.shape == (len(kept), 3 * 32)
    tokens = [running.tokens[example.n - 1] for example in kept]
    embedded = target.embedding(torch.tensor(tokens)).detach().half().numpy()
    assert np.array_equal(examples.features[:, 64:], embedded)


def test_one_prompt_in_ten_is_from_held_out_documents() -> None:
    """Split by prompt, and by document besides: no held-out prompt begins in a text that was learned from."""
    from specviz_train.common.training_text import Documents, TokenStore

    store = Documents(TokenStore({"code": np.full(900, 1, np.int32)}, {"code": np.full(900, 2, np.int32)}))
    source = hrad_rounds.prompts(store, 0)
    sources = [next(source) for _ in range(40)]
    assert [number for number, prompt in sources if set(prompt) == {2}] == [9, 19, 29, 39]
    lengths = [len(prompt) for _, prompt in sources]
    assert hrad_rounds.SHORTEST <= min(lengths) < max(lengths) <= hrad_rounds.LONGEST
    again = hrad_rounds.prompts(store, 0)
    assert [next(again) for _ in range(40)] == sources


def learnable(n: int, seed: int, shares: tuple[float, ...] = (0.3, 0.1, 0.6)) -> LabelledRounds:
    """Three clouds in twelve dimensions, one coordinate enormous, one constant."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=n, p=shares)
    centres = np.random.default_rng(77).normal(size=(3, 12))
    features = centres[labels] + 0.7 * rng.normal(size=(n, 12))
    features[:, 3] *= 1e4
    features[:, 5] = 2.0
    return LabelledRounds(features.astype(np.float16), labels.astype(np.int64))


def silent(done: int, remark: str) -> None:
    """A report to nobody."""


def test_it_learns_what_there_is_to_learn(tmp_path: Path) -> None:
    train, held_out = learnable(2_000, 0), learnable(500, 1)
    fitted = fit.fit(HradObjective(train, held_out, 0, epochs=6), tmp_path / "fit.pt", silent)
    counts = fit.confusion(fitted.network, held_out)
    usual = fit.confusion_of(held_out.labels, np.full(500, 2))
    assert fit.macro_f1(counts) > 0.85 > 0.4 > fit.macro_f1(usual)
    scores = [score for _, score in fitted.curve]
    assert fitted.epoch == 1 + scores.index(max(scores))
    assert fit.macro_f1(counts) == pytest.approx(max(scores))  # the epoch that is kept is the best one


def test_an_interrupted_training_ends_with_the_same_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order, dropout and rate are keyed by seed and epoch: to the last bit."""
    train, held_out = learnable(300, 0), learnable(100, 1)

    def weights(path: Path, stop: int | None) -> torch.Tensor:
        if stop is not None:
            seen: list[int] = []
            halted = HradObjective(train, held_out, 3, epochs=4)
            fit.fit(halted, path, lambda epoch, remark: seen.append(epoch), stop=lambda: len(seen) == stop - 1)
            assert seen == [1, 2]
        fitted = fit.fit(HradObjective(train, held_out, 3, epochs=4), path, silent)
        return torch.cat([tensor.flatten() for tensor in fitted.network.state_dict().values()])

    once = weights(tmp_path / "once.pt", None)
    assert torch.equal(once, weights(tmp_path / "twice.pt", 2))
    before = torch.random.get_rng_state()
    fit.fit(HradObjective(train, held_out, 3, epochs=1), tmp_path / "more.pt", silent)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_checkpoint_of_before_is_gone_on_with(tmp_path: Path) -> None:
    """Written after every epoch, with the curve beside the weights; of fewer rounds, it is left alone."""
    train, held_out, path = learnable(300, 0), learnable(100, 1), tmp_path / "fit.pt"
    halted = fit.fit(HradObjective(train, held_out, 3, epochs=4), path, silent, stop=lambda: True)
    state = torch.load(path, weights_only=True)
    ledger, (state["optimizer"],) = state.pop("ledger"), state.pop("optimizers")
    torch.save({**state, "epoch": ledger["steps"], "curve": ledger["curve"]}, path)
    seen: list[int] = []
    fitted = fit.fit(HradObjective(train, held_out, 3, epochs=4), path, lambda epoch, remark: seen.append(epoch))
    assert seen == [2, 3, 4]
    assert fitted.curve[:1] == halted.curve
    once = fit.fit(HradObjective(train, held_out, 3, epochs=4), tmp_path / "once.pt", silent)
    assert (fitted.epoch, fitted.curve) == (once.epoch, once.curve)
    more = HradObjective(learnable(301, 0), held_out, 3, epochs=4)
    assert len(fit.fit(more, path, silent).curve) == 4


def test_standardisation_leaves_out_what_does_not_vary() -> None:
    data = learnable(1_000, 2)
    network = blank(12)
    fit.standardise(network, data)
    rows = (data.rows(slice(None)) - network.mean) * network.scale
    varying = [k for k in range(12) if k != 5]
    assert torch.allclose(rows[:, varying].mean(0), torch.zeros(11), atol=1e-3)
    assert torch.allclose(rows[:, varying].std(0), torch.ones(11), atol=1e-2)
    assert float(network.scale[5]) == 0


def test_weights_and_scores_by_hand() -> None:
    labels = np.array([0] * 10 + [1] * 2 + [2] * 88)
    assert fit.class_weights(labels).tolist() == pytest.approx([100 / 30, 5.0, 0.5])
    counts = np.array([[6, 2, 2], [1, 3, 0], [1, 1, 8]])
    f1 = [2 * 6 / (10 + 8), 2 * 3 / (4 + 6), 2 * 8 / (10 + 10)]
    assert fit.macro_f1(counts) == pytest.approx(sum(f1) / 3)
    assert fit.macro_f1(np.array([[4, 0, 0], [0, 0, 0], [0, 0, 4]])) == 1  # a class that never occurs is left out


def test_the_card_states_the_costly_errors_and_the_majority() -> None:
    from methods.branch.test_hrad import config_of, pair

    labels = np.array([0] * 10 + [1] * 5 + [2] * 20)
    guess = np.array([0] * 7 + [2] * 3 + [1] * 5 + [0] * 4 + [2] * 16)
    probs = np.full((35, 3), 0.1)
    probs[np.arange(35), guess] = 0.8
    rounds = HradRounds(
        np.zeros((4, 1), np.float16), np.array([0, 4, 4, 1], np.int16), np.array([0, 1, 2, 6], np.int32)
    )
    fitted = FittedHrad(blank(12), 2, [(1.0, 0.5), (0.9, 0.6)])
    config = config_of(*pair(), counts=(100, 20, 300))
    numbers = hrad.numbers_of(config, "specviz train hrad", rounds, fitted, probs, labels)
    assert numbers["confusion"] == [[7, 0, 3], [0, 5, 0], [4, 0, 16]]
    assert numbers["costly"] == {"all_when_none": 0.3, "none_when_all": 0.2}
    assert numbers["hrad"]["accuracy"] == pytest.approx(28 / 35)
    assert (numbers["majority"]["class"], numbers["majority"]["accuracy"]) == ("all", pytest.approx(20 / 35, abs=1e-4))
    assert numbers["accepted"] == [1, 1, 0, 0, 2]
    text = page("hrad", {**numbers, **hrad.page_facts(numbers)})
    assert "| none | 7 | 0 | 4 | 63.6% |" in text  # predicted is a row, the truth is a column
    assert "30.0% of such rounds" in text
    assert hrad.points(probs[:, 2], labels == 2) == []  # too few in any bin to say something


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A random pair in folders, a little text, few and short prompts."""
    files = [path.read_text(encoding="utf-8") for path in sorted(Path(corpus.__file__).parents[1].rglob("*.py"))]
    documents = [
        corpus.Document("code", "stdlib", f"{'f' if number % 4 else '00'}{corpus.key_of(text)}", text)
        for number, text in enumerate(files)
    ] + [corpus.Document("sums", "sums", corpus.key_of(page), page) for page in corpus.sum_pages(200, seed=0)]
    monkeypatch.setattr(corpus, "gather", lambda wanted: documents)
    for module, values in (
        (own_text, {"HEADS": OwnTextConfig(64, 32, 40)}),
        (training_text, {"MOST_CHARS": {"train": 2e4, "held out": 4e3}, "LEAST_TOKENS": 160}),
        (hrad_rounds, {"LONGEST": 24, "N_NEW": 60, "CHUNK": 5}),
    ):
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    model = build("llama", seed=5)
    target = save(model, tmp_path / "target")
    draft = save(blurred(build("llama", seed=5), 0.1), tmp_path / "draft")
    return {"target": target, "draft": draft, "out": tmp_path / "out", "work": tmp_path / "work"}


def request(small: dict[str, Any], **changes: Any) -> hrad.HradRequest:
    return hrad.HradRequest(**{**small, "rounds": 300, "gamma": 3, "layers": 2, "threads": 1, **changes})


def test_end_to_end_and_resumed(small: dict[str, Any], tmp_path: Path) -> None:
    """Trained, saved, loaded for its pair; again does nothing new; more rounds keep those there are."""
    numbers = hrad.train_hrad(request(small), Console())
    target, draft = (load_model(small[role], role, None, None).adapter for role in ("target", "draft"))
    trained = load(small["out"], target, draft)
    assert (trained.config.gamma_label, trained.config.hrad_layers) == (3, 2)
    assert sum(trained.config.counts) == numbers["rounds"]["train"] == sum(numbers["accepted"])
    assert [list(row) for row in trained.config.confusion] == numbers["confusion"]
    assert sum(map(sum, numbers["confusion"])) == numbers["rounds"]["held_out"] > 0
    texts = "".join((small["out"] / name).read_text() for name in ("README.md", "card.json", "config.json"))
    assert str(tmp_path) not in texts
    ET.parse(small["out"] / "reliability.svg")
    weights = (small["out"] / "hrad.safetensors").read_bytes()
    chunks = sorted(small["work"].glob("rounds-*.npz"))
    stamps = [path.stat().st_mtime_ns for path in chunks]
    assert hrad.train_hrad(request(small), Console()) == numbers
    assert (small["out"] / "hrad.safetensors").read_bytes() == weights
    more = hrad.train_hrad(request(small, rounds=600), Console())
    assert [path.stat().st_mtime_ns for path in chunks] == stamps
    assert more["rounds"]["train"] > numbers["rounds"]["train"]
    with pytest.raises(SpecvizError, match="begun with gamma=3"):
        hrad.train_hrad(request(small, gamma=5), Console())


def test_collecting_goes_on_where_it_was_interrupted(small: dict[str, Any]) -> None:
    """Killed after a chunk, and once more within one: the same rounds as in one go."""
    target, draft = (load_model(small[role], role, None, None).adapter for role in ("target", "draft"))
    setting = RoundSettings(3, 0.0, 2, 0)
    tokenizer = load_model(small["target"], "target", None, None).tokenizer
    store = training_text.documents(corpus.CorpusRequest(), tokenizer)

    def collect(folder: Path, collector: RoundCollector) -> Any:
        folder.mkdir(exist_ok=True)
        return hrad_rounds.collect(collector, store, folder, 300, silent)

    class Dying(RoundCollector):
        left = 8

        def of(self, number: int, prompt: list[int]) -> Any:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return super().of(number, prompt)

    once = collect(small["work"], RoundCollector(target, draft, frozenset(), setting))
    folder = small["out"]
    with pytest.raises(KeyboardInterrupt):
        collect(folder, Dying(target, draft, frozenset(), setting))
    assert len(list(folder.glob("rounds-*.npz"))) == 1
    twice = collect(folder, RoundCollector(target, draft, frozenset(), setting))
    assert np.array_equal(once.features, twice.features)
    assert np.array_equal(once.accepted, twice.accepted)
    assert np.array_equal(once.prompt, twice.prompt)


def test_refusals(small: dict[str, Any]) -> None:
    with pytest.raises(SpecvizError, match="--layers 5: the target has states after 0 to 3 layers"):
        hrad.train_hrad(request(small, layers=5), Console())
    with pytest.raises(SpecvizError, match="--temperature nan"):
        hrad.train_hrad(request(small, temperature=float("nan")), Console())
    with pytest.raises(SpecvizError, match="draft model"):
        hrad.train_hrad(request(small, draft=None), Console())
    result = CliRunner().invoke(command, ["hrad", "--gamma", "0"])
    assert result.exit_code == 2
    assert "1<=x<=64" in result.output
