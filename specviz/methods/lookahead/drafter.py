"""Lookahead decoding (Fu et al. 2024): the target drafts for itself, in the pass that judges.

Row 0 of the window is the newest token and tokens after it; row r continues each column by one token. A column is a
guess at what would follow the token at its foot, one token longer every round; full ones are n-grams for the pool.

Guesses are chains of point masses under the newest token, so whatever the window holds the text is the target's own.
The window hangs behind them, fed and never judged: ancestors in that tree are exactly what the method's mask lets a
token see. Its best next tokens come back with the verdict. End tokens and the places it begins with are filled with
random tokens of the prompt (stream `other`, which shapes drafts alone).

The pool takes the n-grams of the text as well, those of the prompt first: they cost no row. Guesses and window share
the round's budget of nodes; guesses come first, and the window, made as small as the budget asks, waits for a round
that has room for all of it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec
import numpy as np

from specviz.cost.row_cost import row_cost
from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.decode.sampling import Warper, finite, require
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.model.host import to_device
from specviz.events import Warn
from specviz.events import Window as WindowRecord
from specviz.knobs import Knobs, KnobSpec
from specviz.methods.lookahead.spec import MOST_NODES
from specviz.names import DraftEnd
from specviz.probability.draft import ROOT, Draft
from specviz.probability.host import fetch

Ngram = tuple[int, tuple[int, ...]]  # its first token, the tokens after it


@dataclass(frozen=True, slots=True)
class WindowToken:
    """A token of the window to feed. `parent`: its number among the cells, -1 for the newest token itself."""

    token: int
    parent: int
    row: int
    column: int


@dataclass(slots=True)
class LookaheadWindow:
    """`rows[r][i]`, all rows as long; `size - 1` of them when it is warm. `rows[0][0]` is the newest token."""

    size: int  # N
    rows: list[list[int]]

    @classmethod
    def begin(cls, size: int, newest: int, fillers: Sequence[int]) -> "LookaheadWindow":
        """One row that is longer by what warming up takes off: `fillers` are `W + N - 3` tokens to begin with."""
        return cls(size, [[newest, *fillers]])

    @property
    def warm(self) -> bool:
        return len(self.rows) == self.size - 1

    @property
    def depth(self) -> int:
        """Places between the newest token and the furthest cell."""
        return len(self.rows[0]) + len(self.rows) - 2

    def cells(self) -> list[WindowToken]:
        """What to feed: row 0 is a chain behind the newest token, column i hangs off its cell i (a plain tree)."""
        first = self.rows[0]
        out = [WindowToken(token, k - 1, 0, k + 1) for k, token in enumerate(first[1:])]
        below = list(range(-1, len(first) - 1))  # the cell that column i continues
        for number, row in enumerate(self.rows[1:], 1):
            for column, token in enumerate(row):
                out.append(WindowToken(token, below[column], number, column))
                below[column] = len(out) - 1
        return out

    @property
    def tips(self) -> list[int]:
        """The cells of the newest row, whose best next tokens make another; -1 is the newest token."""
        width = len(self.rows[0])
        if len(self.rows) == 1:
            return list(range(-1, width - 1))
        n_cells = width * len(self.rows) - 1
        return list(range(n_cells - width, n_cells))

    def advance(self, best: Sequence[int], newest: int) -> list[Ngram]:
        """Take the tokens that follow the tips, and move one place; the n-grams that were completed.

        One column however many tokens the text grew by. While it warms up, every row loses its first column; later
        the oldest row leaves, and the one above it, less its first token, follows the newest token.
        """
        if not self.warm:
            first, *others = self.rows
            self.rows = [[newest, *first[2:]], *(row[1:] for row in others), list(best[1:])]
            return []
        stack = [*self.rows[1:], list(best)]
        tails = zip(*stack, strict=True)
        ngrams = [(first, tail) for first, tail in zip(self.rows[0], tails, strict=True)]
        self.rows = [[newest, *stack[0][1:]], *stack[1:]]
        return ngrams


@dataclass(slots=True)
class Pool:
    """By first token at most `most` tails, the least recently seen leaving first."""

    most: int  # G
    tails: dict[int, dict[tuple[int, ...], None]] = field(default_factory=dict)  # the freshest last

    def __len__(self) -> int:
        return sum(map(len, self.tails.values()))

    def learn(self, ngrams: Iterable[Ngram]) -> int:
        """Take n-grams in; how many of them were not there."""
        added = 0
        for first, tail in ngrams if self.most else ():
            tails = self.tails.setdefault(first, {})
            if tail in tails:
                del tails[tail]
            else:
                added += 1
                if len(tails) == self.most:
                    del tails[next(iter(tails))]
            tails[tail] = None
        return added

    def under(self, token: int) -> list[tuple[int, ...]]:
        """The tails of a token, the freshest first."""
        return list(reversed(self.tails.get(token, {})))


@dataclass(slots=True)
class TextReader:
    """The n-grams of a text that grows, each once. `size`: their length; `eos`: tokens that are in none."""

    size: int
    eos: frozenset[int]
    n_read: int = 0  # n-grams that begin before it were given out

    def fresh(self, text: Sequence[int]) -> list[Ngram]:
        """Those that the text holds since the last call, in its order."""
        end = max(self.n_read, len(text) - self.size + 1)
        grams = [tuple(text[i : i + self.size]) for i in range(self.n_read, end)]
        self.n_read = end
        return [(tokens[0], tokens[1:]) for tokens in grams if self.eos.isdisjoint(tokens)]


@dataclass(frozen=True, slots=True)
class Fillers:
    """Tokens of the prompt and how often each occurs; end tokens are none of them."""

    tokens: Sequence[int]
    counts: "np.ndarray[tuple[int], np.dtype[np.float64]]"

    @classmethod
    def of(cls, prompt: Sequence[int], eos: frozenset[int]) -> "Fillers":
        """Of a prompt; of the first token that ends no text where the prompt has no other."""
        known = [token for token in prompt if token not in eos] or [min({*range(len(eos) + 1)} - eos)]
        tokens, counts = np.unique(known, return_counts=True)
        return cls(tokens.tolist(), counts.astype(np.float64))

    def draw(self, ctx: Context, depth: int) -> int:
        """A random one for a place of the window."""
        return self.tokens[ctx.draw("other", depth, self.counts).token]


@dataclass(slots=True)
class _Fed:
    """What the round in hand fed of the window: the rows of its tips, and what their laws are made by."""

    tips: list[int]  # rows of the target pass, 0 the root
    text: list[int]
    warper: Warper
    best: list[int] = field(default_factory=list)  # filled by what is observed


class Lookahead(Drafter):
    """One lane, no model of its own, no cache."""

    calibrated = True

    def __init__(self, knobs: Knobs, free: int) -> None:
        """`free`: nodes of a round where the knobs leave their number open."""
        self.free, self.budget = free, free if knobs["node_budget"] < 0 else knobs["node_budget"]
        self.length = knobs["ngram_size"]
        self.size, self.width = window_shape(self.length, knobs["window"], self.budget)
        self.pool = Pool(knobs["guesses"])
        self.window: LookaheadWindow | None = None
        self._of_text = knobs["text_ngrams"]
        self._reader: TextReader | None = None
        self._fillers: Fillers | None = None
        self._fed: _Fed | None = None
        self._warned = False

    def fitted(self, spec: KnobSpec) -> KnobSpec:
        """An open budget is what this device takes at hardly any cost, as a number that the header can say."""
        return msgspec.structs.replace(spec, default=self.free) if spec.name == "node_budget" else spec

    def propose(self, ctx: Context) -> Draft:
        """The n-grams that the pool holds under the newest token, then the window, which is not judged."""
        added, tree = self._learn(ctx), DraftTree(ctx)
        self._fed = None
        if not ctx.reach or not self.budget:
            return tree.draft("length" if self.budget else "budget")
        n_guesses, cut = self._add_guesses(ctx, tree)
        n_judged = len(tree)
        self._add_window(ctx, tree)
        self._note(ctx, len(tree) - n_judged, n_guesses, added)
        end: DraftEnd = "no_match" if not n_guesses else "budget" if cut else "full"
        if n_guesses and ctx.reach < self.length - 1:
            end = "length"
        return replace(tree.draft(end), n_judged=n_judged)

    def _add_guesses(self, ctx: Context, tree: DraftTree) -> tuple[int, bool]:
        """Guesses as chains under the newest token; how many, and whether the budget ended them."""
        tails = self.pool.under(ctx.tokens[-1])[: self._slots(ctx) // max(1, self.length - 1)]
        for number, tail in enumerate(tails):
            node = ROOT
            for token in tail[: ctx.reach]:
                if len(tree) == self.budget:
                    return number + (node != ROOT), True
                node = tree.add(token, node, cand=number, src={"guess": number})
        return len(tails), False

    def _learn(self, ctx: Context) -> int:
        """What the round before showed, into window and pool; n-grams of it that are new to the pool."""
        added = self._grow(ctx)
        if not self._of_text:
            return added
        first = self._reader is None
        if self._reader is None:
            self._reader = TextReader(self.length, ctx.eos)
        fresh = self.pool.learn(self._reader.fresh(ctx.tokens))
        return added if first else added + fresh  # n-grams of the prompt come from no round

    def _grow(self, ctx: Context) -> int:
        """Begin the window, or move it by what the round before showed; n-grams new to the pool."""
        if self.window is None or self._fillers is None:
            fillers = self._fillers = Fillers.of(ctx.tokens, ctx.eos)
            first = [fillers.draw(ctx, depth) for depth in range(1, self.width + self.size - 2)]
            self.window = LookaheadWindow.begin(self.size, ctx.tokens[-1], first)
            return 0
        if self._fed is None or not self._fed.best:
            self.window.rows[0][0] = ctx.tokens[-1]  # it waited, and stands behind the newest token again
            return 0
        best = self._fed.best
        for column, token in enumerate(best):
            if token in ctx.eos:
                best[column] = self._fillers.draw(ctx, column + 1)
        ctx.counters.n_syncs += 1
        return self.pool.learn(self.window.advance(best, ctx.tokens[-1]))

    def _slots(self, ctx: Context) -> int:
        """Rows that the target's cache can still take."""
        return ctx.rows.cache.capacity - len(ctx.rows.cache.tokens)

    def _add_window(self, ctx: Context, tree: DraftTree) -> None:
        """Hang the window behind the guesses, unless it would reach past the context, the budget or the cache.

        Past context or cache it stays so: the text only grows.
        """
        assert self.window is not None
        cells, base = self.window.cells(), len(tree)
        if ctx.n + self.window.depth > ctx.rows.model.context:
            return
        if self._slots(ctx) < min(self.budget, most_cells(self.size, self.width) + (self.length - 1) * self.pool.most):
            self._warn(ctx)
            return
        if base + len(cells) > self.budget:
            return
        for cell in cells:
            parent = ROOT if cell.parent < 0 else base + cell.parent
            tree.add(cell.token, parent, src={"window": [cell.row, cell.column]})
        tips = [0 if cell < 0 else base + cell + 1 for cell in self.window.tips]
        self._fed = _Fed(tips, list(ctx.tokens), ctx.warper)

    def _warn(self, ctx: Context) -> None:
        if not self._warned:
            message = "the target's cache has no room for the window: nothing more is looked up; use a smaller --window"
            ctx.note(Warn(code="no_window", message=message))
        self._warned = True

    def _note(self, ctx: Context, n_window: int, n_guesses: int, added: int) -> None:
        if ctx.level == "full" and self.window is not None:
            rows = [list(row) for row in self.window.rows] if n_window else []
            ctx.note(
                WindowRecord(
                    n_window=n_window,
                    n_guesses=n_guesses,
                    pool=len(self.pool),
                    added=added,
                    filled=len(self.window.rows),
                    rows=rows,
                )
            )

    def observe(self, seen: Observation) -> None:
        """The best token after every tip of the window, by the target's own processors; always the best one."""
        fed = self._fed
        if fed is None or fed.best or seen.logits is None:  # read already: this round moved no window
            return
        logits = seen.logits.index_select(0, to_device(fed.tips, seen.logits.device))
        paths = [seen.draft.path(row - 1) for row in fed.tips] if fed.warper.needs_prefix else []
        prefixes = [[*fed.text, *path] for path in paths] if paths else None
        scores = fed.warper.scores(logits, prefixes)
        fed.best, sound = fetch(scores.argmax(-1), finite(scores))
        require(sound)


