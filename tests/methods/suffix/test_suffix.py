"""Suffix decoding: counts against counting, drafts against the rule written out, laws exact, the text as ever."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from methods.branch.habits import problem
from specviz.engine.decode.drafter import QueryEnd
from specviz.engine.decode.round import QueryStats
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.errors import KnobError
from specviz.methods import get_method
from specviz.methods.common.runner import DraftSampler
from specviz.methods.suffix.counts import SuffixCounts, SuffixMatches, SuffixPosition
from specviz.methods.suffix.drafter import Suffix
from specviz.probability.table_models import CASE_B, CASE_C, law
from specviz_lab.prove.enumerate import deviation
from support.driver import greedy
from support.driver import session as real_session
from support.models import build
from support.table_session import HISTORY, TableModel, session, session_law

Words = Counter[tuple[int, ...]]
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"tree": True, "max_spec_factor": 3.0},
    {"draft_mode": "sampled", "max_spec_factor": 3.0},
    {"draft_mode": "shared", "max_spec_factor": 3.0},
]


def words(texts: Sequence[Sequence[int]], depth: int) -> Words:
    return Counter(
        tuple(text[a:b])
        for text in texts
        for a in range(len(text))
        for b in range(a + 1, min(len(text), a + depth) + 1)
    )


def texts(rng: random.Random, n: int) -> list[list[int]]:
    return [[rng.randrange(rng.choice([1, 2, 3])) for _ in range(rng.randrange(14))] for _ in range(n)]


def place(counts: SuffixCounts, word: Sequence[int]) -> SuffixPosition | None:
    at: SuffixPosition | None = SuffixPosition(counts.root, 0, 0)
    for token in word:
        at = at and at.after(token)
    return at


def check(counts: SuffixCounts, known: Words) -> None:
    """Every word that occurs is there with what follows it, and nothing else."""
    for word in {(), *known}:
        state = place(counts, word)
        assert state is not None
        if len(word) < counts.depth:
            following = {token: n for token, n, _ in state.following()}
            assert following == {text[-1]: n for text, n in known.items() if text[:-1] == word}


@pytest.mark.parametrize("depth", [2, 3, 6])
def test_counts_are_those_of_counting(depth: int) -> None:
    """Token by token, over several texts, and back: texts leave in any order, to the last count."""
    rng = random.Random(depth)
    for _ in range(60):
        known_texts, counts = texts(rng, 4), SuffixCounts(depth)
        others = [*known_texts]
        for number, text in enumerate(known_texts):
            counts.begin()
            for n, token in enumerate(text, 1):
                counts.add(token)
                before = words([*known_texts[:number], text[: n - 1]], depth)
                now = words([*known_texts[:number], text[:n]], depth)
                longest = [k for k in range(min(n, depth - 1), 0, -1) if now[tuple(text[n - k : n])] > 1]
                assert [match.depth for match in counts.matched()] == longest, before
        counts.begin()
        check(counts, words(others, depth))
        matches, fresh = SuffixMatches(counts), texts(rng, 1)[0]
        for n, token in enumerate(fresh, 1):
            matches.add(token)
            known = words(others, depth)
            there = [k for k in range(min(n, depth), 0, -1) if tuple(fresh[n - k : n]) in known]
            assert [match.depth for match in matches.matched()] == there
        while others:
            counts.forget(others.pop(rng.randrange(len(others))))
            check(counts, words(others, depth))
        assert not counts.root.children


def by_the_book(text: Sequence[int], depth: int, factor: float, least: float, longest: int) -> list[int]:
    """The chain of the match that promises most, by scanning the text for every match and every token."""
    best: tuple[float, list[int]] = (0.0, [])
    for size in range(min(depth - 1, len(text) - 1), 0, -1):
        chain, prob, promised = list(text[-size:]), 1.0, 0.0
        for _ in range(min(int(factor * size + 1e-9), longest, depth - size)):
            ends = [i + len(chain) for i in range(len(text) - len(chain)) if list(text[i : i + len(chain)]) == chain]
            counted = Counter(text[end] for end in ends if end < len(text))
            if not counted:
                break
            newest = {text[end]: end for end in reversed(ends)}  # where a token first followed
            token = max(counted, key=lambda t: (counted[t], newest[t]))
            prob *= counted[token] / counted.total()
            if prob < least:
                break
            chain.append(token)
            promised += prob
        if promised > best[0]:
            best = (promised, chain[size:])
    return best[1]


def models(prompt: Sequence[int]) -> FactoryModels:
    return FactoryModels(TableModel(problem().p, prompt), None, 400)


@pytest.mark.parametrize("depth", [3, 8])
@pytest.mark.parametrize("factor", [0.7, 1.0, 2.5])
def test_every_draft_is_that_of_the_book(depth: int, factor: float) -> None:
    prompt = (2, 4, 1, 4, 0, 2, 4, 1, 2, 4)
    knobs = {"max_tree_depth": depth, "max_spec_factor": factor, "min_token_prob": 0.3}
    running = session(models(prompt), None, "suffix", "walk", seed=3, temperature=1.0, max_new_tokens=50, **knobs)
    text, drafted = list(prompt), 0
    for done in running.rounds():
        room = 50 - (len(text) - len(prompt))
        assert list(done.draft.tokens) == by_the_book(text, depth, factor, 0.3, min(24, room - 1))
        drafted += len(done.draft)
        if not done.draft.tokens and room > 1:
            assert done.draft.draft_end == ("low_conf" if text[-1] in text[:-1] else "no_match")
        text += done.tokens
    assert drafted > 10


@pytest.mark.parametrize(
    ("layout", "verifier"),
    [
        (layout, name)
        for layout in LAYOUTS
        for name in ("walk", "tokenwise")
        if name == "walk" or "shared" not in str(layout)
    ],
    ids=str,
)
def test_law_of_a_generation(layout: dict[str, Any], verifier: str) -> None:
    """Whole generations under every random decision. The prompt repeats itself: something is drafted at once."""
    more = {"max_tree_depth": 4, "min_token_prob": 0.2, "prompt": (0, 1, 0, 0, 1, 0), **layout}
    for case, length, eos in ((HISTORY, 4, ()), (CASE_C, 2, ()), (HISTORY, 4, (1,)), (CASE_B, 3, ())):
        played_law = session_law(case, "suffix", verifier, max_new_tokens=length, eos=[*eos], **more)
        assert deviation(played_law, law(case.p, length, [*eos])) < 1e-12


def test_a_draw_by_another_law_than_is_on_record_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: drawn by the shares of two tokens the wrong way round, the text has another law."""
    more: dict[str, Any] = {"max_tree_depth": 2, "draft_mode": "sampled", "prompt": (0, 0, 0, 1, 1, 1, 0)}
    played_law = session_law(HISTORY, "suffix", "tokenwise", max_new_tokens=3, **more)
    assert deviation(played_law, law(HISTORY.p, 3)) < 1e-12
    drawn = DraftSampler.token
    monkeypatch.setattr(DraftSampler, "token", lambda self, depth, law: drawn(self, depth, law.flip(0)))
    played_law = session_law(HISTORY, "suffix", "tokenwise", max_new_tokens=3, **more)
    assert deviation(played_law, law(HISTORY.p, 3)) > 1e-3


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=str)
def test_tokens_of_plain_decoding(layout: dict[str, Any]) -> None:
    adapter = build("llama", seed=1)
    prompt = [7, 8, 9, 7, 8, 9, 7, 8]
    running = real_session(adapter, None, prompt, method="suffix", max_new_tokens=40, **layout)
    assert [t for done in running.rounds() for t in done.tokens] == greedy(adapter, prompt, 40)


