"""The exact law of whole generations under rules M, O, Q and C, and three mistakes that must show.

Every random decision is enumerated through the production session, over a model of three layers with a cache each.
"""

from typing import Any

import pytest

from methods.early_exit.layered import Mixed, stack
from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels
from specviz.methods import get_method
from specviz.methods.common.top_k import RowConfidence
from specviz.methods.early_exit.drafter import EarlyExit
from specviz.methods.early_exit.recorder import ExitRecorder
from specviz.methods.early_exit.spec import Limits
from specviz.probability.draft import Draft
from specviz.probability.table_models import law
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import Law, deviation, total_variation
from support.table_session import law_by_rounds

EXACT = 1e-12
TARGET, LOW, HIGH = Mixed(3), Mixed(8, 2), Mixed(5, 2)
RULES = {"M": ("walk", "argmax"), "O": ("tokenwise", "argmax"), "Q": ("tokenwise", "sampled"), "C": ("walk", "shared")}
SETTING = {"tau": 0.6, "alpha": 0.3, "exit_layers": ["1", "2"], "d_max": 2, "w_max": 2}


def early_law(
    rule: str, length: int, eos: tuple[int, ...] = (), steer: Any = None, drafter: Any = EarlyExit, **changes: Any
) -> tuple[Law, int, int]:
    """The law of the new tokens; the most drafts fed in a round, and how many exits there were over all paths."""
    verifier, mode = RULES[rule]
    method = get_method("specbound")
    knobs = method.table.knobs({**SETTING, "temperature": 1.0, "max_new_tokens": length, **changes})
    fed: list[int] = []

    model, heads = stack(TARGET, LOW, HIGH)
    parts = SessionConfig(FactoryModels(model, None, 64), drafter(model, heads, mode, 0.5), get_verifier(verifier))
    start = Session(parts, model.prompt, method.table, knobs, eos=frozenset(eos))

    def between(running: Session, done: RoundResult | None) -> None:
        if done is not None:
            fed.append(done.draft.n_fed)
        if steer:
            steer(running)

    text_law = law_by_rounds(start, between, [heads])
    return text_law, max(fed), sum(fed)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tau": 0.0, "w_max": 3},
        {"tau": 0.0, "d_max": 1, "w_max": 1},
        {"exit_layers": ["2"], "alpha": 2, "tau": 0.42},
    ],
    ids=str,
)
def test_law_of_three_tokens(rule: str, changes: dict[str, Any]) -> None:
    text_law, most, exits = early_law(rule, 3, **changes)
    assert deviation(text_law, law(TARGET, 3)) < EXACT
    assert exits > 0
    assert most <= 2  # one place of the room is the closing token's


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("eos", [0, 1, 2])
def test_law_with_a_stop_token(rule: str, eos: int) -> None:
    """A drafted stop token is kept, judged by its own row, and never fed."""
    text_law, _, _ = early_law(rule, 3, eos=(eos,), tau=0.45)
    assert deviation(text_law, law(TARGET, 3, [eos])) < EXACT


def change(session: Session) -> None:
    """Another setting before every round, told by the text so far."""
    n = sum(session.tokens) + len(session.tokens)
    session.request("tau", (0.0, 0.5, 0.7, 1.01)[n % 4])
    session.request("w_max", n % 3)
    session.request("d_max", 1 + n % 2)
    session.request("alpha", (0.0, 1.0)[n % 2])


@pytest.mark.parametrize("rule", RULES)
def test_law_with_settings_changed_every_round(rule: str) -> None:
    text_law, _, _ = early_law(rule, 4, steer=change)
    assert deviation(text_law, law(TARGET, 4)) < EXACT


class SoftArgmax(EarlyExit):
    """Mistake 1: the arg-max is drafted and judged as if it had been drawn from the soft row."""

    def _draw(self, ctx: Context, tree: DraftTree, parent: int, look: RowConfidence) -> int:
        return tree.add(look.top1, parent, ctx.warper.laws(look.logits)[0], None, "sampled")


class GateSeesTheDraw(EarlyExit):
    """Mistake 2: the token is drawn first, and drafted only if its own probability clears the threshold."""

    def _climb(self, ctx: Context, limits: Limits, trail: ExitRecorder, row: int) -> RowConfidence | None:
        open_ = Limits(limits.alpha, 0.0, limits.d_max, limits.w_max, limits.layers)
        look = super()._climb(ctx, open_, trail, row)
        assert look is not None
        law_ = ctx.warper.laws(look.logits)[0]
        token = ctx.draw("draft", row - ctx.root_row + 1, law_).token
        return look if float(law_[token]) >= limits.tau else None


class DropsStops(EarlyExit):
    """Mistake 3: a drawn stop token is thrown away and the row drawn afresh from the target."""

    def propose(self, ctx: Context) -> Draft:
        draft = super().propose(ctx)
        if draft.n_fed == len(draft):
            return draft
        tree, node = DraftTree(ctx), -1
        for k in range(draft.n_fed):
            node = tree.add(draft.tokens[k], node, draft.law(k, 3), None, "sampled")
        return tree.draft("stop_token")


@pytest.mark.parametrize(
    ("mistake", "eos", "changes"),
    [
        (SoftArgmax, (), {"tau": 0.0}),
        (GateSeesTheDraw, (), {"tau": 0.5}),
        (DropsStops, (2,), {"tau": 0.0}),
    ],
)
def test_mistakes_show(mistake: type[EarlyExit], eos: tuple[int, ...], changes: dict[str, Any]) -> None:
    """The same enumeration, total variation over the first three tokens: far off with the mistake, exact without."""
    right, _, _ = early_law("Q", 3, eos, **changes)
    wrong, _, _ = early_law("Q", 3, eos, drafter=mistake, **changes)
    truth = law(TARGET, 3, eos)
    assert deviation(right, truth) < EXACT
    assert float(total_variation(wrong, truth)) > 0.05


def test_no_draft_under_keyed_rules_loses_anything_by_dropping_a_stop() -> None:
    """Under M the thrown-away draft was no draw, so the law stays."""
    text_law, _, _ = early_law("M", 3, (2,), drafter=DropsStops, tau=0.0)
    assert deviation(text_law, law(TARGET, 3, [2])) < EXACT


def test_shared_noise_keeps_every_draft_of_a_head_that_is_right() -> None:
    """Rule C where q = p: the same noise draws the same token, on every path. With noise of its own it would not."""
    method, verifier = get_method("specbound"), get_verifier("walk")
    judged: dict[str, list[bool]] = {"shared": [], "sampled": []}
    for mode, kept in judged.items():
        for seed in range(12):
            model, heads = stack(TARGET, TARGET, TARGET)
            parts = SessionConfig(FactoryModels(model, None, 64), EarlyExit(model, heads, mode, 0.5), verifier)  # type: ignore[arg-type]
            knobs = method.table.knobs(
                {
                    **SETTING,
                    "tau": 0.0,
                    "w_max": 3,
                    "temperature": 1.0,
                    "max_new_tokens": 3,
                    "draft_mode": mode,
                    "seed": seed,
                }
            )
            for done in Session(parts, model.prompt, method.table, knobs).rounds():
                kept += [node < done.n_accepted for node in range(min(len(done.draft), done.n_accepted + 1))]
    assert len(judged["shared"]) >= 12
    assert all(judged["shared"])
    assert not all(judged["sampled"])
