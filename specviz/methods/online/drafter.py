"""`specblock` as it serves: its drafter, and what learns between queries where the knob `adapt` asks for it."""

from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.knobs import Knobs
from specviz.methods.online.trainer import OnlineTrainer
from specviz.methods.specblock import drafter
from specviz.methods.specblock.network import Trained


def make(models: FactoryModels, knobs: Knobs) -> drafter.SpecBlock:
    """The drafter of method `specblock`. Raises ModelError where there is none for the target."""
    return drafter.make(models, knobs, learner)


def learner(trained: Trained, target: ModelAdapter) -> OnlineTrainer:
    """What learns for a drafter; no update of it may touch a tensor of the target."""
    return OnlineTrainer(trained.network, target.embedding, [*target.model.parameters(), *target.model.buffers()])
