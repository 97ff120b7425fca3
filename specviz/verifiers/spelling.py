"""Which nodes spell the same text (contract.md 3: tests follow spelling, not parent ids)."""

from specviz.probability.draft import ROOT, Draft


class Spelling:
    """Groups the nodes of a draft by the text they spell.

    `first(node)` is the node that stands for the group: the first in feed order that has a target row, else the first.
    `candidates(node)` are the children of *every* node of the group, in id order.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._group: dict[int, int] = {ROOT: ROOT}
        self._members: dict[int, list[int]] = {ROOT: [ROOT]}
        by_text: dict[tuple[int, int], int] = {}
        for node in range(len(draft)):
            key = (self._group[draft.parents[node]], draft.tokens[node])
            group = by_text.setdefault(key, node)
            self._group[node] = group
            self._members.setdefault(group, []).append(node)

    def first(self, node: int) -> int:
        """The node that stands for everything spelled like `node`."""
        return self._group[node]

    def candidates(self, node: int) -> tuple[int, ...]:
        """Judged children of every node spelled like `node`, in id order."""
        members = self._members[self._group[node]]
        children = self._draft.children
        if len(members) == 1:
            return children.get(members[0], ())
        found = [child for member in members for child in children.get(member, ())]
        return tuple(sorted(found, key=lambda i: self._draft.ids[i]))
