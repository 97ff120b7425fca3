"""`SignSearch`: in which lines of a block which signs stand, in few passes over it.

Signs are held under stems that several of them have in common (`draft` of `n_draft `, `draft:`, ..): where the stem
stands nowhere in a block, none of its signs is looked for.
"""

from collections.abc import Sequence
from itertools import combinations

_STEM = 5  # characters of the shortest stem: shorter ones stand in every log


class SignSearch:
    """The signs of kinds; `groups`: of kind k those at index k."""

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        kinds: dict[str, int] = {}  # a bit a kind
        for k, signs in enumerate(groups):
            for sign in signs:
                kinds[sign] = kinds.get(sign, 0) | 1 << k
        self._by_stem = [(stem, [(sign, kinds[sign]) for sign in signs]) for stem, signs in stems(list(kinds)).items()]
        self._indices: dict[int, tuple[int, ...]] = {}  # kinds by their bits

    def lines(self, block: str) -> dict[int, tuple[int, ...]]:
        """Where lines with signs begin in a block of whole lines, in order, and of which kinds, by index."""
        starts: dict[int, int] = {}
        find, line_before, known = block.find, block.rfind, starts.get
        for stem, signs in self._by_stem:
            if stem not in block:
                continue
            for sign, mine in signs:
                at = find(sign)
                while at >= 0:
                    start = line_before("\n", 0, at) + 1
                    starts[start] = known(start, 0) | mine
                    end = find("\n", at)
                    at = find(sign, end) if end >= 0 else -1
        return {start: self._kinds(starts[start]) for start in sorted(starts)}

    def _kinds(self, bits: int) -> tuple[int, ...]:
        kinds = self._indices.get(bits)
        if kinds is None:
            kinds = self._indices[bits] = tuple(k for k in range(bits.bit_length()) if bits >> k & 1)
        return kinds


def stems(signs: Sequence[str]) -> dict[str, list[str]]:
    """Signs by a text that all of a group hold; of one that shares nothing by itself."""
    out: dict[str, list[str]] = {}
    left = list(dict.fromkeys(signs))
    while left:
        holders: dict[str, list[str]] = {}
        for sign in left:
            for a, b in combinations(range(len(sign) + 1), 2):
                if b - a >= _STEM:
                    mine = holders.setdefault(sign[a:b], [])
                    if sign not in mine:
                        mine.append(sign)
        stem = max(holders, key=lambda part: (len(holders[part]), len(part)), default="")
        if len(holders.get(stem, ())) < 2:
            return out | {sign: [sign] for sign in left}
        out[stem] = holders[stem]
        left = [sign for sign in left if sign not in holders[stem]]
    return out
