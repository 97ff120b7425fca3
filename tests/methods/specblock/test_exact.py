"""The text is plain decoding's, whatever the block drafter, its knobs and its weights do meanwhile."""

import random
from typing import Any

import pytest
import torch

from methods.specblock.stage import Hearsay, session, trained
from specviz.engine.decode.session import Session
from specviz.engine.model.adapter import ModelAdapter
from specviz.events import Warn
from specviz.methods.specblock import grower as drafting
from specviz.methods.trained.calls import BlockSlot, BlockStart
from specviz.methods.trained.vocabulary import Vocabulary
from support.driver import session as plain_session
from support.models import build

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]


@pytest.fixture(scope="module")
def target() -> ModelAdapter:
    """In float64, so that no rounding decides."""
    return ModelAdapter(build("llama", seed=1, dtype=torch.float64))


def plain(target: ModelAdapter, **knobs: Any) -> list[int]:
    return plain_session(target, None, PROMPT, method="ar", **knobs).generate()


def knowing(monkeypatch: pytest.MonkeyPatch, text: list[int], right: float = 0.75) -> None:
    monkeypatch.setattr(drafting, "offers", Hearsay([*PROMPT, *text], right))


def shaken(run: Session, rng: random.Random) -> None:
    """Other knobs for the next round."""
    for name, values in (
        ("node_budget", [0, 1, 2, 7, 24, 60, 256]),
        ("blocks", [1, 2, 3, 4]),
        ("d_max", [-1, 1, 3, 5, 16]),
        ("slots_used", [0, 1, 2, 3]),
        ("k_max", [1, 2, 10, 20]),
        ("w_max", [1, 3, 20]),
        ("start_cap", [0, 1, 5, 10]),
        ("widths", [["2,4,10,0"], ["1,1,1,1"], ["0,0,0,0"], ["5,3,2,4"]]),
        ("trims", ["preset", "on", "off"]),
        ("merge", [True, False]),
        ("width_mode", ["rank", "fixed"]),
        ("preset", ["paper", "reference-fast", "toy"]),
        ("bucket_bias", [["0,0,0,0"], ["0,5,0,0"], ["-9,0,9,0"]]),
        ("rank_temp", [0.5, 1.0, 7.0]),
    ):
        run.request(name, rng.choice(values))


@pytest.mark.parametrize(("temperature", "draw"), [(0, "cdf"), (0.7, "cdf"), (1.0, "cdf"), (1.0, "race")])
def test_tokens_are_those_of_plain_decoding(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, temperature: float, draw: str
) -> None:
    """Knobs redrawn before every round, weights moved in every one, a good drafter and a random one, merged or not."""
    common = {"temperature": temperature, "draw": draw, "seed": 11, "max_new_tokens": 36}
    want = plain(target, **common)
    assert len(set(want)) > 4, "a text that says nothing proves nothing"
    for right, salt in ((0.0, 0), (0.8, 1), (1.0, 2)):
        if right:
            monkeypatch.setattr(drafting, "offers", Hearsay([*PROMPT, *want], right, salt))
        rng, noise, most = random.Random(salt), torch.Generator().manual_seed(salt), 0
        drafter = trained(target, seed=salt)
        run = session(target, PROMPT, drafter, **common)
        judge, before = drafter.network.norm_and_head, drafter.network.head.weight.clone()

        def perturbed(states: torch.Tensor, judge: Any = judge, drafter: Any = drafter, noise: Any = noise) -> Any:
            with torch.no_grad():  # between one call of the round and the next
                for parameter in drafter.network.parameters():
                    parameter.add_(0.05 * torch.randn(parameter.shape, generator=noise, dtype=parameter.dtype))
            return judge(states)

        monkeypatch.setattr(drafter.network, "norm_and_head", perturbed)
        for done in run.rounds():
            most = max(most, done.n_accepted)
            shaken(run, rng)
        assert run.new_tokens == want
        assert most >= (0 if not right else 3)
        assert not torch.equal(drafter.network.head.weight, before), "no weight was moved"
        monkeypatch.undo()


