"""Runs side by side, on table models that are really decoded: where texts part, and that numbers are those of each."""

import math
import random

import msgspec
import pytest

from specviz.errors import SpecvizError
from specviz.events import Commit, Event, Header, Node, Prefill, Verify, decode, encode
from specviz.metrics import Estimate
from specviz.metrics.differences import difference_of_independent
from specviz.metrics.estimate import share
from specviz.runlog.fold import Run
from specviz.trace import read_events
from specviz.view.compare import comparison
from specviz.view.frame.series import metrics_of
from specviz.view.words.numbers import apart
from support.recordings import RECORDINGS
from support.traces import make_events


def _run(events: list[Event]) -> Run:
    return Run().extend(events)


def _made(**changes: object) -> Run:
    return _run(make_events(**{"temperature": 0.8, "new_tokens": 40, **changes}))


def _texts(run: Run) -> list[str]:
    return [token.shown for token in run.queries[0].tokens if token.mark != "prompt"]


def test_where_rounding_made_another_token_it_is_said_how_near_both_were() -> None:
    """A run that promises plain decoding's tokens, and a copy in which the target's second choice was written."""
    events = make_events(temperature=0.8, new_tokens=40, verifier="walk", gamma=4)
    ours, other = _run(events), [decode(encode(event)) for event in events]
    record, verdict = next(
        (record, verdict)
        for record in ours.rounds
        for verdict in record.verdicts.values()
        if verdict.status == "accepted"
        and verdict.top
        and len(verdict.top) > 1
        and record.nodes[verdict.node].depth == 1
    )
    second = next(token for token, _ in verdict.top or () if token != record.nodes[verdict.node].token)
    commit = next(e for e in other if isinstance(e, Commit) and (e.q, e.r) == (record.q, record.r))
    commit.tokens[0] = second
    texts = comparison([("a", ours), ("b", _run(other))]).text
    assert texts.parted
    chances = {token: math.exp(log) for token, log in verdict.top or ()}
    first = record.nodes[verdict.node].token
    numbers = apart(chances[first], chances[second])
    assert "rounding of its arithmetic" in texts.words
    assert (
        f"In A the target gives “{ours.name(first)}” {numbers[0]} and “{ours.name(second)}” {numbers[1]}."
        in texts.words
    )


def test_what_keeps_tokens_writes_the_same_text_and_is_said_to() -> None:
    """Under `walk` a draft changes nothing of the text, and neither does its shape."""
    runs = [_made(verifier="walk", gamma=gamma) for gamma in (2, 4, 6)]
    texts = comparison([(f"r{n}", run) for n, run in enumerate(runs)]).text
    assert texts.same_prompt
    assert not texts.parted
    assert texts.n_same == min(len(_texts(run)) for run in runs)
    assert texts.words.startswith("The same text")
    assert "promises the tokens of plain decoding" in texts.words
    assert [lane.parts_at for lane in texts.lanes] == [None, None, None]


def test_what_keeps_the_law_alone_parts_and_is_no_fault() -> None:
    walk, other = _made(verifier="walk"), _made(verifier="tokenwise")
    texts = comparison([("one", walk), ("two", other)]).text
    same = next(n for n, (a, b) in enumerate(zip(_texts(walk), _texts(other), strict=False)) if a != b)
    assert texts.n_same == texts.lanes[1].parts_at == same
    assert texts.parted
    assert f"“{_texts(walk)[same]}”" in texts.words
    assert f"“{_texts(other)[same]}”" in texts.words
    assert "B keeps the law of the text, not its tokens" in texts.words


def _greedy(events: list[Event], engine: bool, dtype: str = "bfloat16") -> Run:
    """As specviz's own, or as another engine's under a lossless rule whose draws are not ours."""
    header = events[0]
    assert isinstance(header, Header)
    header.keeps_tokens = not engine
    assert header.models.target is not None
    header.models.target.dtype = dtype
    return _run(events)


@pytest.mark.parametrize("engine", [True, False])
@pytest.mark.parametrize(
    ("margin", "words"),
    [(0.1, "nearly tied"), (3.0, "are a fault: rounding moves less"), (None, "how near they were is not on record")],
)
def test_other_tokens_of_greedy_runs_are_a_fault_or_a_near_tie(margin: float | None, words: str, engine: bool) -> None:
    """At temperature 0 the law is the tokens, whatever the rule keeps besides; the seed moves nothing."""
    one, other = (make_events(temperature=0.0, seed=seed, new_tokens=20, gamma=3) for seed in (0, 1))
    kept = next(e for e in one if isinstance(e, Verify) and e.status == "accepted")
    node = next(e for e in one if isinstance(e, Node) and e.node == kept.node)
    second = next(token for token in range(6) if token != node.token)
    kept.top = None if margin is None else [(node.token, -0.1), (second, -0.1 - margin)]
    commit = next(e for e in other if isinstance(e, Commit) and (e.q, e.r) == (kept.q, kept.r))
    commit.tokens[node.depth - 1] = second
    for verdict in (e for e in other if isinstance(e, Verify)):
        verdict.top = None
    texts = comparison([("one", _greedy(one, engine)), ("other", _greedy(other, engine))]).text
    assert texts.parted
    assert words in texts.words
    assert "no fault" not in texts.words
    same = comparison([("one", _greedy(one, engine)), ("again", _greedy(one, engine))]).text
    assert "At temperature 0 a lossless rule writes the target's likeliest tokens." in same.words


