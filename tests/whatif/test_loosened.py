"""Rules of engines that are not lossless, asked of recorded rounds: against rows of the model itself, by hand."""

import math
from collections.abc import Iterator, Sequence
from functools import cache

import pytest
import torch

from specviz.cli.options import chosen_method
from specviz.errors import SpecvizError
from specviz.probability.philox import uniform
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.verifiers import get_verifier
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.what_if import what_if_round
from specviz.view.whatif import what_if, what_if_run
from specviz.view.why.again import node_again
from specviz.whatif import Change, Decision, checked, decide, decide_run, movable
from specviz.whatif.decision import RoundAgain
from whatif.recorded_sessions import PROMPT, models
from whatif.recorded_sessions import run_of as recorded

RULES = ("fly", "relaxed", "typical")
BLUR = 0.04  # of the draft model: most of what it drafts is kept
WHOLE = 260  # of the model's vocabulary
Rows = list[list[float]]


@cache
def run_of(temperature: float, mode: str = "argmax", level: str = "full", topk: int = 8) -> Run:
    more = {"gamma": 6, "n": 60, "seed": 4, "temperature": temperature, "draft_mode": mode, "blur": BLUR}
    return recorded("tokenwise", level, topk, **more)  # type: ignore[arg-type]


def asked(run: Run, record: RoundRecord, rule: str, **knobs: object) -> Decision:
    assert run.header is not None
    return decide(run, record, checked(run.header, Change(rule, knobs)))


def rounds(run: Run) -> Iterator[tuple[RoundRecord, list[int], Rows]]:
    """Every round with its drafted chain and the softmax that judges each token of it, from the model."""
    target = models(BLUR)[0]
    for record in (record for record in run.rounds if record.verdicts):
        text = [*PROMPT]
        for before in run.rounds[: record.index]:
            text += before.commit.tokens if before.commit is not None else []
        chain = [node.token for _, node in sorted(record.nodes.items()) if node.fed]
        with torch.inference_mode():
            logits = target.model(torch.tensor([[*text, *chain]])).logits[0, len(text) - 1 : -1]
        assert len(text) == record.start.n
        yield record, chain, torch.softmax(logits / (record.temperature or 1), -1).tolist()


def distance(row: Sequence[float], token: int, temperature: float) -> float:
    """Of the certain law of a token that is kept in any case, from the target's; at temperature 0 that is certain."""
    best = max(range(len(row)), key=lambda t: row[t])
    law = row if temperature else [float(t == best) for t in range(len(row))]
    return sum(abs(float(t == token) - p) for t, p in enumerate(law)) / 2


def typical(rows: Rows, chain: list[int], temperature: float, us: list[float]) -> int:
    for k, (row, token) in enumerate(zip(rows, chain, strict=True)):
        if not temperature:
            kept = token == row.index(max(row))
        else:
            kept = row[token] >= min(0.09, 0.3 * math.exp(sum(p * math.log(p) for p in row if p > 0)))
        if not kept:
            return k
    return len(chain)


def relaxed(rows: Rows, chain: list[int], temperature: float, us: list[float]) -> int:
    for k, (row, token) in enumerate(zip(rows, chain, strict=True)):
        if token not in sorted(range(len(row)), key=lambda t: -row[t])[:10] or row[token] < max(row) - 0.6:
            return k
    return len(chain)


def fly(rows: Rows, chain: list[int], temperature: float, us: list[float]) -> int:
    """As vLLM has it: uniforms of rejections that are let pass become 0 beforehand, then the lossless rule runs."""
    native = [
        u < row[token] if temperature else token == row.index(max(row))
        for u, row, token in zip(us, rows, chain, strict=True)
    ]
    window, passed = 2, [*native]
    for k, row in enumerate(rows):
        entropy = -sum(p * math.log(p) for p in sorted(row)[-3:] if p > 0)
        if not native[k] and k + window < len(chain) and entropy >= 0.3:
            passed[k] = all(native[k + 1 : k + 1 + window])
    return passed.index(False) if False in passed else len(chain)


BY_HAND = {"typical": typical, "relaxed": relaxed, "fly": fly}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("temperature", [0.0, 0.4])
def test_what_is_kept_is_what_the_models_rows_say(rule: str, temperature: float) -> None:
    run, kept_at_all, n_told = run_of(temperature), set[int](), 0
    for record, chain, rows in rounds(run):
        decision = asked(run, record, rule, **({"fly_window_size": 2} if rule == "fly" else {}))
        prefill = record.query.prefill
        assert prefill is not None
        us = [uniform(prefill.seed, "accept", record.r, record.start.n + k) for k in range(len(chain))]
        want = BY_HAND[rule](rows, chain, temperature, us)
        if (now := decision.now) is None:
            assert "not on record" in decision.why
            continue
        n_told += 1
        room = len(record.commit.tokens) if record.commit is not None and record.commit.finish else len(chain) + 1
        assert len(now.accepted) == min(want, room), record.r
        kept_at_all.add(want)
        law_told = rule != "fly" or not temperature
        assert (now.moved is None, now.unmoved == "") == (not law_told, law_told)
        if law_told:
            off = [distance(row, token, temperature) for row, token in zip(rows, chain, strict=True)]
            assert now.moved == pytest.approx(sum(off[: len(now.accepted)]), abs=1e-4)
    assert n_told >= 10
    assert len(kept_at_all) > 1


