"""Released EAGLE-3 and Medusa checkpoints, on small files in their published tensor layout."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from blocks.test_eagle import PROMPT
from blocks.test_eagle import made as eagle_made
from blocks.test_eagle import session as eagle_session
from blocks.test_medusa import made as medusa_made
from blocks.test_medusa import session as medusa_session
from engine.zoo import build
from specviz.drafters.blocks.vocabulary import Vocabulary
from specviz.drafters.eagle.files import KIND as EAGLE
from specviz.drafters.medusa.files import KIND as MEDUSA
from specviz.drafters.rank_paths import best_paths
from specviz.engine.model import ModelAdapter
from specviz.errors import ModelError

EAGLE_CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "intermediate_size": 24, "num_hidden_layers": 1, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "vocab_size": 260, "draft_vocab_size": 90,
}  # fmt: skip


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=1, dtype=torch.float64))


def vocabulary(target: ModelAdapter) -> Vocabulary:
    counts = torch.randperm(target.vocab, generator=torch.Generator().manual_seed(3))
    return Vocabulary.most_frequent(counts, 90)


def eagle_folder(target: ModelAdapter, folder: Path, prefix: str = "midlayer.", **more: torch.Tensor) -> Path:
    """What the authors' tools write: one decoder layer with a 2d attention input, `d2t` offsets, `t2d` mask."""
    net, map_ = eagle_made(target, vocabulary=vocabulary(target)).network, vocabulary(target)
    state = net.state_dict()
    layer = {
        "input_layernorm": state["norm_token.weight"], "hidden_norm": state["layer.norm_attention.weight"],
        "post_attention_layernorm": state["layer.norm_mlp.weight"],
        **{f"self_attn.{k}_proj": state[f"layer.{k}.weight"] for k in "qkvo"},
        **{f"mlp.{k}_proj": state[f"layer.{k}.weight"] for k in ("gate", "up", "down")},
    }  # fmt: skip
    assert map_.ids is not None
    assert map_.d2t is not None
    tensors = {f"{prefix}{name}.weight": each for name, each in layer.items()} | {
        "fc.weight": state["fc.weight"], "norm.weight": state["norm_out.weight"],
        "lm_head.weight": state["head.weight"], "d2t": map_.d2t,
        "t2d": torch.isin(torch.arange(target.vocab), map_.ids),
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    save_file({name: each.contiguous() for name, each in (tensors | more).items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(EAGLE_CONFIG))
    return folder


def medusa_folder(target: ModelAdapter, folder: Path, rows: int = 260) -> Path:
    """`<head>.0.linear.{weight,bias}` and `<head>.1.weight`; the vocabulary may be padded."""
    heads = medusa_made(target).network
    rng = torch.Generator().manual_seed(0)
    tensors = {}
    with torch.no_grad():
        for parameter in (heads.inner, heads.bias):
            parameter.normal_(generator=rng)
    for j in range(4):
        outer = torch.cat([heads.outer[j], heads.outer[j].new_ones(rows - 260, 32)])
        tensors |= {f"{j}.0.linear.weight": heads.inner[j], f"{j}.0.linear.bias": heads.bias[j], f"{j}.1.weight": outer}
    folder.mkdir(exist_ok=True)
    save_file({name: each.contiguous() for name, each in tensors.items()}, folder / "medusa_lm_head.safetensors")
    config = {"medusa_num_heads": 4, "medusa_num_layers": 1, "base_model_name_or_path": "someone/model-7b"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("prefix", ["midlayer.", "layers.0.", "model.midlayer."])
def test_an_eagle_checkpoint_drafts_like_the_same_weights_of_ours(
    target: ModelAdapter, tmp_path: Path, prefix: str
) -> None:
    own = target.embedding.weight.detach().clone()
    found = EAGLE.load(eagle_folder(target, tmp_path / "eagle", prefix, **{"embed_tokens.weight": own}), target)
    ours = eagle_made(target, vocabulary=vocabulary(target))
    assert "published layout" in found.config.target_name
    drafts = [[done.draft.tokens for done in eagle_session(target, each).rounds()] for each in (found, ours)]
    assert drafts[0] == drafts[1]
    assert any(drafts[0])


def test_medusa_heads_draft_with_a_usual_tree(target: ModelAdapter, tmp_path: Path) -> None:
    """Padded rows are cut; the tree is the stand-in of 63 paths, four deep."""
    found = MEDUSA.load(medusa_folder(target, tmp_path / "medusa", rows=264), target)
    assert found.config.target_name == "someone/model-7b (published layout, target weights not named)"
    assert found.vocabulary.n_draft == 260
    paths = best_paths(found.config.right, 63)
    assert (len(paths), max(map(len, paths))) == (63, 4)
    done = next(iter(medusa_session(target, found).rounds()))
    with torch.no_grad():
        state = target.model(torch.tensor([PROMPT[:-1]]), output_hidden_states=True).hidden_states[-1][:, -1]
    said = found.network(state)[0].topk(10).indices.tolist()
    want = {tuple(said[d][rank] for d, rank in enumerate(path)) for path in paths}
    assert {done.draft.path(node) for node in range(len(done.draft))} == want


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda given: {key: value for key, value in given.items() if key != name}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c | {"rope_scaling": {"rope_type": "llama3", "factor": 8}}, "rotary scaling 'llama3'"),
        (lambda c: c | {"num_hidden_layers": 2}, "2 layers; an EAGLE-3 drafter has one"),
        (lambda c: c | {"hidden_size": 64}, "of width 64 and 260 tokens, the target .* of width 32"),
        (lambda c: c | {"vocab_size": 100}, "and 100 tokens"),
        (lambda c: c | {"draft_vocab_size": 80}, "says 80 of 260 tokens, and there is a map of 90"),
        (lambda c: c | {"intermediate_size": 48}, "the weights are not what config.json says"),
        (lambda c: c | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}}, "layers of its own choice"),
        (without("hidden_size"), "lacks 'hidden_size'"),
    ],
)  # fmt: skip
def test_what_an_eagle_config_leaves_open_is_refused(
    target: ModelAdapter, tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], said: str
) -> None:
    folder = eagle_folder(target, tmp_path / "eagle")
    (folder / "config.json").write_text(json.dumps(change(EAGLE_CONFIG)))
    with pytest.raises(ModelError, match=said) as refused:
        EAGLE.read(folder, target)
    assert "\n" not in str(refused.value)