@pytest.mark.parametrize("temperature", [0, 0.9])
def test_warpers_end_tokens_and_limits(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """Top-p, a repetition penalty, a banned token, an end token inside the tree, every length."""
    common = {"temperature": temperature, "top_p": 0.9, "repetition_penalty": 1.2, "ban": ["id:7"]}
    want = plain(target, **common)
    knowing(monkeypatch, want)
    drafter = trained(target)
    assert session(target, PROMPT, drafter, **common).generate() == want
    eos = want[11]
    run = session(target, PROMPT, drafter, eos=(eos,), **common)
    assert run.generate() == want[: want.index(eos) + 1]
    assert run.finish == "eos"
    for limit in (1, 2, 3, 6, 13):
        run = session(target, PROMPT, drafter, **{**common, "max_new_tokens": limit})
        assert (run.generate(), run.finish) == (want[:limit], "length")


def test_a_reduced_vocabulary_with_penalty_and_ban(target: ModelAdapter) -> None:
    """Draft ids are mapped, tokens outside the map are never drafted, banned ones neither."""
    counts = torch.randperm(target.vocab, generator=torch.Generator().manual_seed(3))
    vocabulary = Vocabulary.most_frequent(counts, 90)
    common = {"temperature": 0.8, "repetition_penalty": 1.3, "ban": [f"id:{int(vocabulary.ids[4])}"]}
    drafter = trained(target, vocabulary=vocabulary, draft_vocab=90)
    run = session(target, PROMPT, drafter, **common)
    drafted = {token for done in run.rounds() for token in done.draft.tokens}
    assert run.new_tokens == plain(target, **common)
    assert drafted
    assert drafted <= set(vocabulary.ids.tolist()) - {int(vocabulary.ids[4])}


def test_one_token_prompt_drafts_nothing_in_its_first_round(target: ModelAdapter) -> None:
    run = session(target, [5], trained(target))
    rounds = list(run.rounds())
    assert run.new_tokens == plain_session(target, None, [5], method="ar").generate()
    assert len(rounds[0].draft) == 0
    assert len(rounds[1].draft) > 0


def test_pairs_follow_the_text(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every round the drafter's rows are those of a fresh drafter that saw the text at once."""
    want = plain(target)
    knowing(monkeypatch, want)
    trainer = trained(target)
    run = session(target, PROMPT, trainer)
    lengths = set()
    for done in run.rounds():
        lengths.add(len(done.tokens))
        if run.finish:
            break
        fresh = session(target, run.tokens, trainer)
        fresh.prefill()
        ours, theirs = run.drafter, fresh.drafter
        assert ours.text.n_observed == theirs.text.n_observed == len(run.tokens) - 1
        with torch.inference_mode():
            roots = [drafter.text.root() for drafter in (ours, theirs)]
        torch.testing.assert_close(roots[0], roots[1], rtol=0, atol=1e-10)
    assert len(lengths) > 2, "rounds of different length, or nothing is shown"


def test_an_interrupted_round_begins_anew(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a round breaks off, the next one drafts what it would have drafted."""
    want = plain(target)
    knowing(monkeypatch, want)
    for broken in range(1, 9):
        drafter = trained(target)
        run, calls = session(target, PROMPT, drafter, blocks=3), 0
        honest = drafting.offers

        def breaking(*args: Any, honest: Any = honest, broken: int = broken) -> Any:
            nonlocal calls
            calls += 1
            if calls == broken:
                raise KeyboardInterrupt
            return honest(*args)

        with monkeypatch.context() as patch:
            patch.setattr(drafting, "offers", breaking)
            with pytest.raises(KeyboardInterrupt):
                list(run.rounds())
        rest = [tuple(done.draft.tokens) for done in run.rounds()]
        whole = [tuple(done.draft.tokens) for done in session(target, PROMPT, drafter, blocks=3).rounds()]
        assert run.new_tokens == want
        assert rest == whole[-len(rest) :]


def test_an_interruption_among_the_new_pairs_loses_and_doubles_none(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt runs in pieces; whichever piece a round breaks off at, the next goes on where it was."""
    monkeypatch.setattr("specviz.methods.trained.calls.MOST_PAIRS", 3)
    drafter = trained(target)
    whole = next(iter(session(target, PROMPT, drafter).rounds())).draft.tokens
    honest = drafter.network.conditions
    for broken in (1, 2, 3):
        calls = 0

        def breaking(features: torch.Tensor, broken: int = broken) -> Any:
            nonlocal calls
            calls += 1
            if calls == broken:
                raise KeyboardInterrupt
            return honest(features)

        run = session(target, PROMPT, drafter)
        with monkeypatch.context() as patch:
            patch.setattr(drafter.network, "conditions", breaking)
            with pytest.raises(KeyboardInterrupt):
                next(iter(run.rounds()))
        again = next(iter(run.rounds()))
        assert again.draft.tokens == whole
        assert run.drafter.text.calls.pairs == len(PROMPT) - 1


def test_a_level_says_what_each_start_says_alone(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of a round of three levels, against a fresh cache that runs its chain one block at a time."""
    trained_ = trained(target)
    grow, grown, seen, honest = drafting.TreeGrower.grow, [], [], drafting.offers

    def growing(self: Any, root: torch.Tensor) -> bool:
        grown.append(self)
        return grow(self, root)

    def watching(ctx: Any, vocabulary: Any, logits: Any, *others: Any) -> Any:
        seen.extend(logits)
        return honest(ctx, vocabulary, logits, *others)

    monkeypatch.setattr(drafting.TreeGrower, "grow", growing)
    monkeypatch.setattr(drafting, "offers", watching)
    next(iter(session(target, PROMPT, trained_, blocks=3, start_cap=4).rounds()))
    fresh = session(target, PROMPT, trained_)
    fresh.prefill()
    blocks = {drafter.row: drafter for drafter in grown[0].made}
    assert [drafter.block for drafter in blocks.values()] == [1, *[2] * 4, *[3] * 4]
    for (row, drafter), logits in zip(blocks.items(), seen, strict=True):
        with torch.inference_mode():
            rows, calls = fresh.drafter.text.root(), fresh.drafter.text.calls
            chain, at = (), calls.first_row
            for number, link in enumerate(drafter.start.chain, 1):
                chain = (*chain, BlockSlot(link.block, at, link.slot))
                start = blocks[drafter.start.chain[number].row if number < len(drafter.start.chain) else row].start
                h, (at,) = calls.later([BlockStart(start.token, start.depth, chain)])
                rows = h[0]
            torch.testing.assert_close(trained_.network.norm_and_head(rows)[1], logits, rtol=0, atol=1e-9)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("which", ["draft logits", "rank logits", "logits of a later block"])
def test_numbers_that_are_not_finite_draft_nothing(
    target: ModelAdapter, monkeypatch: pytest.MonkeyPatch, which: str, value: float
) -> None:
    """Wherever they turn up among what is offered: no draft that round, a word about it, the text as ever."""
    drafter = trained(target)
    right, judged, calls = drafter.network.norm_and_head, drafter.network.judged, 0

    def odd(states: torch.Tensor) -> Any:
        nonlocal calls
        calls += 1
        normed, logits = (rows.clone() for rows in right(states))
        if which == "draft logits" or (which == "logits of a later block" and len(states) > 1):
            logits[-1, 1, logits[-1, 1].topk(3).indices[2]] = value
        if which == "draft logits" and value < 0:
            logits[-1, 1, 19:] = value  # with fewer than 20 to offer
        return normed, logits

    def judging(normed: torch.Tensor, summary: torch.Tensor) -> torch.Tensor:
        rank_logits = judged(normed, summary).clone()
        if which == "rank logits":
            rank_logits[-1, 1, 2] = value
        return rank_logits

    monkeypatch.setattr(drafter.network, "norm_and_head", odd)
    monkeypatch.setattr(drafter.network, "judged", judging)
    run = session(target, PROMPT, drafter)
    rounds = list(run.rounds())
    assert run.new_tokens == plain(target)
    silent = value < 0 and which != "draft logits"  # a logit of minus infinity alone bans a bucket, or a token
    for done in rounds:
        codes = [fact.code for fact in done.facts if isinstance(fact, Warn)]
        room = 40 - (done.n - len(PROMPT)) - 1
        if room < 1 or (which == "logits of a later block" and room <= 4) or silent:
            continue
        assert codes == ["draft_not_finite"]
        assert len(done.draft) == 0
    assert calls > 10


def test_tokenwise_keeps_greedy_tokens(target: ModelAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    want = plain(target)
    knowing(monkeypatch, want)
    for merge in (True, False):
        assert session(target, PROMPT, trained(target), verifier="tokenwise", merge=merge).generate() == want


def test_calls_per_round(target: ModelAdapter) -> None:
    """One call a block, whatever the tree."""
    for blocks in (1, 2, 3):
        for done in session(target, PROMPT, trained(target), blocks=blocks, max_new_tokens=20).rounds():
            room = 20 - (done.n - len(PROMPT)) - 1
            assert done.n_draft_calls == min(blocks, -(-room // 4))
            assert max(done.draft.depths, default=0) <= 4 * blocks
