"""The target in fewer bits as a draft model: the text under every layout, the exact law, its name, its refusals."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch

from engine.test_layouts import LAYOUTS
from specviz.commands import Start
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.model.few_bits.quantised import QuantisedAdapter
from specviz.engine.model.few_bits.sharp_head import SHARP, RescoredInt4Head
from specviz.engine.model.files.loading import load
from specviz.engine.model.layers.direct_layer import DirectLayer, has_direct_form
from specviz.engine.model.pair import Pair, load_pair
from specviz.engine.model.rows import ForwardBatch
from specviz.engine.run.local import LocalRun
from specviz.errors import ModelError
from specviz.methods import all_methods
from specviz.methods.common.runner import DraftModelRunner
from specviz.trace import Recorder, read_events
from specviz_lab.prove.enumerate import deviation
from support.driver import session
from support.models import build, save
from support.table_session import law_by_rounds
from support.table_session import session as bare_session

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
FORM = "self:int4"


def loaded(folder: Path, arch: str, dtype: str = "float64", **changes: Any) -> Pair:
    """A tiny target from disk with itself for a draft model."""
    return load_pair(save(build(arch, seed=1, **changes), folder), FORM, dtype=dtype, threads=1)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return loaded(tmp_path_factory.mktemp("self"), "llama")


@torch.inference_mode()
def states(adapter: ModelAdapter) -> torch.Tensor:
    """Of a prompt and a small tree behind it, as they come out of the last layer; float32 `[13, width]`."""
    rows = ForwardBatch(adapter, adapter.new_cache(32))
    last = rows.add_line(PROMPT)
    for token in (9, 10):
        rows.add(token, rows.add(token + 1, last))
    return adapter.normed(rows.climb(adapter.n_layers))[0].float()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_walk_gives_the_tokens_of_plain_decoding(pair: Pair, layout: str) -> None:
    """Whatever the draft model makes of it; in float64, so that no rounding of the target decides."""
    _same_tokens(pair, layout)


@pytest.mark.parametrize("arch", ["qwen2", "qwen3", "gpt2"])
def test_walk_on_other_architectures(arch: str, tmp_path: Path) -> None:
    """Windows, normed queries and keys, learned positions: a chain and a tree."""
    pair = loaded(tmp_path, arch)
    for layout in ("chain", "tree"):
        _same_tokens(pair, layout)


def _same_tokens(pair: Pair, layout: str) -> None:
    assert pair.draft is not None
    models = (pair.target.adapter, pair.draft.adapter)
    for temperature in (0.0, 1.1):
        knobs = {"temperature": temperature, "seed": 3, "max_new_tokens": 20}
        want = session(*models, PROMPT, method="ar", **knobs).generate()
        assert session(*models, PROMPT, **knobs, **LAYOUTS[layout]).generate() == want


@pytest.mark.parametrize("method", [name for name, spec in all_methods().items() if spec.needs_draft])
def test_every_method_with_a_draft_model_takes_it(pair: Pair, method: str) -> None:
    """Greedy text is plain decoding's."""
    assert pair.draft is not None
    models = (pair.target.adapter, pair.draft.adapter)
    assert session(*models, PROMPT, method=method).generate() == session(*models, PROMPT, method="ar").generate()


@pytest.mark.parametrize("verifier", ["walk", "tokenwise"])
@pytest.mark.parametrize("knobs", [{"gamma": 2}, {"shape": "drawn_tree", "d_max": 1}], ids=str)
def test_the_law_of_the_text_is_the_targets(verifier: str, knobs: dict[str, Any]) -> None:
    """A real model of two tokens, every draw enumerated: what the draft model says is the law it is drawn from."""
    sizes = {"vocab_size": 2, "pad_token_id": None, "num_hidden_layers": 1, "initializer_range": 0.5}
    target = ModelAdapter(build("llama", seed=1, dtype=torch.float64, **sizes))
    models = FactoryModels(_Prompted(target), QuantisedAdapter(target), 64)
    ours, want = (
        law_by_rounds(bare_session(models, None, method, judge, max_new_tokens=3, **more))
        for method, judge, more in (("draft", verifier, knobs), ("ar", "walk", {}))
    )
    assert len(want) == 8
    assert deviation(ours, want) < 1e-6  # norms of the library are taken in float32, also of float64
    wrong = law_by_rounds(bare_session(models, None, "draft", "slack", max_new_tokens=3, gamma=2))
    assert deviation(wrong, want) > 1e-3, "the control: a lossy rule moves the law, so the two models do differ"


