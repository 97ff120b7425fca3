"""Released EAGLE-3 and Medusa checkpoints, on small files in their published tensor layout."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from methods.eagle3.test_eagle import PROMPT
from methods.eagle3.test_eagle import made as eagle_made
from methods.eagle3.test_eagle import session as eagle_session
from methods.medusa.test_medusa import made as medusa_made
from methods.medusa.test_medusa import session as medusa_session
from specviz.cli.look import convert
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import ModelError
from specviz.methods.eagle3.drafter import KIND as EAGLE
from specviz.methods.medusa.drafter import KIND as MEDUSA
from specviz.methods.trained.rank_shapes import best_paths
from specviz.methods.trained.vocabulary import Vocabulary
from support.models import build

EAGLE_CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "vocab_size": 260,
    "draft_vocab_size": 90,
}


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
        "input_layernorm": state["norm_token.weight"],
        "hidden_norm": state["layer.norm_attention.weight"],
        "post_attention_layernorm": state["layer.norm_mlp.weight"],
        **{f"self_attn.{k}_proj": state[f"layer.{k}.weight"] for k in "qkvo"},
        **{f"mlp.{k}_proj": state[f"layer.{k}.weight"] for k in ("gate", "up", "down")},
    }
    assert map_.ids is not None
    assert map_.d2t is not None
    tensors = {f"{prefix}{name}.weight": weights for name, weights in layer.items()} | {
        "fc.weight": state["fc.weight"],
        "norm.weight": state["norm_out.weight"],
        "lm_head.weight": state["head.weight"],
        "d2t": map_.d2t,
        "t2d": torch.isin(torch.arange(target.vocab), map_.ids),
    }
    folder.mkdir(exist_ok=True)
    save_file({name: weights.contiguous() for name, weights in (tensors | more).items()}, folder / "model.safetensors")
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
    save_file({name: weights.contiguous() for name, weights in tensors.items()}, folder / "medusa_lm_head.safetensors")
    config = {"medusa_num_heads": 4, "medusa_num_layers": 1, "base_model_name_or_path": "someone/model-7b"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("prefix", ["midlayer.", "layers.0.", "model.midlayer."])
def test_an_eagle_checkpoint_drafts_like_the_same_weights_of_ours(
    target: ModelAdapter, tmp_path: Path, prefix: str
) -> None:
    own = target.embedding.weight.detach().clone()
    trained = EAGLE.load(eagle_folder(target, tmp_path / "eagle", prefix, **{"embed_tokens.weight": own}), target)
    ours = eagle_made(target, vocabulary=vocabulary(target))
    assert "published layout" in trained.config.target_name
    drafts = [[done.draft.tokens for done in eagle_session(target, part).rounds()] for part in (trained, ours)]
    assert drafts[0] == drafts[1]
    assert any(drafts[0])


def test_medusa_heads_draft_with_a_usual_tree(target: ModelAdapter, tmp_path: Path) -> None:
    """Padded rows are cut; the tree is the stand-in of 63 paths, four deep."""
    trained = MEDUSA.load(medusa_folder(target, tmp_path / "medusa", rows=264), target)
    assert trained.config.target_name == "someone/model-7b (published layout, target weights not named)"
    assert trained.vocabulary.n_draft == 260
    paths = best_paths(trained.config.right, 63)
    assert (len(paths), max(map(len, paths))) == (63, 4)
    done = next(iter(medusa_session(target, trained, node_budget=63).rounds()))
    with torch.no_grad():
        state = target.model(torch.tensor([PROMPT[:-1]]), output_hidden_states=True).hidden_states[-1][:, -1]
    best = trained.network(state)[0].topk(10).indices.tolist()
    want = {tuple(best[d][rank] for d, rank in enumerate(path)) for path in paths}
    assert {done.draft.path(node) for node in range(len(done.draft))} == want


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda config: {key: value for key, value in config.items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c | {"rope_scaling": {"rope_type": "llama3", "factor": 8}}, "with rotary scaling 'llama3' is not"),
        (lambda c: c | {"rope_parameters": {"rope_type": "yarn"}}, "with rotary scaling 'yarn' is not"),
        (lambda c: c | {"num_hidden_layers": 2}, "with 2 layers, not one, is not supported"),
        (lambda c: c | {"norm_before_residual": True}, "with norm_before_residual is not supported"),
        (lambda c: c | {"hidden_act": "gelu"}, "with activation 'gelu' is not supported"),
        (lambda c: c | {"transformer_layer_config": {}}, "its layer in a table of its own"),
        (lambda c: c | {"hidden_size": 64}, "of width 64 and 260 tokens, the target .* of width 32"),
        (lambda c: c | {"vocab_size": 100}, "and 100 tokens"),
        (lambda c: c | {"draft_vocab_size": 80}, "says 80 of 260 tokens, and there is a map of 90"),
        (lambda c: c | {"intermediate_size": 48}, "the weights are not what config.json says"),
        (lambda c: c | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 2, 3]}}, r"layers \[0, 2, 3\], not"),
        (lambda c: c | {"eagle_aux_hidden_state_layer_ids": [0, 1, 3]}, r"features of layers \[0, 1, 3\]"),
        (without("hidden_size"), "lacks 'hidden_size'"),
        (without("intermediate_size"), "lacks 'intermediate_size'"),
        (lambda c: c | {"hidden_act": "a\nb"}, r"with activation 'a.nb' is not supported"),
        (lambda c: c | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": 5}}, "features of layers 5, not"),
        (lambda c: c | {"eagle_aux_hidden_state_layer_ids": True}, "features of layers true, not"),
        (lambda c: without("head_dim")(c) | {"num_attention_heads": 64}, "says head_dim = 0; it must be an even"),
    ],
)
def test_what_an_eagle_config_leaves_open_is_refused(
    target: ModelAdapter, tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], message: str
) -> None:
    folder = eagle_folder(target, tmp_path / "eagle")
    (folder / "config.json").write_text(json.dumps(change(EAGLE_CONFIG)))
    with pytest.raises(ModelError, match=message) as refused:
        EAGLE.read(folder, target)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("odd", [0, -1, 1.5, 1e30, float("inf"), float("nan"), True, "x", [4], {"a": 1}])
@pytest.mark.parametrize(
    "name",
    [
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "intermediate_size",
        "vocab_size",
        "draft_vocab_size",
    ],
)
def test_sizes_of_an_eagle_config_are_checked(target: ModelAdapter, tmp_path: Path, name: str, odd: Any) -> None:
    """Neither truncated nor left to a library's traceback, and never called a lack."""
    folder = eagle_folder(target, tmp_path / "eagle")
    (folder / "config.json").write_text(json.dumps(EAGLE_CONFIG | {name: odd}))
    with pytest.raises(ModelError, match=f"of an EAGLE-3 checkpoint says {name} = .*; it must be "):
        EAGLE.read(folder, target)


