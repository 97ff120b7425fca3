"""The text that parts of a target learn on: given beginnings, and what the target writes itself after them.

A drafter is judged on what the target says, not on what people wrote: on its own greedy text the target repeats itself,
and a draft model that has only read people follows it badly (DistillSpec, Zhou et al. 2023, makes the same point and
the same remedy). So most of what parts learn on is the target's own. A batch is drawn by its number alone: a writing
that was interrupted goes on with the very same text. A file of it says which target wrote it, in chats or behind plain
text, at which temperatures; that of another target teaches the wrong thing, so it is refused.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from specviz.engine.decode.sampling import nucleus
from specviz.errors import SpecvizError
from specviz_train.common.console import Console
from specviz_train.common.files import keep, kept, save_arrays, unreadable
from specviz_train.common.optim import Budget
from specviz_train.common.training_text import MIX, Given, Ids, Side, TrainingText, WindowFeed
from specviz_train.common.workers import Workers

Windows = NDArray[np.int32]  # [n, length]


@dataclass(frozen=True, slots=True)
class OwnTextConfig:
    """How a batch is written: `rows` windows of `length` tokens; a document is given for `prompt` tokens of each.

    Row r is written at temperature `temperatures[r]`, in a circle, 0 greedily; inside the nucleus of `top_p`.
    """

    rows: int
    prompt: int
    length: int = 257
    temperatures: tuple[float, ...] = (0.0, 1.0)
    top_p: float | None = None


PAIR = OwnTextConfig(96, 48)  # for the draft model of a pair
HEADS = OwnTextConfig(64, 32)  # for exit heads and adapters
# For drafters of trees: four rows of ten greedy, three at 1, one each at .3, .5 and .7.
TREES = OwnTextConfig(80, 32, temperatures=(0.0, 1.0, 0.0, 0.5, 0.0, 1.0, 0.3, 0.0, 0.7, 1.0), top_p=0.95)

OWN_SHARE = 0.75  # of the windows a head sees: heads are asked about the target's own text


@dataclass(frozen=True, slots=True)
class OwnWindows:
    """`ids` `[n, length]`; `written` `[n, length]`: the tokens that the target wrote, all others were given.

    Only what it wrote carries a loss; the rest is context.
    """

    ids: Windows
    written: NDArray[np.bool_]

    @classmethod
    def behind(cls, ids: Windows, prompt: int) -> "OwnWindows":
        """Windows of which the first `prompt` tokens were given."""
        return cls(ids, np.broadcast_to(np.arange(ids.shape[1]) >= prompt, ids.shape))

    @classmethod
    def joined(cls, parts: Sequence["OwnWindows"]) -> "OwnWindows":
        """All of them, in that order."""
        return cls(np.concatenate([part.ids for part in parts]), np.concatenate([part.written for part in parts]))

    def picked(self, rows: int, key: tuple[int, int, int]) -> Ids:
        """Numbers `[rows]` of some windows; `key` is seed, step, part."""
        return np.random.default_rng(key).integers(len(self.ids), size=rows)

    def in_turn(self, rows: int, number: int, seed: int) -> Ids:
        """Numbers `[rows]` of the windows of batch `number`: all come once before any comes again, in another order."""
        n = len(self.ids)
        places = range(number * rows, (number + 1) * rows)
        orders = {lap: np.random.default_rng((seed, lap)).permutation(n) for lap in {place // n for place in places}}
        return np.array([orders[place // n][place % n] for place in places])

    def at(self, picked: Any) -> tuple[Tensor, Tensor]:
        """Tokens and what of them was written, of some windows."""
        return torch.from_numpy(self.ids[picked].astype(np.int64)), torch.from_numpy(self.written[picked].copy())

    def split(self, rows: int) -> list[tuple[Tensor, Tensor]]:
        """All windows, some at a time."""
        return [self.at(slice(first, first + rows)) for first in range(0, len(self.ids), rows)]


class _RoomLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer in room that doubles: the library's own layer copies all of them at every token."""

    room: Tensor | None = None  # [2, rows, heads, places, dim]

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        new = torch.stack([key_states, value_states])
        filled = self.get_seq_length()
        wanted = filled + new.shape[-2]
        if self.room is None or self.room.shape[-2] < wanted:
            roomier = new.new_empty(*new.shape[:3], max(2 * filled, wanted + 64), new.shape[-1])
            if self.room is not None:
                roomier[..., :filled, :] = self.room[..., :filled, :]
            self.room = roomier
        self.room[..., filled:wanted, :] = new
        self.keys, self.values = self.room[..., :wanted, :]
        return self.keys, self.values


