"""Lookahead: the window and the pool word for word, the text that of plain decoding, the law exact."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from methods.branch.habits import Habits, problem
from specviz.engine.decode.round import RoundResult
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.model.rows import ForwardBatch
from specviz.engine.run import prepare
from specviz.errors import KnobError
from specviz.events import Event
from specviz.events import Window as WindowRecord
from specviz.methods import get_method
from specviz.methods.lookahead.drafter import LookaheadWindow, Pool, TextReader, nearly_free, window_shape
from specviz.probability.draws import Keys
from specviz.probability.table_models import CASE_B, CASE_C, Markov, law
from specviz_lab.prove.enumerate import deviation
from support.driver import greedy
from support.driver import session as real_session
from support.models import build
from support.table_session import HISTORY, TableModel, session, session_law

PROMPT = (2, 4, 1, 4, 0)
SIZES = [(5, 7, 7), (3, 2, 2), (2, 4, 3), (4, 1, 1), (8, 3, 2), (2, 1, 2), (5, 6, 0)]
# The paper's: every round feeds the whole window, and the pool holds nothing but what the window found.
BOOK: dict[str, Any] = {"node_budget": 1024, "text_ngrams": False}
both = pytest.mark.parametrize("sizes", [BOOK, {}], ids=["book", "default"])
Best = Callable[[Sequence[int]], int]


def models(prompt: Sequence[int] = PROMPT, capacity: int = 400) -> FactoryModels:
    """A target of six tokens, and a cache with room for a window."""
    return FactoryModels(TableModel(problem().p, prompt), None, capacity)


def by_the_book(
    size: int, width: int, guesses: int, prompt: Sequence[int], fillers: list[int], limit: int, best: Best, pick: Best
) -> list[dict[str, Any]]:
    """Lookahead with lists and no cache: what every round feeds of the window, guesses and commits.

    `rows[0]` leaves out the newest token, which is column 0 of row 0. `best(text)`: arg-max; `pick(text)`: the target.
    """
    text, rows = list(prompt), [list(fillers)]
    pool: dict[int, list[tuple[int, ...]]] = {}  # the freshest last
    rounds = []
    while len(text) - len(prompt) < limit:
        before, foot = list(text), [text[-1], *rows[0]]
        known, top = list(pool.get(text[-1], [])), len(rows) - 1
        new = [best(before + foot[1 : i + 1] + [rows[r][i] for r in range(1, top + 1)]) for i in range(len(foot))]
        emitted: list[int] = []
        alive = known
        while True:
            emitted.append(pick(before + emitted))
            k = len(emitted) - 1
            alive = [guess for guess in alive if k < len(guess) and guess[k] == emitted[k]]
            if not alive or len(text) + len(emitted) == len(prompt) + limit:
                break
        rounds.append({"rows": [list(row) for row in rows], "guesses": set(known), "tokens": emitted})
        text += emitted
        if len(rows) < size - 1:  # warming up
            rows = [*(row[1:] for row in rows), new[1:]]
            continue
        for i, first in enumerate(foot):
            if not guesses:
                break
            tail = (*(rows[r][i] for r in range(1, top + 1)), new[i])
            tails = pool.setdefault(first, [])
            if tail in tails:
                tails.remove(tail)
            tails.append(tail)
            del tails[: max(0, len(tails) - guesses)]
        stack = [*rows[1:], new]
        rows = [stack[0][1:], *stack[1:]]
    return rounds


def fed(done: RoundResult) -> tuple[list[list[int]], set[tuple[int, ...]]]:
    """The window and the guesses of a round, out of its draft."""
    rows: dict[int, dict[int, int]] = {}
    tails: dict[int, list[int]] = {}
    for node in done.draft.nodes:
        if "window" in node.src:
            row, column = node.src["window"]
            rows.setdefault(row, {})[column] = node.token
        else:
            tails.setdefault(node.src["guess"], []).append(node.token)
    window = [[row[k] for k in sorted(row)] for _, row in sorted(rows.items())]
    return window, {tuple(tail) for tail in tails.values()}


@pytest.mark.parametrize(("size", "width", "guesses"), SIZES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_window_and_pool_are_those_of_the_book(size: int, width: int, guesses: int, temperature: float) -> None:
    """Every round: what is fed, what is guessed, what is committed. A wrong mask or position changes the window."""
    target, limit, seed = Habits(6, 1), 40, 3
    running = session(
        models(),
        None,
        "lookahead",
        "walk",
        seed=seed,
        temperature=temperature,
        max_new_tokens=limit,
        ngram_size=size,
        window=width,
        guesses=guesses,
        **BOOK,
    )
    done = list(running.rounds())
    start, _ = fed(done[0])
    fillers = start[0] if start else []
    assert len(fillers) == width + size - 3
    assert set(fillers) <= set(PROMPT)

    def best(text: Sequence[int]) -> int:
        return int(target.row(text[len(PROMPT) :]).argmax())

    def pick(text: Sequence[int]) -> int:
        row = target.row(text[len(PROMPT) :])
        return best(text) if temperature == 0 else Keys(seed, 0).draw("target", len(text), row).token

    expected = by_the_book(size, width, guesses, PROMPT, fillers, limit, best, pick)
    assert [list(one.tokens) for one in done] == [one["tokens"] for one in expected]
    room = limit
    for one, wanted in zip(done, expected, strict=True):
        window, guessed = fed(one)
        if room > 1:
            assert [row for row in window if row] == [row for row in wanted["rows"] if row]
            assert guessed == {guess[: room - 1] for guess in wanted["guesses"]}
        else:
            assert (window, guessed) == ([], set())
        room -= len(one.tokens)
    if guesses and width > 1 and temperature == 0:
        assert max(len(one.tokens) for one in done) > 1  # else the pool was never tried


def test_a_guess_that_matches_to_its_end_counts_whole() -> None:
    """N - 1 tokens of the guess and one more: a public implementation stops one short."""
    after = np.full((5, 5), 0.01) + 0.95 * np.roll(np.eye(5), 1, axis=1)  # 0 1 2 3 4 0 1 ..
    pair = FactoryModels(TableModel(Markov(after[0], after), (3,)), None, 400)
    knobs = {"temperature": 0.0, "ngram_size": 4, "window": 6, "guesses": 4, "max_new_tokens": 40, **BOOK}
    running = session(pair, None, "lookahead", "walk", **knobs)
    sizes = [len(done.tokens) for done in running.rounds()]
    assert sizes[-4:-1] == [4, 4, 4]
    assert max(sizes) == 4


@both
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize(("size", "width", "guesses"), [(5, 7, 7), (3, 4, 2), (2, 1, 1), (8, 12, 3)])
def test_the_text_is_that_of_plain_decoding(
    temperature: float, size: int, width: int, guesses: int, sizes: dict[str, Any]
) -> None:
    model = build("llama", seed=4, dtype=torch.float64)
    for seed in range(3):
        knobs: dict[str, Any] = {"temperature": temperature, "seed": seed, "max_new_tokens": 30, "eos": (7, 11)}
        own: dict[str, Any] = {"ngram_size": size, "window": width, "guesses": guesses, **sizes}
        plain = real_session(model, None, [5, 77, 12, 5, 9], "ar", **knobs).generate()
        assert real_session(model, None, [5, 77, 12, 5, 9], "lookahead", **knobs, **own).generate() == plain


@both
@pytest.mark.parametrize("name", ["gpt2", "gemma2", "mistral"])
def test_other_architectures(name: str, sizes: dict[str, Any]) -> None:
    """Learned positions and sliding windows see the window of a plain tree too."""
    model = build(name, seed=1)
    expected = greedy(model, [9, 8, 7, 6], 40)
    own: dict[str, Any] = {"ngram_size": 3, "window": 5, **sizes}
    assert real_session(model, None, [9, 8, 7, 6], "lookahead", **own).generate() == expected


@pytest.mark.parametrize("knobs", [{"repetition_penalty": 1.6}, {"ban": ["id:3"]}], ids=str)
def test_processors_shape_the_window_too(knobs: dict[str, Any]) -> None:
    """Otherwise it would fill with tokens the target cannot say. With a penalty every cell has its own prefix."""
    pair, own = models(), {"ngram_size": 3, "window": 3, "temperature": 0.0, **BOOK, **knobs}
    running = session(pair, None, "lookahead", "walk", max_new_tokens=30, **own)
    plain = session(pair, None, "ar", "walk", max_new_tokens=30, temperature=0.0, **knobs).generate()
    seen: list[int] = []
    for done in running.rounds():
        seen += [node.token for node in done.draft.nodes if done.number > 2]
    assert running.new_tokens == plain
    assert seen
    if "ban" in knobs:
        assert 3 not in seen


@both
@pytest.mark.parametrize("verifier", ["walk", "tokenwise"])
@pytest.mark.parametrize(
    ("case", "length", "knobs"),
    [
        ("H", 6, {"ngram_size": 3, "window": 2, "guesses": 2}),
        ("H", 6, {"ngram_size": 2, "window": 3, "guesses": 1}),
        ("H", 5, {"ngram_size": 4, "window": 1, "guesses": 3}),
        ("B", 4, {"ngram_size": 2, "window": 2, "guesses": 2}),
        ("C", 3, {"ngram_size": 2, "window": 2, "guesses": 2}),
    ],
)
def test_law_of_a_generation(
    verifier: str, case: str, length: int, knobs: dict[str, Any], sizes: dict[str, Any]
) -> None:
    chosen = {"H": HISTORY, "B": CASE_B, "C": CASE_C}[case]
    played_law = session_law(chosen, "lookahead", verifier, max_new_tokens=length, prompt=(0, 1, 0), **knobs, **sizes)
    assert deviation(played_law, law(chosen.p, length)) < 1e-12


@both
@pytest.mark.parametrize("verifier", ["walk", "tokenwise"])
@pytest.mark.parametrize("eos", [0, 1])
def test_law_with_an_end_token(verifier: str, eos: int, sizes: dict[str, Any]) -> None:
    own: dict[str, Any] = {"ngram_size": 3, "window": 2, **sizes}
    played_law = session_law(HISTORY, "lookahead", verifier, max_new_tokens=6, eos=[eos], prompt=(0, 1, 0), **own)
    assert deviation(played_law, law(HISTORY.p, 6, [eos])) < 1e-12


@both
def test_no_end_token_in_the_window(sizes: dict[str, Any]) -> None:
    """They are replaced by tokens of the prompt, and the prompt's own end tokens are none of its fillers."""
    pair = models((5, 5, 2, 5))
    wished = []
    for seed in range(6):
        running = session(pair, None, "lookahead", "walk", eos=[5], seed=seed, ngram_size=4, max_new_tokens=40, **sizes)
        for done in running.rounds():
            assert done.draft.n_fed == len(done.draft)
            assert 5 not in done.draft.tokens
            wished += [] if done.logits is None else done.logits[1:].argmax(-1).tolist()
    assert 5 in wished  # some best token was an end token, so that something was replaced