@pytest.mark.parametrize("where", [{}, {"rope_parameters": None}, {"rope_scaling": None}])
@pytest.mark.parametrize("name", ["rope_theta", "rms_norm_eps"])
def test_numbers_of_an_eagle_config_are_checked(
    target: ModelAdapter, tmp_path: Path, name: str, where: dict[str, Any]
) -> None:
    folder = eagle_folder(target, tmp_path / "eagle")
    for odd in (0, -1, 1e30, float("inf"), float("nan"), True, "x", [1]):
        changes = {table: {name: odd} for table in where} or {name: odd}
        (folder / "config.json").write_text(json.dumps(EAGLE_CONFIG | changes))
        with pytest.raises(ModelError, match=f"says {name} = .*; it must be a number"):
            EAGLE.read(folder, target)


@pytest.mark.parametrize("name", ["rope_scaling", "rope_parameters", "eagle_config"])
@pytest.mark.parametrize("odd", ["x", 5, [1], True])
def test_tables_of_an_eagle_config_are_tables(target: ModelAdapter, tmp_path: Path, name: str, odd: Any) -> None:
    folder = eagle_folder(target, tmp_path / "eagle")
    (folder / "config.json").write_text(json.dumps(EAGLE_CONFIG | {name: odd}))
    with pytest.raises(ModelError, match=f"says {name} = .*; it must be a table"):
        EAGLE.read(folder, target)


def test_nulls_stand_for_what_is_usual(target: ModelAdapter, tmp_path: Path) -> None:
    """As released configs have them; a null where a size is needed is not called a lack."""
    folder = eagle_folder(target, tmp_path / "eagle")
    nulls = dict.fromkeys(("head_dim", "rope_scaling", "rms_norm_eps", "eagle_config"))
    (folder / "config.json").write_text(json.dumps(EAGLE_CONFIG | nulls))
    assert EAGLE.read(folder, target).config.head_dim == 8
    (folder / "config.json").write_text(json.dumps(EAGLE_CONFIG | {"hidden_size": None}))
    with pytest.raises(ModelError, match="says hidden_size = null; it must be a whole number"):
        EAGLE.read(folder, target)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"3000000000.1.weight": torch.ones(260, 32)}, "it has 3000000000.1.weight"),
        ({"9" * 5_000 + ".1.weight": torch.ones(260, 32)}, "it has 9999"),
        ({"999.1.weight": torch.ones(260, 32)}, "head 4 lacks a part"),
        ({"medusa_head.0.1.weight": torch.ones(260, 32)}, "holds a tensor twice"),
        ({f"{j}.1.weight": torch.ones(260) for j in range(4)}, r"\[32, 32\] and \[32\] and \[260\] are no head"),
        ({f"{j}.1.weight": torch.tensor(1.0) for j in range(4)}, "are no head"),
        ({f"{j}.1.weight": torch.ones(260, 31) for j in range(4)}, "are no head"),
        ({f"{j}.0.linear.bias": torch.ones(31) for j in range(4)}, "are no head"),
        ({f"{j}.0.linear.weight": torch.ones(32, 31) for j in range(4)}, "are no head"),
        ({"0.1.weight": torch.ones(260, 32, dtype=torch.float8_e5m2)}, "heads of several sizes or types"),
        ({f"{j}.1.weight": torch.ones(0, 32) for j in range(4)}, "of width 32 and 0 tokens"),
    ],
)
def test_tensors_that_are_no_medusa_heads_are_refused(
    target: ModelAdapter, tmp_path: Path, more: dict[str, torch.Tensor], message: str
) -> None:
    """At once: a head's number is no reason to count up to it."""
    folder = medusa_folder(target, tmp_path / "medusa")
    path = folder / "medusa_lm_head.safetensors"
    save_file(load_file(path) | more, path)
    with pytest.raises(ModelError, match=message):
        MEDUSA.read(folder, target)


