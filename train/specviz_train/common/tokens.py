"""Encoded text on disk, and the windows that training and measuring read from it.

Windows are keyed by (seed, step, part): a step can be replayed without the steps before it, so resuming needs no
sampler state at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specviz_train.common.files import save_arrays

MIX = {"code": 0.66, "prose": 0.22, "sums": 0.12}

Ids = NDArray[np.integer[Any]]  # of any vocabulary


@dataclass(frozen=True, slots=True)
class TokenStore:
    """Token streams by domain; documents are separated by the end token."""

    train: Mapping[str, Ids]
    held_out: Mapping[str, Ids]

    def save(self, path: Path) -> None:
        """Write all streams to one file."""
        sides = {"train": self.train, "held_out": self.held_out}
        save_arrays(path, **{f"{side}.{k}": ids for side, streams in sides.items() for k, ids in streams.items()})

    @classmethod
    def load(cls, path: Path) -> "TokenStore":
        """Read what `save` wrote."""
        sides: dict[str, dict[str, Ids]] = {"train": {}, "held_out": {}}
        with np.load(path) as arrays:
            for name in arrays.files:
                side, _, domain = name.partition(".")
                sides[side][domain] = arrays[name]
        return cls(sides["train"], sides["held_out"])


@dataclass(frozen=True, slots=True)
class WindowFeed:
    """Where training windows come from: streams by domain, and a share of code windows that begin like a prompt.

    A window cut anywhere begins inside some class more often than not, so a model trained on nothing else answers
    `def name():` as if it stood there. `starts` are good positions to begin at (in code the top-level definitions), and
    `aligned` is the share of a stream's windows that begin at one.
    """

    streams: Mapping[str, Ids]
    starts: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    aligned: dict[str, float] = field(default_factory=dict)
    mix: dict[str, float] = field(default_factory=lambda: MIX)

    def draw(self, shape: tuple[int, int], key: tuple[int, int, int]) -> Tensor:
        """Training windows [rows, length + 1], each row from a domain drawn by `mix`; `key` is seed, step, part."""
        rows, length = shape
        rng = np.random.default_rng(key)
        names = [name for name in self.mix if len(self.streams.get(name, ())) > length + 1]
        shares = np.array([self.mix[name] for name in names])
        windows = []
        for name in rng.choice(names, size=rows, p=shares / shares.sum()):
            start = self._start(name, length, rng)
            windows.append(self.streams[name][start : start + length + 1])
        return torch.from_numpy(np.stack(windows).astype(np.int64))

    def _start(self, name: str, length: int, rng: np.random.Generator) -> int:
        room = len(self.streams[name]) - length
        if name in self.starts and self.aligned.get(name, 0.0) > rng.random():
            n_starts = int(np.searchsorted(self.starts[name], room))
            if n_starts:
                return int(self.starts[name][rng.integers(n_starts)])
        return int(rng.integers(room))


def fixed(stream: Ids, n_windows: int, length: int) -> Tensor:
    """The same evenly spaced windows [n, length + 1] every time, to measure on."""
    room = len(stream) - length - 1
    starts = np.unique(np.linspace(0, max(room, 0), n_windows).astype(np.int64))
    return torch.from_numpy(np.stack([stream[start : start + length + 1] for start in starts]).astype(np.int64))


def beginnings(streams: Mapping[str, Ids], n_each: int, length: int) -> dict[str, list[list[int]]]:
    """`n_each` evenly spaced prompts of `length` tokens by domain; domains that are too short are left out."""
    found: dict[str, list[list[int]]] = {}
    for domain, ids in streams.items():
        room = len(ids) - length
        if room > 0:
            starts = sorted({room * k // max(1, n_each - 1) for k in range(n_each)})
            found[domain] = [[int(token) for token in ids[start : start + length]] for start in starts]
    return found