def test_a_prompt_of_end_tokens_only() -> None:
    running = session(models((0, 0)), None, "lookahead", "walk", eos=[0, 1], max_new_tokens=12)
    first = next(running.rounds())
    assert set(first.draft.tokens) == {2}


def test_the_context_ends_the_window_and_not_the_text() -> None:
    """Cells stand further on than the text: past the last position there is no window, and no guess is too long."""
    pair = models()
    pair.target.context = 24
    own: dict[str, Any] = {"ngram_size": 3, "window": 6, "temperature": 0.0, **BOOK}
    running = session(pair, None, "lookahead", "walk", max_new_tokens=99, **own)
    sizes = []
    for done in running.rounds():
        assert all(done.n - 1 + depth < 24 for depth in done.draft.depths)
        sizes.append(done.draft.n_fed - done.draft.n_judged)
    assert running.finish == "context"
    assert sizes[0] > 0
    assert sizes[-2] == 0


def test_a_cache_too_small_for_the_window_is_said_once() -> None:
    facts: list[Event] = []
    small = models(capacity=40)
    plain = session(small, None, "ar", "walk", max_new_tokens=20).generate()
    own: dict[str, Any] = {"ngram_size": 5, "window": 7, "guesses": 7, **BOOK}
    running = session(small, None, "lookahead", "walk", max_new_tokens=20, **own)
    for done in running.rounds():
        facts += done.facts
        assert done.draft.n_fed == 0
    assert [getattr(fact, "code", None) for fact in facts] == ["no_window"]
    assert running.new_tokens == plain


