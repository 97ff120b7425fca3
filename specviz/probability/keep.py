"""The chance of a joint test to keep a drafted prefix, in plain Python: the rules and their replay share it."""

from typing import Any


def keep_chance(weight: Any, lack: Any) -> Any:
    """The chance to keep a drafted prefix of this joint weight, given that no longer one was kept: 1 from weight 1 on,
    else `lack / (lack + 1 - weight)`. `lack`: the target mass that its branch has too little of; None at the last
    position, whose chance is its weight.
    """
    if weight >= 1:
        return 1
    return weight if lack is None else lack / (lack + 1 - weight)