def test_fly_lets_a_rejection_pass_where_the_window_fits() -> None:
    """A window of one token, and an entropy that all reach: some are let pass that the lossless rule rejects."""
    run, n_more = run_of(0.4), 0
    for record in run.rounds:
        loose = asked(run, record, "fly", fly_window_size=1, fly_entropy_threshold=0.01)
        native = asked(run, record, "tokenwise")
        strict = asked(run, record, "fly", fly_entropy_threshold=10)
        five = asked(run, record, "fly", fly_window_size=5)  # gamma is 6
        assert asked(run, record, "fly").kept == five.kept
        assert loose.kept is not None
        assert native.kept is not None
        assert strict.kept == native.kept
        assert loose.kept >= native.kept
        n_more += loose.kept > native.kept
    assert n_more > 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("temperature", [0.0, 0.4])
def test_a_poor_record_tells_the_same_or_nothing(rule: str, temperature: float) -> None:
    n_untold = 0
    rich = run_of(temperature, topk=WHOLE)
    for poor in (run_of(temperature, topk=2), run_of(temperature, level="summary")):
        for little, whole in zip(poor.rounds, rich.rounds, strict=True):
            from_little, truth = asked(poor, little, rule), asked(rich, whole, rule)
            assert truth.now is not None
            n_untold += from_little.now is None
            if from_little.now is None:
                assert "on record" in from_little.why
            else:
                assert (from_little.now.accepted, from_little.now.marks) == (truth.now.accepted, truth.now.marks)
    assert (n_untold == 0) == (rule == "typical" and not temperature)  # that is an exact match: no row is asked for


@pytest.mark.parametrize("rule", RULES)
def test_of_a_drawn_draft_the_law_is_not_told(rule: str) -> None:
    run = run_of(0.4, "sampled")
    again = decide_run(run, Change(rule))
    assert again.n_told == len(again.rounds) > 5
    assert again.moved is None
    assert again.unmoved


def test_a_run_adds_up_its_laws_by_token() -> None:
    run = run_of(0.4)
    again = decide_run(run, Change("typical"))
    drafted = [asked(run, record, "typical").now for record in run.rounds if record.verdicts]
    decided: list[RoundAgain] = [now for now in drafted if now is not None]
    assert again.moved is not None
    off = sum(now.moved or 0 for now in decided) / sum(len(now.tokens) for now in decided)
    assert again.moved.value == pytest.approx(off)
    shown = what_if_run(again, Change("typical"))
    (law,) = (value for name, value in shown.rows if name == "law")
    assert "off the target's a token" in law
    assert "a token's law is" in shown.sentence


def test_every_screen_has_them_from_one_list() -> None:
    """The terminal's Why, the browser's choice of rules with its warning, and the words of a round."""
    run = run_of(0.4)
    record = run.rounds[0]
    assert set(RULES) <= {*movable(run, record, Change()).verifiers}
    node = min(record.verdicts)
    again = {rule.verifier: rule.sentence for rule in node_again(run, record, node).rules}
    assert all("law is" in again[rule] for rule in RULES)
    choice = what_if_round(FrameBuilder(run), 0, Change("typical"))
    assert (
        choice.warns == f"typical is not lossless: {what_if(run, asked(run, record, 'typical'), Change('typical')).law}"
    )
    assert set(RULES) <= {*choice.verifiers}
    assert len(choice.lossy) >= len(RULES)
    assert {"posterior_threshold", "posterior_alpha"} <= {knob.knob.name for knob in choice.knobs}
    shown = what_if(run, asked(run, record, "typical"), Change("typical"))
    assert shown.nodes[0].words.startswith("p ")


def test_they_are_not_run_and_take_no_branches() -> None:
    for ask in (get_verifier, lambda name: chosen_method("draft", name)):
        with pytest.raises(SpecvizError, match=r"typical \(Medusa\) is not lossless and not run here.* whatif TRACE"):
            ask("typical")
    tree = recorded("tokenwise", shape="tree", d_max=3, w_max=2, k_max=3, draft_mode="argmax")
    with pytest.raises(SpecvizError, match="verifier fly does not take this draft: it judges one chain"):
        decide_run(tree, Change("fly"))
