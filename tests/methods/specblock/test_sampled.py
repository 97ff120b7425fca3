"""Drawn siblings: the exact law of whole generations through the production session, and what would spoil it.

A real block network over a target of tables: every path of draws and tests is a run of a fresh session.
The controls are the faults that its rules forbid.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from methods.specblock.small import network
from methods.specblock.stage import session, trained
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.errors import KnobError, SpecvizError
from specviz.knobs import KnobTable
from specviz.methods import pick_verifier
from specviz.methods.common.runner import DraftSampler
from specviz.methods.specblock.drafter import SpecBlock
from specviz.methods.specblock.grower import SiblingDraws
from specviz.methods.specblock.growth import ChosenToken, GrowingTree, GrowthKnobs, Widths
from specviz.methods.specblock.network import BlockConfig, Trained
from specviz.methods.specblock.spec import METHOD as SPECBLOCK
from specviz.methods.trained.layers import LayerShape
from specviz.methods.trained.ranks import SlotCandidates
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.probability.draft import ROOT
from specviz.probability.table_models import Iid, Table, exact_row, law
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import EnumeratedPath, Law, deviation, law_of
from support.models import build
from support.table_session import HISTORY, TableModel, law_by_rounds

EXACT = 1e-12
PROMPT = (0, 1, 0)
THREE = Iid(
    exact_row(["1/50", "39/50", "1/5"])
)  # the draft gives the first more and both others less: residuals have two
TWO = HISTORY.p


class Told(TableModel):
    """A table with hidden states: a text's number as a vector, so that a network can be fed by it."""

    name, layers = "table", ()

    def __init__(self, table: Table) -> None:
        super().__init__(table, PROMPT)
        rng = torch.Generator().manual_seed(5)
        self._vectors = torch.randn(200, 6, generator=rng, dtype=torch.float64)
        self._tokens = torch.randn(self.vocab, 8, generator=rng, dtype=torch.float64)
        self.head = SimpleNamespace(weight=torch.ones(self.vocab, 6))

    def normed(self, states: torch.Tensor) -> torch.Tensor:
        """What a tapped top layer hands out."""
        return self._vectors[states[:, 0].long()]

    def embedding(self, ids: torch.Tensor) -> torch.Tensor:
        """Of tokens."""
        return self._tokens[ids]


def drafter(target: Told) -> SpecBlock:
    """A block network of random weights; both vocabularies are the table's."""
    shape = {"slots": 2, "n_features": 6, "embed_width": 8, "vocab": target.vocab, "rank_width": 4}
    net = network(seed=2, std=1.0, layer=LayerShape(8, 2, 1, 4, 8), **shape)
    net.head.weight.mul_(0.25)  # rows neither flat nor certain, so that faults are large
    config = BlockConfig(
        target="",
        target_name="table",
        target_layers=1,
        target_width=6,
        embed_width=8,
        taps=(1,),
        vocab=target.vocab,
        draft_vocab=target.vocab,
        width=8,
        heads=2,
        kv_heads=1,
        head_dim=4,
        ff=8,
        rope_theta=1e4,
        rope_mode="offset",
        slots=2,
    )
    return SpecBlock(Trained(config, net, Vocabulary(target.vocab)), target, 64)  # type: ignore[arg-type]


def generated(table: Table, length: int, verifier: str = "tokenwise", **knobs: Any) -> Law:
    """The exact law of `length` new tokens."""
    target = Told(table)
    mine = drafter(target)
    own: KnobTable = SPECBLOCK.table
    settings = {"temperature": 1.0, "siblings": "sampled", "max_new_tokens": length, "widths": ["2,2,2,2"], **knobs}

    fresh = SpecBlock(mine.trained, target, 64)  # type: ignore[arg-type]
    parts = SessionConfig(FactoryModels(target, None, 64), fresh, get_verifier(verifier))
    return law_by_rounds(
        Session(parts, PROMPT, own, own.knobs(settings)), stateless=[mine.trained, mine.trained.network]
    )


def off(table: Table, length: int, **options: Any) -> float:
    return float(deviation(generated(table, length, **options), law(table, length)))


