"""Branch drafters on a small real pair in float64: texts, fates, ends, aborts."""

import contextlib
from collections import Counter
from typing import Any

import pytest
import torch

from methods.branch.sharp import PROMPT, sharp_pair
from methods.branch.watch import Watch, fact, facts
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.rows import ForwardBatch
from specviz.errors import SpecvizError
from specviz.events import Fork, Match, Posterior, Rollback, Settle, Span
from specviz.methods.branch.drafter import Branching
from support.driver import session
from support.models import build

METHODS = ["specbranch", "pearl"]


@pytest.fixture(scope="module")
def pair() -> tuple[ModelAdapter, ModelAdapter]:
    return sharp_pair()


# Texts.


@pytest.mark.parametrize("gamma", [1, 2, 4, 6])
def test_greedy_text_for_every_draft_and_branch_length(pair: Any, gamma: int) -> None:
    want = session(*pair, PROMPT, method="ar").generate()
    for length, verifier in (
        (1, "tokenwise"),
        (2, "walk"),
        (4, "tokenwise"),
        (6, "walk"),
        (0, "tokenwise"),
        (-1, "walk"),
    ):
        knobs = {"gamma": gamma, "branch_len": length, "k_max": 8, "epsilon": 0.25}
        assert session(*pair, PROMPT, "specbranch", verifier, **knobs).generate() == want, length
    assert session(*pair, PROMPT, "pearl", gamma=gamma).generate() == want


@pytest.mark.parametrize("limit", [1, 2, 3, 24])
@pytest.mark.parametrize("method", METHODS)
def test_prompts_and_limits(pair: Any, method: str, limit: int) -> None:
    """Prompts of one token and up; never a token over the limit, every one of them verified."""
    for prompt in ([7], [7, 9], PROMPT):
        for temperature, verifier in ((0.0, "walk"), (0.0, "tokenwise"), (1.0, "walk")):
            common = {"max_new_tokens": limit, "temperature": temperature}
            want = session(*pair, prompt, method="ar", **common).generate()
            assert session(*pair, prompt, method, verifier, gamma=3, **common).generate() == want
            assert len(want) == limit


@pytest.mark.parametrize("draw", ["cdf", "race"])
@pytest.mark.parametrize("mode", ["sampled", "argmax", "shared"])
def test_walk_gives_the_tokens_of_plain_decoding(pair: Any, mode: str, draw: str) -> None:
    """Whatever is drafted, with warpers and a ban on, which touch both models."""
    common = {"temperature": 1.1, "draw": draw, "top_p": 0.9, "repetition_penalty": 1.1, "seed": 3, "ban": ["id:65"]}
    want = session(*pair, PROMPT, method="ar", **common).generate()
    for rule in ("topk", "hybrid", "swor"):
        knobs = {"draft_mode": mode, "branch_rule": rule, "k_max": 9, "epsilon": 0.25}
        assert session(*pair, PROMPT, "specbranch", **common, **knobs).generate() == want, rule
    assert session(*pair, PROMPT, "pearl", **common, draft_mode=mode).generate() == want


def test_knobs_changed_before_every_round_leave_the_text(pair: Any) -> None:
    want = session(*pair, PROMPT, method="ar", temperature=1.0).generate()
    run = session(*pair, PROMPT, "specbranch", temperature=1.0)
    for number, _ in enumerate(run.rounds()):
        run.request("epsilon", (0.0, 0.3, 0.9, 1.0)[number % 4])
        run.request("k_max", (1, 6, 16)[number % 3])
        run.request("gamma", (4, 1, 6, 0, 2)[number % 5])
        run.request("branch_len", (0, 1, 3)[number % 3])
        run.request("signal", ("auto", "2", "1", "0", "auto", "2")[number % 6])
    assert run.new_tokens == want


