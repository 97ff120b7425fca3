"""One folder of every kind of trained part, in the layout of version 1 written out: each is read, refused, and written
again byte for byte.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import fingerprint
from specviz.errors import ModelError
from specviz.methods.branch import hrad
from specviz.methods.eagle3 import drafter as eagle3
from specviz.methods.early_exit import heads
from specviz.methods.kangaroo import adapter as kangaroo
from specviz.methods.medusa import drafter as medusa
from specviz.methods.self_skip import model as self_skip
from specviz.methods.specblock import network as specblock
from specviz.methods.trained.part_kind import PartKind
from specviz.methods.trained.parts import DrafterKind
from support.models import blurred, build

# Kind, fields of its JSON file behind those that name the target, names and shapes of its tensors.
PARTS: dict[str, tuple[PartKind[Any], str, str]] = {
    "specviz-block-drafter": (
        specblock.KIND,
        """
"target_layers": 5, "target_width": 32, "taps": [1, 2, 5], "vocab": 260, "draft_vocab": 80, "embed_width": 32,
"width": 16, "heads": 4, "kv_heads": 2, "head_dim": 8, "ff": 24, "rope_theta": 10000.0, "rope_mode": "offset",
"slots": 4, "n_layers": 2, "rank_width": 8, "eps": 1e-06, "shift": true, "broadcast": true, "trained_blocks": 3""",
        """condition.weight 16x96, d2t 80, fuse.weight 16x64, head.weight 80x16, layers.0.q.weight 32x16,
layers.0.k.weight 16x16, layers.0.v.weight 16x16, layers.0.o.weight 16x32, layers.0.gate.weight 24x16,
layers.0.up.weight 24x16, layers.0.down.weight 16x24, layers.1.q.weight 32x16, layers.1.k.weight 16x16,
layers.1.v.weight 16x16, layers.1.o.weight 16x32, layers.1.gate.weight 24x16, layers.1.up.weight 24x16,
layers.1.down.weight 16x24, layers.0.norm_attention.weight 16, layers.0.norm_mlp.weight 16,
layers.1.norm_attention.weight 16, layers.1.norm_mlp.weight 16, norm_condition.weight 16, norm_out.weight 16,
norm_query.weight 16, norm_token.weight 32, queries 4x16, rank.down.weight 8x31, rank.up.weight 4x8,
shifts.0.weight 16x32""",
    ),
    "specviz-eagle3": (
        eagle3.KIND,
        """
"target_layers": 5, "target_width": 32, "taps": [1, 2, 5], "vocab": 260, "draft_vocab": 260, "heads": 4,
"kv_heads": 2, "head_dim": 8, "ff": 24, "rope_theta": 10000.0, "eps": 1e-06, "trained_steps": 7""",
        """fc.weight 32x96, head.weight 260x32, norm_out.weight 32, norm_token.weight 32, layer.q.weight 32x64,
layer.k.weight 16x64, layer.v.weight 16x64, layer.o.weight 32x32, layer.gate.weight 24x32, layer.up.weight 24x32,
layer.down.weight 32x24, layer.norm_attention.weight 32, layer.norm_mlp.weight 32""",
    ),
    "specviz-medusa": (
        medusa.KIND,
        """
"target_layers": 5, "target_width": 32, "vocab": 260, "draft_vocab": 260, "heads": 2,
"right": [[0.6, 0.2], [0.5, 0.3]], "counted": true""",
        """bias 2x32, inner 2x32x32, outer 2x260x32""",
    ),
    "specviz-exit-heads": (
        heads.KIND,
        """
"n_layers": 5, "width": 32, "vocab": 260, "kind": "lowrank", "layers": [1, 2], "rank": 4, "shortlist": 3,
"labels": "soft", "advised": [2]""",
        """1.down 4x32, 1.gain 32, 1.up 32x4, 2.down 4x32, 2.gain 32, 2.up 32x4, shortlist 3""",
    ),
    "specviz-kangaroo-adapter": (
        kangaroo.KIND,
        """
"n_layers": 5, "layer": 2,
"shape": {"width": 32, "n_heads": 4, "eps": 1e-06, "context": 192,
  "rope": {"rope_theta": 10000.0, "rope_type": "default"}}""",
        """attention.q_proj.weight 32x32, attention.k_proj.weight 32x32, attention.v_proj.weight 32x32,
attention.o_proj.weight 32x32, input_norm.weight 32, norm.weight 32""",
    ),
    "specviz-hrad": (
        hrad.KIND,
        """
"draft": null, "draft_name": "zoo/draft", "n_layers": 5, "width": 32, "hrad_layers": 3, "gamma_label": 4,
"temperature": 0.0, "counts": [5, 6, 7], "confusion": [[1, 0, 0], [0, 2, 0], [0, 0, 3]]""",
        """layers.0.bias 256, layers.0.weight 256x128, layers.3.bias 64, layers.3.weight 64x256, layers.6.bias 3,
layers.6.weight 3x64, mean 128, scale 128""",
    ),
    "specviz-skip-set": (
        self_skip.KIND,
        """
