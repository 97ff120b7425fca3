"""Exit heads: every kind begins as the logit lens, folders are checked against their target, no pickle is opened."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from methods.early_exit.stage import Sink, early, plain
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import load as load_model
from specviz.errors import ModelError
from specviz.events import Warn
from specviz.methods.common.top_k import RowConfidence
from specviz.methods.early_exit.drafter import _clock as early_exit_clock
from specviz.methods.early_exit.drafter import asked
from specviz.methods.early_exit.heads import (
    KINDS,
    ExitHead,
    ExitHeadConfig,
    FinalHead,
    LogitLens,
    TrainedHeads,
    cost_in_layers,
    describe,
    fingerprint,
    load,
    pick,
)
from specviz_train.exits.train import save as save_heads
from support.driver import session
from support.models import build, planted, save

PROMPT = [5, 77, 12, 5, 9]


def adapter_of(name: str = "llama", dtype: torch.dtype = torch.float32, seed: int = 2) -> ModelAdapter:
    return ModelAdapter(build(name, seed=seed, dtype=dtype))


def config_of(adapter: ModelAdapter, kind: str, **changes: Any) -> ExitHeadConfig:
    width = int(adapter.head.weight.shape[1])
    settings = {
        "target": fingerprint(adapter),
        "target_name": "zoo",
        "n_layers": adapter.n_layers,
        "width": width,
        "vocab": adapter.vocab,
        "kind": kind,
        "layers": (1, 2),
        "rank": 4 if kind in ("lowrank", "factored") else 0,
    }
    return ExitHeadConfig(**{**settings, **changes})


def folder_of(tmp_path: Path, adapter: ModelAdapter, kind: str = "lowrank", **changes: Any) -> Path:
    config = config_of(adapter, kind, **changes)
    final = FinalHead(adapter)
    heads = {layer: ExitHead(kind, final, config.rank) for layer in (1, 2)}  # type: ignore[arg-type]
    save_heads(tmp_path, config, heads, None)
    return tmp_path


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "gpt_neox"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "factored"])
def test_every_kind_begins_as_the_lens(name: str, kind: Any) -> None:
    """So that the first step of a training is the fallback. Norms with and without bias, soft caps."""
    adapter = adapter_of(name, torch.float64)
    final = FinalHead(adapter)
    hidden = torch.randn(3, final.weight.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    head = ExitHead(kind, final, 4, like=torch.float64)
    assert torch.allclose(head(hidden, final), adapter.logits(hidden[None]), atol=1e-12)


def test_a_factored_head_begins_as_the_best_of_its_rank() -> None:
    """With full rank that is the head itself; with less, the error is what the missing singular values hold."""
    final = FinalHead(adapter_of(dtype=torch.float64))
    width = final.weight.shape[1]
    values = torch.linalg.svdvals(final.weight)
    for rank in (width, width // 2):
        head = ExitHead("factored", final, rank, like=torch.float64)
        lost = (head.up.detach() @ head.down.detach() - final.weight).norm()
        assert float(lost) == pytest.approx(float(values[rank:].norm()), abs=1e-9)


def test_a_shortlist_leaves_the_others_no_mass() -> None:
    adapter = adapter_of()
    ids = torch.tensor([3, 50, 200])
    tensors = {"1.gain": torch.ones(32), "shortlist": ids}
    heads = TrainedHeads(adapter, config_of(adapter, "gain", layers=(1,), shortlist=3), tensors)
    hidden = torch.randn(2, 32, generator=torch.Generator().manual_seed(1))
    logits, whole = heads.logits(1, hidden), adapter.logits(hidden[None])
    assert logits.isfinite().sum(1).tolist() == [3, 3]
    assert torch.allclose(logits[:, ids], whole[:, ids], atol=1e-6)
    assert torch.equal(heads.logits(2, hidden), whole)  # no head there: the lens
    lens_cost = cost_in_layers(adapter, LogitLens(adapter))
    assert cost_in_layers(adapter, heads) < 0.1 * lens_cost


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("layer", [1, 2])
def test_a_test_over_the_shortlist_says_what_one_over_all_tokens_does(layer: int, full: bool) -> None:
    """Tokens without mass are not looked at, the order of a shortlist does not matter, and of level ones the lowest id
    wins. A layer without a head is asked through the lens, over the whole vocabulary."""
    adapter = adapter_of(dtype=torch.float64)
    tensors = {"1.gain": torch.ones(32, dtype=torch.float64), "shortlist": torch.tensor([200, 3, 50, 7])}
    heads = TrainedHeads(adapter, config_of(adapter, "gain", layers=(1,), shortlist=4), tensors)
    state = torch.randn(1, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    look, whole = (
        asked(heads, 0, layer, state, 1.3, full),
        RowConfidence.at(0, layer, heads.logits(layer, state), 1.3, full),
    )
    for field in ("conf", "raw", "top1", "top2", "margin", "entropy"):
        assert getattr(look, field) == pytest.approx(getattr(whole, field)), field
    assert torch.equal(look.logits, whole.logits)
    level = asked(heads, 0, layer, torch.zeros_like(state), 1.0, full)
    assert level.top1 == (3 if layer == 1 else 0)


def test_the_clock_times_a_layer_that_has_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one of the layers where the lens stands in, whose test may cost many times as much."""
    adapter = ModelAdapter(build("llama", seed=2, num_hidden_layers=8), name="timed")
    ids = torch.arange(4)
    heads = TrainedHeads(
        adapter, config_of(adapter, "gain", layers=(5,), shortlist=4), {"5.gain": torch.ones(32), "shortlist": ids}
    )
    layers: list[int] = []
    logits = heads.logits
    monkeypatch.setattr(heads, "logits", lambda layer, hidden: layers.append(layer) or logits(layer, hidden))
    assert early_exit_clock(adapter, heads) is not None
    assert set(layers) == {5}


