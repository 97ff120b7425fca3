"""Drafting with a second, smaller model. The knob `shape` names the layout, each in a file of its own."""

from collections.abc import Callable

from specviz.engine.decode.context import Drafter, Models
from specviz.knobs import Knobs
from specviz.methods.draft_model.candidates import Chains
from specviz.methods.draft_model.chain import Chain
from specviz.methods.draft_model.drawn_tree import DrawnTree
from specviz.methods.draft_model.spec import drawn_mode
from specviz.methods.draft_model.trees import TopTree
from specviz.names import Mode

LAYOUTS: dict[str, Callable[[Models, Mode], Drafter]] = {
    "chain": Chain,
    "tree": lambda models, mode: TopTree(models),
    "chains": lambda models, mode: Chains(models, mode, branching=False),
    "caterpillar": lambda models, mode: Chains(models, mode, branching=True),
    "drawn_tree": DrawnTree,
}


def make(models: Models, knobs: Knobs) -> Drafter:
    """The drafter of method `draft`. Raises KnobError for a mode the shape has no law for."""
    return LAYOUTS[knobs["shape"]](models, drawn_mode(knobs.values))
