"""What a part of a target learns on, before the target writes: documents cut anywhere, or the beginnings of chats.

A chat model is asked through its template. When it ends an answer it is asked the next thing, so a window holds one
chat from its first token to its last, without padding, and everything the target wrote in it can be learnt.

Encoded text lies on disk by domain. Windows of it are keyed by (seed, step, part): a step can be replayed without the
steps before it, so resuming needs no sampler state at all.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specviz.engine.model.files.chat_template import rendered, speaks_chat
from specviz.errors import SpecvizError
from specviz_train.common import corpus
from specviz_train.common.chat_prompts import ChatPrompt, gather
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
    prompts: dict[str, list[list[int]]] = {}
    for domain, ids in streams.items():
        room = len(ids) - length
        if room > 0:
            starts = sorted({room * k // max(1, n_each - 1) for k in range(n_each)})
            prompts[domain] = [[int(token) for token in ids[start : start + length]] for start in starts]
    return prompts


Side = Literal["train", "held_out"]
Given = Iterator[list[int]]  # what a row is given to begin with, then whenever the target ends
PER_DOMAIN = 3_000  # chats of every kind, at most
MOST_PROMPT = 224  # tokens of a chat's beginning
MOST_MEASURED = 10  # chats to measure on, of all kinds together: decoding them should not outlast the training
MOST_CHARS = {"train": 12e6, "held out": 0.8e6}
LEAST_TOKENS = 1_028  # of documents, on either side
N_SUM_PAGES = 4_000
_BATCH = 256  # documents handed to the tokenizer at once


class TrainingText(ABC):
    """Text in the target's tokens, some of it held out."""

    @property
    @abstractmethod
    def streams(self) -> Mapping[str, Ids]:
        """Training text that people wrote, by domain."""

    @abstractmethod
    def begin(self, side: Side, rows: int, length: int, key: tuple[int, int, int]) -> list[Given]:
        """What `rows` rows begin with, drawn by `key`; a beginning that may be cut anywhere has `length` tokens."""

    @abstractmethod
    def prompts(self, side: Side, n_each: int, length: int) -> dict[str, list[list[int]]]:
        """`n_each` prompts by domain, the same every time, to decode and measure."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write to one file, for `read`."""


def cut(feed: WindowFeed, rows: int, length: int, key: tuple[int, int, int]) -> list[Given]:
    """Rows that begin with `length` tokens of `feed`, and are given no more."""
    return [iter([row]) for row in feed.draw((rows, length - 1), key).tolist()]


@dataclass(frozen=True, slots=True)
class Documents(TrainingText):
    """Streams of documents: a beginning is cut anywhere, and the target goes on with it to the end of a window."""

    store: TokenStore

    @property
    def streams(self) -> Mapping[str, Ids]:
        return self.store.train

    def begin(self, side: Side, rows: int, length: int, key: tuple[int, int, int]) -> list[Given]:
        return cut(WindowFeed(getattr(self.store, side)), rows, length, key)

    def prompts(self, side: Side, n_each: int, length: int) -> dict[str, list[list[int]]]:
        return beginnings(getattr(self.store, side), n_each, length)

    def save(self, path: Path) -> None:
        self.store.save(path)


class ChatTurn(NamedTuple):
    """One thing to ask, in tokens: as the `first` of a chat, and as a `further` one behind an answer that has ended."""

    first: list[int]
    further: list[int]