def test_a_temperature_that_nobody_told_is_no_excuse() -> None:
    def outside(rule: str) -> Run:
        events = make_events(temperature=0.8, new_tokens=40, verifier=rule)
        header = events[0]
        assert isinstance(header, Header)
        header.keeps_tokens, header.sampling, header.knobs = False, {}, {}
        return _run(events)

    texts = comparison([("one", outside("walk")), ("two", outside("tokenwise"))]).text
    assert texts.parted
    assert "at 0 other tokens would be a fault" in texts.words


def test_prompts_that_nobody_knows_are_not_called_the_same() -> None:
    events = make_events(temperature=0.8, new_tokens=12)
    for prefill in (e for e in events if isinstance(e, Prefill)):
        prefill.prompt, prefill.text = [-1] * len(prefill.prompt), ""
    compared = comparison([("one", _run(events)), ("two", _run(events))])
    assert compared.n_prompts == 0
    assert "prompts are not on record" in compared.text.words


def test_blocks_hold_the_text_they_wrote() -> None:
    run = _made(verifier="tokenwise", queries=2)
    lane = comparison([("one", run), ("two", run)]).text.lanes[0]
    assert [token.shown for token in lane.tokens] == _texts(run)
    at = 0
    for block, record in zip(lane.rounds, run.queries[0].rounds, strict=True):
        assert record.end is not None
        assert (block.first, block.stop - block.first) == (at, record.end.n_emitted)
        assert {token.index for token in lane.tokens[block.first : block.stop]} <= {record.index}
        assert {token.place for token in lane.tokens[block.first : block.stop]} <= {block.place}
        assert block.rejected == record.rejected
        at = block.stop
    assert at == len(lane.tokens)


def test_a_run_that_ends_early_is_the_same_as_far_as_it_goes() -> None:
    long, short = _made(verifier="walk", new_tokens=40), _made(verifier="walk", new_tokens=12)
    texts = comparison([("long", long), ("short", short)]).text
    assert not texts.parted
    assert texts.n_same == len(_texts(short)) < len(_texts(long))
    assert f"A goes on to {len(_texts(long))}" in texts.words
    assert "promises" in texts.words


def test_another_prompt_is_told_and_numbers_are_compared_all_the_same() -> None:
    here, there = _run(read_events(RECORDINGS["prose-draft"])), _run(read_events(RECORDINGS["sums-draft"]))
    compared = comparison([("prose", here), ("sums", there)])
    assert not compared.text.same_prompt
    assert "different prompts" in compared.text.words
    assert compared.n_prompts == 0
    assert compared.numbers.rows


def test_of_many_prompts_those_that_all_were_given_can_be_chosen() -> None:
    def given(order: list[int]) -> Run:
        queries = iter(order)
        events = [
            msgspec.structs.replace(event, text=f"prompt {next(queries)}") if isinstance(event, Prefill) else event
            for event in make_events(temperature=0.8, new_tokens=12, queries=len(order))
        ]
        return _run(events)

    runs = [given([3, 1, 2]), given([1, 4, 3])]
    named = [(f"r{n}", run) for n, run in enumerate(runs)]
    assert comparison(named).shared == ((0, 2), (1, 0))
    places = [comparison(named, prompt).text.lanes for prompt in range(2)]
    assert [[lane.rounds[0].place for lane in lanes] for lanes in places] == [["q0/r1", "q2/r1"], ["q1/r1", "q0/r1"]]
    with pytest.raises(SpecvizError, match="there are 2"):
        comparison(named, 2)


def test_numbers_are_those_of_each_run_and_differences_those_of_the_first() -> None:
    runs = [_made(verifier=name, new_tokens=120) for name in ("tokenwise", "walk")]
    compared = comparison([(f"r{n}", run) for n, run in enumerate(runs)]).numbers
    for row in compared.rows:
        for value, run in zip(row.values, runs, strict=True):
            estimate = metrics_of(run, run.rounds)[row.name]
            estimate = getattr(estimate, "trusted", estimate)
            assert value.value == (None if estimate is None else estimate.value)
        if row.values[0].value is not None and row.values[1].value is not None:
            far = row.values[1].value - row.values[0].value
            assert row.differences[0] == "—"
            assert row.differences[1].startswith("+" if far > 0 else "−" if far < 0 else "±")
            assert ("cannot tell" in row.differences[1]) != row.apart[1] or "alike" in row.differences[1]


def test_calls_are_counted_up_to_every_place() -> None:
    run = _made(verifier="tokenwise")
    compared = comparison([("one", run), ("two", run)]).steps[0]
    sizes = [record.end.n_emitted for record in run.rounds if record.end is not None]
    for n in range(1, len(sizes) + 1):
        assert compared.needed(sum(sizes[:n])) == n
    assert compared.needed(sum(sizes) + 1) is None