def test_a_line_says_what_a_test_costs(tmp_path: Path) -> None:
    adapter = adapter_of()
    layer = sum(parameter.numel() for parameter in adapter.layers[0].parameters())
    lens = f"c_h {260 * 32 / layer:.1f}: a test reads"
    assert lens in describe(adapter, LogitLens(adapter))
    assert "no trained" in describe(adapter, LogitLens(adapter))
    assert "gain exit heads at layers 1, 2" in describe(adapter, load(folder_of(tmp_path, adapter, "gain"), adapter))


def test_heads_come_back_from_their_folder(tmp_path: Path) -> None:
    adapter = adapter_of()
    heads = load(folder_of(tmp_path, adapter), adapter)
    assert heads.layers == (1, 2)
    hidden = torch.randn(2, 32, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(heads.logits(1, hidden), adapter.logits(hidden[None]), atol=1e-5)
    assert "/" not in (tmp_path / "config.json").read_text()


def test_a_fingerprint_knows_a_model_in_another_dtype(tmp_path: Path) -> None:
    folder = save(build("llama", seed=2, dtype=torch.bfloat16), tmp_path)
    prints = {fingerprint(load_model(folder, "target", None, d).adapter) for d in ("float32", "float64", "bfloat16")}
    assert len(prints) == 1
    assert fingerprint(adapter_of(seed=3)) not in prints
    assert fingerprint(load_model(folder, "target", None, "float16").adapter) in prints


def test_heads_beside_their_target_are_found(tmp_path: Path) -> None:
    """In the target's own folder, when they are this target's; else the lens, and that is said once."""
    model, _ = planted(1, layers=3)
    folder = Path(save(model, tmp_path / "target"))
    adapter = load_model(str(folder), "target", None, "float64").adapter
    assert isinstance(pick(adapter, None), LogitLens)
    (folder / "exit-heads").mkdir()
    save_heads(
        folder / "exit-heads",
        config_of(adapter, "gain"),
        {layer: ExitHead("gain", FinalHead(adapter)) for layer in (1, 2)},
        None,
    )
    assert isinstance(pick(adapter, None), TrainedHeads)
    assert isinstance(pick(adapter, "lens"), LogitLens)
    other = load_model(save(planted(2, layers=3)[0], tmp_path / "other"), "target", None, "float64").adapter
    assert isinstance(pick(other, None), LogitLens)


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda f: (f / "heads.safetensors").rename(f / "heads.pt"), "pickled.*never opened.*specviz models convert "),
        (lambda f: (f / "heads.safetensors").unlink(), "no .safetensors file"),
        (lambda f: (f / "config.json").unlink(), "no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "not JSON"),
        (lambda f: (f / "config.json").write_text('{"model_type": "llama"}'), "no exit heads .*model_type llama"),
        (lambda f: edit(f, target="0" * 32), r"made for zoo \(weights 00000000\), the target .* has weights"),
        (lambda f: edit(f, target=""), "names no target"),
        (lambda f: edit(f, n_layers=9), "9 layers .* has 3"),
        (lambda f: edit(f, kind="magic"), "kind 'magic'"),
        (lambda f: edit(f, layers=[3]), "layer 3.* 1 to 2"),
        (lambda f: edit(f, layers=[]), "no layers"),
        (lambda f: edit(f, rank="four"), "rank"),
        (lambda f: edit(f, rank=9), "not what config.json says"),
        (lambda f: edit(f, version=9), "version 9"),
        (lambda f: (f / "heads.safetensors").write_bytes(b"torn"), "cannot be read"),
        (lambda f: (f / "config.json").write_text("[" * 100_000), "not JSON"),
        (lambda f: weights(f, **{"1.gain": torch.full((32,), float("nan"))}), "'1.gain' holds NaN"),
        (lambda f: weights(f, **{"1.up": torch.full((32, 4), float("inf"))}), "'1.up' holds NaN or infinite"),
        (lambda f: weights(f, **{"1.gain": torch.ones(32, dtype=torch.int64)}), "'1.gain' is of type int64"),
        (lambda f: weights(f, **{"1.gain": torch.ones(32, dtype=torch.complex64)}), "of type complex64"),
        (lambda f: weights(f, shortlist=torch.tensor([1, 10_000])), "shortlist is no list"),
        (lambda f: weights(f, shortlist=torch.tensor([-1, 1])), "shortlist is no list"),
        (lambda f: weights(f, shortlist=torch.tensor([1, 1])), "shortlist is no list"),
        (lambda f: weights(f, shortlist=torch.tensor([], dtype=torch.int64)), "shortlist is no list"),
        (lambda f: weights(f, shortlist=torch.tensor([[1, 2]])), "shortlist is no list"),
        (lambda f: weights(f, shortlist=torch.tensor(1)), "shortlist is no list"),
        (lambda f: weights(f, shortlist=torch.tensor([1.0, 2.0])), "shortlist is no list"),
        (lambda f: weights(f, shortlist=torch.ones(9, dtype=torch.bool)), "shortlist is no list"),
    ],
)
def test_what_is_refused_in_one_line(tmp_path: Path, break_it: Any, says: str) -> None:
    adapter = adapter_of()
    break_it(folder_of(tmp_path, adapter))
    with pytest.raises(ModelError, match=says) as caught:
        pick(adapter, str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        pick(adapter_of(), str(tmp_path / "nowhere"))
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="a file, not a folder"):
        pick(adapter_of(), str(tmp_path / "file"))


