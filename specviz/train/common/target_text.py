"""The text that parts of a target learn on: given documents, and what the target writes itself after their beginnings.

A drafter is judged on what the target says, not on what people wrote: on its own greedy text the target repeats itself,
and a draft model that has only read people follows it badly (DistillSpec, Zhou et al. 2023, makes the same point and
the same remedy). So most of what parts learn on is the target's own. A batch is drawn by its number alone: a writing
that was interrupted goes on with the very same text.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from specviz.engine.decode.sampling import nucleus
from specviz.errors import SpecvizError
from specviz.train.common import corpus
from specviz.train.common.console import Console
from specviz.train.common.files import save_arrays, unreadable
from specviz.train.common.optim import Budget
from specviz.train.common.tokens import MIX, Ids, TokenStore, WindowFeed
from specviz.train.common.workers import Workers

Windows = NDArray[np.int32]  # [n, length]


@dataclass(frozen=True, slots=True)
class Writing:
    """How a batch is written: `rows` windows of `length` tokens, the first `prompt` of each given.

    Row r is written at temperature `temperatures[r]`, in a circle, 0 greedily; inside the nucleus of `top_p`.
    """

    rows: int
    prompt: int
    length: int = 257
    temperatures: tuple[float, ...] = (0.0, 1.0)
    top_p: float | None = None


PAIR = Writing(96, 48)  # for the draft model of a pair
HEADS = Writing(64, 32)  # for exit heads and adapters
# For drafters of trees (specblock.md 7.1): four rows of ten greedy, three at 1, one each at .3, .5 and .7.
TREES = Writing(80, 32, temperatures=(0.0, 1.0, 0.0, 0.5, 0.0, 1.0, 0.3, 0.0, 0.7, 1.0), top_p=0.95)

MOST_CHARS = {"train": 12e6, "held out": 0.8e6}
N_SUM_PAGES = 4_000
OWN_SHARE = 0.75  # of the windows a head sees: heads are asked about the target's own text (specbound.md 8.3)
_BATCH = 256  # documents handed to the tokenizer at once
_APART = 10_000  # batches between the numbers of one process and those of the next


def given(wanted: corpus.CorpusRequest, tokenizer: Any) -> TokenStore:
    """Documents of this machine and the user's files, a fair share of each domain, encoded by the target's tokenizer.

    Raises SpecvizError when too little is left to train on or to hold out.
    """
    documents = corpus.gather(wanted)
    train = _streams([each for each in documents if not each.held_out], MOST_CHARS["train"], tokenizer)
    held_out = _streams([each for each in documents if each.held_out], MOST_CHARS["held out"], tokenizer)
    for side, streams in (("train on", train), ("hold out", held_out)):
        if sum(map(len, streams.values())) < 4 * HEADS.length:
            raise SpecvizError(f"too little text to {side}: give more with --text, or add --packages")
    return TokenStore(train, held_out)


def _streams(documents: list[corpus.Document], most: float, tokenizer: Any) -> dict[str, Windows]:
    found: dict[str, Windows] = {}
    for domain, share in MIX.items():
        room, texts = share * most, []
        for each in (each for each in documents if each.domain == domain):
            if room <= 0:
                break
            texts.append(each.text[: int(room)])
            room -= len(each.text)
        if texts:
            found[domain] = np.concatenate([*_encoded(texts, tokenizer)])
    return found


def _encoded(texts: list[str], tokenizer: Any) -> Iterator[Windows]:
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    for start in range(0, len(texts), _BATCH):
        for ids in tokenizer(texts[start : start + _BATCH], add_special_tokens=False, verbose=False)["input_ids"]:
            yield np.array([*ids, *end], dtype=np.int32)


@torch.no_grad()
def continued(model: Any, prompts: Tensor, how: Writing, rng: torch.Generator) -> Tensor:
    """`prompts` `[rows, n]` grown to `how.length` tokens by the target."""
    circle = [how.temperatures[row % len(how.temperatures)] for row in range(len(prompts))]
    chosen = torch.tensor(circle, device=prompts.device)
    warm = chosen > 0
    cache, new, tokens = DynamicCache(), prompts, [prompts]
    for _ in range(how.length - prompts.shape[1]):
        logits = model(input_ids=new, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()
        new = logits.argmax(-1, keepdim=True)
        if warm.any():
            scores = logits[warm] / chosen[warm, None]
            scores = scores if how.top_p is None else nucleus(scores, how.top_p)
            new[warm] = torch.multinomial(scores.softmax(-1), 1, generator=rng)
        tokens.append(new)
    return torch.cat(tokens, dim=1)


def write_batch(model: Any, feed: WindowFeed, key: tuple[int, int], how: Writing, rows: int | None = None) -> Windows:
    """One batch `[rows, length]` by its key (seed, number): beginnings from `feed`, continued by the target."""
    prompts = feed.draw((rows or how.rows, how.prompt - 1), (*key, 0)).to(model.device)
    rng = torch.Generator(device=model.device).manual_seed(key[0] * 1_000_003 + key[1])
    out: Windows = continued(model, prompts, how, rng).cpu().numpy().astype(np.int32)
    return out


def grown(path: Path, budget: Budget, console: Console, write: Callable[[int], Windows]) -> Windows:
    """All windows `[n, length]` of `path`, more of them written while there is time. `write` makes batch number n."""
    batches, seconds = read(path) if path.exists() else ([], 0.0)
    with console.bar("own text", budget) as report:
        while not batches or budget.progress(seconds, len(batches)) < 1.0:
            began = time.monotonic()
            batches.append(write(len(batches)))
            seconds += (took := time.monotonic() - began)
            save_arrays(path, batches=np.stack(batches), seconds=np.array(seconds))
            report(budget.progress(seconds, len(batches)), 0.0, batches[-1].size / took)
    return np.concatenate(batches)


def read(path: Path) -> tuple[list[Windows], float]:
    """The batches in a file and the seconds they took. Raises SpecvizError in one line for what is no such file."""
    try:
        with np.load(path) as arrays:
            return list(arrays["batches"]), float(arrays["seconds"])
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise unreadable(path, error) from error


def written_for_heads(
    model: Any, source: TokenStore, work: Path, budget: Budget, seed: int, console: Console
) -> Windows:
    """`[n, length]` windows the target wrote; goes on from what `work` holds."""
    feed = WindowFeed(source.train)
    return grown(work / "own_text.npz", budget, console, lambda number: write_batch(model, feed, (seed, number), HEADS))


def heads_feed(source: TokenStore, own: Windows) -> WindowFeed:
    """What a head sees: the target's own windows from their beginnings, and the given text from anywhere."""
    streams: Mapping[str, Ids] = {**source.train, "own": own.ravel()}
    mix = {name: (1 - OWN_SHARE) * share for name, share in MIX.items()} | {"own": OWN_SHARE}
    return WindowFeed(streams, {"own": np.arange(0, own.size, own.shape[1])}, {"own": 1.0}, mix)


