"""`specblock`: the block network drafts, predicted ranks shape the tree, the target verifies it.

One call appends the pairs that were just committed and speaks block 1; each further block is one call for all its
starts. The drafter is a memo: whatever it says, whichever weights or knobs it has, `walk` writes the target's text. A
call whose numbers are not finite drafts nothing that round and says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter, QueryEnd
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.events import Event, Warn
from specviz.knobs import Knobs
from specviz.methods.common.knobs import MOST_BLOCKS, MOST_STARTS
from specviz.methods.specblock.grower import RoundPlan, SiblingDraws, TargetRanks, TreeGrower, drafted, read
from specviz.methods.specblock.growth import GrowingTree, Sizes
from specviz.methods.specblock.network import KIND, BlockNetwork, Trained
from specviz.methods.specblock.recorder import BlockFacts
from specviz.methods.trained.calls import BlockCall, CallCosts
from specviz.methods.trained.pair_drafter import PairDrafter, read_by
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.names import DraftEnd
from specviz.probability.draft import Draft


class QueryNotes(Protocol):
    """What a learner keeps of one query. `ns`: what taking notes took, in nanoseconds."""

    ns: int

    def observe(self, seen: Observation, growth: GrowingTree | None, calls: Sequence[BlockCall]) -> None: ...


class BlockLearner(Protocol):
    """What learns between queries, from the notes of each, and gives the next one its network (`methods.online`)."""

    clock: Callable[[], int]

    @property
    def network(self) -> BlockNetwork: ...
    @property
    def version(self) -> int: ...
    def watch(self, vocabulary: Vocabulary, taps: tuple[int, ...]) -> QueryNotes: ...
    def over(self, notes: Any, ended: QueryEnd, sizes: Sizes, drafter: Callable[[BlockNetwork], Drafter]) -> Event: ...


LearnerFactory = Callable[[Trained, ModelAdapter], BlockLearner]


class SpecBlock(PairDrafter):
    """Drafts for one query; the network is shared by all. `tutor` learns from the query if `learning`.

    `learner` makes one where a later query asks for it.
    """

    def __init__(
        self,
        trained: Trained,
        adapter: ModelAdapter,
        capacity: int = 0,
        tutor: BlockLearner | None = None,
        learning: bool = True,
        learner: LearnerFactory | None = None,
    ) -> None:
        super().__init__(trained, adapter)
        self.trained, self.network, self.adapter = trained, trained.network, adapter
        self.capacity = capacity or adapter.context
        self.facts: BlockFacts | None = None
        self.pace = CallCosts(trained.network.parameters(), adapter, trained.network.slots)
        self.tutor, self.learner = tutor, learner
        self.notes = tutor.watch(trained.vocabulary, self.taps) if tutor is not None and learning else None
        self._grown: tuple[GrowingTree, list[BlockCall]] | None = None
        self._oracle: TargetRanks | None = None
        self._warned: set[str] = set()

    @property
    def version(self) -> int:
        """Of the weights, counted up by what is learnt while serving."""
        return 0 if self.tutor is None else self.tutor.version

    def observe(self, seen: Observation) -> None:
        """Keep the new pairs for the next call, and complete what is on record of this round."""
        if self.facts is not None and seen.outcome is not None:
            self.facts.judge(seen)
        if self.notes is not None and self.tutor is not None:
            began, (growth, calls) = self.tutor.clock(), self._grown or (None, [])
            self.notes.observe(seen, growth, calls)
            self.notes.ns += self.tutor.clock() - began
        self.facts = self._grown = None
        super().observe(seen)

    def on_abort(self) -> None:
        """A round was interrupted: drop the tree it grew."""
        self.facts = self._grown = None

    def on_query_end(self, query: QueryEnd) -> Sequence[Event]:
        if self.tutor is None or self.notes is None:
            return ()
        if query.knobs["width_mode"] == "oracle":
            return ()  # a teaching mode: its trees say nothing of what the drafter is worth
        widths = read(query.knobs, self.trained.config, 1, False).growing.widths
        return (self.tutor.over(self.notes, query, widths.sizes, self._with),)

    def reset_knobs(self, knobs: Knobs) -> dict[str, str]:
        """A reset acts once, then learning goes on."""
        return {"adapt_do": "learn"} if str(knobs["adapt_do"]).startswith("reset") else {}

    def _with(self, network: BlockNetwork) -> "SpecBlock":
        return SpecBlock(replace(self.trained, network=network), self.adapter, self.capacity)

    def next_query(self, models: FactoryModels, knobs: Knobs) -> "SpecBlock":
        """The drafter of the next query, which goes on from what this one learnt."""
        if self.tutor is None:
            return make(models, knobs, self.learner)
        trained = replace(self.trained, network=self.tutor.network)
        return SpecBlock(trained, self.adapter, models.capacity, self.tutor, knobs["adapt"] == "on", self.learner)

    def parts(self) -> dict[str, str]:
        config = self.trained.config
        what = f"{config.slots} slots a block, trained for {config.trained_blocks} blocks, positions {config.rope_mode}"
        return {"drafter": KIND.tell(self.trained, what)}

    def propose(self, ctx: Context) -> Draft:
        """Block 1, the further blocks, prune."""
        tree, plan = (
            DraftTree(ctx),
            read(ctx.knobs, self.trained.config, ctx.reach, ctx.level == "full", self.pace.tree_cost),
        )
        self._warn(ctx, plan)
        if not plan.growing.budget or plan.growing.deepest < 1:
            why: DraftEnd = "depth" if not ctx.knobs["d_max"] else "length"
            return tree.draft(why if plan.growing.budget else "budget")
        if not self.text.ready(ctx.n):
            return tree.draft("no_match")  # no target row has been seen yet: a prompt of one token
        draw = SiblingDraws(ctx, self.trained.vocabulary) if plan.drawn else None
        growth = GrowingTree(plan.growing, lambda token: token in ctx.eos, draw)
        learning, oracle = self.notes is not None, self._asked(ctx, plan)
        grower = TreeGrower(ctx, plan, self.trained, self.text.calls, growth, oracle, learning)
        if not grower.grow(self.text.root()):
            ctx.note(Warn(code="draft_not_finite", message="the drafter's numbers are not finite: nothing drafted"))
            return tree.draft("no_match")
        draft = drafted(tree, growth, plan, grower)
        self._grown = growth, grower.made
        if ctx.level != "none":
            self.facts = BlockFacts(growth, draft, self.trained.vocabulary, grower.made, self.pace)
            self.facts.note(ctx)
        return draft

    def _warn(self, ctx: Context, plan: RoundPlan) -> None:
        """What the knobs ask for and do not get, once a query."""
        for code, message in plan.notices.items():
            if message not in self._warned:
                self._warned.add(message)
                ctx.note(Warn(code=code, message=message))

    def _asked(self, ctx: Context, plan: RoundPlan) -> TargetRanks | None:
        """The target, opened for this round, where widths go by true ranks."""
        if not plan.oracle:
            return None
        if self._oracle is None:
            self._oracle = TargetRanks(
                self.adapter, self.capacity, MOST_STARTS * self.network.slots * (MOST_BLOCKS - 1)
            )
        self._oracle.open(ctx)
        return self._oracle


def make(models: FactoryModels, knobs: Knobs, learner: LearnerFactory | None = None) -> SpecBlock:
    """A drafter, with a learner if there is one and the knob `adapt` is on. Raises ModelError where none fits."""
    target = read_by("specblock", models.target)
    trained = KIND.pick(target, " ".join(knobs["drafter"]) or None)
    tutor = learner(trained, target) if learner is not None and knobs["adapt"] == "on" else None
    return SpecBlock(trained, target, models.capacity, tutor, learner=learner)
