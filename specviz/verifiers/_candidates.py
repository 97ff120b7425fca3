"""The candidates of a draft: its root-to-leaf paths, in the order they are tried (verification.md 3.7). Not a verifier.

A path owns the nodes that no earlier path holds; `shared` counts the others, which are leading ones. Paths come in the
order of the id of their first own node, which is the order they were drawn in: a node's eldest child continues its
parent's path, every other child begins a path. Parallel chains, a caterpillar and a drawn tree are all read this way.
"""

from dataclasses import dataclass

from specviz.probability.draft import ROOT, Draft


@dataclass(frozen=True, slots=True)
class Candidate:
    """One path. `shared`: how many of its leading nodes are the same draws as in an earlier candidate."""

    nodes: tuple[int, ...]
    tokens: tuple[int, ...]
    shared: int

    def usable(self, text: tuple[int, ...]) -> bool:
        """Whether it spells a longer text that begins with `text`, and everything behind that is its own."""
        return len(self.tokens) > len(text) and self.tokens[: len(text)] == text and self.shared <= len(text)


def candidates(draft: Draft) -> tuple[Candidate, ...]:
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


def _path(draft: Draft, head: int) -> Candidate:
    nodes = [head]
    while nodes[0] != ROOT:
        nodes.insert(0, draft.parents[nodes[0]])
    del nodes[0]
    shared = len(nodes) - 1
    while further := draft.children.get(nodes[-1], ()):
        nodes.append(further[0])
    return Candidate(tuple(nodes), tuple(draft.tokens[i] for i in nodes), shared)


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
