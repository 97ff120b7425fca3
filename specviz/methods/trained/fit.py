"""Whether a trained part fits the target at hand: layers, width, vocabulary, weights. One line when it does not."""

from dataclasses import dataclass
from pathlib import Path

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import ModelError
from specviz.methods.trained.part_files import refuse_other_model
from specviz.methods.trained.vocabulary import Vocabulary

OPTION = "--drafter"
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True, slots=True)
class MadeFor:
    """The target a folder names."""

    target: str
    name: str
    n_layers: int
    width: int
    vocab: int
    taps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TapConfig:
    """What `config.json` of a drafter that reads layers of its target says of it. `taps`: those layers.

    `draft_vocab` below `vocab` comes with a `d2t` map.
    """

    target: str
    target_name: str
    target_layers: int
    target_width: int
    taps: tuple[int, ...]
    vocab: int
    draft_vocab: int

    @property
    def made_for(self) -> MadeFor:
        """The target."""
        return MadeFor(
            self.target, self.target_name, self.target_layers, self.target_width, self.vocab, self.taps
        )  # fmt: skip


def refuse_other_target(folder: Path, made: MadeFor, adapter: ModelAdapter, advice: str, owned: bool = True) -> None:
    """Raises ModelError unless it is this one. `owned`: the folder also says which weights, and they are compared."""
    theirs = (made.n_layers, made.width, made.vocab)
    ours = (adapter.n_layers, int(adapter.head.weight.shape[1]), adapter.vocab)
    if theirs != ours:
        raise ModelError(
            f"{OPTION} {folder}: made for {made.name} with {theirs[0]} layers of width {theirs[1]} and "
            f"{theirs[2]} tokens, the target {adapter.name} has {ours[0]} of width {ours[1]} and {ours[2]}"
        )
    outside = [tap for tap in made.taps if not 0 <= tap <= adapter.n_layers]
    if outside or not made.taps:
        named = f"layer {outside[0]}" if outside else "no layers"
        raise ModelError(f"{OPTION} {folder}: config.json reads {named}; the target has layers 1 to {adapter.n_layers}")
    if owned:
        refuse_other_model(folder, OPTION, "target", (made.name, made.target), adapter, advice)


def checked_vocabulary(folder: Path, vocab: int, draft_vocab: int, d2t: torch.Tensor | None) -> Vocabulary:
    """The map of a folder. Raises ModelError for one that is not what `config.json` says."""
    if d2t is not None and (d2t.dim() != 1 or d2t.dtype not in _WHOLE):
        kind = str(d2t.dtype).removeprefix("torch.")
        raise ModelError(
            f"{OPTION} {folder}: its map d2t is {list(d2t.shape)} of type {kind}; "
            "a map is one row of whole numbers, what is added to each draft id"
        )
    made = Vocabulary(vocab, None if d2t is None else d2t.long())
    ids = made.ids
    wrong = made.n_draft != draft_vocab or (
        ids is not None and bool(((ids < 0) | (ids >= vocab)).any() | (ids.diff() <= 0).any())
    )
    if wrong:
        held = "no map" if d2t is None else f"a map of {len(d2t)} tokens"
        raise ModelError(
            f"{OPTION} {folder}: config.json says {draft_vocab} of {vocab} tokens, and there is {held}; "
            "a map must name that many, ascending"
        )
    return made


def taps(n_layers: int) -> tuple[int, int, int]:
    """Which entries of the hidden-state list a drafter reads: early, middle, late (specblock.md 3.2).

    Entry l is what layer l of 1.. put out. Raises ModelError for a target of fewer than three layers.
    """
    if n_layers < 3:
        raise ModelError(f"such a drafter reads three layers of its target, which has {n_layers}")
    usual = (2, n_layers // 2, n_layers - 3)
    return usual if usual[0] < usual[1] < usual[2] else (1, max(2, n_layers // 2), n_layers)
