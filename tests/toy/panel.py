"""The panel: guesses beside what came of them, for any front-end to paint."""

from dataclasses import dataclass

from specviz.runlog.fold import Run
from specviz.runlog.tree import RoundTree
from specviz.traits import MethodTraits
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.parts import WhyRow
from specviz.view.panels import Panel, Remark, Scene
from toy.record import Guess


@dataclass(frozen=True, slots=True)
class GuessOptions(PanelOptions):
    """What was chosen in the panel."""

    loud: bool = False


@dataclass(frozen=True, slots=True)
class Guesses:
    """Guesses beside what came of them, of every round so far."""

    missing: str | None
    pairs: tuple[tuple[int, int], ...] = ()  # guessed, kept
    loud: bool = False


class GuessPanel(Panel[GuessOptions, Guesses]):
    """Of one run."""

    id, title, options = "guess", "Guess", GuessOptions

    @classmethod
    def needs(cls, traits: MethodTraits) -> bool:
        return not traits.plain

    def empty(self, reason: str) -> Guesses:
        return Guesses(reason)

    def build(self, scene: Scene, options: GuessOptions) -> Guesses:
        rounds = [self.run.rounds[k] for k in range(scene.record.index + 1)]
        pairs = [(g.n, record.end.n_accepted) for record in rounds if record.end for g in record.every(Guess)]
        return Guesses(None if pairs else "This method guesses nothing.", tuple(pairs), options.loud)

    @classmethod
    def explain(cls, run: Run, family: RoundTree, node: int) -> Remark | None:
        guess = family.record.first(Guess)
        return Remark((WhyRow("guessed", str(guess.n)),), "A guess was made.") if guess else None