@pytest.mark.parametrize("shape", [(), (90,), (80, 32), (90, 32, 1)])
def test_an_eagle_tensor_of_another_shape_is_refused(
    target: ModelAdapter, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    """With a map, and without one, where padded rows are cut."""
    folder = eagle_folder(target, tmp_path / "eagle", **{"lm_head.weight": torch.ones(shape)})
    with pytest.raises(ModelError, match=r"tensor 'head.weight' is \["):
        EAGLE.read(folder, target)
    (folder / "config.json").write_text(json.dumps(without("draft_vocab_size")(EAGLE_CONFIG)))
    with pytest.raises(ModelError, match=r"tensor 'head.weight' is \["):
        EAGLE.read(_dropped(folder, "d2t"), target)


def test_settings_are_read_where_newer_files_keep_them(target: ModelAdapter, tmp_path: Path) -> None:
    """The base of the rotary angles in a table of its own, and layers that are the usual ones, spelled out."""
    folder = eagle_folder(target, tmp_path / "eagle")
    changed = without("rope_theta")(EAGLE_CONFIG) | {
        "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"},
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]},
        "norm_before_residual": False,
    }
    (folder / "config.json").write_text(json.dumps(changed))
    config = EAGLE.read(folder, target).config
    assert (config.rope_theta, config.taps) == (5000.0, (1, 2, 3))


def test_converted_pickles_draft_like_the_same_weights(target: ModelAdapter, tmp_path: Path) -> None:
    """As released: `pytorch_model.bin` and `medusa_lm_head.pt`. Refused, converted by the line that was told, read."""
    for folder, kind, name in (
        (eagle_folder(target, tmp_path / "eagle"), EAGLE, "pytorch_model.bin"),
        (medusa_folder(target, tmp_path / "medusa"), MEDUSA, "medusa_lm_head.pt"),
    ):
        plain = kind.read(folder, target).network.state_dict()
        (path,) = folder.glob("*.safetensors")
        torch.save(load_file(path), folder / name)
        path.unlink()
        with pytest.raises(ModelError, match="is pickled, which is never opened here") as refused:
            kind.read(folder, target)
        line = str(refused.value).partition("run specviz models ")[2].split()
        done = CliRunner().invoke(convert.command, line[1:])
        assert (line[0], done.exit_code) == ("convert", 0), done.output
        again = kind.read(folder, target).network.state_dict()
        assert all(torch.equal(tensor, again[name]) for name, tensor in plain.items())


def test_what_a_run_says_of_released_drafters(target: ModelAdapter, tmp_path: Path) -> None:
    """The header tells that no weights of the target are named, and where the tree's shape comes from."""
    eagle = eagle_session(target, EAGLE.load(eagle_folder(target, tmp_path / "eagle"), target)).drafter
    heads = medusa_session(target, MEDUSA.load(medusa_folder(target, tmp_path / "medusa"), target)).drafter
    assert eagle.parts()["drafter"].endswith("made for eagle (published layout)")
    assert "stand-in tree, as no table of ranks comes with released heads" in heads.parts()["drafter"]
    assert heads.parts()["drafter"].endswith("someone/model-7b (published layout, target weights not named)")


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
    odd = medusa_folder(target, tmp_path / "f")
    tensors = load_file(odd / "medusa_lm_head.safetensors")
    save_file(tensors | {"1.1.weight": tensors["1.1.weight"][:99].contiguous()}, odd / "medusa_lm_head.safetensors")
    with pytest.raises(ModelError, match="heads of several sizes"):
        MEDUSA.read(odd, target)
    two = medusa_folder(target, tmp_path / "e")
    save_file({"0.1.linear.weight": torch.ones(2, 2)}, two / "medusa_lm_head.safetensors")
    with pytest.raises(ModelError, match="one residual block a head"):
        MEDUSA.read(two, target)


def _dropped(folder: Path, name: str) -> Path:
    (path,) = folder.glob("*.safetensors")
    save_file(without(name)(load_file(path)), path)
    return folder


def test_pickled_checkpoints_are_refused_with_the_line_that_converts_them(target: ModelAdapter, tmp_path: Path) -> None:
    folder = medusa_folder(target, tmp_path / "medusa")
    (folder / "medusa_lm_head.safetensors").rename(folder / "medusa_lm_head.pt")
    with pytest.raises(
        ModelError, match=r"medusa_lm_head.pt is pickled, which is never opened here; .*specviz models convert"
    ):
        MEDUSA.read(folder, target)