class _Prompted:
    """The adapter, and the prompt that a session over tables reads from it."""

    def __init__(self, adapter: ModelAdapter) -> None:
        self.__dict__.update(adapter.__dict__)
        self.prompt = (0, 1, 0)
        for name in ("new_cache", "embed", "inputs", "forward", "normed", "logits"):
            setattr(self, name, getattr(adapter, name))


@pytest.mark.parametrize(
    "arch", ["llama", "qwen2", "qwen3", "mistral", "gemma2", "phi3", "gpt2", "gpt_neox", "granite"]
)
def test_its_states_are_near_the_targets(arch: str) -> None:
    """As far as four bits are; a model drawn at random is hard on them."""
    target = ModelAdapter(build(arch, seed=1, initializer_range=0.05))
    want = states(target)
    assert 0 < float((states(QuantisedAdapter(target)) - want).std() / want.std()) < 0.5


def test_a_target_on_a_grid_loses_nothing_but_digits() -> None:
    """All layers' weights on grids of four bits: a fifteenth of what is lost of weights that are on none, at most."""
    model = build("llama", seed=1, intermediate_size=64)
    off, _ = _lost(ModelAdapter(model))
    with torch.no_grad():
        for name, weight in model.model.layers.named_parameters():
            if weight.dim() == 2:
                weight.copy_(_on_grid(weight, name))
    on, own_grid = _lost(ModelAdapter(model))
    assert own_grid == 1
    assert 0 < on < off / 15


def _lost(target: ModelAdapter) -> tuple[float, float]:
    """What four bits take from its states, and the share of its groups that stood on a grid."""
    draft = QuantisedAdapter(target)
    return float((states(draft) - states(target)).std()), draft.own_grid


def _on_grid(weight: torch.Tensor, name: str) -> torch.Tensor:
    groups = weight.reshape(-1, 32)
    step = (groups.abs().amax(1, keepdim=True) / 7).half().float()
    return ((groups / step).round().clamp(-8, 7) * step).view_as(weight)


@torch.inference_mode()
def test_the_best_tokens_have_the_targets_own_scores() -> None:
    """Of all 260, the 64 that four bits find best; with a bias, for one row and for some."""
    noise = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(260, 64, generator=noise), torch.randn(260, generator=noise)
    head = RescoredInt4Head(weight, bias)
    for shape in ((1, 1, 64), (1, 5, 64)):
        hidden = torch.randn(shape, generator=noise).bfloat16()
        scores, rough = head(hidden).float(), head.rough(hidden).float()
        exact = hidden.float() @ weight.t() + bias
        assert scores.shape == exact.shape
        best = rough.topk(SHARP).indices
        assert torch.allclose(scores.gather(2, best), exact.gather(2, best), rtol=0.02, atol=0.1)
        rest = torch.ones_like(scores, dtype=torch.bool).scatter(2, best, value=False)
        assert torch.equal(scores[rest], rough[rest])
        assert torch.equal(scores.argmax(-1), exact.argmax(-1))


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3", "mistral", "llama tied", "smollm3"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_layers_of_the_llama_kind_run_in_one_function(arch: str, dtype: torch.dtype) -> None:
    """Proved against the library's layer, with the weights as they came."""
    adapter = ModelAdapter(build(arch, seed=1, dtype=dtype))
    assert all(has_direct_form(adapter, index) for index in range(adapter.n_layers))
    assert all(isinstance(layer, DirectLayer) for layer in QuantisedAdapter(adapter).layers)