def test_other_tensors_are_refused(target: ModelAdapter, tmp_path: Path) -> None:
    other = eagle_folder(target, tmp_path / "a", **{"midlayer.self_attn.q_norm.weight": torch.ones(8)})
    with pytest.raises(ModelError, match=r"it has midlayer.self_attn.q_norm.weight"):
        EAGLE.read(other, target)
    with pytest.raises(ModelError, match=r"it lacks fc.weight"):
        EAGLE.read(_dropped(eagle_folder(target, tmp_path / "b"), "fc.weight"), target)
    own = eagle_folder(target, tmp_path / "c", **{"embed_tokens.weight": torch.ones(260, 32)})
    with pytest.raises(ModelError, match="brings an embedding that is not the target"):
        EAGLE.read(own, target)
    with pytest.raises(ModelError, match="head 2 lacks a part"):
        MEDUSA.read(_dropped(medusa_folder(target, tmp_path / "d"), "2.0.linear.bias"), target)
    two = medusa_folder(target, tmp_path / "e")
    save_file({"0.1.linear.weight": torch.ones(2, 2)}, two / "medusa_lm_head.safetensors")
    with pytest.raises(ModelError, match="one residual block a head"):
        MEDUSA.read(two, target)


def _dropped(folder: Path, name: str) -> Path:
    from safetensors.torch import load_file

    (path,) = folder.glob("*.safetensors")
    save_file(without(name)(load_file(path)), path)
    return folder


def test_pickled_checkpoints_are_refused_with_the_line_that_converts_them(target: ModelAdapter, tmp_path: Path) -> None:
    folder = medusa_folder(target, tmp_path / "medusa")
    (folder / "medusa_lm_head.safetensors").rename(folder / "medusa_lm_head.pt")
    with pytest.raises(
        ModelError, match=r"medusa_lm_head.pt is pickled, which is never opened here; .*specviz convert"
    ):
        MEDUSA.read(folder, target)