@dataclass(frozen=True, slots=True)
class Chats(TrainingText):
    """Things to ask by domain; every domain is drawn equally often."""

    turns: Mapping[Side, Mapping[str, Sequence[ChatTurn]]]

    @property
    def streams(self) -> Mapping[str, Ids]:
        return {}

    def begin(self, side: Side, rows: int, length: int, key: tuple[int, int, int]) -> list[Given]:
        return [self._asked(side, np.random.default_rng((*key, row))) for row in range(rows)]

    def _asked(self, side: Side, rng: np.random.Generator) -> Given:
        domains = [*self.turns[side].values()]
        first = True
        while True:
            domain = domains[int(rng.integers(len(domains)))]
            turn = domain[int(rng.integers(len(domain)))]
            yield turn.first if first else turn.further
            first = False

    def prompts(self, side: Side, n_each: int, length: int) -> dict[str, list[list[int]]]:
        own = self.turns[side]
        n_each = max(1, min(n_each, MOST_MEASURED // max(1, len(own))))
        return {domain: [turn.first for turn in turns[:n_each]] for domain, turns in own.items()}

    def save(self, path: Path) -> None:
        arrays = {}
        for side, domains in self.turns.items():
            for domain, turns in domains.items():
                parts = [part for turn in turns for part in turn]
                arrays[f"{side}.{domain}.ids"] = np.array([token for part in parts for token in part], dtype=np.int32)
                arrays[f"{side}.{domain}.ends"] = np.cumsum([len(part) for part in parts])
        save_arrays(path, **arrays)

    @classmethod
    def load(cls, path: Path) -> "Chats":
        """Read what `save` wrote."""
        turns: dict[Side, dict[str, list[ChatTurn]]] = {"train": {}, "held_out": {}}
        with np.load(path) as arrays:
            for name in sorted({array_name.rpartition(".")[0] for array_name in arrays.files}):
                side, _, domain = name.partition(".")
                parts = [part.tolist() for part in np.split(arrays[f"{name}.ids"], arrays[f"{name}.ends"][:-1])]
                pairs = zip(parts[::2], parts[1::2], strict=True)
                turns[side][domain] = [ChatTurn(*pair) for pair in pairs]
        return cls(turns)


def in_turns(chat: bool | None, tokenizer: Any) -> bool:
    """Whether text is made of chats: as asked, else where the tokenizer's template marks turns."""
    return speaks_chat(tokenizer) if chat is None else chat


def gathered(wanted: corpus.CorpusRequest, tokenizer: Any, chat: bool) -> TrainingText:
    """All there is to learn on, encoded."""
    return chats(wanted, tokenizer) if chat else documents(wanted, tokenizer)


def documents(wanted: corpus.CorpusRequest, tokenizer: Any) -> Documents:
    """Documents of this machine and the user's files, a fair share of each domain, encoded by the target's tokenizer.

    Raises SpecvizError when too little is left to train on or to hold out.
    """
    gathered = corpus.gather(wanted)
    train = _streams([document for document in gathered if not document.held_out], MOST_CHARS["train"], tokenizer)
    held_out = _streams([document for document in gathered if document.held_out], MOST_CHARS["held out"], tokenizer)
    for side, streams in (("train on", train), ("hold out", held_out)):
        if sum(map(len, streams.values())) < LEAST_TOKENS:
            raise SpecvizError(f"too little text to {side}: give more with --text, or add --packages")
    return Documents(TokenStore(train, held_out))


def chats(wanted: corpus.CorpusRequest, tokenizer: Any) -> Chats:
    """Things to ask about documents of this machine, from forms, and out of the user's `.jsonl` files."""
    plain = tuple(path for path in wanted.texts if path.suffix != ".jsonl")
    documents = corpus.gather(corpus.CorpusRequest(wanted.packages, plain, 0, wanted.seed))
    turns: dict[Side, dict[str, list[ChatTurn]]] = {"train": {}, "held_out": {}}
    for prompt in gather(documents, wanted.texts, wanted.seed):
        domain = turns["held_out" if prompt.held_out else "train"].setdefault(prompt.domain, [])
        if len(domain) < PER_DOMAIN and len((turn := _turn(tokenizer, prompt)).first) <= MOST_PROMPT:
            domain.append(turn)
    return Chats(turns)


def _turn(tokenizer: Any, prompt: ChatPrompt) -> ChatTurn:
    """A prompt through the template. Where the template takes one question alone, a chat is not gone on with."""
    asked = {"role": "user", "content": prompt.text}
    first = rendered(tokenizer, [asked])
    try:
        answered = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _ANSWER}, asked]
        words = tokenizer.apply_chat_template(answered, add_generation_prompt=True, tokenize=False)
    except Exception:  # a template is a program of its author's
        return ChatTurn(first, [])
    behind = tokenizer(words.rpartition(_ANSWER)[2], add_special_tokens=False, verbose=False)["input_ids"]
    return ChatTurn(first, behind[behind[:1] == [tokenizer.eos_token_id] :])  # the target ended its answer itself


_ANSWER = "An answer."


def read(path: Path, chat: bool) -> TrainingText:
    """Read what was saved."""
    return Chats.load(path) if chat else Documents(TokenStore.load(path))


def _streams(documents: list[corpus.Document], most: float, tokenizer: Any) -> dict[str, Ids]:
    streams: dict[str, Ids] = {}
    for domain, share in MIX.items():
        room, texts = share * most, []
        for document in (document for document in documents if document.domain == domain):
            if room <= 0:
                break
            texts.append(document.text[: int(room)])
            room -= len(document.text)
        if texts:
            streams[domain] = np.concatenate([*_encoded(texts, tokenizer)])
    return streams


def _encoded(texts: list[str], tokenizer: Any) -> Iterator[Ids]:
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    for start in range(0, len(texts), _BATCH):
        for ids in tokenizer(texts[start : start + _BATCH], add_special_tokens=False, verbose=False)["input_ids"]:
            yield np.array([*ids, *end], dtype=np.int32)
