"""Several drafted chains at once: K beside each other, or a caterpillar (verification.md 3.7).

`chains`: K chains from the root, independent of each other (their first tokens distinct without `replacement`).
`caterpillar`: one main chain, and K - 1 fresh chains off the root and off every node of it. All chains grow a token in
one draft-model call, so a draft costs gamma calls however many there are. Nodes are numbered level by level; within a
level the main chain comes first, then the others in the order they began, which is the order of the candidates.

A draft holds at most `WIDEST` nodes. What does not fit is left out before it is drawn, the youngest chains first: how
many tokens are drawn may depend on tokens already kept, never on the one being drawn.
"""

from specviz.engine.decode.context import Context, Models
from specviz.methods.common.draft_sampler import Grower
from specviz.methods.common.runner import ModelDrafter
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import ROOT, Draft

WIDEST = 256  # nodes; what the caches keep room for


class Chains(ModelDrafter):
    """K chains from the root; with `branching` also from every node of the first."""

    def __init__(self, models: Models, mode: Mode, branching: bool) -> None:
        super().__init__(models)
        self.mode: Mode = mode
        self.branching = branching

    def propose(self, ctx: Context) -> Draft:
        """Chains of at most `gamma` tokens, each cut at a stop token it drew (kept, not fed)."""
        count, gamma = ctx.knobs["candidates"], ctx.knobs["gamma"]
        length = min(gamma, self.drafts.reach(ctx))
        grow = Grower(ctx, self.drafts, self.mode, count, ctx.knobs["replacement"])
        ends, cut = [ROOT] * count, False  # where the next token of each chain goes
        main: int | None = ROOT
        for depth in range(1, length + 1):
            left = WIDEST - len(grow.tree) - (length - depth)  # the main chain's rest is spoken for
            cut = cut or len(ends) > left
            ends, main = self._level(grow, ends[:left], main, count - 1)
            if not ends:
                break
        tree = grow.tree
        end: DraftEnd = "stop_token" if length and not ends else "budget" if cut else "full"
        return tree.draft("length" if end == "full" and length < gamma else end, planned=length, number=True)

    def _level(self, grow: Grower, ends: list[int], main: int | None, fresh: int) -> tuple[list[int], int | None]:
        """One more token for every chain: the new ends, and the main chain's among them (None: it is over)."""
        grow.open(ends)
        made = [(parent, grow.child(parent)) for parent in ends]
        alive = [node for _, node in made if node is not None and not grow.tree.ends(node)]
        first = made[0][1] if main is not None and made else None
        main = first if first in alive else None
        return alive + ([main] * fresh if self.branching and main is not None else []), main
