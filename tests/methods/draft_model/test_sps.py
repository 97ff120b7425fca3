"""`sps` is the chain of method `draft` under a name of its own: the same rounds, the law exact, X + 1 tokens each."""

from typing import Any

import pytest
import torch

from methods.branch.habits import problem
from specviz.probability.table_models import CASE_B, law
from specviz_lab.prove.enumerate import deviation
from support.driver import session as real_session
from support.models import blurred, build
from support.table_session import HISTORY, session, session_law, table_models


@pytest.mark.parametrize(
    ("case", "length", "verifier", "knobs"),
    [
        ("H", 5, "tokenwise", {"gamma": 2}),
        ("H", 4, "walk", {"gamma": 3}),
        ("H", 4, "blockwise", {"gamma": 2}),
        ("H", 4, "hsd", {"gamma": 2}),
        ("B", 3, "tokenwise", {"gamma": 2}),
        ("H", 4, "walk", {"gamma": 2, "draft_mode": "shared"}),
    ],
)
def test_law_of_a_generation(case: str, length: int, verifier: str, knobs: dict[str, Any]) -> None:
    chosen = {"H": HISTORY, "B": CASE_B}[case]
    played_law = session_law(chosen, "sps", verifier, max_new_tokens=length, **knobs)
    assert deviation(played_law, law(chosen.p, length)) < 1e-12


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("verifier", ["walk", "tokenwise"])
def test_it_is_the_chain_of_draft(temperature: float, verifier: str) -> None:
    models = table_models(problem())
    knobs: dict[str, Any] = {"temperature": temperature, "gamma": 3, "seed": 7, "max_new_tokens": 40}
    first, second = (list(session(models, None, name, verifier, **knobs).rounds()) for name in ("sps", "draft"))
    assert [done.tokens for done in first] == [done.tokens for done in second]
    assert [done.draft.tokens for done in first] == [done.draft.tokens for done in second]
    for done in first[:-1]:
        assert len(done.tokens) == done.n_accepted + 1
        assert done.n_draft_calls == len(done.draft) == 3 or done.n_after > 36


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_text_is_that_of_plain_decoding(temperature: float) -> None:
    model, draft = (build("llama", seed=4, dtype=torch.float64) for _ in range(2))
    blurred(draft)
    knobs: dict[str, Any] = {"temperature": temperature, "seed": 1, "max_new_tokens": 30, "eos": (7,)}
    plain = real_session(model, draft, [5, 77, 12], "ar", **knobs).generate()
    assert real_session(model, draft, [5, 77, 12], "sps", gamma=5, **knobs).generate() == plain
