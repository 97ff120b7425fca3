"""Folders of block drafters: `drafter.safetensors` and a `config.json` that names target, layers and vocabulary map.

A drafter of another target, of other layers or with unknown row positions is refused in one line: it would only cost
time, unseen. `rope_mode` is fixed by training, so it is read from the folder and nowhere else.
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args
from weakref import WeakKeyDictionary

import msgspec
import torch
from safetensors.torch import save_file

from specviz.drafters.blocks.layers import LayerShape
from specviz.drafters.blocks.network import BlockNetwork, RopeMode, Shape
from specviz.drafters.blocks.vocabulary import Vocabulary
from specviz.drafters.part_files import (
    fingerprint,
    read_config,
    read_tensors,
    refuse_format,
    refuse_other_model,
    shipped,
)
from specviz.engine.model import ModelAdapter
from specviz.errors import ModelError

FORMAT, VERSION, OPTION = "specviz-block-drafter", 1, "--drafter"
TRAIN = "train one with specviz train block-drafter"
NAME = "drafter.safetensors"


@dataclass(frozen=True, slots=True)
class Config:
    """`config.json`. `taps`: target layers whose outputs are read; `draft_vocab` below `vocab` comes with a `d2t` map.

    `trained_blocks`: how many blocks of a round the training unrolled.
    """

    target: str
    target_name: str
    target_layers: int
    target_width: int
    embed_width: int
    taps: tuple[int, ...]
    vocab: int
    draft_vocab: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ff: int
    rope_theta: float
    rope_mode: RopeMode
    slots: int = 4
    n_layers: int = 2
    rank_width: int = 256
    eps: float = 1e-6
    shift: bool = True
    broadcast: bool = True
    trained_blocks: int = 3

    @property
    def shape(self) -> Shape:
        """Of the network."""
        layer = LayerShape(
            self.width, self.heads, self.kv_heads, self.head_dim, self.ff, self.rope_theta, self.eps
        )  # fmt: skip
        return Shape(
            layer, len(self.taps) * self.target_width, self.embed_width, self.draft_vocab, self.slots, self.n_layers,
            self.rank_width, self.rope_mode, self.shift, self.broadcast,
        )  # fmt: skip


_NAMES = tuple(each.name for each in fields(Config))


@dataclass(frozen=True, slots=True)
class Trained:
    """A drafter on its target's device, in its dtype."""

    config: Config
    network: BlockNetwork
    vocabulary: Vocabulary


def taps(n_layers: int) -> tuple[int, int, int]:
    """Which entries of the hidden-state list a drafter reads: early, middle, late (specblock.md 3.2).

    Entry l is what layer l of 1.. put out. Raises ModelError for a target of fewer than three layers.
    """
    if n_layers < 3:
        raise ModelError(f"a block drafter reads three layers of its target, which has {n_layers}")
    usual = (2, n_layers // 2, n_layers - 3)
    return usual if usual[0] < usual[1] < usual[2] else (1, max(2, n_layers // 2), n_layers)


def write(folder: Path, trained: Trained) -> None:
    """Weights in bfloat16, and the config."""
    tensors = {
        name: each.detach().to(torch.bfloat16).cpu().contiguous() for name, each in trained.network.state_dict().items()
    }
    if trained.vocabulary.d2t is not None:
        tensors["d2t"] = trained.vocabulary.d2t.cpu()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / NAME)
    (folder / NAME).chmod(0o644)  # weights are written for the owner alone, which a package must not carry on
    text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(trained.config)}, indent=1)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


_loaded: "WeakKeyDictionary[ModelAdapter, dict[str, Trained]]" = WeakKeyDictionary()


def load(folder: Path, adapter: ModelAdapter) -> Trained:
    """The drafter in a folder, read once per target. Raises ModelError in one line."""
    known = _loaded.setdefault(adapter, {})
    key = str(folder.resolve())
    if key not in known:
        known[key] = _read(folder, adapter)
    return known[key]


def _read(folder: Path, adapter: ModelAdapter) -> Trained:
    config = _config(folder, read_config(folder, OPTION, TRAIN))
    _refuse_other_target(folder, config, adapter)
    tensors = read_tensors(folder, OPTION, adapter.device)
    vocabulary = _vocabulary(folder, config, tensors.pop("d2t", None))
    network = BlockNetwork(config.shape)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        why = " ".join(str(error).split())[:200]
        raise ModelError(f"{OPTION} {folder}: the weights are not what config.json says: {why}") from error
    return Trained(config, network.to(adapter.device, adapter.dtype).requires_grad_(False).eval(), vocabulary)


def _config(folder: Path, given: dict[str, Any]) -> Config:
    refuse_format(folder, OPTION, given, (FORMAT, VERSION), "block drafter")
    mode = given.get("rope_mode")
    if mode not in get_args(RopeMode):
        raise ModelError(
            f"{OPTION} {folder}: config.json has rope_mode '{mode}'; known are {' and '.join(get_args(RopeMode))}"
        )
    try:
        config = msgspec.convert({name: given[name] for name in _NAMES if name in given}, Config)
        _ = config.shape
    except (msgspec.ValidationError, AssertionError) as error:
        raise ModelError(f"{OPTION} {folder}: config.json: {error}") from None
    return config


def _refuse_other_target(folder: Path, config: Config, adapter: ModelAdapter) -> None:
    theirs = (config.target_layers, config.target_width, config.vocab)
    ours = (adapter.n_layers, int(adapter.head.weight.shape[1]), adapter.vocab)
    if theirs != ours:
        raise ModelError(
            f"{OPTION} {folder}: made for {config.target_name} with {theirs[0]} layers of width {theirs[1]} and "
            f"{theirs[2]} tokens, the target {adapter.name} has {ours[0]} of width {ours[1]} and {ours[2]}"
        )
    outside = [tap for tap in config.taps if not 0 <= tap <= adapter.n_layers]
    if outside or not config.taps:
        named = f"layer {outside[0]}" if outside else "no layers"
        raise ModelError(f"{OPTION} {folder}: config.json reads {named}; the target has layers 1 to {adapter.n_layers}")
    refuse_other_model(folder, OPTION, "target", (config.target_name, config.target), adapter, TRAIN)


def _vocabulary(folder: Path, config: Config, d2t: torch.Tensor | None) -> Vocabulary:
    made = Vocabulary(config.vocab, d2t)
    ids = made.ids
    wrong = made.n_draft != config.draft_vocab or (
        ids is not None and bool((ids[0] < 0) | (ids[-1] >= config.vocab) | (ids.diff() <= 0).any())
    )
    if wrong:
        held = "no map" if d2t is None else f"a map of {len(d2t)} tokens"
        raise ModelError(
            f"{OPTION} {folder}: config.json says {config.draft_vocab} of {config.vocab} tokens, and there is {held}; "
            "a map must name that many, ascending"
        )
    return made


def pick(adapter: ModelAdapter, wanted: str | None) -> Trained:
    """The drafter to use: that of a folder, or None for the one that lies with the target.

    Raises ModelError in one line when there is none, or none that fits.
    """
    if wanted is not None:
        return load(Path(wanted), adapter)
    for folder in shipped(adapter, "block-drafter", "block-drafter"):
        if read_config(folder, OPTION, TRAIN).get("target") == fingerprint(adapter):
            return load(folder, adapter)
    raise ModelError(f"no block drafter for the target {adapter.name}: name a folder with {OPTION}, or {TRAIN}")
