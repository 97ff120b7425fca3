"""The production `Session`, drafters and sampling under the enumerating draws: the exact law of whole generations.

Every path of random decisions is run over several rounds, with a cache of token ids in between,
without sampling noise. Laws are float64: the session softmaxes logits.
"""

import math
from typing import Any

import pytest

pytest.importorskip("torch")

from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session
from specviz.probability.draws import Keys
from specviz.probability.table_models import CASE_A, CASE_B, CASE_C, CASES, Iid, Problem, exact_row, law
from specviz_lab.prove.enumerate import Law, deviation, law_of, total_variation
from support.table_session import HISTORY, Letters, session, session_law, table_models

EXACT = 1e-12
PROBLEMS = CASES | {"H": HISTORY}
TREE = {"shape": "tree", "d_max": 2, "w_max": 2, "k_max": 2, "node_budget": 5}


@pytest.mark.parametrize(
    ("case", "length", "method", "verifier", "knobs"),
    [
        ("H", 5, "ar", "walk", {}),
        ("C", 3, "ar", "walk", {}),
        ("H", 5, "draft", "tokenwise", {"gamma": 2}),
        ("H", 4, "draft", "tokenwise", {"gamma": 3}),
        ("B", 3, "draft", "tokenwise", {"gamma": 2}),
        ("C", 3, "draft", "tokenwise", {"gamma": 2}),
        ("H", 5, "draft", "tokenwise", {"gamma": 0}),
        ("H", 4, "draft", "walk", {"gamma": 2}),
        ("B", 3, "draft", "walk", {"gamma": 2}),
        ("H", 5, "draft", "walk", {"gamma": 3, "draft_mode": "shared"}),
        ("C", 3, "draft", "walk", {"gamma": 2, "draft_mode": "shared"}),
        ("B", 4, "draft", "walk", {"gamma": 2, "draft_mode": "argmax"}),
        ("B", 4, "draft", "tokenwise", {"gamma": 2, "draft_mode": "argmax"}),
        ("H", 7, "draft", "walk", TREE),
        ("B", 5, "draft", "walk", TREE),
        ("C", 4, "draft", "walk", TREE),
        ("B", 4, "draft", "tokenwise", TREE),
        ("H", 7, "ngram", "walk", {"gamma": 3}),
        ("B", 4, "ngram", "walk", {"gamma": 2}),
        ("B", 4, "ngram", "tokenwise", {"gamma": 2}),
    ],
)
def test_law_of_a_generation(case: str, length: int, method: str, verifier: str, knobs: dict[str, Any]) -> None:
    """Up to the length limit, which cuts the last round. Prompt 0 1 0, so that look-up finds something at once."""
    problem = PROBLEMS[case]
    played_law = session_law(problem, method, verifier, max_new_tokens=length, prompt=(0, 1, 0), **knobs)
    assert deviation(played_law, law(problem.p, length)) < EXACT


@pytest.mark.parametrize(
    ("method", "verifier", "knobs"),
    [
        ("ar", "walk", {}),
        ("draft", "tokenwise", {"gamma": 2}),
        ("draft", "tokenwise", {"gamma": 3, "draft_mode": "argmax"}),
        ("draft", "walk", {"gamma": 2}),
        ("draft", "walk", {"gamma": 3, "draft_mode": "shared"}),
        ("draft", "walk", TREE),
        ("ngram", "walk", {"gamma": 3}),
    ],
    ids=str,
)
@pytest.mark.parametrize("eos", [0, 1])
def test_law_with_an_end_token(method: str, verifier: str, knobs: dict[str, Any], eos: int) -> None:
    """A drafted end token is kept, is not fed, and nothing comes after it, wherever in a round it falls."""
    played_law = session_law(HISTORY, method, verifier, max_new_tokens=5, eos=[eos], **knobs)
    assert deviation(played_law, law(HISTORY.p, 5, [eos])) < EXACT


@pytest.mark.parametrize("verifier", ["walk", "tokenwise"])
def test_an_end_token_in_the_middle_of_a_draft(monkeypatch: pytest.MonkeyPatch, verifier: str) -> None:
    """A drafter that drafts on behind an end token: the session cuts there."""
    from specviz.engine.decode.draft_tree import DraftTree

    monkeypatch.setattr(DraftTree, "ends", lambda self, node: False)
    played_law = session_law(HISTORY, "draft", verifier, max_new_tokens=4, eos=[0], gamma=3)
    assert deviation(played_law, law(HISTORY.p, 4, [0])) < EXACT


def test_law_with_two_end_tokens() -> None:
    played_law = session_law(CASE_C, "draft", "tokenwise", max_new_tokens=4, eos=[0, 3], gamma=2)
    assert deviation(played_law, law(CASE_C.p, 4, [0, 3])) < EXACT


