"""The window and the pool of Lookahead decoding, without any model (specbranch.md 8.4).

Row 0 of the window is the newest token and tokens after it; row r continues each column by one token. A column is a
guess at what would follow the token at its foot, one token longer every round; full ones are n-grams for the pool.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
            held = self.tails.setdefault(first, {})
            if tail in held:
                del held[tail]
            else:
                added += 1
                if len(held) == self.most:
                    del held[next(iter(held))]
            held[tail] = None
        return added

    def under(self, token: int) -> list[tuple[int, ...]]:
        """The tails of a token, the freshest first."""
        return list(reversed(self.tails.get(token, {})))