@torch.no_grad()
def continued(
    model: Any,
    prompts: Sequence[Given],
    how: OwnTextConfig,
    rng: torch.Generator,
    stops: frozenset[int] = frozenset(),
) -> OwnWindows:
    """Rows that begin with what they are given, grown to `how.length` tokens by the target.

    A row that ends with one of `stops` is given the next thing, if there is any. All rows stand at the same place, so
    none needs padding: a row whose beginning is longer is still told it while others are written.
    """
    circle = [how.temperatures[row % len(how.temperatures)] for row in range(len(prompts))]
    chosen = torch.tensor(circle, device=model.device)
    waiting = [deque(next(texts)) for texts in prompts]
    n = min(min(map(len, waiting)), how.length)
    new = torch.tensor([[row.popleft() for _ in range(n)] for row in waiting], device=model.device)
    cache: Any = Cache(layer_class_to_replicate=_RoomLayer)
    tokens, written = [new], [torch.zeros(new.shape, dtype=torch.bool)]
    last = torch.tensor([-1], device=model.device)  # picked, rows lie together; cut, a CPU's product of them crawls
    for _ in range(how.length - n):
        logits = model(input_ids=new, past_key_values=cache, use_cache=True, logits_to_keep=last).logits[:, -1].float()
        own = [not row for row in waiting]
        picked = _picked(logits, chosen, how.top_p, rng)
        new = torch.tensor(
            [[token if mine else row.popleft()] for row, token, mine in zip(waiting, picked, own, strict=True)],
            device=model.device,
        )
        for row, token, mine, more in zip(waiting, picked, own, prompts, strict=True):
            if mine and token in stops:
                row.extend(next(more, ()))
        tokens.append(new)
        written.append(torch.tensor(own)[:, None])
    ids = torch.cat(tokens, dim=1).cpu().numpy().astype(np.int32)
    return OwnWindows(ids, torch.cat(written, dim=1).numpy())


def _picked(logits: Tensor, temperatures: Tensor, top_p: float | None, rng: torch.Generator) -> list[int]:
    """A token a row of `logits` `[rows, V]`, at the row's temperature."""
    new, warm = logits.argmax(-1), temperatures > 0
    if warm.any():
        new[warm] = _drawn(logits[warm] / temperatures[warm, None], 1.0 if top_p is None else top_p, rng)
    return [int(token) for token in new]


LIKELIEST = 256  # drawn among first: of a large vocabulary, drawing takes longer than the target's pass


def _drawn(scores: Tensor, top_p: float, rng: torch.Generator) -> Tensor:
    """A token `[n]` a row of `scores` `[n, V]`, inside the nucleus."""
    kept, order = scores.topk(min(LIKELIEST, scores.shape[-1]), -1)
    probs = (kept - scores.logsumexp(-1, keepdim=True)).exp()
    before = probs.cumsum(-1) - probs
    inside = probs.masked_fill(before >= top_p, 0.0)
    inside[:, 0] = probs[:, 0]  # the likeliest is always inside
    tokens = order.gather(-1, torch.multinomial(inside, 1, generator=rng))[:, 0]
    wide = before[:, -1] + probs[:, -1] < top_p
    if wide.any():
        spread = nucleus(scores[wide], top_p) if top_p < 1 else scores[wide]
        tokens[wide] = torch.multinomial(spread.softmax(-1), 1, generator=rng)[:, 0]
    return tokens


def write_batch(
    model: Any,
    prompts: Sequence[Given],
    key: tuple[int, int],
    how: OwnTextConfig,
    stops: frozenset[int] = frozenset(),
) -> OwnWindows:
    """One batch by its key (seed, number), behind what its rows are given."""
    rng = torch.Generator(device=model.device).manual_seed(key[0] * 1_000_003 + key[1])
    return continued(model, prompts, how, rng, stops)


@dataclass(frozen=True, slots=True)
class TextWriter:
    """A target that writes: the text it begins from, on one side of the split, and the tokens it ends with."""

    model: Any
    text: TrainingText
    stops: frozenset[int] = frozenset()
    side: Side = "train"

    def batch(self, key: tuple[int, int], how: OwnTextConfig, rows: int | None = None) -> OwnWindows:
        """One batch by its key (seed, number)."""
        prompts = self.text.begin(self.side, rows or how.rows, how.prompt, (*key, 0))
        return write_batch(self.model, prompts, key, how, self.stops)


def heads_feed(text: TrainingText, own: Windows) -> WindowFeed:
    """What a head sees: the target's own windows from their beginnings, and the given text from anywhere."""
    streams: Mapping[str, Ids] = {**text.streams, "own": own.ravel()}
    mix = {name: (1 - OWN_SHARE) * share for name, share in MIX.items()} | {"own": OWN_SHARE}
    return WindowFeed(streams, {"own": np.arange(0, own.size, own.shape[1])}, {"own": 1.0}, mix)


