"""Small networks, lessons made up for them, and streams of real sessions with a drafter that learns."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from methods.specblock.small import VOCAB, Text
from methods.specblock.stage import trained
from specviz.commands import Prompt, Start
from specviz.engine.decode.drafter import QueryEnd
from specviz.engine.decode.round import QueryStats
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.events import Event, decode, encode
from specviz.knobs import Knobs
from specviz.methods import get_method
from specviz.methods.online.bandit import QuerySurprise
from specviz.methods.online.batches import HELD_OUT, Laws, QueryBatch, QueryCollector, Slot
from specviz.methods.online.update import pair_states
from specviz.methods.specblock.network import KIND, BlockNetwork
from specviz.methods.trained.vocabulary import Vocabulary
from support.models import build, save

PROMPTS = ("ab ab ab", "xyz x", "the cat the cat", "12 12 1", "b", "ab ba ab")


def lesson(
    n_pairs: int = 24, seed: int = 1, first: int = 4, sure: float = 6.0, period: int = 0
) -> tuple[QueryBatch, Text]:
    """Random features and tokens; the target is sure of the tokens that follow. Every fifth row is held out.

    With a `period` the tokens go round, so that what is learnt of some places holds at others.
    """
    text = Text(n_pairs, seed=seed)
    if period:
        text.tokens = 5 + 11 * (torch.arange(n_pairs + 1)[None] % period)
    tokens = text.tokens[0]
    logits = torch.zeros(n_pairs - first, VOCAB, dtype=torch.float64)
    logits[torch.arange(n_pairs - first), tokens[first + 1 :]] = sure
    is_held_out = torch.arange(n_pairs - first) % HELD_OUT == 0
    return QueryBatch(text.features[0], tokens, Laws.of(logits, Vocabulary(VOCAB)), first, is_held_out), text


def spoken(net: BlockNetwork, batch: QueryBatch, text: Text) -> list[Slot]:
    """All of the lesson's root-block slots, as if every pair had begun a round and been right throughout."""
    with torch.no_grad():
        states = pair_states(net, text.embed, batch)
    out = []
    for pair in range(batch.n_pairs):
        for slot in range(net.slots):
            row = pair + 1 + slot - batch.first
            if 0 <= row < len(batch.laws):
                token = int(batch.tokens[pair + 2 + slot])
                out.append(Slot(batch, states[pair, slot], pair, 1, slot, row, token, bool(batch.held[row])))
    return out


class Told(QueryCollector):
    """A query's notes as a test wants them."""

    def __init__(self, slots: list[Slot], surprise: list[float], rounds: int, n_tokens: int = 40) -> None:
        super().__init__(Vocabulary(VOCAB), ())
        self.slots, self.surprise, self.n, self.n_new = slots, surprise, rounds, n_tokens

    @property
    def n_tokens(self) -> int:
        return self.n_new

    def signal(self) -> QuerySurprise:
        surprise = QuerySurprise()
        for prob in self.surprise:
            surprise.round([prob])
        for _ in range(self.n - len(self.surprise)):
            surprise.round()
        return surprise

    def lesson(self, first_token: int) -> list[Slot]:
        return self.slots


class Ticks:
    """A clock that a test moves: every look at it costs `step` nanoseconds."""

    def __init__(self, step: int = 1_000_000) -> None:
        self.now, self.step = 0, step

    def __call__(self) -> int:
        self.now += self.step
        return self.now


def knobs(**changes: Any) -> Knobs:
    """Of `specblock`, learning."""
    return get_method("specblock").table.knobs({"adapt": "on", **changes})


def ended(query: int = 0, tau: float = 2.0, seconds: float = 2.0, **changes: Any) -> QueryEnd:
    """A query of twenty rounds."""
    rounds = 20
    served = QueryStats(seconds, seconds, rounds, round(tau * rounds), [rounds])
    return QueryEnd(query, knobs(**changes), served, "code")


def loaded(root: Path) -> tuple[Pair, str]:
    """A small target from disk in float64, and a folder with a random block drafter for it."""
    pair = load_pair(save(build("llama", seed=1), root), needs_draft=False, dtype="float64", threads=1)
    KIND.write(root / "blocks", trained(pair.target.adapter))
    return pair, str(root / "blocks")


Decoded = tuple[LocalRun, list[Event]]


def decoded(
    pair: Pair,
    method: str,
    prompts: tuple[str, ...] = PROMPTS,
    level: Any = "full",
    between: Callable[[LocalRun], None] | None = None,
    **options: Any,
) -> Decoded:
    """A whole stream through lines and back. `between` is called after every round."""
    lines: list[bytes] = []
    stream = [Prompt(text=text, domain="code" if k % 2 else "prose") for k, text in enumerate(prompts)]
    start = Start(stream=stream, method=method, knobs={"max_new_tokens": 20, **options}, level=level)
    run = LocalRun(pair, start, lambda event: lines.append(encode(event)))
    for _ in run.rounds():
        if between is not None:
            between(run)
    events = [decode(line) for line in lines]
    assert None not in events
    return run, [event for event in events if event is not None]


def texts(events: list[Event]) -> list[list[int]]:
    """New tokens by query."""
    from specviz.events import Commit

    out: dict[int, list[int]] = {}
    for event in events:
        if isinstance(event, Commit):
            out.setdefault(event.q, []).extend(event.tokens)
    return [out[q] for q in sorted(out)]