@both
def test_an_aborted_round_moves_the_window_once(sizes: dict[str, Any]) -> None:
    """A round that fails is begun again: the same window, the same text."""
    pair = models()

    def run(failing: bool) -> tuple[list[int], list[Any]]:
        running = session(pair, None, "lookahead", "walk", ngram_size=3, window=3, max_new_tokens=20, **sizes)
        windows = []
        while running.finish is None:
            if failing and running.number % 2 == 1:
                logits, running.target.logits = running.target.logits, _broken  # type: ignore[method-assign]
                with pytest.raises(RuntimeError, match="on purpose"):
                    next(running.rounds())
                running.target.logits = logits  # type: ignore[method-assign]
            windows.append(fed(next(running.rounds())))
        return running.new_tokens, windows

    assert run(True) == run(False)


def _broken(hidden: Any) -> Any:
    raise RuntimeError("on purpose")


def test_jacobi_on_a_block_ends_at_the_greedy_text() -> None:
    """Plain Jacobi decoding is the window of one row without a pool, held where it is: x_i <- argmax p(. | x_<i).

    Every pass settles one more token, so a block of m is greedy after m passes at most, and stays so.
    """
    table, length = Habits(6, 1), 8
    text = list(PROMPT)
    while len(text) < len(PROMPT) + length:
        text.append(int(table.row(text[len(PROMPT) :]).argmax()))
    wanted = text[len(PROMPT) :]
    for salt in range(5):
        block = np.random.default_rng(salt).integers(6, size=length).tolist()
        for passes in range(length + 2):
            settled = next((i for i in range(length) if block[i] != wanted[i]), length)
            assert settled >= min(passes, length)
            block = _tips(TableModel(table, PROMPT), LookaheadWindow(2, [[PROMPT[-1], *block]]))[:length]
        assert block == wanted