@pytest.mark.parametrize(
    ("method", "verifier", "knobs"),
    [("draft", "tokenwise", {"gamma": 2}), ("draft", "walk", TREE), ("ngram", "walk", {"gamma": 3})],
    ids=str,
)
@pytest.mark.parametrize("stop", [["ab"], ["bb", "aaa"]])
def test_law_with_stop_texts(method: str, verifier: str, knobs: dict[str, Any], stop: list[str]) -> None:
    """A stop text may begin in one round and end in another, or in the middle of a round."""
    length = 5
    played_law = session_law(HISTORY, method, verifier, max_new_tokens=length, stop=stop, texts=Letters(), **knobs)
    whole: Law = {}
    for text, prob in law(HISTORY.p, length).items():
        spelled = "".join("ab"[t] for t in text)
        ends = [at + len(s) for s in stop if (at := spelled.find(s)) >= 0]
        cut = text[: min(ends, default=length)]
        whole[cut] = whole.get(cut, 0) + prob
    assert deviation(played_law, whole) < EXACT


def test_the_context_ends_a_text() -> None:
    def run(branch: Any) -> tuple[tuple[int, ...], str | None]:
        running = session(table_models(HISTORY), branch.keys, "draft", "tokenwise", gamma=3, max_new_tokens=40)
        running.target.context = 5
        return tuple(running.generate()), running.finish

    played_law = law_of(run)
    assert {finish for _, finish in played_law} == {"context"}
    assert deviation({text: prob for (text, _), prob in played_law.items()}, law(HISTORY.p, 4)) < EXACT


def change_gamma(session: Session, done: RoundResult | None) -> None:
    """Another gamma every round, told by the text so far (which is allowed: it is told before the draws)."""
    session.request("gamma", (session.number + sum(session.new_tokens)) % 4)


def change_tree(session: Session, done: RoundResult | None) -> None:
    session.request("node_budget", (0, 3, 1, 6)[session.number % 4])
    session.request("w_max", 1 + len(session.tokens) % 2)
    session.request("d_max", 1 + session.number % 2)


def change_ngram(session: Session, done: RoundResult | None) -> None:
    session.request("gamma", (3, 0, 1)[session.number % 3])
    session.request("ngram_max", 1 + len(session.tokens) % 3)


@pytest.mark.parametrize(
    ("case", "length", "method", "verifier", "knobs", "steer"),
    [
        ("H", 5, "draft", "tokenwise", {}, change_gamma),
        ("H", 4, "draft", "walk", {}, change_gamma),
        ("H", 5, "draft", "walk", {"draft_mode": "shared"}, change_gamma),
        ("B", 3, "draft", "tokenwise", {}, change_gamma),
        ("H", 6, "draft", "walk", TREE, change_tree),
        ("B", 4, "draft", "walk", TREE, change_tree),
        ("H", 6, "ngram", "walk", {}, change_ngram),
    ],
)
def test_law_with_knobs_changed_every_round(
    case: str, length: int, method: str, verifier: str, knobs: dict[str, Any], steer: Any
) -> None:
    problem = PROBLEMS[case]
    played_law = session_law(problem, method, verifier, steer=steer, max_new_tokens=length, **knobs)
    assert deviation(played_law, law(problem.p, length)) < EXACT


@pytest.mark.parametrize(
    ("knobs", "warped"),
    [
        ({"top_k": 2}, {0: "0 5/8 3/8", 1: "3/8 5/8 0"}),
        ({"temperature": 0.5}, {0: "4/38 25/38 9/38", 1: "9/38 25/38 4/38"}),
    ],
    ids=str,
)
def test_the_target_law_is_the_warped_one(knobs: dict[str, Any], warped: dict[int, str]) -> None:
    """Lossless is relative to the target's own warpers. Target 2/10, 5/10, 3/10."""
    target, draft = Iid(exact_row([".2", ".5", ".3"])), Iid(exact_row([".4", ".25", ".35"]))
    expected = Iid(exact_row(warped[0].split()))
    for method, verifier in (("ar", "walk"), ("draft", "tokenwise"), ("draft", "walk")):
        played_law = session_law(
            Problem(3, 2, target, draft), method, verifier, max_new_tokens=2, **_gamma(method), **knobs
        )
        assert deviation(played_law, law(expected, 2)) < EXACT


def _gamma(method: str) -> dict[str, int]:
    return {} if method == "ar" else {"gamma": 2}


def test_accepted_tokens_of_the_first_round() -> None:
    """The golden law of case B, gamma 2, out of the whole engine; the limit is too far away to shorten the draft."""

    models = table_models(CASE_B)

    def run(branch: Any) -> int:
        running = session(models, branch.keys, "draft", "tokenwise", gamma=2, max_new_tokens=9)
        return next(running.rounds()).n_accepted

    assert law_of(run) == pytest.approx({0: 0.2, 1: 0.24, 2: 0.56}, abs=EXACT)