def test_past_the_draft_models_context_the_text_goes_on_without_it(pair: Any) -> None:
    short = ModelAdapter(pair[1].model)
    short.context = 24
    want = session(*pair, PROMPT, method="ar", max_new_tokens=40).generate()
    for method in METHODS:
        run = session(pair[0], short, PROMPT, method, max_new_tokens=40)
        assert run.generate() == want
        assert run.drafter.cached() <= 24


@pytest.mark.parametrize("method", METHODS)
def test_a_draft_model_of_no_numbers_is_told_in_one_line(pair: Any, method: str) -> None:
    broken = ModelAdapter(build("llama", seed=1, dtype=torch.float64))
    with torch.no_grad():
        broken.model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(SpecvizError, match="not finite"):
        session(pair[0], broken, PROMPT, method, temperature=1.0).generate()


# Fates.


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("verifier", ["walk", "tokenwise"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_every_token_has_one_fate(pair: Any, method: str, verifier: str, temperature: float) -> None:
    """Born once, settled once; accepted ones are those in the text; the sums of the rounds agree."""
    watch = Watch()
    knobs = {"k_max": 10, "epsilon": 0.25} if method == "specbranch" else {}
    run = session(
        *pair, PROMPT, method, verifier, sink=watch, temperature=temperature, max_new_tokens=70, eos=(), **knobs
    )
    run.generate()
    born = [node.id for done in watch.rounds for node in done.draft.nodes]
    fates: dict[int, str] = {}
    for done in watch.rounds:
        settled = fact(done, Settle)
        for node, fate in settled.fates if settled else ():
            assert node not in fates, f"node {node} settled twice"
            fates[node] = fate
        accepted = sum(fate == "accepted" for _, fate in settled.fates) if settled else 0
        assert accepted == done.n_accepted
    assert sorted(born) == sorted(fates) == list(range(len(born)))
    assert sum(done.draft.n_drafted for done in watch.rounds) == len(born)
    assert {"accepted", "branch_void"} <= set(fates.values())
    for done in watch.rounds:
        rollback, settled = fact(done, Rollback), fact(done, Settle)
        if rollback is not None:
            counts = Counter(fate for _, fate in settled.fates)
            assert all(rollback.void[fate] == counts[fate] for fate in rollback.void)
            assert rollback.cause == ("reject" if counts["rejected"] else "miss" if counts["branch_void"] else "eos")
            assert 0 <= rollback.wasted_ns <= settled.wasted_ns
    wasted = sum(fact(done, Settle).wasted_ns for done in watch.rounds if fact(done, Settle))
    assert 0 < wasted <= sum(span.dur_ns for done in watch.rounds for span in facts(done, Span) if span.lane == "draft")


def test_no_forward_is_charged_twice(pair: Any) -> None:
    """Signal 0: the branch tokens of a round come from the row that the trimmed tokens were drawn from."""
    watch = Watch()
    knobs = {"signal": "0", "k_max": 16, "branch_len": 2, "gamma": 2}
    session(*pair, PROMPT, "specbranch", "walk", sink=watch, max_new_tokens=40, eos=(), **knobs).generate()
    settled = [fact(done, Settle) for done in watch.rounds]
    n_trimmed = sum(fate == "trimmed" for settle in settled if settle for _, fate in settle.fates)
    assert n_trimmed > 5
    drafting = sum(span.dur_ns for done in watch.rounds for span in facts(done, Span) if span.lane == "draft")
    assert sum(settle.wasted_ns for settle in settled if settle) <= drafting


def test_the_posterior_cut_keeps_ids_laws_and_reasons(pair: Any) -> None:
    """Pending tokens of a later round are those born before, and nothing is born twice."""
    watch, reasons = Watch(), Counter[str]()
    session(
        *pair, PROMPT, "specbranch", "tokenwise", sink=watch, temperature=0.6, epsilon=0.25, max_new_tokens=80
    ).generate()
    open_ids: list[int] = []
    for done in watch.rounds:
        posterior, fork, match = fact(done, Posterior), fact(done, Fork), fact(done, Match)
        pending = [node.id for node in done.draft.pending]
        if posterior is not None:
            assert pending == open_ids[: posterior.n_kept]
            assert len(open_ids) == posterior.n_kept + posterior.n_trimmed
            assert posterior.pos == fork.pos
            assert fork.known == posterior.known or fork.k == 0
            reasons[fork.reason] += 1
        else:
            assert not pending
        hit = match is not None and match.branch is not None
        open_ids = [n.id for n in done.draft.nodes if hit and n.branch == match.branch][1:]
    assert reasons["low_conf"]
    assert reasons["after_last"]


# Ends.


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nothing_after_an_end_token(pair: Any, method: str, temperature: float) -> None:
    """Every token of the text in turn is the end token: in the draft stage, as branch token, in a continuation."""
    plain = session(*pair, PROMPT, method="ar", temperature=temperature, max_new_tokens=30).generate()
    places, finishes = Counter[str](), Counter[str]()
    for eos in list(dict.fromkeys(plain))[2:12]:
        want = plain[: plain.index(eos) + 1]
        for verifier in ("walk", "tokenwise") if temperature == 0 else ("walk",):
            watch = Watch()
            knobs = {"epsilon": 0.25, "k_max": 8} if method == "specbranch" else {}
            run = session(
                *pair, PROMPT, method, verifier, (eos,), watch, temperature=temperature, max_new_tokens=30, **knobs
            )
            assert run.generate() == want
            finishes[str(run.finish)] += 1
            for done in watch.rounds:
                tails = {node.parent for node in done.draft.nodes}
                for node in done.draft.nodes:
                    if node.token == eos:
                        assert node.id not in tails, "drafted on behind an end token"
                        head = node.branch is not None and node.id in {b.node for b in fact(done, Fork).branches}
                        places["draft" if node.branch is None else "branch" if head else "continuation"] += 1
                last = done.draft.pending[-1:] or ()
                if last and last[0].token == eos:
                    places["ended list"] += 1
                    assert fact(done, Fork).k == 0
                    assert fact(done, Fork).reason == "eos"
    wanted = {"branch", "continuation"} | ({"draft"} if method == "specbranch" else set())
    assert wanted | (set() if temperature else {"ended list"}) <= set(places), places
    assert finishes["eos"] > 3


def test_a_rejected_end_token_ends_nothing(pair: Any) -> None:
    """The end token is drafted again and again, and kept only when the target says it."""
    watch = Watch()
    run = session(
        *pair, PROMPT, "specbranch", "tokenwise", tuple(range(130)), watch, temperature=1.2, max_new_tokens=40
    )
    run.generate()
    ends = [t for t in run.new_tokens if t < 130]
    assert len(ends) <= 1
    assert not ends or run.new_tokens[-1] == ends[0]


# Aborts.


@pytest.mark.parametrize("where", ["propose", "draft_ahead", "target"])
@pytest.mark.parametrize("verifier", ["walk", "tokenwise"])
def test_an_aborted_round_changes_nothing(
    pair: Any, verifier: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted at its end, in every second round: the number is used again, and the text is that of a calm run."""
    common = {"temperature": 0.8, "epsilon": 0.25, "max_new_tokens": 40}
    want = session(*pair, PROMPT, "specbranch", verifier, **common).generate()
    watch = Watch()
    run = session(*pair, PROMPT, "specbranch", verifier, sink=watch, **common)
    owner, name = (ForwardBatch, "finish") if where == "target" else (Branching, where)
    real, calls = getattr(owner, name), 0

    def failing(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        result = real(*args)
        if calls % 2:
            raise RuntimeError("unplugged")
        return result

    monkeypatch.setattr(owner, name, failing)
    while run.finish is None:
        with contextlib.suppress(RuntimeError):
            run.generate()
    assert run.new_tokens == want
    assert len(watch.aborts) >= len(watch.rounds) > 5