def weights(folder: Path, **tensors: torch.Tensor) -> None:
    path = folder / "heads.safetensors"
    save_file({**load_file(path), **tensors}, path)


def test_a_shortlist_of_small_numbers_is_read(tmp_path: Path) -> None:
    """Ids of any whole type: indexing takes only the widest."""
    adapter = adapter_of()
    folder_of(tmp_path, adapter)
    weights(tmp_path, shortlist=torch.tensor([3, 50], dtype=torch.int16))
    logits = load(tmp_path, adapter).logits(1, torch.ones(1, 32))
    assert logits.isfinite().nonzero()[:, 1].tolist() == [3, 50]


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_published_tuned_lens_is_taken(tmp_path: Path) -> None:
    """Translator l corrects the state after l layers, in front of the norm; the first is of the embedding."""
    adapter = adapter_of(dtype=torch.float64)
    noise = torch.Generator().manual_seed(4)
    weights = {f"{k}.weight": torch.randn(32, 32, generator=noise) * 0.1 for k in range(3)}
    biases = {f"{k}.bias": torch.randn(32, generator=noise) for k in range(3)}
    save_file(weights | biases, tmp_path / "params.safetensors")
    lens = {
        "lens_type": "linear_tuned_lens",
        "base_model_name_or_path": "some/base",
        "d_model": 32,
        "num_hidden_layers": 3,
        "bias": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(lens))
    heads = load(tmp_path, adapter)
    assert heads.layers == (1, 2)
    hidden = torch.randn(2, 32, generator=noise, dtype=torch.float64)
    want = adapter.logits((hidden + hidden @ weights["2.weight"].double().T + biases["2.bias"].double())[None])
    assert torch.allclose(heads.logits(2, hidden), want, atol=1e-6)
    assert "tuned lens of some/base (by name, weights not compared) at layers 1, 2" in describe(adapter, heads)
    run = session(adapter, None, PROMPT, method="specbound", heads=[str(tmp_path)], max_new_tokens=4)
    assert run.drafter.parts()["heads"] == describe(adapter, heads)  # what header and screen show
    (tmp_path / "config.json").write_text(json.dumps({**lens, "d_model": 64}))
    with pytest.raises(ModelError, match="some/base"):
        load(tmp_path, adapter)


@pytest.mark.parametrize("kind", ["gain", "lowrank", "square", "full", "factored"])
def test_text_is_the_targets_whatever_the_heads(tmp_path: Path, kind: str) -> None:
    adapter = adapter_of(dtype=torch.float64)
    want = plain(adapter, PROMPT, max_new_tokens=16)
    folder = folder_of(tmp_path, adapter, kind)
    run = session(
        adapter,
        None,
        PROMPT,
        method="specbound",
        heads=[str(folder)],
        tau=0.02,
        alpha=0,
        max_new_tokens=16,
        exit_layers=["1,2"],
    )
    drafted = sum(len(done.draft) for done in run.rounds())
    assert run.new_tokens == want
    assert drafted > 0


def test_the_fallback_is_said_once(tmp_path: Path) -> None:
    def warnings(**knobs: Any) -> list[str]:
        sink = Sink("none")
        adapter = adapter_of()
        session(adapter, None, PROMPT, method="specbound", sink=sink, max_new_tokens=8, **knobs).generate()
        return [fact.message for facts in sink.rounds for fact in facts if isinstance(fact, Warn)]

    (message,) = warnings()
    assert "logit lens" in message
    assert "specviz train exit-heads" in message
    assert warnings(heads=["lens"]) == []
    warned = warnings(heads=[str(folder_of(tmp_path, adapter_of()))], exit_layers=["1,2"], d_max=2)
    assert warned == []


def test_nothing_is_kept_at_level_none() -> None:
    adapter, sink = adapter_of(), Sink("none")
    early(adapter, LogitLens(adapter), PROMPT, sink=sink, max_new_tokens=8).generate()
    assert [fact for facts in sink.rounds for fact in facts] == []