@pytest.mark.parametrize("arch", ["gemma2", "phi3", "gpt2", "gpt_neox", "granite"])
def test_other_layers_keep_the_librarys_code(arch: str) -> None:
    """Other norms, joined projections, scaled residuals: either unknown parts, or other numbers."""
    adapter = ModelAdapter(build(arch, seed=1, **({"residual_multiplier": 0.5} if arch == "granite" else {})))
    assert not has_direct_form(adapter, 0)
    assert not isinstance(QuantisedAdapter(adapter).layers[0], DirectLayer)


def test_a_direct_layer_that_differs_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof sees an activation that is computed otherwise."""
    adapter = ModelAdapter(build("llama", seed=1))
    monkeypatch.setattr("specviz.engine.model.layers.direct_layer.silu", torch.relu)
    assert not has_direct_form(adapter, 0)


def test_the_target_is_left_as_it_was(tmp_path: Path) -> None:
    """Shared modules: neither numbers nor dtype nor parts of the target change, and nothing is kept twice."""
    target = load(save(build("gpt2", seed=1), tmp_path), "target", "cpu", "float32").adapter
    want, parts = states(target), [id(module) for module in target.model.modules()]
    draft = QuantisedAdapter(target)
    draft.logits(draft.embed([1, 2], [0, 1]))
    states(draft)
    assert torch.equal(states(target), want)
    assert [id(module) for module in target.model.modules()] == parts
    assert {weight.dtype for weight in target.model.parameters()} == {torch.float32}
    assert draft.embedding is target.embedding
    # Half a byte a weight and four bytes a group of 32; the head's 260 outputs are whole blocks of 16.
    matrices = [(32, 96), (32, 32), (32, 128), (128, 32)] * 3 + [(32, 272)]
    assert draft.n_bytes == sum(n * m // 2 + n * m // 32 * 4 for n, m in matrices)


def test_what_a_trace_says_of_it(tmp_path: Path) -> None:
    """Its name, size and dtype, a fingerprint of its own; the file reads back."""
    pair = loaded(tmp_path / "house", "llama", "float32")
    recorder = Recorder(tmp_path / "run.sv.jsonl")
    run = LocalRun(pair, Start(prompt="ab ab ab", knobs={"max_new_tokens": 12}, level="full"), recorder.write)
    for _ in run.rounds():
        pass
    recorder.close()
    models = read_events(tmp_path / "run.sv.jsonl.gz", check=True)[0].models  # type: ignore[attr-defined]
    assert (models.draft.name, models.draft.dtype) == ("house:int4", "int4")
    assert models.draft.n_params == models.target.n_params
    assert models.target.hash != models.draft.hash


def test_refusals(tmp_path: Path) -> None:
    """One line each: a form that is none, another device, weights that no linear layer holds."""
    folder = save(build("llama", seed=1), tmp_path / "target")
    for name in ("self:int8", "self:int3", "self:", "self:float64", "self:INT4"):
        with pytest.raises(
            ModelError, match=r"no such form of the target; (did you mean 'self:int4'|known: self:int4)"
        ):
            load_pair(folder, name)
    with pytest.raises(ModelError, match="device 'meta' is not available"):
        load_pair(folder, "self:int4", draft_device="meta")
    with pytest.raises(ModelError, match="holds most weights outside of linear layers"):
        load_pair(save(build("mixtral", seed=1), tmp_path / "moe"), "self:int4")


def test_the_target_lends_what_it_has_computed_of_the_text(tmp_path: Path) -> None:
    """Keys and values of the line are the target's own, and nothing of the text is fed to the draft model but the
    root: neither the prompt nor tokens that the target closed a round with."""
    pair = loaded(tmp_path, "llama")
    assert pair.draft is not None
    own_draft = session(pair.target.adapter, pair.draft.adapter, PROMPT, temperature=0.8, max_new_tokens=24)
    drafts: DraftModelRunner = cast(Any, own_draft.drafter).drafts
    for done in own_draft.rounds():
        if not done.n_draft_calls:  # the text had no room for a draft
            continue
        n = done.n - 1  # of the text before this round's root
        mine, theirs = (cache.buffers[0][..., :n, :] for cache in (drafts.cache, own_draft.cache))
        assert torch.equal(mine, theirs.to(mine.dtype))
        assert drafts.rows is not None
        assert drafts.rows.first == n