def make(models: FactoryModels, knobs: Knobs) -> Lookahead:
    device = models.target.device.type
    return Lookahead(knobs, nearly_free(partial(row_cost, device), MOST_NODES))


HARDLY = 0.08  # of a pass over one row: a node that costs no more needs no good chance to pay


def nearly_free(cost: Callable[[int], float], most: int) -> int:
    """Nodes, at most `most`, of which none costs more than `HARDLY`. `cost(k)`: a pass over k rows, in passes over
    one, the root's among them."""
    return next((n for n in range(most) if cost(n + 2) - cost(n + 1) > HARDLY), most)


def most_cells(size: int, width: int) -> int:
    """Cells besides the newest token in the largest round of a window for n-grams of `size`, warming up included."""
    return max(rows * (width + size - 1 - rows) - 1 for rows in range(1, size))


def window_shape(size: int, width: int, budget: int) -> tuple[int, int]:
    """`(n-gram size, columns)` of the window that is asked for, or of the largest one that fits a budget of nodes.

    A smaller one keeps at least as many columns as rows, so that its n-grams can still be found behind the newest
    token when they are finished. In the end it is the newest token alone, which feeds nothing.
    """
    if most_cells(size, width) <= budget:
        return size, width
    shapes = ((smaller, columns) for smaller in range(size, 1, -1) for columns in range(width, smaller - 2, -1))
    return next(shape for shape in shapes if most_cells(*shape) <= budget)