@dataclass(frozen=True, slots=True)
class OwnWindows:
    """`[n, length]` windows; the first `answer_from` tokens of each were given, the target wrote the rest.

    Only what it wrote carries a loss; the beginnings are context.
    """

    ids: Ids
    answer_from: int

    def draw(self, rows: int, key: tuple[int, int, int]) -> Tensor:
        """`[rows, length]`; `key` is seed, step, part."""
        picked = np.random.default_rng(key).integers(len(self.ids), size=rows)
        return torch.from_numpy(self.ids[picked].astype(np.int64))


def trees_writing(length: int = 0) -> Writing:
    """How windows for drafters of trees are written; `length` 0: the usual one."""
    return replace(TREES, length=length or TREES.length)


def written_for_trees(
    model: Any,
    feed: WindowFeed,
    work: Path,
    budget: Budget,
    seed: int,
    console: Console,
    workers: Workers | None = None,
    length: int = 0,
) -> OwnWindows:
    """Windows the target wrote; goes on from what the files in `work` hold. Every process writes its share."""
    workers = workers or Workers()
    files = [work / ("own_text.npz" if rank == 0 else f"own_text-{rank}.npz") for rank in range(workers.count)]
    how = trees_writing(length)

    def batch(number: int) -> Windows:
        return write_batch(model, feed, (seed, number + _APART * workers.rank), how)

    grown(files[workers.rank], budget, console, batch)
    workers.wait()
    return OwnWindows(np.concatenate([batch for path in files for batch in read(path)[0]]), how.prompt)
