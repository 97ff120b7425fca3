"""Drafting with a second, smaller model. The knob `shape` names the layout, each in a file of its own.

One drafted chain: up to gamma tokens in a row (Leviathan et al. 2023).

Each token is drawn from the draft law (`sampled`), its most likely one (`argmax`), or drawn with the target's own
noise (`shared`): then only `walk` may judge it, and the text is that of plain decoding at every temperature although
the draft was sampled. By `race` a shared token equals the target's with probability at least (1 - TV)/(1 + TV).

Several drafted chains at once: K beside each other, or a caterpillar.

`chains`: K chains from the root, independent of each other (their first tokens distinct without `replacement`).
`caterpillar`: one main chain, and K - 1 fresh chains off the root and off every node of it. All chains grow a token in
one draft-model call, so a draft costs gamma calls however many there are. Nodes are numbered level by level; within a
level the main chain comes first, then the others in the order they began, which is the order of the candidates.

A draft holds at most `WIDEST` nodes. What does not fit is left out before it is drawn, the youngest chains first: how
many tokens are drawn may depend on tokens already kept, never on the one being drawn.
"""

from collections.abc import Callable

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.model.rows import Tensor
from specviz.knobs import Knobs
from specviz.methods.common.runner import DraftSampler, ModelDrafter, laws
from specviz.methods.draft_model.spec import drawn_mode
from specviz.methods.draft_model.trees import DrawnTree, SiblingGrower, TopTree
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import ROOT, Draft
from specviz.probability.rows import Certain


class ChainDrafter(ModelDrafter):
    """Up to gamma drafted tokens in a row. `planned`: its length is fixed before it is drawn."""

    planned = True

    def __init__(self, models: FactoryModels, mode: Mode) -> None:
        super().__init__(models)
        self.mode: Mode = mode

    def propose(self, ctx: Context) -> Draft:
        """A chain of at most `gamma` tokens, cut to the room and at a stop token (kept, not fed).

        In a carried round nothing is drafted: the verifier asks for the draft law after the root alone.
        """
        tree, node = DraftTree(ctx), ROOT
        if ctx.carry is not None:
            return tree.carried(laws(ctx, tree, [ROOT], self.drafts.begin(ctx))[:1], ctx.carry)
        gamma = ctx.knobs["gamma"]
        length = min(gamma, self.drafts.reach(ctx))
        end: DraftEnd = "full" if length == gamma else "length"
        while len(tree) < length:
            logits = self.drafts.begin(ctx) if node == ROOT else self.drafts.expand(ctx, tree, [node])
            if self._stops(ctx, tree, node, logits):
                end = "low_conf"
                break
            node = self._draw(ctx, tree, node, logits)
            if tree.ends(node):
                end = "stop_token"
                break
        shared = self.mode == "shared" and not ctx.warper.greedy
        return tree.draft(end, shared=shared, planned=length if self.planned else None)

    def _stops(self, ctx: Context, tree: DraftTree, node: int, logits: Tensor) -> bool:
        """Whether to end before a token is drawn after `node`, from logits `[1, V]`."""
        return False

    def _draw(self, ctx: Context, tree: DraftTree, parent: int, logits: Tensor) -> int:
        law = laws(ctx, tree, [parent], logits)[0]
        ctx.counters.n_syncs += isinstance(law, Certain)  # read off the device when it was formed
        sampler = DraftSampler(ctx, self.mode)
        return sampler.add(tree, parent, sampler.token(tree.depth(parent) + 1, law), law, logits[0])


class Sps(ChainDrafter):
    """The chain of method `sps`, whose lanes are looked at beside those of the pipelines."""

    calibrated = True


def make_chain(models: FactoryModels, knobs: Knobs) -> Sps:
    return Sps(models, knobs["draft_mode"])


LAYOUTS: dict[str, Callable[[FactoryModels, Mode], Drafter]] = {
    "chain": ChainDrafter,
    "tree": lambda models, mode: TopTree(models),
    "chains": lambda models, mode: Chains(models, mode, branching=False),
    "caterpillar": lambda models, mode: Chains(models, mode, branching=True),
    "drawn_tree": DrawnTree,
}


def make(models: FactoryModels, knobs: Knobs) -> Drafter:
    """The drafter of method `draft`. Raises KnobError for a mode the shape has no law for."""
    return LAYOUTS[knobs["shape"]](models, drawn_mode(knobs.values))


WIDEST = 256  # nodes; what the caches keep room for


class Chains(ModelDrafter):
    """K chains from the root; with `branching` also from every node of the first."""

    def __init__(self, models: FactoryModels, mode: Mode, branching: bool) -> None:
        super().__init__(models)
        self.mode: Mode = mode
        self.branching = branching

    def propose(self, ctx: Context) -> Draft:
        """Chains of at most `gamma` tokens, each cut at a stop token it drew (kept, not fed)."""
        count, gamma = ctx.knobs["candidates"], ctx.knobs["gamma"]
        length = min(gamma, self.drafts.reach(ctx))
        grow = SiblingGrower(ctx, self.drafts, self.mode, count, ctx.knobs["replacement"])
        ends, cut = [ROOT] * count, False  # where the next token of each chain goes
        main: int | None = ROOT
        for depth in range(1, length + 1):
            left = WIDEST - len(grow.tree) - (length - depth)  # places reserved for the rest of the main chain
            cut = cut or len(ends) > left
            ends, main = self._level(grow, ends[:left], main, count - 1)
            if not ends:
                break
        tree = grow.tree
        end: DraftEnd = "stop_token" if length and not ends else "budget" if cut else "full"
        return tree.draft("length" if end == "full" and length < gamma else end, planned=length, number=True)

    def _level(
        self, grow: SiblingGrower, ends: list[int], main: int | None, fresh: int
    ) -> tuple[list[int], int | None]:
        """One more token for every chain: the new ends, and the main chain's among them (None: it is over)."""
        grow.open(ends)
        children = [(parent, grow.child(parent)) for parent in ends]
        alive = [node for _, node in children if node is not None and not grow.tree.ends(node)]
        first = children[0][1] if main is not None and children else None
        main = first if first in alive else None
        return alive + ([main] * fresh if self.branching and main is not None else []), main