"n_layers": 5, "attention": [2, 4], "mlp": [1], "measured": {"tried": 3}""",
        "",
    ),
}
FILES = {
    "specviz-exit-heads": "heads.safetensors",
    "specviz-kangaroo-adapter": "adapter.safetensors",
    "specviz-hrad": "hrad.safetensors",
}
WORDS = {
    "specviz-block-drafter": "--drafter {}: made for zoo/target (weights {}), the target zoo/other has weights {}; "
    "train one with specviz train block-drafter",
    "specviz-eagle3": "--drafter {}: made for zoo/target (weights {}), the target zoo/other has weights {}; "
    "train one with specviz train eagle3",
    "specviz-medusa": "--drafter {}: made for zoo/target (weights {}), the target zoo/other has weights {}; "
    "train one with specviz train medusa",
    "specviz-exit-heads": "--heads {}: made for zoo/target (weights {}), the target zoo/other has weights {}; "
    "train heads for it with specviz train exit-heads",
    "specviz-kangaroo-adapter": "--adapter {}: made for zoo/target (weights {}), the target zoo/other has weights {}; "
    "train one for it with specviz train kangaroo",
    "specviz-hrad": "--hrad {}: made for zoo/target (weights {}), the target zoo/other has weights {}; "
    "train one for this pair with specviz train hrad",
    "specviz-skip-set": "--skip-set {}: found for zoo/target (weights {}), the target zoo/other has weights {}; "
    "search one for it with specviz train skip-set",
}


@pytest.fixture(scope="module")
def models() -> dict[str, ModelAdapter]:
    def model() -> Any:
        return build("llama", seed=1, num_hidden_layers=5)

    other = build("llama", seed=3, num_hidden_layers=5)
    return {
        "target": ModelAdapter(model(), "zoo/target"),
        "draft": ModelAdapter(blurred(model(), 0.1), "zoo/draft"),
        "other": ModelAdapter(other, "zoo/other"),
    }


def tensor(format: str, name: str, shape: list[int], rng: torch.Generator) -> torch.Tensor:
    if name == "d2t":
        return torch.arange(80) * 2
    if name == "shortlist":
        return torch.tensor([3, 7, 9])
    drawn = torch.rand(shape, generator=rng)
    if format != "specviz-hrad":
        return drawn.bfloat16()
    return drawn if name in ("mean", "scale") else drawn.half()


def laid_out(folder: Path, format: str, models: dict[str, ModelAdapter]) -> dict[str, torch.Tensor]:
    """The folder as version 1 lays it out; its tensors."""
    _, written, listed = PARTS[format]
    known = json.loads("{" + written + "}")
    shapes = dict(name.split() for name in listed.split(",") if name)
    folder.mkdir()
    config = {"format": format, "version": 1, "target": fingerprint(models["target"]), "target_name": "zoo/target"}
    config |= known | ({"draft": fingerprint(models["draft"])} if "draft" in known else {})
    file = "skip-set.json" if format == "specviz-skip-set" else "config.json"
    (folder / file).write_text(json.dumps(config, indent=1) + "\n")
    rng = torch.Generator().manual_seed(0)
    tensors = {name: tensor(format, name, [*map(int, shape.split("x"))], rng) for name, shape in shapes.items()}
    if tensors:
        save_file(tensors, folder / FILES.get(format, "drafter.safetensors"))
    return tensors


def read(format: str, folder: Path, target: ModelAdapter, draft: ModelAdapter) -> Any:
    """By the function that decoding reads it with."""
    if format == "specviz-hrad":
        return hrad.load(folder, target, draft)
    loads: dict[str, Any] = {
        "specviz-exit-heads": heads.load,
        "specviz-kangaroo-adapter": kangaroo.load,
        "specviz-skip-set": self_skip.load,
    }
    kind: Any = PARTS[format][0]
    return loads[format](folder, target) if format in loads else kind.read(folder, target)


@pytest.mark.parametrize("format", PARTS)
def test_a_folder_on_disk_is_read_and_written_again_as_it_stood(
    models: dict[str, ModelAdapter], tmp_path: Path, format: str
) -> None:
    tensors = laid_out(tmp_path / "part", format, models)
    part = read(format, tmp_path / "part", models["target"], models["draft"])
    kind: Any = PARTS[format][0]
    config = part if format == "specviz-skip-set" else getattr(part, "config", None)
    if format == "specviz-kangaroo-adapter":
        config = kind.parsed(tmp_path / "part", kind.document(tmp_path / "part"))
        for name, held in part.adapter.state_dict().items():
            assert torch.equal(held, tensors[name].float())
    assert isinstance(config, kind.config)
    if isinstance(kind, DrafterKind):
        kind.write(tmp_path / "again", part)
    else:
        kind.save(tmp_path / "again", config, tensors or None)
    assert {path.name for path in (tmp_path / "again").iterdir()} == {p.name for p in (tmp_path / "part").iterdir()}
    for path in (tmp_path / "part").iterdir():
        again = tmp_path / "again" / path.name
        if path.suffix == ".json":
            assert again.read_bytes() == path.read_bytes()
        else:
            kept = load_file(again)
            assert kept.keys() == tensors.keys()
            assert all(
                torch.equal(kept[name], array) and kept[name].dtype == array.dtype for name, array in tensors.items()
            )
            assert again.stat().st_mode & 0o777 == 0o644
    assert asdict(config)["target_name"] == "zoo/target"


@pytest.mark.parametrize("format", PARTS)
def test_every_kind_refuses_another_target_in_these_words(
    models: dict[str, ModelAdapter], tmp_path: Path, format: str
) -> None:
    laid_out(tmp_path / "part", format, models)
    with pytest.raises(ModelError) as refused:
        read(format, tmp_path / "part", models["other"], models["draft"])
    prints = (fingerprint(models[name])[:8] for name in ("target", "other"))
    assert str(refused.value) == WORDS[format].format(tmp_path / "part", *prints)


def test_an_hrad_of_another_draft_model_is_refused(models: dict[str, ModelAdapter], tmp_path: Path) -> None:
    laid_out(tmp_path / "part", "specviz-hrad", models)
    with pytest.raises(ModelError, match=r"made for zoo/draft \(weights .*, the draft model zoo/other has weights"):
        hrad.load(tmp_path / "part", models["target"], models["other"])