def _tips(model: TableModel, window: LookaheadWindow) -> list[int]:
    """The best tokens after a window's tips, fed as the drafter feeds it."""
    cache = model.new_cache(64)
    rows = ForwardBatch(model, cache)
    root = rows.add_line(list(PROMPT))
    for cell in window.cells():
        rows.add(cell.token, root + 1 + cell.parent)
    best = rows.take().argmax(-1).tolist()
    return [best[root + 1 + cell] for cell in window.tips]


def test_a_window_that_is_right_stays_right() -> None:
    """Columns that continue the greedy text do so in every later round: the greedy text is where the window rests."""
    table, size, width = Habits(6, 1), 4, 3
    text = list(PROMPT)
    for _ in range(30):
        text.append(int(table.row(text[len(PROMPT) :]).argmax()))
    model = TableModel(table, tuple(text[:20]))
    model.table, model.prompt = table, PROMPT
    window = LookaheadWindow(size, [[text[19 + r + i] for i in range(width)] for r in range(size - 1)])
    cache = model.new_cache(64)
    rows = ForwardBatch(model, cache)
    root = rows.add_line(text[:20])
    for cell in window.cells():
        rows.add(cell.token, root + 1 + cell.parent)
    best = rows.take().argmax(-1).tolist()
    ngrams = window.advance([best[root + 1 + cell] for cell in window.tips], text[20])
    assert window.rows == [[text[20 + r + i] for i in range(width)] for r in range(size - 1)]
    assert ngrams == [(text[19 + i], tuple(text[20 + i : 19 + i + size])) for i in range(width)]


