"""The candidates of a draft: its root-to-leaf paths, in the order they are tried. Not a verifier.

A path owns the nodes that no earlier path holds; `shared` counts the others, which are leading ones. Paths come in the
order of the id of their first own node, which is the order they were drawn in: a node's eldest child continues its
parent's path, every other child begins a path. Parallel chains, a caterpillar and a drawn tree are all read this way.

Row arithmetic that the joint rules need, on numpy, torch and object arrays and on certain rows. Not a verifier.

Nothing here looks at a value: on a device nothing waits for it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from specviz.probability.arrays import np
from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import Draw
from specviz.probability.rows import Certain, CertainRows, Row, Rows, namespace


@dataclass(frozen=True, slots=True)
class CandidatePath:
    """One path. `shared`: how many of its leading nodes are the same draws as in an earlier candidate."""

    nodes: tuple[int, ...]
    tokens: tuple[int, ...]
    shared: int

    def usable(self, text: tuple[int, ...]) -> bool:
        """Whether it spells a longer text that begins with `text`, and everything behind that is its own."""
        return len(self.tokens) > len(text) and self.tokens[: len(text)] == text and self.shared <= len(text)


@dataclass(frozen=True, slots=True)
class RequiredRow:
    """The row the next candidate is judged by. `mass`: what residuals left of it; None: the target's own row."""

    row: Row
    mass: Any = None
    fallback: bool = False

    def after(self, residual: Row, mass: Any) -> "RequiredRow":
        """The row `[V]` behind a failure, of its normalised residual `[V]` and that residual's mass.

        One without mass (the two rows coincide up to rounding) is reached by rounding only: the row stays.
        """
        share = mass if self.mass is None else mass * self.mass
        return RequiredRow(residual, share, self.fallback) if mass > 0 else RequiredRow(self.row, share, True)

    def closing(self, node: int) -> Draw:
        """The draw that closes the round after `node`, whose candidates have failed."""
        return Draw(node, lambda: self.row, {}, "residual", "recovered", self.fallback, self.mass)


def candidates(draft: Draft) -> tuple[CandidatePath, ...]:
    """All of them, in order."""
    children = draft.children
    heads = [c for node, born in children.items() for i, c in enumerate(born) if node == ROOT or i > 0]
    return tuple(_path(draft, head) for head in sorted(heads, key=lambda head: _born(draft, head)))


def _born(draft: Draft, head: int) -> tuple[int, int]:
    """By id; but never before the nodes it hangs off, whatever their ids are."""
    node, latest = head, -1
    while node != ROOT:
        latest, node = max(latest, draft.ids[node]), draft.parents[node]
    return latest, draft.depths[head]


def _path(draft: Draft, head: int) -> CandidatePath:
    nodes = [head]
    while nodes[0] != ROOT:
        nodes.insert(0, draft.parents[nodes[0]])
    del nodes[0]
    shared = len(nodes) - 1
    while further := draft.children.get(nodes[-1], ()):
        nodes.append(further[0])
    return CandidatePath(tuple(nodes), tuple(draft.tokens[i] for i in nodes), shared)


def ordinals(draft: Draft) -> dict[int, int]:
    """Number of every judged node among those of its depth, in id order: the index of its accept draw."""
    count: dict[int, int] = {}
    out: dict[int, int] = {}
    for node in draft.judged:
        out[node] = count[draft.depths[node]] = count.get(draft.depths[node], -1) + 1
    return out


def misfit(draft: Draft) -> str | None:
    """Why independent tests cannot judge a draft; None when they can."""
    if draft.shared:
        return "the draft was drawn with the target's noise; judge it with walk"
    if draft.carry is not None:
        return "it continues the block of a stopped chain; judge it with hsd_naive"
    return None


def taken(rows: Rows, numbers: list[int]) -> Rows:
    """`[n, V]`: some rows, a view where they stand together."""
    if isinstance(rows, CertainRows):
        return CertainRows(tuple(rows.tokens[i] for i in numbers), rows.size)
    begin = numbers[0] if numbers else 0
    if numbers == list(range(begin, begin + len(numbers))):
        return rows[begin : begin + len(numbers)]
    if hasattr(rows, "index_select"):
        return rows.index_select(0, namespace(rows).tensor(numbers, device=rows.device))
    return rows[numbers]


def headed(first: Row, rows: Rows) -> Rows:
    """`first` `[V]` in front of the rows `[n, V]`: `[n + 1, V]`."""
    if isinstance(rows, CertainRows):
        assert isinstance(first, Certain), "a residual of certain rows is certain"
        return CertainRows((first.token, *rows.tokens), rows.size)
    return namespace(rows).concatenate([first[None], rows])


def surplus(rows: Any, laws: Any, tokens: Sequence[int], a: Any, b: Any = None) -> Any:
    """`(a p - b q)+` `[n, V]` of rows that are not certain; `laws` None: point masses at `tokens`, `b` None: 1."""
    a, b = (x if x is None else as_rows(rows, x)[:, None] for x in (a, b))
    out = rows * a
    if laws is None:
        at = (list(range(len(tokens))), list(tokens))
        out[at] -= 1 if b is None else b[:, 0]
        return _positive(out)
    law = laws if b is None else laws * b
    return _positive(out.sub_(law) if hasattr(out, "sub_") else out - law)


def masses(rows: Any) -> Any:
    """The sums `[n]` of rows `[n, V]`, of floats in double: so they hang neither on an order nor on who adds up."""
    return rows.sum(-1) if kind(rows) == "O" else rows.sum(-1, dtype=namespace(rows).float64)


def _positive(out: Any) -> Any:
    return out.clamp_(min=0) if hasattr(out, "clamp_") else np.maximum(out, 0, out=out)


def log_of(x: Any) -> float:
    """Natural log of a number >= 0, also of a Fraction too large or too small for a float."""
    if x == 0:
        return -math.inf
    exact = Fraction(x)
    return math.log(exact.numerator) - math.log(exact.denominator)


def in_memory(rows: Any) -> Any:
    """The rows `[n, V]` as numpy sees them where they lie in main memory, without a copy: its calls cost far less."""
    if rows is None or namespace(rows) is np or rows.device.type != "cpu" or rows.element_size() < 4:
        return rows
    return rows.detach().numpy()


def like_rows(rows: Any, row: Row) -> Row:
    """A row `[V]` in the library of `rows` `[n, V]`, without a copy."""
    return row if isinstance(row, Certain) or namespace(rows) is np else namespace(rows).as_tensor(row)


def kind(array: Any) -> str | None:
    """The dtype kind of a numpy array of any shape `[..]`, "O" for Fractions; None for a tensor."""
    return getattr(getattr(array, "dtype", None), "kind", None)


def wide(x: Any) -> Any:
    """The same numbers `[..]` as float64."""
    return x.double() if hasattr(x, "double") else np.asarray(x, dtype=np.float64)


def like(array: Any, values: list[float]) -> Any:
    """`values` as a vector `[n]` on the device and of the library of `array` `[..]`."""
    return array.new_tensor(values) if hasattr(array, "new_tensor") else np.array(values)


def as_rows(rows: Any, x: Any) -> Any:
    """A vector `[n]` in the type of the rows `[n, V]`, so that no product is wider than them."""
    if hasattr(rows, "new_tensor"):
        return x.to(rows) if hasattr(x, "to") else rows.new_tensor(x)
    return objects(x) if kind(rows) == "O" else np.asarray(x).astype(rows.dtype)


def objects(values: Sequence[Any]) -> Any:
    """An object array `[n]`: numpy would make floats of Fractions otherwise."""
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out