CASES = [
    (TWO, 4, {"blocks": 2, "k_max": 2}),
    (TWO, 4, {"blocks": 1, "k_max": 1, "widths": ["1,1,1,1"]}),
    (THREE, 2, {"k_max": 3}),
    (THREE, 3, {"k_max": 2, "blocks": 1, "widths": ["1,1,1,1"], "node_budget": 3}),
    (TWO, 4, {"node_budget": 3, "k_max": 2}),
    (TWO, 4, {"top_p": 0.8, "k_max": 2}),
]


@pytest.mark.parametrize(("table", "length", "knobs"), CASES[:5])
def test_the_law_is_the_target_s(table: Table, length: int, knobs: dict[str, Any]) -> None:
    assert off(table, length, **knobs) < EXACT


def test_walk_may_judge_drawn_siblings_too() -> None:
    """Nothing of the draft is in its rule; the draws are spent for nothing."""
    assert off(TWO, 3, verifier="walk", k_max=2) < EXACT


def test_siblings_pruned_by_value_spoil_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn first and the likelier of two kept afterwards: the recorded law is not the one that told."""
    whole = {"k_max": 2, "blocks": 1, "widths": ["1,1,1,1"]}
    assert off(THREE, 2, **whole) < EXACT

    def best_only(self: GrowingTree) -> list[int]:
        first = [k for k, node in enumerate(self.nodes) if node.parent == ROOT]
        return [max(first, key=lambda k: self.nodes[k].cum)] if first else []

    monkeypatch.setattr(GrowingTree, "kept", best_only)
    assert off(THREE, 2, **whole) > 1e-3


def redrawn(monkeypatch: pytest.MonkeyPatch, change: Callable[[list[ChosenToken]], Sequence[ChosenToken]]) -> None:
    """Siblings are drawn as ever, and changed before they become nodes."""
    honest = SiblingDraws.__call__

    def changed(self: SiblingDraws, path: Sequence[int], offer: SlotCandidates, n: int) -> list[ChosenToken]:
        return list(change(honest(self, path, offer, n)))

    monkeypatch.setattr(SiblingDraws, "__call__", changed)


@pytest.mark.parametrize(
    ("change", "spoils"),
    [
        (lambda picks: sorted(picks, key=lambda pick: -pick.log), True),
        (lambda picks: [pick._replace(law=picks[0].law) for pick in picks], True),
        (lambda picks: picks[:1] if picks[0].token == 0 else picks, False),
    ],
    ids=["tested in order of probability", "the whole law on record", "fewer after one first token"],
)
def test_what_spoils_the_law_and_what_does_not(monkeypatch: pytest.MonkeyPatch, change: Any, spoils: bool) -> None:
    """How many there are may follow from earlier draws, only not from those that it drops."""
    redrawn(monkeypatch, change)
    wrong = off(THREE, 2, k_max=3, blocks=1)
    assert (wrong > 1e-3) if spoils else (wrong < EXACT)


def test_draws_need_uniforms_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Siblings that share one are no draws without replacement."""

    def shared(self: DraftSampler, depth: int, law: Any) -> int:
        return self.ctx.draw("draft", depth, law, 0).token

    monkeypatch.setattr(DraftSampler, "token", shared)
    assert off(THREE, 2, k_max=3, blocks=1) > 1e-3


def test_drawn_siblings_are_kept_more_often_than_chosen_ones() -> None:
    """Flat rows at temperature 1: what the mode is offered for."""
    flat = Iid(exact_row(["1/3", "1/3", "1/3"]))
    target = Told(flat)
    mine, own = drafter(target), SPECBLOCK.table

    def kept(siblings: str, verifier: str) -> float:
        knobs = own.knobs({"temperature": 1.0, "siblings": siblings, "max_new_tokens": 4, "k_max": 2, "blocks": 1})

        def run(branch: EnumeratedPath) -> bool:
            fresh = SpecBlock(mine.trained, target, 64)  # type: ignore[arg-type]
            parts = SessionConfig(FactoryModels(target, None, 64), fresh, get_verifier(verifier))
            return next(Session(parts, PROMPT, own, knobs, draws=branch.keys).rounds()).n_accepted > 0

        return float(law_of(run)[True])

    chosen, drawn = kept("topb", "walk"), kept("sampled", "tokenwise")
    assert chosen == pytest.approx(2 / 3)  # the mass of two tokens, whichever
    assert drawn > chosen + 0.05


