"""The exact law of whole generations by `kangaroo` under rules M, O, Q and C, and mistakes that must show.

Every random decision is enumerated through the production session; the adapter is a table over the states of a model
of three layers, with a cache of its own that is checked row by row.
"""

from typing import Any

import pytest
import torch

from methods.early_exit.layered import LayeredTable, Mixed
from methods.kangaroo.kangaroo_stage import TableAdapter
from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels
from specviz.methods import get_method
from specviz.methods.common.top_k import RowConfidence
from specviz.methods.early_exit.recorder import ExitRecorder
from specviz.methods.early_exit.spec import Limits
from specviz.methods.kangaroo.adapter import Reader, StateRows
from specviz.methods.kangaroo.drafter import Kangaroo
from specviz.names import DraftEnd
from specviz.probability.draft import ROOT
from specviz.probability.table_models import law
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import Law, deviation, total_variation
from support.table_session import PROMPT, law_by_rounds

EXACT = 1e-12
TARGET, SAID = Mixed(3), Mixed(4, 2)
RULES = {"M": ("walk", "argmax"), "O": ("tokenwise", "argmax"), "Q": ("tokenwise", "sampled"), "C": ("walk", "shared")}
TAU = 0.5  # some rows of SAID are below it, some are not


def kangaroo_law(
    rule: str,
    length: int,
    eos: tuple[int, ...] = (),
    steer: Any = None,
    drafter: Any = Kangaroo,
    reader: Any = Reader,
    **changes: Any,
) -> tuple[Law, set[str], int]:
    """The law of the new tokens; why drafting ended, over all paths; the longest draft."""
    verifier, mode = RULES[rule]
    method = get_method("kangaroo")
    knobs = method.table.knobs({"tau": TAU, "w_max": 2, "temperature": 1.0, "max_new_tokens": length, **changes})
    ends: set[str] = set()
    lengths: list[int] = []
    model = LayeredTable(TARGET, PROMPT)
    adapter = TableAdapter(model, SAID)
    parts = SessionConfig(
        FactoryModels(model, None, 64), drafter(model, 2, reader(adapter, 64), mode), get_verifier(verifier)
    )
    start = Session(parts, model.prompt, method.table, knobs, eos=frozenset(eos))

    def between(running: Session, done: RoundResult | None) -> None:
        if done is not None:
            ends.add(done.draft.draft_end)
            lengths.append(len(done.draft))
        if steer:
            steer(running)

    return law_by_rounds(start, between, [adapter]), ends, max(lengths)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("changes", [{}, {"tau": 0.0, "w_max": 3}, {"tau": 1.01, "w_max": 3}], ids=str)
def test_law_of_three_tokens(rule: str, changes: dict[str, Any]) -> None:
    text_law, ends, longest = kangaroo_law(rule, 3, **changes)
    assert deviation(text_law, law(TARGET, 3)) < EXACT
    assert longest == (1 if changes.get("tau") == 1.01 else 2)  # one place of the room is the closing token's
    assert "low_conf" in ends or changes.get("tau") == 0.0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("eos", [0, 2])
def test_law_with_a_stop_token(rule: str, eos: int) -> None:
    """A drafted stop token is kept, judged by its own row, and never fed."""
    text_law, ends, _ = kangaroo_law(rule, 3, eos=(eos,))
    assert deviation(text_law, law(TARGET, 3, [eos])) < EXACT
    assert "stop_token" in ends or rule in "MO"


def change(session: Session) -> None:
    """Another setting before every round, told by the text so far; the model's own head in between."""
    n = sum(session.tokens) + len(session.tokens)
    session.request("tau", (0.0, 0.5, 0.7, 1.01)[n % 4])
    session.request("w_max", n % 3)
    session.request("exit_layers", (["auto"], ["1"], ["2"])[n % 3])


@pytest.mark.parametrize("rule", RULES)
def test_law_with_settings_changed_every_round(rule: str) -> None:
    text_law, _, _ = kangaroo_law(rule, 4, steer=change)
    assert deviation(text_law, law(TARGET, 4)) < EXACT


class ThrowsWeakAway(Kangaroo):
    """The mistake: the weak token is drawn and then not verified, told by what was drawn."""

    def _fill(self, ctx: Context, limits: Limits, trail: ExitRecorder, tree: DraftTree) -> DraftEnd:
        row, node = ctx.root_row, ROOT
        while len(tree) < min(limits.w_max, ctx.reach):
            look = self._climb(ctx, limits, trail, row)
            assert look is not None
            law_ = ctx.warper.laws(look.logits)[0]
            token = ctx.draw("draft", len(tree) + 1, law_).token
            if float(law_[token]) < limits.tau:
                return "low_conf"
            node = tree.add(token, node, law_, None, "sampled")
            row = ctx.rows.add(token, row)
        return "width"


class SoftArgmax(Kangaroo):
    """The mistake: the best token is drafted and judged as if it had been drawn from the adapter's law."""

    def _draw(self, ctx: Context, tree: DraftTree, parent: int, look: RowConfidence) -> int:
        return tree.add(look.top1, parent, ctx.warper.laws(look.logits)[0], None, "sampled")


@pytest.mark.parametrize("mistake", [ThrowsWeakAway, SoftArgmax])
def test_mistakes_show(mistake: type[Kangaroo]) -> None:
    """The same enumeration: far off with the mistake, exact without."""
    right, _, _ = kangaroo_law("Q", 3)
    wrong, _, _ = kangaroo_law("Q", 3, drafter=mistake)
    truth = law(TARGET, 3)
    assert deviation(right, truth) < EXACT
    assert float(total_variation(wrong, truth)) > 0.05


class KeepsTooMuch(Reader):
    """The mistake: the row of the first rejected draft stays in the adapter's cache, in the place of the new root."""

    def begin(self, tokens: Any, root: torch.Tensor) -> torch.Tensor:
        drafted = self.cache.tokens[len(tokens) - 1 : len(tokens)]
        if not drafted or self.cache.follow([*tokens[:-1], *drafted]):
            return super().begin(tokens, root)
        self._taken(root)
        self.rows = StateRows(self.model, self.cache)
        self.rows.hand([tokens[-1]], root)
        return self.rows.take(1)


def test_a_stale_row_in_the_adapters_cache_shows() -> None:
    with pytest.raises(AssertionError, match="position"):
        kangaroo_law("Q", 5, reader=KeepsTooMuch, tau=0.0, w_max=3)
