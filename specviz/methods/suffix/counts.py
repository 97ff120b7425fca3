"""What followed what in some texts: a tree of all their suffixes with counts, grown token by token.

A node stands for a word of at most `depth` tokens and counts where it occurs. A word that occurred once is a leaf: what
follows it is read from the text itself, and it becomes a node with children when it occurs again. So memory goes with
what repeats, a new token costs what the suffixes cost that occurred before, and a text that was taken in is taken out
again to the last count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


class CountNode:
    """`children` None: a leaf, whose word goes on at `text[at]`, if that is there."""

    __slots__ = ("at", "children", "count", "text")

    def __init__(self, text: Sequence[int], at: int) -> None:
        self.count = 1
        self.children: dict[int, CountNode] | None = None
        self.text, self.at = text, at


@dataclass(frozen=True, slots=True)
class SuffixPosition:
    """Where a word ends in the tree: at a node, or `ahead` tokens behind a leaf. `depth`: tokens of the word."""

    node: CountNode
    ahead: int
    depth: int

    def following(self) -> list[tuple[int, int, "SuffixPosition"]]:
        """`(token, count, place)` of all that followed; of equals the newest first."""
        node, depth = self.node, self.depth + 1
        if node.children is not None:
            return [
                (token, child.count, SuffixPosition(child, 0, depth))
                for token, child in reversed(node.children.items())
            ]
        at = node.at + self.ahead
        return [(node.text[at], 1, SuffixPosition(node, self.ahead + 1, depth))] if at < len(node.text) else []

    def after(self, token: int) -> "SuffixPosition | None":
        """Where the word and a token end; None: that never occurred."""
        node = self.node
        if node.children is not None:
            child = node.children.get(token)
            return None if child is None else SuffixPosition(child, 0, self.depth + 1)
        at = node.at + self.ahead
        return (
            SuffixPosition(node, self.ahead + 1, self.depth + 1)
            if at < len(node.text) and node.text[at] == token
            else None
        )


class SuffixCounts:
    """All words of at most `depth` tokens of some texts; the newest text still grows."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.root = CountNode((), 0)
        self.root.children = {}
        self._text: list[int] = []
        self._open: list[tuple[CountNode, int]] = []  # suffixes of the text that occurred before, the longest first

    def begin(self) -> None:
        """A new text."""
        self._text, self._open = [], []

    def add(self, token: int) -> None:
        """The text goes on."""
        text = self._text
        text.append(token)
        still: list[tuple[CountNode, int]] = []
        for node, depth in (*self._open, (self.root, 0)):
            child = self._occurs(node, token, text, len(text))
            if child is not None and depth + 1 < self.depth:
                _opened(child)
                still.append((child, depth + 1))
        self._open = still

    @staticmethod
    def _occurs(node: CountNode, token: int, text: Sequence[int], at: int) -> CountNode | None:
        """Count a token behind a node; the node of both where they had occurred before."""
        assert node.children is not None
        child = node.children.get(token)
        if child is None:
            node.children[token] = CountNode(text, at)
        else:
            child.count += 1
        return child

    def matched(self) -> Iterator[SuffixPosition]:
        """Where the suffixes of the growing text end that occurred before, the longest first."""
        return (SuffixPosition(node, 0, depth) for node, depth in self._open)

    def forget(self, text: Sequence[int]) -> None:
        """Take out a text that was taken in, and is not growing any more."""
        for start in range(len(text)):
            node = self.root
            for token in text[start : start + self.depth]:
                assert node.children is not None, "what occurs once was taken out a token earlier"
                child = node.children[token]
                child.count -= 1
                if not child.count:
                    del node.children[token]
                    break
                node = child


def _opened(node: CountNode) -> None:
    """A word that occurred again gets children: what followed it the first time."""
    if node.children is None:
        node.children = {}
        if node.at < len(node.text):
            node.children[node.text[node.at]] = CountNode(node.text, node.at + 1)


class SuffixMatches:
    """The suffixes of one text that occur in the counts of others."""

    def __init__(self, counts: SuffixCounts) -> None:
        self.counts = counts
        self._places: list[SuffixPosition] = []

    def add(self, token: int) -> None:
        """The text goes on."""
        begun = (*self._places, SuffixPosition(self.counts.root, 0, 0))
        went = (place.after(token) for place in begun if place.depth < self.counts.depth)
        self._places = [place for place in went if place is not None]

    def matched(self) -> Iterator[SuffixPosition]:
        """Where they end, the longest first."""
        return iter(self._places)
