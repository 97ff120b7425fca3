"""Folders of block drafters: what is written is read, and what does not fit is refused in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from blocks.stage import session, trained
from engine.zoo import build
from specviz.drafters.blocks import files
from specviz.drafters.blocks.drafter import make
from specviz.drafters.blocks.fit import taps
from specviz.drafters.blocks.vocabulary import Vocabulary
from specviz.engine.context import Models
from specviz.engine.model import ModelAdapter
from specviz.errors import ModelError
from specviz.methods.specblock import METHOD as SPECBLOCK


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
    found = files.KIND.load(folder, target)
    assert found.config.rope_mode == changes.get("rope_mode", "offset")
    assert found.vocabulary.n_draft == changes.get("draft_vocab", target.vocab)
    for tensor in load_file(folder / files.KIND.weights).values():
        assert tensor.dtype in (torch.bfloat16, torch.int64)
    prompt = [5, 77, 12, 5]
    rounded = trained(target, vocabulary=found.vocabulary, **changes)
    with torch.no_grad():
        for parameter in rounded.network.parameters():
            parameter.copy_(parameter.bfloat16())
    drafts = [
        [done.draft.tokens for done in session(target, prompt, made, max_new_tokens=12).rounds()]
        for made in (found, rounded)
    ]
    assert drafts[0] == drafts[1]
    knobs = SPECBLOCK.table.knobs({"drafter": [str(folder)]})
    assert make(Models(target, None, 64), knobs).trained is found


def edited(folder: Path, **changes: Any) -> Path:
    path = folder / "config.json"
    given = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in given.items() if value is not None}))
    return folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "specviz-exit-heads"}, "these are no block drafter"),
        ({"version": 2}, "written in version 2"),
        ({"rope_mode": "ntk"}, "rope_mode 'ntk'; known are offset and repeat"),
        ({"rope_mode": None}, "rope_mode 'None'"),
        ({"target_layers": 12}, "made for .* with 12 layers of width 32"),
        ({"vocab": 300}, "and 300 tokens"),
        ({"taps": [1, 2, 9]}, "reads layer 9; the target has layers 1 to 5"),
        ({"taps": []}, "reads no layers"),
        ({"target": "0" * 32}, "weights 00000000.*train one with specviz train block-drafter"),
        ({"draft_vocab": 100}, "says 100 of 260 tokens, and there is no map"),
        ({"n_layers": 1}, "needs two layers"),
        ({"slots": "four"}, "config.json"),
        ({"slots": 3}, "the weights are not what config.json says"),
        ({"taps": [1, 2]}, "the weights are not what config.json says"),
    ],
)
def test_mismatches_are_refused_in_one_line(
    target: ModelAdapter, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    folder = edited(written(target, tmp_path / "drafter"), **changes)
    with pytest.raises(ModelError, match=said) as refused:
        files.KIND.load(folder, target)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(f"--drafter {folder}")


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
    """Layers 2, L/2 and L - 3 of 1..L; early, middle and last where those collide (specblock.md 3.2)."""
    assert taps(32) == (2, 16, 29)
    assert taps(12) == (2, 6, 9)
    assert [taps(n) for n in (3, 4, 5, 6, 7)] == [(1, 2, 3), (1, 2, 4), (1, 2, 5), (1, 3, 6), (2, 3, 4)]
    with pytest.raises(ModelError, match="three layers"):
        taps(2)
