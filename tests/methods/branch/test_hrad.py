"""H-RAD: the row it reads and its width, the same in training and at run time; what it refuses; the fallback."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.engine.decode.context import Context, Observation
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.errors import ModelError
from specviz.methods.branch import hrad
from specviz.methods.branch.hrad import CLASSES, Hrad, HradConfig, Network, feature_rows, load, pick
from specviz.methods.draft_model.drafter import ChainDrafter
from specviz.methods.trained.parts import fingerprint
from specviz_train.hrad.rounds import RoundCollector, RoundSettings
from specviz_train.hrad.train import save as save_hrad
from support.driver import session as real_session
from support.models import blurred, build, save

PROMPT = [5, 77, 12, 5, 9, 30]


def pair(name: str = "llama") -> tuple[ModelAdapter, ModelAdapter]:
    model, draft = build(name, seed=2), blurred(build(name, seed=2), 0.1)
    return ModelAdapter(model, "target"), ModelAdapter(draft, "draft")


def config_of(target: ModelAdapter, draft: ModelAdapter, **changes: Any) -> HradConfig:
    settings: dict[str, Any] = {
        "target": fingerprint(target),
        "target_name": "zoo/target",
        "draft": fingerprint(draft),
        "draft_name": "zoo/draft",
        "n_layers": target.n_layers,
        "width": hrad.width_of(target),
        "hrad_layers": 3,
        "gamma_label": 4,
        "temperature": 0.0,
        "counts": (5, 6, 7),
        "confusion": ((1, 0, 0), (0, 2, 0), (0, 0, 3)),
    }
    return HradConfig(**{**settings, **changes})


def blank(n_inputs: int) -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Network(n_inputs)


def network_of(config: HradConfig) -> Network:
    return blank(config.n_inputs)


def folder_of(path: Path, target: ModelAdapter, draft: ModelAdapter, **changes: Any) -> Path:
    path.mkdir(exist_ok=True)
    config = replace(config_of(target, draft), **changes)
    save_hrad(path, config, network_of(config))
    return path


class Watching(ChainDrafter):
    """A chain that asks for the states H-RAD reads, and keeps what it was shown, and which rounds began after it."""

    def __init__(self, models: FactoryModels, taps: tuple[int, ...]) -> None:
        super().__init__(models, "sampled")
        self.taps = taps
        self.seen: list[Observation] = []
        self.lengths: list[int] = []

    def propose(self, ctx: Context) -> Any:
        self.lengths.append(ctx.n)
        return super().propose(ctx)

    def observe(self, observation: Observation) -> None:
        self.seen.append(observation)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
@pytest.mark.parametrize("layers", [1, 3])
def test_the_row_is_that_of_the_librarys_list(name: str, layers: int) -> None:
    """Raw block outputs and, last, the state behind the final norm; at position n - 2, with the embedding of n - 1.

    Whatever committed the newest token: prompt, accepted draft, correction, bonus. The trainer's rows are the same.
    """
    target, draft = pair(name)
    taps = hrad.taps(target.n_layers, layers)
    watching = Watching(FactoryModels(target, draft, 640), taps)
    running = real_session(
        target,
        draft,
        PROMPT,
        "sps",
        drafter=watching,
        gamma=3,
        max_new_tokens=24,
        temperature=0.9,
        verifier="tokenwise",
    )
    kinds = {kind for done in running.rounds() for kind in done.kinds[-1:]}
    assert {"recovered", "bonus"} <= kinds
    with torch.inference_mode():
        states = target.model(torch.tensor([running.tokens]), output_hidden_states=True).hidden_states
    collector = RoundCollector(target, draft, frozenset(), RoundSettings(3, 0.9, layers, 0))
    whole = collector._features(running.tokens, watching.lengths)
    for n, seen, trained in zip(watching.lengths, watching.seen, whole, strict=False):
        newest = running.tokens[n - 1]
        row = feature_rows(target, {tap: seen.features[tap][-1:] for tap in taps}, [newest])[0]
        wanted = [states[k][0, n - 2] for k in range(len(states) - layers, len(states))]
        wanted.append(target.model.get_input_embeddings()(torch.tensor(newest)))
        assert row.shape == ((layers + 1) * 32,)
        assert torch.allclose(row, torch.cat(wanted), atol=1e-4)
        assert torch.allclose(row, trained, atol=1e-4)


def test_a_class_and_its_probabilities() -> None:
    """In float32, dropout off, also for a model in bfloat16; the last row of what was observed is read."""
    target, draft = pair()
    config = config_of(target, draft)
    network = network_of(config)
    classifier = Hrad(target, config, network)
    rng = torch.Generator().manual_seed(0)
    seen = {tap: torch.randn(4, 32, generator=rng) for tap in classifier.taps}
    row = torch.cat([*(seen[tap][-1] for tap in classifier.taps), target.embedding(torch.tensor([9]))[0]])
    expected = network.layers(row[None])[0].softmax(-1)
    signal = classifier.classify(seen, 9)
    assert signal.probs == pytest.approx(expected.tolist())
    assert signal.s == int(expected.argmax())
    assert classifier.classify(seen, 9) == signal
    halves = {tap: states.bfloat16() for tap, states in seen.items()}
    assert sum(classifier.classify(halves, 9).probs) == pytest.approx(1, abs=1e-6)
    assert len(CLASSES) == len(signal.probs)


def test_features_are_standardised() -> None:
    network = blank(2)
    network.mean.copy_(torch.tensor([5.0, 100.0]))
    network.scale.copy_(torch.tensor([0.5, 0.0]))
    network.eval()
    rows = torch.tensor([[7.0, 3.0], [7.0, 999.0]])
    same = network.layers(torch.tensor([[1.0, 0.0]]))
    assert torch.allclose(network(rows), same.expand(2, 3))


def test_it_comes_back_from_its_folder(tmp_path: Path) -> None:
    target, draft = pair()
    trained = load(folder_of(tmp_path / "a", target, draft), target, draft)
    assert trained.config == config_of(target, draft)
    assert trained.taps == (1, 2, 3)
    rounded = network_of(trained.config)
    with torch.no_grad():
        for weight in rounded.parameters():
            weight.copy_(weight.half())
    rows = torch.randn(3, trained.config.n_inputs, generator=torch.Generator().manual_seed(1))
    assert torch.equal(trained.network(rows), rounded.eval()(rows))
    assert {weight.dtype for weight in trained.network.parameters()} == {torch.float32}


def changed(**changes: Any) -> Any:
    return lambda folder, config: (folder / "config.json").write_text(json.dumps({**config, **changes}))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def no_numbers(path: Path) -> None:
    tensors = load_file(path)
    tensors["layers.0.bias"][3] = float("nan")
    save_file(tensors, path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (changed(width=64), "3 layers of width 64, the target target has 3 of width 32"),
        (changed(n_layers=12), "12 layers"),
        (changed(hrad_layers=9), "hrad_layers is 9"),
        (changed(hrad_layers=2), "weights are not what config.json says"),
        (changed(gamma_label=0), "gamma_label is 0"),
        (changed(counts=[1, 2]), "config.json"),
        (changed(target="00ff" * 8), "made for zoo/target .weights 00ff00ff., the target target has weights"),
        (changed(draft="00ff" * 8), "made for zoo/draft .weights 00ff00ff., the draft model draft has weights"),
        (changed(format="specviz-exit-heads"), "no weights of H-RAD .config.json says format specviz-exit-heads"),
        (changed(version=9), "version 9"),
        (lambda folder, config: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder, config: (folder / "config.json").write_text("{"), "not JSON"),
        (changed(gamma_label="four"), "gamma_label"),
        (lambda folder, config: (folder / "hrad.safetensors").write_bytes(b"x"), "cannot be read"),
        (lambda folder, config: cut_short(folder / "hrad.safetensors"), "cannot be read"),
        (lambda folder, config: no_numbers(folder / "hrad.safetensors"), "layers.0.bias' holds NaN"),
        (lambda folder, config: (folder / "hrad.safetensors").rename(folder / "hrad.pt"), "pickled"),
        (lambda folder, config: (folder / "hrad.safetensors").unlink(), "no .safetensors file"),
    ],
)
def test_what_it_refuses(tmp_path: Path, spoil: Any, message: str) -> None:
    """One line that names the folder; wrong states would only cost time, unseen."""
    target, draft = pair()
    folder = folder_of(tmp_path / "a", target, draft)
    spoil(folder, json.loads((folder / "config.json").read_text()))
    with pytest.raises(ModelError, match=message) as caught:
        load(folder, target, draft)
    assert str(caught.value).startswith(f"--hrad {folder}: ")
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="no such folder"):
        load(tmp_path / "nowhere", target, draft)


def test_it_says_when_it_learned_from_other_rounds() -> None:
    target, draft = pair()
    config = config_of(target, draft)
    classifier = Hrad(target, config, network_of(config))
    assert classifier.mismatch(config.gamma_label, config.temperature) is None
    for gamma, temperature in ((config.gamma_label + 1, config.temperature), (config.gamma_label, 0.75)):
        warning = classifier.mismatch(gamma, temperature)
        assert warning is not None
        assert f"gamma {config.gamma_label} at temperature {config.temperature:g}, this run" in warning
        assert f"specviz train hrad --gamma {gamma} --temperature {temperature:g}" in warning


def test_the_fallback(tmp_path: Path) -> None:
    """None where nothing was trained for the pair; models of tests have none either."""
    target, draft = pair()
    assert pick(target, draft) is None
    assert pick(target, draft, "none") is None
    assert pick(target, None) is None
    assert pick(object(), draft) is None  # type: ignore[arg-type]
    folder = folder_of(tmp_path / "a", target, draft)
    assert isinstance(pick(target, draft, str(folder)), Hrad)
    with pytest.raises(ModelError, match="the draft model target"):
        pick(target, target, str(folder))


def test_one_that_guesses_is_asked_only_by_name(tmp_path: Path) -> None:
    """Agreement beyond chance: none where both are independent, all on the diagonal; one class alone says nothing."""
    from specviz.engine.model.files.loading import load as load_model

    folder = Path(save(build("llama", seed=2), tmp_path / "target"))
    target, draft = load_model(str(folder), "target", None, None).adapter, pair()[1]
    guesses = ((20, 10, 10), (20, 10, 10), (20, 10, 10))
    for confusion, kappa in (
        (guesses, 0),
        (((9, 0, 0), (0, 5, 0), (0, 0, 2)), 1),
        (((0, 0, 0), (0, 0, 0), (0, 0, 7)), 0),
    ):
        assert config_of(target, draft, confusion=confusion).kappa == pytest.approx(kappa)
    guessing = folder_of(folder / "hrad", target, draft, confusion=guesses)
    assert pick(target, draft) is None
    assert isinstance(pick(target, draft, str(guessing)), Hrad)


def test_those_beside_the_target_are_found(tmp_path: Path) -> None:
    """In the target's own folder, when they are this pair's; of several the one for the nearest gamma."""
    from specviz.engine.model.files.loading import load as load_model

    folder = save(build("llama", seed=2), tmp_path / "target")
    target = load_model(folder, "target", None, None).adapter
    draft = pair()[1]
    assert pick(target, draft) is None
    for gamma in (3, 8):
        folder_of(Path(folder) / f"hrad-{gamma}", target, draft, gamma_label=gamma)
    folder_of(Path(folder) / "hrad-other", target, target, gamma_label=5)
    picked = [pick(target, draft, gamma=gamma) for gamma in (1, 5, 6, 12)]
    assert [classifier.config.gamma_label for classifier in picked if classifier] == [3, 3, 8, 8]
    other = pick(target, target, gamma=8)
    assert other is not None
    assert other.config.gamma_label == 5
