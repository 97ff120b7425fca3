"""`RanksPanel`: what shaped the tree of a round, and what its widths cost and brought over the run."""

from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.numerals import number, percent
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.traits import MethodTraits, TreeKind
from specviz.view.blocks import Facts
from specviz.view.frame.parts import WhyRow
from specviz.view.frame.steps import Moment
from specviz.view.panels import CachedValue, Panel, PanelContext, Remark, remarks
from specviz.view.panels.ranks import counts
from specviz.view.panels.ranks.facts import RankFacts
from specviz.view.panels.ranks.model import ExpansionView, RankOptions, RanksModel
from specviz.view.panels.ranks.text import ending_words, offered_words, shape_words
from specviz.view.panels.ranks.tree import badges, chosen, drafted_rows, expansion_views, tree_text
from specviz.view.why.closing_text import closing_words
from specviz.view.words.palette import CLOSING, Phase

if TYPE_CHECKING:
    from specviz.metrics import Metrics

_NUMBERS = (  # name, label, kind, note
    ("mean_acceptance_length", "tok/round", "number", "tokens a round"),
    ("draft_calls_per_round", "drafter calls", "number", "a round"),
    ("drafting_share", "drafting share", "percent", "of the round's time"),
    ("modelled_speedup", "speed-up", "times", "modelled: a pass costs what its weights weigh"),
    ("bucket_accuracy", "bucket right", "percent", "all kept"),
)
_NO_BUCKETS: dict[TreeKind, str] = {  # behind the name of the method
    "levels": " has no rank head: every expanded node gets k_max children, so there are no buckets, no block "
    "slots and no starts. The tree, levels, depths and the closing token's rank are shown.",
    "fixed": "'s shape is fixed by calibration, not by predicted ranks: no buckets, no starts. The "
    "tree with its ranks, levels and depths are shown.",
    "heads": "'s heads speak in one call and its shape is fixed: no buckets, no starts. The tree with head and "
    "rank of each node, and depths are shown.",
}
_DRAWN = (
    "Siblings are drawn from the draft's law in this run: coverage counts what the best tokens of the same width would "
    "have covered, and the tree says which were drawn."
)


class RanksPanel(Panel[RankOptions, RanksModel]):
    """Of one run."""

    id, title, options = "ranks", "Ranks", RankOptions

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.facts = RankFacts(run)
        self._tables, self._views = CachedValue[RanksModel](), CachedValue[tuple[ExpansionView, ...]]()

    @classmethod
    def needs(cls, traits: MethodTraits) -> bool:
        """A drafter of trees by rank."""
        return traits.tree != "none"

    @classmethod
    def relevance(cls, run: Run) -> int:
        """A tree by ranks; predicted ones fill all of it."""
        return int(cls.needs(run.method_traits)) + int(run.method_traits.tree == "blocks")

    def empty(self, reason: str) -> RanksModel:
        return RanksModel(reason)

    def on_evict(self, record: RoundRecord) -> None:
        self.facts.take(record)

    def n_unread(self) -> int:
        return 0 if self._missing() else self.facts.n_behind

    def advance(self, n_rounds: int) -> None:
        self.facts.update(n_rounds)

    def kept(self) -> bytes:
        return self.facts.kept()

    def from_cache(self, data: bytes) -> None:
        self.facts.from_cache(data)

    def follows(self, tree: RoundTree, now: Moment) -> int | None:
        """The closing token: here the question is which token was missing."""
        return CLOSING if now.phase >= Phase.CLOSE else None

    @classmethod
    def explain(cls, run: Run, tree: RoundTree, node: int) -> Remark | None:
        """Why the tree has its shape, why a node was offered, why the walk ended."""
        if node == CLOSING:
            return Remark(words=ending_words(run, tree))
        if node not in tree.nodes:
            return Remark(words=shape_words(run, tree.record))
        return Remark(drafted_rows(tree, node), offered_words(run, tree.record, node))

    def build(self, scene: PanelContext, options: RankOptions) -> RanksModel:
        """The tree of the round with its ranks, and the tables of the run."""
        round_tree, now = scene.round_tree, scene.now
        missing = self._missing()
        if missing:
            return RanksModel(missing)
        self.facts.update()
        judged = now.all_tested or now.phase >= Phase.CLOSE
        views: tuple[ExpansionView, ...] = ()
        if now.phase > Phase.ROOT:
            key = (round_tree.record.serial, round_tree.record.stamp, judged, len(self.run.words))
            views = self._views.of(key, lambda: expansion_views(self.run, round_tree, judged))
        counted = (id(scene.metrics), len(self.facts.placed), options)
        over_run = self._tables.of(counted, lambda: self._over_run(options, scene.metrics))
        title, here = chosen(self.run, round_tree, views, scene.selected) if views else ("", ())
        return replace(
            over_run,
            badges=badges(round_tree),
            tree_text=tree_text(round_tree, now),
            expansions=here,
            expansions_title=title,
            round_expansions=views,
            shape=shape_words(self.run, round_tree.record) if now.phase > Phase.DRAFT else "",
            ending=self._ending(round_tree) if judged else "",
        )

    def _ending(self, tree: RoundTree) -> str:
        """Why the walk over the tree stopped; where there was no tree, why not."""
        if tree.record.tree is not None:
            return ending_words(self.run, tree)
        return closing_words(self.run, tree, remarks(self.run, tree, CLOSING).words)

    def _over_run(self, options: RankOptions, metrics: "Metrics | None") -> RanksModel:
        """What is counted over all finished rounds."""
        wanted, cell = options.filter, options.cell
        picked = self.facts.pick(wanted)
        return RanksModel(
            missing=None,
            notes=self._notes(),
            filter_text=counts.filter_text(wanted),
            blocks=self.facts.blocks,
            slots=self.facts.slots,
            confusion=counts.confusion(picked, cell),
            cell=counts.cell_table(self.run, picked, cell, options.entry) if cell is not None else None,
            over_run=counts.over_run(self.run, picked, metrics, Facts("ranks-run", _summary(metrics))),
        )

    def _notes(self) -> tuple[str, ...]:
        method, words = self.run.header.method if self.run.header else "", _NO_BUCKETS.get(self.run.method_traits.tree)
        drawn = (_DRAWN,) if self.run.knobs.get("siblings") == "sampled" else ()
        return drawn if words is None else (method + words,)

    def _missing(self) -> str | None:
        header = self.run.header
        if header is not None and header.imported:
            return f"{header.imported} records counts only: no tree and no ranks are in this trace."
        method = header.method if header is not None else ""
        if (
            method
            and not self.needs(self.run.method_traits)
            and not any(record.tree for record in self.run.rounds[-3:])
        ):
            return (
                f"{method} predicts no ranks. Trees whose shape follows predicted ranks: specviz run --method "
                "specblock; beside it eagle3, medusa and static_tree."
            )
        if self.run.level == "none":
            return "Recorded with --level none: no tree, no ranks. Record again with --level summary or full."
        return None


def _summary(metrics: "Metrics | None") -> tuple[WhyRow, ...]:
    rows = []
    for name, label, kind, note in _NUMBERS:
        metric = None if metrics is None else metrics[name]
        value = None if metric is None else metric.value
        if value is None:
            continue
        text = percent(value) if kind == "percent" else number(value) + ("×" if kind == "times" else "")
        rows.append(WhyRow(label, text, value if kind == "percent" else None, note))
    return tuple(rows)
