"""Encoded text on disk, and the windows that training and measuring read from it.

Windows are keyed by (seed, step, part): a step can be replayed without the steps before it, so resuming needs no
sampler state at all.

The architecture of the pair: two Llamas, one deep and one shallow, sized by what two CPU cores can train.

Heads are 64 wide and few: on a CPU the time of attention goes by the number of heads, and two heads of 64 train a
third faster than five of 32.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specviz.train.common.corpus import DOMAINS, Document
from specviz.train.common.vocabulary import VOCAB_SIZE, batches

MIX = {"code": 0.66, "prose": 0.22, "sums": 0.12}
STDLIB = "code, standard library only"
"""A held-out stream beside `code`: packages repeat one another, the standard library does not."""

Tokens = NDArray[np.uint16]
Ids = NDArray[np.integer[Any]]  # of any vocabulary
_DOCSTRING_WITHIN = 48


@dataclass(frozen=True, slots=True)
class Store:
    """Token streams by domain; documents are separated by the end token."""

    train: Mapping[str, Ids]
    held_out: Mapping[str, Ids]

    def save(self, path: Path) -> None:
        """Write all streams to one file, under another name first: a file that is there is whole."""
        sides = {"train": self.train, "held_out": self.held_out}
        arrays: dict[str, Any] = {f"{side}.{k}": ids for side, streams in sides.items() for k, ids in streams.items()}
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, **arrays)
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> "Store":
        """Read what `save` wrote."""
        sides: dict[str, dict[str, Ids]] = {"train": {}, "held_out": {}}
        with np.load(path) as arrays:
            for name in arrays.files:
                side, _, domain = name.partition(".")
                sides[side][domain] = arrays[name]
        return cls(sides["train"], sides["held_out"])


def encode(documents: Sequence[Document], tokenizer: PreTrainedTokenizerFast) -> Store:
    """Tokenize every document into the stream of its side and domain; domains without text are left out."""
    held_out = [each for each in documents if each.held_out]
    streams = _by_domain(held_out, tokenizer)
    stdlib = [each.text for each in held_out if each.domain == "code" and each.source == "stdlib"]
    if "code" in streams:
        streams[STDLIB] = _stream(stdlib, tokenizer)
    return Store(_by_domain([each for each in documents if not each.held_out], tokenizer), streams)


def _by_domain(documents: Sequence[Document], tokenizer: PreTrainedTokenizerFast) -> dict[str, Tokens]:
    texts = {name: [each.text for each in documents if each.domain == name] for name in DOMAINS}
    return {name: _stream(found, tokenizer) for name, found in texts.items() if found}


def _stream(texts: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> Tokens:
    end = np.array([tokenizer.eos_token_id], dtype=np.uint16)
    parts: list[Tokens] = []
    for batch in batches(texts):
        for encoding in tokenizer.backend_tokenizer.encode_batch(batch):
            parts += [np.array(encoding.ids, dtype=np.uint16), end]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint16)


@dataclass(frozen=True, slots=True)
class Feed:
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


def definition_starts(stream: Ids, tokenizer: PreTrainedTokenizerFast) -> NDArray[np.int64]:
    """Positions in `stream` where a line without indentation begins with `def`, `class` or `import`.

    Those that open with a docstring are left out: a small model seldom finds the end of one, and a prompt such as
    `def fibonacci(n):` should be continued with code.
    """
    vocab = tokenizer.get_vocab()
    words = [ids[0] for ids in map(tokenizer.encode, ("def", "class", "import")) if len(ids) == 1]
    newline = "\u010a"  # as the byte alphabet of the tokenizer writes it
    ends = [number for token, number in vocab.items() if token.endswith(newline)] + [tokenizer.eos_token_id]
    quotes = np.cumsum(np.isin(stream, [number for token, number in vocab.items() if '"""' in token]))
    found = np.flatnonzero(np.isin(stream[1:], words) & np.isin(stream[:-1], ends)) + 1
    after = np.minimum(found + _DOCSTRING_WITHIN, len(stream) - 1)
    starts: NDArray[np.int64] = found[quotes[after] == quotes[found]]
    return starts


def fixed(stream: Ids, n_windows: int, length: int) -> Tensor:
    """The same evenly spaced windows [n, length + 1] every time, to measure on."""
    room = len(stream) - length - 1
    starts = np.unique(np.linspace(0, max(room, 0), n_windows).astype(np.int64))
    return torch.from_numpy(np.stack([stream[start : start + length + 1] for start in starts]).astype(np.int64))


CONTEXT = 1_024


def target_config() -> LlamaConfig:
    """12 layers, width 160, two query heads sharing one key/value head: 4.3M parameters."""
    return _config(layers=12, width=160, heads=2, head_dim=64, inner=512)


def draft_config() -> LlamaConfig:
    """2 layers, width 128, heads and inner width of the target's: 1.0M parameters, half of them the embedding."""
    return _config(layers=2, width=128, heads=2, head_dim=64, inner=512)


def _config(layers: int, width: int, heads: int, head_dim: int, inner: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=1,
        head_dim=head_dim,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )


def build(config: LlamaConfig, seed: int) -> LlamaForCausalLM:
    """A model with fresh weights; the global generator is put back as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)