@pytest.mark.parametrize("method", ["ar", "draft", "ngram"])
@pytest.mark.parametrize("way", ["cdf", "race"])
def test_walk_gives_the_tokens_of_plain_decoding(method: str, way: str) -> None:
    """Real keys: whatever the method and its knobs, the very tokens of `ar` (not only their law)."""
    models = table_models(HISTORY)
    for seed in range(12):
        plain = session(models, None, "ar", "walk", seed=seed, draw=way, max_new_tokens=24).generate()
        for knobs in ({}, {"gamma": 1}, TREE if method == "draft" else {}, {"draft_mode": "shared"}):
            known = {k: v for k, v in knobs.items() if method == "draft" or (k == "gamma" and method == "ngram")}
            assert (
                session(models, None, method, "walk", seed=seed, draw=way, max_new_tokens=24, **known).generate()
                == plain
            )


def test_plain_decoding_draws_the_target_stream_by_position() -> None:
    running = session(table_models(CASE_A), None, "ar", "walk", seed=4, max_new_tokens=10)
    row = CASE_A.in_floats().p.row(())
    assert running.generate() == [Keys(4, 0).draw("target", n, row).token for n in range(1, 11)]


def test_temperature_zero_is_one_path() -> None:
    """No uniform decides anything: the arg-max text of the target, with probability one."""
    best = {(): 0, (0,): 0, (1,): 1, (2,): 2}
    text = [best[()]]
    while len(text) < 6:
        text.append(best[(text[-1],)])
    for method, verifier in (("ar", "walk"), ("draft", "walk"), ("draft", "tokenwise"), ("ngram", "walk")):
        played_law = session_law(CASE_B, method, verifier, temperature=0.0, max_new_tokens=6, **_gamma(method))
        assert played_law == {tuple(text): 1}


# Controls: faults of the engine that these laws must show.


def test_a_cache_that_does_not_follow_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths move, slots do not: under a tree, what was fed first stays, whatever was accepted."""
    from specviz.engine.model.cache import KVCache

    def in_feed_order(self: KVCache, tokens: Any) -> list[int]:
        return list(range(min(len(self.tokens), len(tokens))))

    assert not _seen_off()
    monkeypatch.setattr(KVCache, "_longest_path", in_feed_order)
    assert _seen_off()


def _seen_off() -> bool:
    try:
        played_law = session_law(HISTORY, "draft", "walk", max_new_tokens=4, **TREE)
    except AssertionError:  # the model was shown a text that no position sequence can make
        return True
    return bool(deviation(played_law, law(HISTORY.p, 4)) > 1e-3)


def test_a_dropped_end_token_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drafter that stops before the end token it drew."""
    from specviz.engine.decode.draft_tree import DraftTree
    from specviz.methods.draft_model.drafter import ChainDrafter

    propose = ChainDrafter.propose

    def dropping(self: Any, ctx: Any) -> Any:
        draft = propose(self, ctx)
        if not len(draft) or draft.tokens[-1] not in ctx.eos:
            return draft
        tree, node = DraftTree(ctx), -1
        for i in range(len(draft) - 1):
            node = tree.add(draft.tokens[i], node, draft.law_rows[i], None, "sampled")
        return tree.draft("stop_token")

    monkeypatch.setattr(ChainDrafter, "propose", dropping)
    played_law = session_law(CASE_A, "draft", "tokenwise", gamma=2, max_new_tokens=4, eos=[0])
    assert float(total_variation(played_law, law(CASE_A.p, 4, [0]))) > 0.1


def test_a_draft_law_at_another_temperature_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded row is not the one the token came from."""
    from specviz.engine.decode.draft_tree import DraftTree

    add = DraftTree.add

    def blurred(self: DraftTree, token: int, parent: int, row: Any = None, *rest: Any, **facts: Any) -> int:
        return add(self, token, parent, None if row is None else row.sqrt() / row.sqrt().sum(), *rest, **facts)

    monkeypatch.setattr(DraftTree, "add", blurred)
    played_law = session_law(CASE_A, "draft", "tokenwise", gamma=1, max_new_tokens=2)
    q = [math.sqrt(2 / 3), math.sqrt(1 / 3)]
    wrong = min(1, (1 / 3) / (q[0] / sum(q))) * 2 / 3  # token 0: drawn with 2/3, kept with p over the recorded share
    first = sum(prob for text, prob in played_law.items() if text[0] == 0)
    assert first == pytest.approx(wrong)
    assert abs(first - 1 / 3) > 0.01