@pytest.mark.parametrize("remembered", [0, 1])
def test_the_next_query_is_drafted_from_the_answer_to_the_last(remembered: int) -> None:
    """The same prompt again: nearly all of it was said before. With nothing to be remembered it is not known."""
    adapter, prompt = ModelAdapter(build("llama", seed=1)), [7, 8, 9, 11]
    knobs = get_method("suffix").table.knobs({"max_cached_requests": remembered})
    drafter, rounds = Suffix(knobs["max_tree_depth"], "argmax"), []
    for query in range(3):
        running = real_session(adapter, None, prompt, method="suffix", drafter=drafter)
        done = list(running.rounds())
        rounds.append(len(done))
        sources = {node.src["from"] for outcome in done for node in outcome.draft.nodes}
        assert ("answers" in sources) == (remembered == 1 and query > 0)
        drafter.on_query_end(QueryEnd(query, knobs, QueryStats()))
        drafter = drafter.next_query(FactoryModels(adapter, None, 640), knobs)
    assert len(drafter.answers.kept) == remembered
    assert (rounds[1] < rounds[0]) == (remembered == 1)


def test_a_tree_is_not_drawn() -> None:
    method = get_method("suffix")
    with pytest.raises(KnobError, match="use tree off"):
        method.fitting(method.table.knobs({"tree": True, "draft_mode": "sampled"}).values)
