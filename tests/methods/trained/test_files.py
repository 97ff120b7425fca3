"""Folders of block drafters: what is written is read, and what does not fit is refused in one line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from methods.specblock.stage import session, trained
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.errors import ModelError
from specviz.methods.specblock import network as files
from specviz.methods.specblock.drafter import make
from specviz.methods.specblock.spec import METHOD as SPECBLOCK
from specviz.methods.trained.parts import taps
from specviz.methods.trained.vocabulary import Vocabulary
from support.models import build


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=1, num_hidden_layers=5))


def written(target: ModelAdapter, folder: Path, **changes: Any) -> Path:
    vocabulary = None
    if "draft_vocab" in changes:
        counts = torch.randperm(target.vocab, generator=torch.Generator().manual_seed(0))
        vocabulary = Vocabulary.most_frequent(counts, changes["draft_vocab"])
    files.KIND.write(folder, trained(target, vocabulary=vocabulary, **changes))
    return folder


@pytest.mark.parametrize("changes", [{}, {"draft_vocab": 80, "rope_mode": "repeat", "shift": False}])
def test_what_is_written_is_read(target: ModelAdapter, tmp_path: Path, changes: dict[str, Any]) -> None:
    """Config, map and weights to bfloat16; a session over both drafts the same."""
    folder = written(target, tmp_path / "drafter", **changes)
    loaded_part = files.KIND.load(folder, target)
    assert loaded_part.config.rope_mode == changes.get("rope_mode", "offset")
    assert loaded_part.vocabulary.n_draft == changes.get("draft_vocab", target.vocab)
    for tensor in load_file(folder / files.KIND.weights).values():
        assert tensor.dtype in (torch.bfloat16, torch.int64)
    prompt = [5, 77, 12, 5]
    rounded = trained(target, vocabulary=loaded_part.vocabulary, **changes)
    with torch.no_grad():
        for parameter in rounded.network.parameters():
            parameter.copy_(parameter.bfloat16())
    drafts = [
        [done.draft.tokens for done in session(target, prompt, drafter, max_new_tokens=12).rounds()]
        for drafter in (loaded_part, rounded)
    ]
    assert drafts[0] == drafts[1]
    knobs = SPECBLOCK.table.knobs({"drafter": [str(folder)]})
    assert make(FactoryModels(target, None, 64), knobs).trained is loaded_part


def test_tokens_of_another_width_are_refused(target: ModelAdapter, tmp_path: Path) -> None:
    """The weights are what config.json says, and read more of a token than the target has."""
    drafter = trained(target)
    config = replace(drafter.config, embed_width=2 * drafter.config.embed_width)
    network = files.BlockNetwork(config.shape, torch.Generator().manual_seed(0))
    files.KIND.write(tmp_path, replace(drafter, config=config, network=network))
    with pytest.raises(ModelError, match=r"reads tokens as .* numbers, the target .* has"):
        files.KIND.load(tmp_path, target)


def edited(folder: Path, **changes: Any) -> Path:
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "specviz-exit-heads"}, "these are no block drafter"),
        ({"version": 2}, "written in version 2"),
        ({"rope_mode": "ntk"}, "says rope_mode = 'ntk'; it must be offset or repeat"),
        ({"rope_mode": None}, "lacks 'rope_mode'"),
        ({"target_layers": 12}, "made for .* with 12 layers of width 32"),
        ({"vocab": 300}, "and 300 tokens"),
        ({"taps": [1, 2, 9]}, "reads layer 9; the target has layers 1 to 5"),
        ({"taps": []}, "reads no layers"),
        ({"target": "0" * 32}, "weights 00000000.*train one with specviz train block-drafter"),
        ({"draft_vocab": 100}, "says 100 of 260 tokens, and there is no map"),
        ({"n_layers": 1}, "says n_layers = 1; it must be a whole number from 2"),
        ({"slots": "four"}, "says slots = 'four'; it must be a whole number from 1"),
        ({"slots": 3}, r"not what config.json says: tensor 'queries' is \[4, 16\], not \[3, 16\]"),
        ({"taps": [1, 2]}, "the weights are not what config.json says: tensor 'condition.weight'"),
        ({"n_layers": 3}, "says: tensor 'layers.2.down.weight' is missing"),
        ({"shift": False}, "says: tensor 'shifts.0.weight' has no place"),
        ({"shift": "yes"}, "Expected `bool`"),
        ({"target_name": 5}, "says target_name = 5; it must be one line of text"),
        ({"target_name": "a\nb"}, "says target_name = .*; it must be one line of text"),
        ({"target": 5}, "Expected `str`"),
        ({"format": "a\nb"}, r"config.json says format a b\)"),
        ({"version": "2\n"}, "written in version 2 of"),
    ],
)
def test_mismatches_are_refused_in_one_line(
    target: ModelAdapter, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = edited(written(target, tmp_path / "drafter"), **changes)
    with pytest.raises(ModelError, match=message) as refused:
        files.KIND.load(folder, target)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(f"--drafter {folder}")


ODD_SIZES = (0, -1, 1.5, 4.0, 1e30, 10**30, float("inf"), float("nan"), True, "4", None, [4], {})
SIZES = (
    "target_layers",
    "target_width",
    "vocab",
    "draft_vocab",
    "heads",
    "kv_heads",
    "head_dim",
    "ff",
    "embed_width",
    "width",
    "slots",
    "n_layers",
    "rank_width",
    "trained_blocks",
)


def refused(folder: Path, target: ModelAdapter, **changes: Any) -> str:
    """What is said of a folder with these entries; nulls are written as such."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ModelError) as raised:
        files.KIND.read(folder, target)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_no_network_has_are_refused_before_one_is_built(
    target: ModelAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Not a traceback out of a library, and no memory filled layer by layer."""
    folder = written(target, tmp_path / "drafter")
    monkeypatch.setattr(files, "BlockNetwork", lambda shape: pytest.fail("a network was built"))
    for odd in ODD_SIZES:
        assert f"config.json says {name} = " in refused(folder, target, **{name: odd}), odd


@pytest.mark.parametrize(
    ("name", "odd"),
    [(name, odd) for name in ("rope_theta", "eps") for odd in (0, -1, 1e30, float("inf"), float("nan"), True, "1")]
    + [("taps", odd) for odd in ([1, 1, 1], [5, 2, 1], [1, 2.0, 5], [True, 2, 5], [-1, 2, 5], "125", 5, [[1], 2], {})]
    + [("kv_heads", 3), ("head_dim", 7), ("rope_mode", ["offset"])],
)
def test_values_that_cannot_be_right_are_refused(target: ModelAdapter, tmp_path: Path, name: str, odd: Any) -> None:
    """Taken, they would draft nothing or badly, unseen."""
    refusal = refused(written(target, tmp_path / "drafter"), target, **{name: odd})
    assert f"config.json says {name} = " in refusal
    assert refusal.endswith("; mend it, or train one with specviz train block-drafter")


def test_a_missing_size_is_called_missing_and_a_default_is_taken(target: ModelAdapter, tmp_path: Path) -> None:
    folder = written(target, tmp_path / "drafter")
    with pytest.raises(ModelError, match=r"config.json lacks 'width'"):
        files.KIND.read(edited(folder, width=None), target)
    assert files.KIND.read(edited(written(target, folder), eps=None), target).config.eps == 1e-6


def test_sizes_beyond_the_weights_take_no_memory(target: ModelAdapter, tmp_path: Path) -> None:
    """Each alone is possible, together they are a petabyte: shapes are compared before anything is allocated."""
    refusal = refused(written(target, tmp_path / "drafter"), target, width=200_000, ff=4_000_000, n_layers=128)
    assert "the weights are not what config.json says: tensor" in refusal


@pytest.mark.parametrize(
    "odd",
    [
        torch.zeros(80),
        torch.zeros(80, 1, dtype=torch.long),
        torch.tensor(0),
        torch.zeros(80, dtype=torch.bool),
        torch.zeros(0, dtype=torch.long),
        torch.tensor([0, 2**62, -(2**62), *range(1, 78)]),
    ],
)
def test_maps_that_are_no_map_are_refused(target: ModelAdapter, tmp_path: Path, odd: torch.Tensor) -> None:
    folder = written(target, tmp_path / "drafter", draft_vocab=80)
    save_file(load_file(folder / files.KIND.weights) | {"d2t": odd}, folder / files.KIND.weights)
    assert "a map" in refused(folder, target)


@pytest.mark.parametrize("odd", ["a\0b", "x" * 5_000])
def test_names_that_no_folder_has_are_refused(target: ModelAdapter, odd: str) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        files.KIND.pick(target, odd)


def test_a_map_that_is_not_ascending_is_refused(target: ModelAdapter, tmp_path: Path) -> None:
    folder = written(target, tmp_path / "drafter", draft_vocab=80)
    tensors = load_file(folder / files.KIND.weights)
    save_file(tensors | {"d2t": tensors["d2t"].flip(0).contiguous()}, folder / files.KIND.weights)
    with pytest.raises(ModelError, match="ascending"):
        files.KIND.load(folder, target)


def test_weights_that_are_not_finite_are_refused(target: ModelAdapter, tmp_path: Path) -> None:
    folder = written(target, tmp_path / "drafter")
    tensors = load_file(folder / files.KIND.weights)
    tensors["fuse.weight"][0, 0] = float("nan")
    save_file(tensors, folder / files.KIND.weights)
    with pytest.raises(ModelError, match=r"tensor 'fuse.weight' holds NaN or infinite numbers"):
        files.KIND.load(folder, target)


def test_pickles_and_empty_folders_are_refused(target: ModelAdapter, tmp_path: Path) -> None:
    folder = written(target, tmp_path / "drafter")
    (folder / files.KIND.weights).rename(folder / "drafter.bin")
    with pytest.raises(ModelError, match="pickled, which is never opened here"):
        files.KIND.load(folder, target)
    with pytest.raises(ModelError, match="no such folder; train one"):
        files.KIND.load(tmp_path / "nowhere", target)
    with pytest.raises(ModelError, match="no block drafter for the target"):
        files.KIND.pick(target, None)


def test_a_drafter_beside_its_target_is_found(tmp_path: Path) -> None:
    build("llama", seed=3, num_hidden_layers=5).save_pretrained(tmp_path)
    model = type(build("llama")).from_pretrained(tmp_path)
    adapter = ModelAdapter(model)
    written(adapter, tmp_path / "block-drafter")
    assert files.KIND.pick(adapter, None).config.target_layers == 5


def test_which_layers_are_read() -> None:
    """Layers 2, L/2 and L - 3 of 1..L; early, middle and last where those collide."""
    assert taps(32) == (2, 16, 29)
    assert taps(12) == (2, 6, 9)
    assert [taps(n) for n in (3, 4, 5, 6, 7)] == [(1, 2, 3), (1, 2, 4), (1, 2, 5), (1, 3, 6), (2, 3, 4)]
    with pytest.raises(ModelError, match="three layers"):
        taps(2)