def trees_writing(length: int = 0) -> OwnTextConfig:
    """How windows for drafters of trees are written; `length` 0: the usual one."""
    return replace(TREES, length=length or TREES.length)


FORMAT = "specviz-own-text"
Facts = Mapping[str, Any]
_APART = 10_000  # batches between the numbers of one process and those of the next


def grown(
    path: Path,
    budget: Budget,
    console: Console,
    write: Callable[[int], OwnWindows],
    prompt: int = 0,
    facts: Facts | None = None,
) -> OwnWindows:
    """All windows of `path`, more of them written while there is time.

    `write` makes batch number n; `prompt`: see `read`; `facts`: what a new file says of itself.
    """
    batches, seconds = read(path, prompt) if path.exists() else ([], 0.0)
    extra = {} if facts is None else {"facts": np.array(json.dumps(dict(facts)))}
    with console.bar("own text", budget) as report:
        while not batches or budget.progress(seconds, len(batches)) < 1.0:
            began = time.monotonic()
            batches.append(write(len(batches)))
            seconds += (took := time.monotonic() - began)
            ids, written = (np.stack([getattr(batch, name) for batch in batches]) for name in ("ids", "written"))
            save_arrays(path, batches=ids, written=written, seconds=np.array(seconds), **extra)
            report(budget.progress(seconds, len(batches)), 0.0, batches[-1].ids.size / took)
    return OwnWindows.joined(batches)


def read(path: Path, prompt: int = 0) -> tuple[list[OwnWindows], float]:
    """The batches in a file and the seconds they took. Raises SpecvizError in one line for what is no such file.

    `prompt`: tokens that were given of every window, where the file is of before it said so itself.
    """
    try:
        with path.open("rb") as stream, np.load(stream) as arrays:
            batches, seconds = arrays["batches"], float(arrays["seconds"])
            if "written" not in arrays.files:
                return [OwnWindows.behind(batch, prompt) for batch in batches], seconds
            pairs = zip(batches, arrays["written"], strict=True)
            return [OwnWindows(ids, written) for ids, written in pairs], seconds
    except (OSError, ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
        raise unreadable(path, error) from error


def facts_of(path: Path) -> dict[str, Any]:
    """What a file says of itself. Raises SpecvizError for one that `specviz train text` did not write."""
    wrong = SpecvizError(f"--own-text {path}: not what a target wrote; make such a file with specviz train text")
    try:
        with path.open("rb") as stream, np.load(stream) as arrays:
            facts = json.loads(str(arrays["facts"]))
    except (OSError, ValueError, KeyError, EOFError, TypeError, RecursionError, BadZipFile) as error:
        raise wrong from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise wrong
    return facts


def given_windows(path: Path, target: str, chat: bool) -> OwnWindows:
    """The windows of a file, for the target with the fingerprint `target`. Raises SpecvizError for another's."""
    facts = facts_of(path)
    if facts.get("target") != target:
        raise SpecvizError(
            f"--own-text {path}: written by another target ({facts.get('target_name')}); "
            "let this one write with specviz train text"
        )
    if facts.get("chat") != chat:
        kinds = {True: ("chats", "--chat"), False: ("plain text", "--raw")}
        (wrote, flag), (asked, _) = kinds[bool(facts.get("chat"))], kinds[chat]
        raise SpecvizError(f"--own-text {path}: it holds {wrote}, and {asked} was asked for; give {flag}")
    return OwnWindows.joined(read(path)[0])


def written_for_heads(writer: TextWriter, work: Path, budget: Budget, seed: int, console: Console) -> Windows:
    """`[n, length]` windows the target wrote; goes on from what `work` holds."""
    return grown(work / "own_text.npz", budget, console, lambda number: writer.batch((seed, number), HEADS)).ids


def written_for_trees(
    writer: TextWriter,
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
    grown(
        files[workers.rank], budget, console, lambda n: writer.batch((seed, n + _APART * workers.rank), how), how.prompt
    )
    workers.wait()
    return OwnWindows.joined([batch for path in files for batch in read(path, how.prompt)[0]])


def first_windows(work: Path, windows: OwnWindows) -> OwnWindows:
    """The windows there were when the run in `work` began: what is counted on text is, however much came since."""
    path = work / "begun.json"
    if not path.exists():
        keep(path, {"windows": len(windows.ids)})
    n = kept(path).get("windows", 0)
    return OwnWindows(windows.ids[:n], windows.written[:n])
