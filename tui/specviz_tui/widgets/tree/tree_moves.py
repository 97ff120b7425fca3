"""Where an arrow leads in the tree: a pure function over what is visible."""

from specviz.view.frame.frame import Tree, TreeNode


def neighbour(tree: Tree, selected: int | None, direction: str, listed: bool) -> int | None:
    """The node in a direction; None when there is none. Without a selection: the root."""
    here = tree.node(selected) if selected is not None else None
    if here is None:
        return tree.nodes[0].id if tree.nodes else None
    if direction == "left":
        return here.parent if here.depth and tree.node(here.parent) else None
    if direction == "right":
        return _child(tree, here)
    step = -1 if direction == "up" else 1
    return _in_list(tree, here, step) if listed else _in_columns(tree, here, step)


def _child(tree: Tree, here: TreeNode) -> int | None:
    """The child on the winning path, else the first."""
    children = [node for node in tree.nodes if node.parent == here.id and node.depth == here.depth + 1]
    best = [node for node in children if node.winning] or sorted(children, key=lambda node: node.row)
    return best[0].id if best else None


def _in_columns(tree: Tree, here: TreeNode, step: int) -> int | None:
    """The nearest node above or below in this column, else the nearest row that has any."""
    beyond = [node for node in tree.nodes if (node.row - here.row) * step > 0]
    same = [node for node in beyond if node.column == here.column]
    nearest = min(same or beyond, key=lambda n: (abs(n.row - here.row), abs(n.column - here.column)), default=None)
    return nearest.id if nearest else None


def _in_list(tree: Tree, here: TreeNode, step: int) -> int | None:
    order = [node.id for node in sorted(tree.nodes, key=lambda node: (node.row, node.column))]
    at = order.index(here.id) + step
    return order[at] if 0 <= at < len(order) else None
