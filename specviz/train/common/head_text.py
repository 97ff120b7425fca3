"""The text exit heads learn on: mostly what the target writes itself, the rest what was given.

Heads are asked about the target's own text when they draft, so that is what they should know best (specbound.md 8.3).
Beginnings come from the same documents that the embedded pair is trained on, and from the user's files.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specviz.errors import SpecvizError
from specviz.train.common import corpus, own_text, tokens
from specviz.train.common.job import Console
from specviz.train.common.optim import Budget
from specviz.train.common.own_text import Ids, grown

MOST_CHARS = {"train": 12e6, "held out": 0.8e6}
N_SUM_PAGES = 4_000
ROWS, PROMPT = 64, 32
OWN_SHARE = 0.75  # of the windows a head sees
_BATCH = 256  # documents handed to the tokenizer at once


def given(wanted: corpus.Wanted, tokenizer: Any) -> tokens.Store:
    """Documents of this machine and the user's files, a fair share of each domain, encoded by the target's tokenizer.

    Raises SpecvizError when too little is left to train on or to hold out.
    """
    documents = corpus.gather(wanted)
    train = _streams([each for each in documents if not each.held_out], MOST_CHARS["train"], tokenizer)
    held_out = _streams([each for each in documents if each.held_out], MOST_CHARS["held out"], tokenizer)
    for side, streams in (("train on", train), ("hold out", held_out)):
        if sum(map(len, streams.values())) < 4 * own_text.LENGTH:
            raise SpecvizError(f"too little text to {side}: give more with --text, or add --packages")
    return tokens.Store(train, held_out)


def _streams(documents: list[corpus.Document], most: float, tokenizer: Any) -> dict[str, Ids]:
    found: dict[str, Ids] = {}
    for domain, share in tokens.MIX.items():
        room, texts = share * most, []
        for each in (each for each in documents if each.domain == domain):
            if room <= 0:
                break
            texts.append(each.text[: int(room)])
            room -= len(each.text)
        if texts:
            found[domain] = np.concatenate([*_encoded(texts, tokenizer)])
    return found


def _encoded(texts: list[str], tokenizer: Any) -> Iterable[Ids]:
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    for start in range(0, len(texts), _BATCH):
        for ids in tokenizer(texts[start : start + _BATCH], add_special_tokens=False, verbose=False)["input_ids"]:
            yield np.array([*ids, *end], dtype=np.int32)


def beginnings(streams: Mapping[str, tokens.Ids]) -> tokens.Feed:
    """Where prompts for the target come from."""
    return tokens.Feed(streams)


def written(model: Any, source: tokens.Store, path: Path, budget: Budget, seed: int, console: Console) -> Ids:
    """`[n, LENGTH]` windows the target wrote, half greedily, half sampled; goes on from what `path` holds."""
    feed = beginnings(source.train)
    return grown(path, budget, console, lambda number: write_batch(model, feed, (seed, number)))


def write_batch(model: Any, feed: tokens.Feed, key: tuple[int, int], rows: int | None = None) -> Ids:
    """One batch of windows `[rows, LENGTH]`: beginnings from `feed`, continued by the target."""
    prompts = feed.draw((rows or ROWS, PROMPT - 1), (*key, 0))
    rng = torch.Generator(device=model.device).manual_seed(key[0] * 1_000_003 + key[1])
    return own_text.continued(model, prompts.to(model.device), rng).cpu().numpy().astype(np.int32)


def feed_of(source: tokens.Store, own: Ids) -> tokens.Feed:
    """What a head sees: the target's own windows from their beginnings, and the given text from anywhere."""
    streams: dict[str, Any] = {**source.train, "own": own.ravel()}
    mix = {name: (1 - OWN_SHARE) * share for name, share in tokens.MIX.items()} | {"own": OWN_SHARE}
    return tokens.Feed(streams, {"own": np.arange(0, own.size, own.shape[1])}, {"own": 1.0}, mix)