def test_kinds_of_prompts_are_counted_apart() -> None:
    kinds = iter(("code", "sums", "code"))
    events = [
        msgspec.structs.replace(event, domain=next(kinds)) if isinstance(event, Prefill) else event
        for event in make_events(temperature=0.8, new_tokens=12, queries=3)
    ]
    run = _run(events)
    kinds = comparison([("one", run), ("two", run)]).numbers.kinds
    assert list(kinds) == ["code", "sums"]
    emitted = [sum(len(r.commit.tokens) for r in query.rounds if r.commit) for query in run.queries]
    rounds = [query.n_rounds for query in run.queries]
    code = next(row.beside[0].value for row in kinds["code"] if row.name == "block_efficiency")
    assert code is not None
    assert code.value == pytest.approx((emitted[0] + emitted[2]) / (rounds[0] + rounds[2]))
    assert code.n == rounds[0] + rounds[2]


def test_settings_that_differ_are_found_and_those_that_some_lack() -> None:
    runs = [("chain", _made(gamma=3)), ("longer", _made(gamma=5)), ("plain", _made(shape="none", verifier="walk"))]
    compared = comparison(runs)
    differing = {setting.name: setting.values for setting in compared.differing}
    assert differing["gamma"] == ("3", "5", "—")
    assert differing["method"] == ("draft", "draft", "ar")
    assert "temperature" not in differing
    assert compared.n_alike + len(compared.differing) + len(compared.partly) == len(compared.settings)
    assert not {setting.name for setting in compared.partly} & set(differing)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_too_few_and_too_many_are_refused(n: int) -> None:
    run = _made(new_tokens=4)
    with pytest.raises(SpecvizError, match="name 2 to 6"):
        comparison([(f"r{k}", run) for k in range(n)])


def test_a_run_without_a_round_is_refused_by_name() -> None:
    begun = [event for event in make_events(new_tokens=4) if isinstance(event, Header | Prefill)]
    with pytest.raises(SpecvizError, match="begun has no round"):
        comparison([("whole", _made(new_tokens=4)), ("begun", _run(begun))])


# The interval of a difference ------------------------------------------------------------------------------------


def test_arms_are_squared_and_added() -> None:
    one = Estimate(value=0.9, interval=(0.7, 1.0), n=10)
    other = Estimate(value=0.4, interval=(0.3, 0.6), n=30)
    estimate = difference_of_independent(one, other)
    assert estimate.interval is not None
    assert estimate.value == pytest.approx(0.5)
    assert estimate.interval[0] == pytest.approx(0.5 - math.hypot(0.2, 0.2))
    assert estimate.interval[1] == pytest.approx(0.5 + math.hypot(0.1, 0.1))
    assert estimate.n == 10


def test_without_an_interval_on_one_side_there_is_none() -> None:
    one = Estimate(value=1.0, n=40, unknown="alike")
    other = Estimate(value=0.4, interval=(0.3, 0.6), n=30)
    for estimate in (difference_of_independent(one, other), difference_of_independent(other, one)):
        assert estimate.interval is None
        assert (estimate.why_unknown, estimate.n) == ("alike", 40)


def test_it_holds_the_truth_about_as_often_as_it_says() -> None:
    """Two shares drawn again and again: the interval of their difference covers it in some 95 of 100 cases."""
    rng, held, times = random.Random(5), 0, 1500
    for _ in range(times):
        estimates = []
        for p, n in ((0.9, 40), (0.75, 60)):
            estimate = share(sum(rng.random() < p for _ in range(n)), n)
            assert estimate is not None
            estimates.append(estimate)
        interval = difference_of_independent(*estimates).interval
        assert interval is not None
        held += interval[0] <= 0.15 <= interval[1]
    assert 0.93 < held / times < 0.975


def test_charts_have_the_numbers_of_every_run_at_every_place() -> None:
    events = make_events(temperature=0.8, new_tokens=30, queries=2)
    for event, kind in zip((e for e in events if isinstance(e, Prefill)), ("code", "sums"), strict=True):
        event.domain = kind
    runs = [_run(events), _made(verifier="tokenwise", gamma=2)]
    numbers = comparison([(f"r{n}", run) for n, run in enumerate(runs)]).numbers
    plots = {plot.key.removeprefix("compare-"): plot for plot in numbers.plots(["A one", "B two"])}
    assert list(plots)[:-1] == list(numbers.places)
    for name, rows in numbers.places.items():
        assert plots[name].xs == tuple(int(row.name.partition("@")[2]) for row in rows)
        for n, curve in enumerate(plots[name].curves):
            column = getattr(metrics_of(runs[n], runs[n].rounds), name) or {}
            own = [column[x].value if x in column else None for x in plots[name].xs]
            assert list(curve.ys) == pytest.approx(own)
            assert curve.ns == tuple(column[x].n if x in column else 0 for x in plots[name].xs)
    assert plots["kinds"].xs == tuple(numbers.kinds)
