"""What a target says of the windows that drafters learn on, kept on disk once it was said.

A drafter goes through its windows several times, and the pass of the target is half of a step (SmolLM2, five levels of
EAGLE-3). Its states at a few layers, the last one, and its best tokens are all that is learnt from; a drafter's logits
follow from the last state by the rows of the head that it needs. Files are named by layers, so that drafters of other
kinds find what they share: one window takes `length * (layers * width + 2) * 2` bytes in bfloat16.
"""

import hashlib
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.trained.parts import fingerprint
from specviz_train.common.files import keep, kept
from specviz_train.common.own_text import OwnWindows
from specviz_train.common.training_text import Ids

_RAW: dict[int, Any] = {2: np.int16, 4: np.int32, 8: np.int64}  # numpy has no bfloat16
FREE_SHARE = 0.5  # of the disk's free space, at most
CLOSE = 2e-2  # logits made from the last state differ from the target's own by less than this share of their spread


@dataclass(frozen=True)  # no slots: files are opened once
class KeptStates:
    """The states of all of `windows` at `layers` (the last one always among them), as far as they were asked for."""

    folder: Path
    target: ModelAdapter
    windows: OwnWindows
    layers: tuple[int, ...]

    @classmethod
    def begun(
        cls, folder: Path, target: ModelAdapter, windows: OwnWindows, taps: tuple[int, ...], most: float
    ) -> "KeptStates | None":
        """What `folder` holds, or nothing yet; None where it would take more than `most` GB or half of what is free.

        None also where logits do not follow from the last state (some targets scale or cap them).
        """
        store = cls(folder, target, windows, tuple(sorted({*taps, target.n_layers})))
        folder.parent.mkdir(parents=True, exist_ok=True)
        if store.n_bytes > min(most * 1e9, FREE_SHARE * shutil.disk_usage(folder.parent).free + store.held_bytes):
            return None
        if not store._follows():
            return None
        store._claim()
        return store

    @property
    def width(self) -> int:
        return int(self.target.head.weight.shape[1])

    @property
    def n_bytes(self) -> int:
        """On disk, when all windows are known."""
        size: int = self.target.dtype.itemsize
        return int(self.windows.ids.size) * (len(self.layers) * self.width * size + 4)

    @property
    def held_bytes(self) -> int:
        """On disk now."""
        return sum(path.stat().st_size for path in self.folder.glob("*.bin"))

    def _claim(self) -> None:
        """Make the folder; empty it where it is of other windows. A text that has grown begins as it did."""
        path = self.folder / "facts.json"
        before = kept(path) if path.exists() else {}
        n, all_n = before.get("n"), len(self.windows.ids)
        begins_alike = isinstance(n, int) and n <= all_n and before == self._facts(n)
        if before and not begins_alike:
            shutil.rmtree(self.folder)
        self.folder.mkdir(exist_ok=True)
        keep(path, self._facts(all_n))

    def _facts(self, n: int) -> dict[str, Any]:
        """What is kept of the first `n` windows."""
        digest = hashlib.sha256(self.windows.ids[:n].tobytes()).hexdigest()[:32]
        dtype, length = str(self.target.dtype).removeprefix("torch."), self.windows.ids.shape[1]
        return {"target": fingerprint(self.target), "length": length, "dtype": dtype, "n": n, "windows": digest}

    def ask(self, picked: Ids) -> None:
        """Ask the target about those of the windows with these numbers that are not known yet."""
        known = np.stack([known[picked] for _, known in self._files.values()]).all(0)
        if not known.all():
            self._ask(np.unique(picked[~known]))

    @torch.no_grad()
    def _ask(self, numbers: Ids) -> None:
        ids = self.windows.at(numbers)[0].to(self.target.device)
        with torch.autocast(ids.device.type, enabled=False):
            out = self.target.model(input_ids=ids, output_hidden_states=True, use_cache=False)
        best = out.logits[..., : self.target.vocab].argmax(-1).cpu().numpy()
        for layer, (states, known) in self._files.items():
            outputs = best if layer < 0 else out.hidden_states[layer].cpu().view(self._raw).numpy()
            states[numbers] = outputs
            known[numbers] = True

    @property
    def _raw(self) -> torch.dtype:
        return {2: torch.int16, 4: torch.int32, 8: torch.int64}[self.target.dtype.itemsize]

    @cached_property
    def _files(self) -> dict[int, tuple[NDArray[Any], NDArray[Any]]]:
        """By layer, -1 for the best tokens: what is said of every window, and which windows are known."""
        n, length = self.windows.ids.shape
        raw = _RAW[self.target.dtype.itemsize]
        shapes: dict[str, tuple[int, Any, tuple[int, ...]]] = {
            f"layer-{layer}": (layer, raw, (n, length, self.width)) for layer in self.layers
        }
        shapes["best"] = (-1, np.int32, (n, length))
        return {
            layer: (
                _mapped(self.folder / f"{name}.bin", kind, shape),
                _mapped(self.folder / f"{name}.known", bool, (n,)),
            )
            for name, (layer, kind, shape) in shapes.items()
        }

    def states(self, layer: int, picked: Ids) -> Tensor:
        """`[n, length, width]` after a layer, of windows that are known."""
        raw = torch.from_numpy(self._files[layer][0][picked])
        return raw.view(self.target.dtype).to(self.target.device)

    def best(self, picked: Ids) -> Tensor:
        """The target's best tokens `[n, length]` of windows that are known."""
        return torch.from_numpy(self._files[-1][0][picked].astype(np.int64)).to(self.target.device)

    @torch.no_grad()
    def logits(self, picked: Ids, tokens: Tensor | None) -> Tensor:
        """The target's logits `[n, length, len(tokens)]`; None: of all tokens."""
        return self.spoken(self.states(self.target.n_layers, picked), tokens)

    def spoken(self, states: Tensor, tokens: Tensor | None) -> Tensor:
        """Logits `[.., V or len(tokens)]` of last states `[.., width]`."""
        rows = self.target.head.weight[: self.target.vocab]
        with torch.autocast(states.device.type, enabled=False):
            return torch.nn.functional.linear(states, rows if tokens is None else rows[tokens]).float()

    @torch.no_grad()
    def _follows(self) -> bool:
        """Whether logits follow from the last state by the head's rows alone."""
        ids = self.windows.at(slice(0, 1))[0][:, :8].to(self.target.device)
        out = self.target.model(input_ids=ids, output_hidden_states=True, use_cache=False)
        logits = out.logits[..., : self.target.vocab].float()
        apart = (self.spoken(out.hidden_states[-1], None) - logits).abs().max()
        return bool(apart <= CLOSE * logits.std())


def _mapped(path: Path, kind: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """A file as an array that is written in place; what is new of it is zero. Raises SpecvizError."""
    try:
        with path.open("ab") as stream:
            stream.truncate(int(np.prod(shape)) * np.dtype(kind).itemsize)
        return np.memmap(path, kind, "r+", shape=shape)
    except (OSError, ValueError) as error:
        raise SpecvizError(f"cannot keep the target's states in {path}: {error}; give --keep 0") from error
