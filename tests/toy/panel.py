"""The panel: guesses beside what came of them, for any front-end to paint."""

from dataclasses import dataclass

from specviz.runlog.fold import Run
from specviz.runlog.tree import RoundTree
from specviz.traits import MethodTraits
from specviz.view.blocks import Cell, TableBlock
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.parts import WhyRow
from specviz.view.panels import PanelContext, Remark
from specviz.view.panels.built import BlockModel, BlockPanel, Toggle
from toy.record import Guess


@dataclass(frozen=True, slots=True)
class GuessOptions(PanelOptions):
    """What was chosen in the panel."""

    loud: bool = False


class GuessPanel(BlockPanel[GuessOptions]):
    """Of one run."""

    id, title, options = "guess", "Guess", GuessOptions
    key, order, about = "9", 35, "A toy. It guesses how much of a draft will be kept."
    toggles = (Toggle("loud", "l", "loud", "say it louder"),)

    @classmethod
    def needs(cls, traits: MethodTraits) -> bool:
        return not traits.plain

    def build(self, scene: PanelContext, options: GuessOptions) -> BlockModel:
        rounds = [self.run.rounds[k] for k in range(scene.record.index + 1)]
        pairs = [(g.n, record.end.n_accepted) for record in rounds if record.end for g in record.every(Guess)]
        sign = Cell("!" * options.loud)
        lines = tuple((Cell(str(n), n), Cell(str(kept), kept), sign) for n, kept in pairs)
        table = TableBlock("guess", ("guessed", "kept", ""), lines, "Guessed and kept")
        return BlockModel(None if pairs else "This method guesses nothing.", (table,))

    @classmethod
    def explain(cls, run: Run, round_tree: RoundTree, node: int) -> Remark | None:
        guess = round_tree.record.first(Guess)
        return Remark((WhyRow("guessed", str(guess.n)),), "A guess was made.") if guess else None
