"""A table model of 16 tokens, and drafts of it: what the synthetic traces are decoded with."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specviz import events as ev
from specviz.events import Event
from specviz.probability.draft import ROOT, Carry, Draft
from specviz.probability.draws import Keys
from specviz.probability.rows import Certain, CertainRows, at, dense

Row = Any  # [V]
# Token 0 ends the text. A newline, a wide character, markup and an escape are there on purpose: text is hostile.
TEXTS = (
    "<|end|>",
    " the",
    " cat",
    " sat",
    " on",
    "\n",
    "def",
    " f",
    "(",
    "x",
    "):",
    " 猫",
    "[red]",
    " \x1b[31m",
    " 1",
    "�",
)
EOS, V = 0, len(TEXTS)
PROMPT = (6, 7, 8, 9, 10, 5)


@dataclass(frozen=True)
class Recipe:
    """What to decode. `seed` keys all draws; `noise` is how far the draft model is from the target."""

    shape: str = "chain"  # chain | tree | none (plain decoding)
    temperature: float = 0.0
    verifier: str | None = None  # None: the default of the contract
    new_tokens: int = 24
    queries: int = 1
    seed: int = 0
    gamma: int = 4
    noise: float = 0.8
    draw: str = "cdf"
    level: str = "full"
    stops: bool = False  # the end token may come
    knob_at: int | None = None  # a gamma change takes effect in this round
    reason: str = "done"
    drawn: bool | None = None  # draw the draft whatever judges it; None: unless `walk` does

    @property
    def sampled(self) -> bool:
        """Whether drafted tokens are drawn from the draft law."""
        return self.drawn if self.drawn is not None else self.rule != "walk"

    @property
    def rule(self) -> str:
        """The verifier that judges."""
        sampled = self.shape == "chain" and self.temperature > 0
        return self.verifier or ("tokenwise" if sampled else "walk")


@dataclass
class Table:
    """Target and draft logits as fixed functions of (last token, position)."""

    recipe: Recipe

    def logits(self, token: int, pos: int, model: str) -> Row:
        """Raw logits `[V]` for the token after `token` at `pos`."""
        rng = np.random.default_rng([token, pos % 7, 99])
        base = rng.normal(size=V) * 2
        base[EOS] = 0.5 if self.recipe.stops else -1e9
        if model == "draft":
            return base + rng.normal(size=V) * self.recipe.noise
        return base

    def law(self, token: int, pos: int, model: str) -> Row:
        """The warped law: what is sampled from."""
        logits = self.logits(token, pos, model)
        if self.recipe.temperature == 0:
            return Certain(int(logits.argmax()), V)
        return softmax(logits / self.recipe.temperature)


def softmax(logits: Row) -> Row:
    """`[V]` probabilities."""
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@dataclass
class Clock:
    """Nanoseconds that only go on when told to."""

    now: int = 1_000_000_000
    count: int = 0

    def stamp(self, event: Event, q: int, r: int) -> Event:
        """The event with its number, time, query and round."""
        event.i, event.t, event.q, event.r = self.count, self.now, q, r
        self.count += 1
        return event


@dataclass
class Run:
    """A run in the making: the events so far and what the next round needs."""

    recipe: Recipe
    clock: Clock = field(default_factory=Clock)
    tokens: list[int] = field(default_factory=list)
    next_id: int = 0
    gamma: int = 4
    version: int = 0
    carry: Carry | None = None  # of naive HSD: the next round continues a block

    def __post_init__(self) -> None:
        self.table, self.gamma = Table(self.recipe), self.recipe.gamma


def draft_of(run: Run, keys: Keys, room: int) -> tuple[Draft, list[Event]]:
    if run.carry is not None:
        law = dense(run.table.law(run.tokens[-1], len(run.tokens), "draft"))
        return Draft(law_rows=np.array([law]), carry=run.carry, draft_end="length"), []
    if run.recipe.shape == "none" or room < 1:
        return Draft(draft_end="length"), []
    build = _chain if run.recipe.shape == "chain" else _tree
    draft, born = build(run, keys, room)
    run.next_id += len(born)
    return draft, born


def _chain(run: Run, keys: Keys, room: int) -> tuple[Draft, list[Event]]:
    n, last, laws, tokens, born = len(run.tokens), run.tokens[-1], [], [], []
    sampled = run.recipe.temperature > 0 and run.recipe.sampled
    for k in range(min(run.gamma, room)):
        law, raw = run.table.law(last, n + k, "draft"), softmax(run.table.logits(last, n + k, "draft"))
        last = keys.draw("draft", n + k, law).token if sampled else int(raw.argmax())
        laws.append(dense(law))
        tokens.append(last)
        logq = ev.log6(at(law, last)) if sampled else None
        born.append(node_of(run, len(tokens) - 1, k - 1, k + 1, last, raw, logq, "sampled" if sampled else "argmax"))
    count = len(tokens)
    return Draft(
        tokens=tuple(tokens),
        parents=tuple(range(-1, count - 1)),
        ids=tuple(e.node for e in born),
        n_judged=count,
        n_fed=count,
        law_rows=np.array(laws) if sampled else None,
        row_of=tuple(range(count)) if sampled else (-1,) * count,
        draft_end="full" if count == run.gamma else "length",
    ), born


def _tree(run: Run, keys: Keys, room: int) -> tuple[Draft, list[Event]]:
    """Top 3 of the root, then 2 children of the best 3 nodes a level, 3 levels; the likeliest 8 stay."""
    n, rows, level = len(run.tokens), [], [(-1, 0.0, run.tokens[-1])]
    for depth in range(1, min(3, room) + 1):
        grown = []
        for parent, cum, last in level:
            raw = softmax(run.table.logits(last, n + depth - 1, "draft"))
            for token in np.argsort(-raw, kind="stable")[: 3 if depth == 1 else 2]:
                grown.append((len(rows), cum + float(np.log(raw[token])), int(token)))
                rows.append((parent, depth, int(token), raw, grown[-1][1]))
        level = sorted(grown, key=lambda g: (-g[1], g[0]))[:3]
    kept = sorted(sorted(range(len(rows)), key=lambda i: (-rows[i][4], rows[i][1], i))[:8])
    place = {node: k for k, node in enumerate(kept)} | {ROOT: ROOT}
    born = [
        node_of(run, i, parent, d, t, raw, None, "argmax", i in place) for i, (parent, d, t, raw, _) in enumerate(rows)
    ]
    draft = Draft(
        tokens=tuple(rows[i][2] for i in kept),
        parents=tuple(place[rows[i][0]] for i in kept),
        ids=tuple(born[i].node for i in kept),
        n_judged=len(kept),
        n_fed=len(kept),
        row_of=(-1,) * len(kept),
    )
    return draft, born


def node_of(
    run: Run,
    number: int,
    parent: int,
    depth: int,
    token: int,
    raw: Row,
    logq: float | None,
    mode: Any,
    kept: bool = True,
) -> ev.Node:
    first = run.next_id
    return ev.Node(
        node=first + number,
        parent=parent if parent < 0 else first + parent,
        depth=depth,
        pos=len(run.tokens) - 1 + depth,
        token=token,
        text=TEXTS[token],
        logq=logq,
        log_conf=ev.log6(float(raw[token])),
        mode=mode,
        kept=kept,
        fed=kept,
        bytes="ff" if token == V - 1 else None,
        top=top_of(run, raw),
        entropy_q=full(run, ev.six(entropy(raw))),
    )


def target_rows(run: Run, draft: Draft) -> Any:
    n = len(run.tokens)
    laws = [run.table.law(run.tokens[-1], n, "target")]
    laws += [run.table.law(t, n + d, "target") for t, d in zip(draft.tokens, draft.depths, strict=True)]
    if run.recipe.temperature == 0:
        return CertainRows(tuple(law.token for law in laws), V)
    return np.array(laws)


def full(run: Run, value: Any) -> Any:
    return value if run.recipe.level == "full" else None


def top_of(run: Run, raw: Row) -> Any:
    return full(run, [(int(y), ev.log6(float(raw[y]))) for y in np.argsort(-raw, kind="stable")[:8]])


def entropy(row: Row) -> float:
    """In nats."""
    return float(-sum(p * np.log(p) for p in row if p > 0))


def rank(row: Row, token: int) -> int:
    """1 for the likeliest token."""
    return int((row > row[token]).sum()) + 1
