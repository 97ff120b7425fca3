"""The texts of several runs by committed position: which token each wrote where, in which round, and where they part.

Tokens are compared by their ids where all targets number their tokens alike (one name, one size of vocabulary), else by
how they read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.events import prob
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, Query, TextToken
from specviz.view.frame.run_header import badge, of_whole_run, run_info
from specviz.view.words.numbers import apart, plural
from specviz.view.words.palette import Tone

LETTERS = "ABCDEF"
_LENGTH = ("max_new_tokens", "stop", "seed")  # of the text; the seed is looked at by itself
_QUOTED = 24  # letters of a token in a sentence


@dataclass(frozen=True, slots=True)
class LaneToken:
    """One committed token. `index`: of its round over the run, `place` the same for an address."""

    shown: str
    mark: Mark
    index: int
    place: str
    node: int | None


@dataclass(frozen=True, slots=True)
class LaneRound:
    """A round as a block of text: positions from `first` up to `stop`, counted from the end of the prompt."""

    index: int
    place: str
    first: int
    stop: int
    n_drafted: int | None
    n_accepted: int | None
    rejected: bool


@dataclass(frozen=True, slots=True)
class RunLane:
    """One run's text. `parts_at`: how many tokens it begins with that the first lane begins with as well, None where
    neither leaves the other as far as both go."""

    letter: str
    name: str
    title: str
    badge: str
    tone: Tone
    tokens: tuple[LaneToken, ...]
    rounds: tuple[LaneRound, ...]
    parts_at: int | None = None


@dataclass(frozen=True, slots=True)
class Aligned:
    """`n_same`: tokens that all lanes begin with. `words`: where they part, in a sentence or two."""

    prompt: str
    same_prompt: bool
    lanes: tuple[RunLane, ...]
    n_same: int
    parted: bool
    words: str

    @property
    def n_positions(self) -> int:
        return max((len(lane.tokens) for lane in self.lanes), default=0)


def shared_prompts(runs: Sequence[Run]) -> list[tuple[int, ...]]:
    """Of every prompt that all runs were given, the place of its query in each run; in the order of the first run."""
    named = [_first_places(run) for run in runs]
    return [tuple(each[key] for each in named) for key in named[0] if all(key in each for each in named)]


def _first_places(run: Run) -> dict[str, int]:
    """Every prompt with the place of the first query that has it."""
    found: dict[str, int] = {}
    for n, key in enumerate(_prompts(run)):
        if key is not None:
            found.setdefault(key, n)
    return found


def _prompts(run: Run) -> list[str | None]:
    """The prompt of every query as text: it is the same for targets that number their tokens differently."""
    return [_text(query) for query in run.queries]


def _text(query: Query) -> str | None:
    prefill = query.prefill
    if prefill is None:
        return None
    return prefill.text or ",".join(map(str, prefill.prompt))  # a redacted one has its ids alone


def aligned(runs: Sequence[tuple[str, Run]], queries: Sequence[int]) -> Aligned:
    """`runs`: names and runs, each with a query. `queries`: which of its queries is looked at, by place."""
    found = [run.queries[n] for (_, run), n in zip(runs, queries, strict=True)]
    by_id = len({_target(run) for _, run in runs}) == 1 and _target(runs[0][1]) is not None
    texts = [[t for t in query.tokens if t.mark != "prompt"] for query in found]
    keys = [[_key(token, by_id) for token in text] for text in texts]
    parts = [_parts(keys[0], other) for other in keys]
    lanes = tuple(
        _lane(letter, name, run, query, text, part)
        for letter, (name, run), query, text, part in zip(LETTERS, runs, found, texts, parts, strict=False)
    )
    n_same = min((_n_same(keys[0], other) for other in keys), default=0)
    prompts = {_text(query) for query in found}
    shown = "".join(token.running for token in found[0].tokens if token.mark == "prompt")
    parted = any(part is not None for part in parts)
    same = len(prompts) == 1 and None not in prompts
    alone = [run for _, run in runs]
    near = _near(lanes, texts, alone, n_same) if parted and by_id and same else ""
    return Aligned(shown, same, lanes, n_same, parted, _words(lanes, n_same, parted, same, alone, near))


def _target(run: Run) -> tuple[str, int | None] | None:
    target = run.header.models.target if run.header is not None else None
    return (target.name, target.vocab) if target is not None else None


def _key(token: TextToken, by_id: bool) -> int | str:
    return token.token if by_id else token.running


def _n_same(one: Sequence[object], other: Sequence[object]) -> int:
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _parts(one: Sequence[object], other: Sequence[object]) -> int | None:
    n = _n_same(one, other)
    return n if n < min(len(one), len(other)) else None


def _lane(letter: str, name: str, run: Run, query: Query, text: Sequence[TextToken], parts_at: int | None) -> RunLane:
    header, several = run.header, len(run.queries) > 1
    info = of_whole_run(run_info(run, header.knobs | header.sampling if header is not None else {}, None, ""), run)
    tokens, rounds, at = [], list[LaneRound](), 0
    for index in range(query.first, query.first + query.n_rounds):
        point = run.rounds.point(index)
        place = f"q{point.q}/r{point.r}" if several else f"r{point.r}"
        written = [token for token in text[at : at + (point.n_emitted or 0)] if token.round == point.r]
        tokens += [LaneToken(token.shown, token.mark, index, place, token.node) for token in written]
        stop = at + len(written)
        rounds.append(LaneRound(index, place, at, stop, point.n_drafted, point.n_accepted, point.rejected))
        at = stop
    promise = badge(header, run.mixed) if header is not None else ""
    return RunLane(letter, name, info.title, promise, info.tone, tuple(tokens), tuple(rounds), parts_at)


# In words ------------------------------------------------------------------------------------------------------------


def _words(
    lanes: Sequence[RunLane], n_same: int, parted: bool, same_prompt: bool, runs: Sequence[Run], near: str
) -> str:
    if not same_prompt:
        return "The runs were given different prompts, so their texts are not the same text; numbers can be compared."
    lengths = {len(lane.tokens) for lane in lanes}
    if not parted and len(lengths) == 1:
        text = f"The same text in all {len(lanes)}: {plural(n_same, 'token')}, one by one."
    elif not parted:
        longest = max(lanes, key=lambda lane: len(lane.tokens))
        beyond = f"{longest.letter} goes on to {len(longest.tokens)}"
        text = f"The same text as far as all go, {plural(n_same, 'token')}; {beyond}."
    else:
        text = f"{_begin(n_same)} {_parting(lanes, n_same)}."
    return f"{text} {_promise(lanes, parted, runs, near)}".strip()


def _begin(n_same: int) -> str:
    if n_same == 0:
        return "The texts part at once:"
    return f"The first {n_same} tokens are the same, then" if n_same > 1 else "The first token is the same, then"


def _parting(lanes: Sequence[RunLane], at: int) -> str:
    """Who writes what there: `A and C write ▁the, B writes ▁a, D has ended`."""
    groups: dict[str | None, list[str]] = {}
    for lane in lanes:
        word = lane.tokens[at].shown[:_QUOTED] if at < len(lane.tokens) else None
        groups.setdefault(word, []).append(lane.letter)
    said = []
    for word, letters in groups.items():
        who = " and ".join(filter(None, (", ".join(letters[:-1]), letters[-1])))
        many = len(letters) > 1
        said.append(
            f"{who} {'have' if many else 'has'} ended" if word is None else f"{who} write{'' if many else 's'} “{word}”"
        )
    return ", ".join(said)


def _near(lanes: Sequence[RunLane], texts: Sequence[Sequence[TextToken]], runs: Sequence[Run], at: int) -> str:
    """What the target gave the tokens that part, by the first lane whose record has two of them."""
    here = [text[at].token for text in texts if at < len(text)]
    for lane, text, run in zip(lanes, texts, runs, strict=True):
        node = lane.tokens[at].node if at < len(lane.tokens) else None
        verdict = run.rounds[lane.tokens[at].index].verdicts.get(node) if node is not None else None
        if verdict is None:
            continue
        given, own = {token: prob(log) or 0.0 for token, log in verdict.top or ()}, text[at].token
        other = next((token for token in here if token != own and token in given), None)
        if own in given and other is not None:
            mine, theirs = apart(given[own], given[other])
            return f"In {lane.letter} the target gives “{run.name(own)}” {mine} and “{run.name(other)}” {theirs}."
    return ""


def _promise(lanes: Sequence[RunLane], parted: bool, runs: Sequence[Run], near: str) -> str:
    """What was to be expected of runs with one target, one seed and one sampling. `near`: how near it was."""
    headers = [run.header for run in runs if run.header is not None]
    alike = len({repr((_target(run), _law(run), _seed(run))) for run in runs}) == 1
    if len(headers) < len(runs) or not alike:
        return "Target, seed or sampling differ." if parted else ""
    if all(header.keeps_tokens and header.lossless for header in headers):
        kept = "Each promises the tokens of plain decoding"
        rounding = f"{kept} up to the rounding of its arithmetic, and here that made another."
        return f"{rounding} {near}".strip() if parted else f"{kept}."
    if parted and all(header.lossless for header in headers):
        only = [lane.letter for lane, header in zip(lanes, headers, strict=True) if not header.keeps_tokens]
        keeps = "keeps" if len(only) == 1 else "keep"
        return f"{', '.join(only)} {keeps} the law of the text, not its tokens, so other ones are no fault."
    return ""


def _law(run: Run) -> list[tuple[str, object]]:
    """What the law of the text depends on: how long it may get is no part of that."""
    sampling = run.header.sampling if run.header is not None else {}
    return sorted((name, value) for name, value in sampling.items() if name not in _LENGTH)


def _seed(run: Run) -> int | None:
    prefill = run.queries[0].prefill if run.queries else None
    return prefill.seed if prefill is not None else None
