"""Logits that are no numbers: one named error, in every method, whichever model says them.

Refused is a row with a NaN or +infinity anywhere, or with nothing above minus infinity. Single tokens at minus infinity
are a mask and are legal.
"""

import math
from typing import Any

import pytest
import torch

from methods.trained.test_published import medusa_folder
from specviz.commands import Start
from specviz.engine.decode.sampling import Warper
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.errors import SpecvizError
from specviz.methods import all_methods
from specviz.probability.draws import NOT_FINITE
from support.models import blurred, build, save

PROMPT = "abc abc"
BAD = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
KNOBS: list[dict[str, Any]] = [
    {},
    {"repetition_penalty": 1.3},
    {"temperature": 0.8},
    {"temperature": 0.8, "repetition_penalty": 1.3},
    {"temperature": 0.8, "top_k": 5, "top_p": 0.9},
]
SHIPPED = ("dflash", "eagle3", "mtp", "specblock", "static_tree")  # drafters that only the embedded target has
CASES = [
    (name, who)
    for name, method in all_methods().items()
    for who in ("target", "draft")
    if who == "target" or method.needs_draft
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A pair of three layers."""
    folder = tmp_path_factory.mktemp("pair")
    target, draft = build("llama", seed=1), blurred(build("llama", seed=1))
    return load_pair(save(target, folder / "target"), save(draft, folder / "draft"), threads=1)


@pytest.fixture(scope="module")
def embedded() -> Pair:
    """The pair that comes along, with all that was trained for it."""
    return load_pair(threads=1)


@pytest.fixture(scope="module")
def heads(small: Pair, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Medusa heads for the small target."""
    return str(medusa_folder(small.target.adapter, tmp_path_factory.mktemp("medusa")))


def spoilt(adapter: Any, value: float, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the third call on, `value` in all rows, or in one place of the last row (minus infinity: in all of it)."""
    right, calls = type(adapter).logits, []

    def logits(hidden: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = right(adapter, hidden).clone()
        calls.append(None)
        if len(calls) > 2:
            columns = slice(None) if whole or value == -math.inf else slice(5, 6)
            out[slice(None) if whole else slice(-1, None), columns] = value
        return out

    monkeypatch.setattr(adapter, "logits", logits)


@pytest.mark.parametrize("how", BAD)
@pytest.mark.parametrize(("name", "who"), CASES)
def test_every_method_names_logits_that_are_none(
    name: str, who: str, how: str, small: Pair, embedded: Pair, heads: str
) -> None:
    """Not an index error, and no text made of them: greedy, drawn, penalised, cut."""
    pair = embedded if name in SHIPPED else small
    more = {"drafter": heads} if name == "medusa" else {}
    everywhere = [(True, knobs) for knobs in KNOBS[:: 2 if name in SHIPPED else 1]]
    for whole, knobs in [*everywhere, (False, KNOBS[1]), (False, KNOBS[2])]:
        start = Start(prompt=PROMPT, method=name, knobs={"max_new_tokens": 16, **more, **knobs})
        with pytest.MonkeyPatch.context() as patch:
            spoilt(getattr(pair, who).adapter, BAD[how], whole, patch)
            with pytest.raises(SpecvizError) as caught:
                for _ in LocalRun(pair, start, lambda _event: None).rounds():
                    pass
        assert str(caught.value) == NOT_FINITE, (whole, knobs)


@pytest.mark.parametrize("knobs", [{"temperature": t, "repetition_penalty": r} for t in (0, 0.8) for r in (1.0, 1.3)])
def test_a_masked_token_is_legal_and_never_drawn(knobs: dict[str, float]) -> None:
    """Minus infinity for some tokens, also for one that the prefix holds."""
    logits = torch.randn(3, 20, generator=torch.Generator().manual_seed(1))
    masked = [0, 4, 7]
    logits[:, masked] = -math.inf
    laws = Warper(**{"temperature": 0.0, **knobs}).laws(logits, [[4, 5]] * 3)
    for row in range(3):
        assert all(float(laws[row][token]) == 0 for token in masked)
        assert sum(float(laws[row][token]) for token in range(20)) == pytest.approx(1)
    logits[1] = -math.inf
    with pytest.raises(SpecvizError, match="not finite"):
        Warper(**{"temperature": 0.0, **knobs}).laws(logits, [[4, 5]] * 3)


def test_what_overflows_behind_a_penalty_is_still_a_number() -> None:
    """Finite logits stay finite: the largest penalty is no error of the model."""
    logits = torch.tensor([[1e20, -1e20, 3.0]])
    scores = Warper(repetition_penalty=1e30).allowed(logits, [[0, 1]])
    assert bool(scores.isfinite().all())


def test_a_banned_token_may_be_anything() -> None:
    """It is never looked at."""
    logits = torch.tensor([[1.0, math.nan, 3.0]])
    assert Warper(banned=(1,)).laws(logits)[0].token == 2
    with pytest.raises(SpecvizError, match="not finite"):
        Warper().laws(logits)