def test_the_pool_forgets_what_was_longest_not_seen() -> None:
    pool = Pool(2)
    assert pool.learn([(1, (2, 3)), (1, (4, 5)), (2, (2, 3))]) == 3
    assert pool.under(1) == [(4, 5), (2, 3)]
    assert pool.learn([(1, (2, 3))]) == 0  # seen again: fresh
    assert pool.learn([(1, (6, 7))]) == 1
    assert pool.under(1) == [(6, 7), (2, 3)]
    assert (len(pool), pool.under(9)) == (3, [])
    assert Pool(0).learn([(1, (2,))]) == 0


def test_a_larger_pool_never_commits_later() -> None:
    """Greedy: more guesses under the same window only make rounds longer, on average over prompts."""
    rounds = []
    for guesses in (0, 1, 4):
        count = 0
        for prompt in itertools.product(range(4), repeat=2):
            running = session(
                models(prompt),
                None,
                "lookahead",
                "walk",
                temperature=0.0,
                ngram_size=3,
                window=4,
                guesses=guesses,
                max_new_tokens=24,
                **BOOK,
            )
            count += sum(1 for _ in running.rounds())
        rounds.append(count)
    assert rounds[0] == 16 * 24
    assert rounds[0] > rounds[1] >= rounds[2]


class Facts:
    """A sink that keeps the rounds at level full."""

    level = "full"

    def __init__(self) -> None:
        self.rounds: list[RoundResult] = []

    def prefilled(self, session: Any, dur_ns: int) -> None: ...
    def round(self, done: RoundResult) -> None:
        self.rounds.append(done)


def test_the_record_of_a_window() -> None:
    sink = Facts()
    size, width, guesses = 4, 3, 2
    session(
        models(),
        None,
        "lookahead",
        "walk",
        ngram_size=size,
        window=width,
        guesses=guesses,
        max_new_tokens=30,
        sink=sink,
        **BOOK,
    ).generate()
    held = 0
    for done in sink.rounds[:-1]:
        (record,) = (fact for fact in done.facts if isinstance(fact, WindowRecord))
        assert record.n_window == done.draft.n_fed - done.draft.n_judged == sum(map(len, record.rows)) - 1
        assert record.filled == min(done.number, size - 1)
        assert (record.pool <= held + width, record.added <= width) == (True, True)
        assert record.n_guesses == len({node.cand for node in done.draft.nodes if "guess" in node.src}) <= guesses
        assert record.rows[0][0] == done.root
        held = record.pool
    assert held > 0
    assert all(done.n_draft_calls == 0 for done in sink.rounds)


def test_knobs_are_fixed_for_a_text() -> None:
    running = session(models(), None, "lookahead", "walk")
    with pytest.raises(KnobError, match="next prompt"):
        running.request("window", 3)
    with pytest.raises(KnobError, match=r"2\.\.8"):
        get_method("lookahead").table.check({"ngram_size": 1})