def drawing(n_tokens: int = 9) -> Any:
    """Takes tokens in turn, each with a law of its own."""
    count = iter(range(10_000))

    def draw(path: Sequence[int], offer: SlotCandidates, n: int) -> list[ChosenToken]:
        start = next(count)
        return [ChosenToken((start + 3 * k) % n_tokens, -1.0 - k, law=(tuple(path), k)) for k in range(n)]

    return draw


def offer(bucket: int = 0) -> SlotCandidates:
    return SlotCandidates(tuple(range(9)), (-1.0,) * 9, bucket)


@pytest.mark.parametrize("budget", [0, 1, 2, 5, 12, 60])
def test_the_budget_is_spent_before_anything_is_drawn(budget: int) -> None:
    """One node is kept back for each later slot; nothing is pruned or joined, and no node is expanded twice."""
    rule = Widths((2, 4, 6, 0), 5)
    tree = GrowingTree(GrowthKnobs(rule, 12, merge=True, start_cap=10, budget=budget), draw=drawing())
    tree.expand(ROOT, 0, 1, [offer(), offer(1), offer(), offer()])
    first = [len(expansion.children) for expansion in tree.expansions]
    assert first == {0: [], 1: [1], 2: [1, 1], 5: [2, 1, 1, 1], 12: [5, 4, 2, 1], 60: [5, 4, 2, 2]}[budget]
    for number, start in enumerate(tree.starts(), 1):
        assert not any(expansion.parent == start.node for expansion in tree.expansions)
        tree.expand(start.node, number, 2, [offer(2), offer(3), offer(), offer()])
    assert len(tree.nodes) <= budget
    assert tree.kept() == list(range(len(tree.nodes)))
    parents = [expansion.parent for expansion in tree.expansions]
    assert len(parents) == len(set(parents))
    assert all(node.law is not None and not node.merged for node in tree.nodes)


def test_the_default_verifier_follows_the_siblings(target: ModelAdapter) -> None:
    """Chosen siblings: walk. Drawn ones: by p/q, except where nothing is drawn."""
    for siblings, temperature, name in (
        ("topb", 1.0, "walk"),
        ("sampled", 1.0, "tokenwise"),
        ("sampled", 0.0, "walk"),
        ("topb", 0.0, "walk"),
    ):
        knobs = SPECBLOCK.table.knobs({"siblings": siblings, "temperature": temperature})
        assert pick_verifier(SPECBLOCK, None, knobs).name == name


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    return ModelAdapter(build("llama", seed=1, dtype=torch.float64))


def test_at_temperature_zero_nothing_is_drawn(target: ModelAdapter) -> None:
    """The same drafts as with chosen siblings, to the node."""
    run = trained(target)
    drafts = [
        [(done.draft.tokens, done.draft.row_of) for done in session(target, [5, 77, 12], run, siblings=mode).rounds()]
        for mode in ("topb", "sampled")
    ]
    assert drafts[0] == drafts[1]


def test_a_session_draws_by_the_key(target: ModelAdapter) -> None:
    """Every node of a draft is on record as a draw, the budget holds, and the same seed writes the same text."""
    block_drafter, knobs = trained(target), {"siblings": "sampled", "temperature": 1.0, "node_budget": 30, "top_k": 50}
    runs = [session(target, [5, 77, 12], block_drafter, verifier="tokenwise", **knobs) for _ in range(2)]
    for done in runs[0].rounds():
        draft = done.draft
        assert len(draft) <= 30
        assert all(row >= 0 for row in draft.row_of)
        assert all(node.mode == "sampled" and node.kept for node in draft.nodes)
        assert len(set(zip(draft.parents, draft.tokens, strict=True))) == len(draft)
        for k, row in enumerate(draft.row_of):
            mass = float(draft.law_rows[row].sum())
            assert mass == pytest.approx(1)
            assert float(draft.law_rows[row][draft.tokens[k]]) > 0
    assert runs[0].new_tokens == runs[1].generate()


def test_the_oracle_does_not_go_with_draws() -> None:
    knobs = SPECBLOCK.table.knobs({"siblings": "sampled", "width_mode": "oracle", "temperature": 1.0})
    with pytest.raises((KnobError, SpecvizError), match="use width_mode rank or siblings topb"):
        pick_verifier(SPECBLOCK, None, knobs)