@pytest.mark.parametrize("budget", [0, 1, 2, 4, 7, 11, 30])
@pytest.mark.parametrize("text_ngrams", [False, True])
def test_a_budget_is_kept(budget: int, text_ngrams: bool) -> None:
    """Guesses first, the window where all of it has room; the text is plain decoding's."""
    plain = session(models(), None, "ar", "walk", max_new_tokens=60, temperature=0.0).generate()
    own: dict[str, Any] = {"node_budget": budget, "text_ngrams": text_ngrams, "temperature": 0.0}
    running = session(models(), None, "lookahead", "walk", max_new_tokens=60, **own)
    done = list(running.rounds())
    assert running.new_tokens == plain
    fed_nodes = [outcome.draft.n_fed for outcome in done]
    assert max(fed_nodes) <= budget
    windows = {outcome.draft.n_fed - outcome.draft.n_judged for outcome in done} - {0}
    assert bool(windows) == (budget > 0)
    if budget > 1:
        assert len(done) < len(plain)  # some guess was right


def test_a_window_that_waited_stands_behind_the_newest_token() -> None:
    """Rounds whose guesses take the budget leave it as it was, but for the token that it continues."""
    sink = Facts()
    own: dict[str, Any] = {"ngram_size": 4, "window": 3, "node_budget": 8, "temperature": 0.0}
    session(models(), None, "lookahead", "walk", max_new_tokens=60, sink=sink, **own).generate()
    waited = [done.draft.n_fed == done.draft.n_judged > 0 for done in sink.rounds[:-1]]
    assert any(waited)
    assert not all(waited)
    for done in sink.rounds[:-1]:
        (record,) = (fact for fact in done.facts if isinstance(fact, WindowRecord))
        assert not record.rows or record.rows[0][0] == done.root


def test_the_text_fills_the_pool() -> None:
    """What followed the newest token before is guessed in the first round; an end token is in no n-gram."""
    prompt = (3, 1, 2, 0, 4, 3)
    own: dict[str, Any] = {"ngram_size": 4, "max_new_tokens": 8, "temperature": 0.0}

    def first(**more: Any) -> list[int]:
        done = next(session(models(prompt), None, "lookahead", "walk", **own, **more).rounds())
        return [node.token for node in done.draft.nodes if "guess" in node.src]

    assert first() == [1, 2, 0]
    assert first(eos=[2]) == []
    assert first(text_ngrams=False) == []


def test_a_reader_gives_every_ngram_once() -> None:
    text, reader, ngrams = [1, 2, 3, 4, 5, 6, 7], TextReader(3, frozenset({4})), []
    for end in (2, 3, 3, 5, 7):
        ngrams += reader.fresh(text[:end])
    assert ngrams == [(1, (2, 3)), (5, (6, 7))]


def test_the_shape_of_a_window_by_its_budget() -> None:
    assert window_shape(5, 7, 27) == (5, 7)
    assert window_shape(5, 7, 26) == (5, 6)
    assert window_shape(5, 7, 4) == (3, 2)
    assert window_shape(5, 7, 1) == (2, 2)
    assert window_shape(5, 1, 1) == (2, 1)
    assert window_shape(5, 7, 0) == (2, 1)
    for size, width, budget in itertools.product(range(2, 9), (1, 2, 7, 60), range(40)):
        shape = window_shape(size, width, budget)
        window, most = LookaheadWindow.begin(shape[0], 0, [0] * (sum(shape) - 3)), 0
        while True:
            most = max(most, len(window.cells()))
            if window.warm:
                break
            window.advance([0] * len(window.tips), 0)
        assert most <= budget


def test_nearly_free_nodes_end_where_a_row_costs() -> None:
    assert nearly_free(lambda rows: 1.0, 9) == 9
    assert nearly_free(lambda rows: float(rows), 9) == 0
    assert nearly_free(lambda rows: 1 + max(0, rows - 3), 9) == 2


def test_a_header_says_the_budget_in_force() -> None:
    """An open budget becomes the number that the device takes; one that was given stays."""
    table = get_method("lookahead").table
    for knobs, budget in (({}, 4), ({"node_budget": 9}, 9)):
        drafter = prepare.make_drafter(get_method("lookahead"), models(), table.knobs(knobs))
        assert prepare.fitted(table, drafter, knobs)[1]["node_budget"] == budget
