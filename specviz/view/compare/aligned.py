"""Align the texts of several runs by committed position: each run's token and round there, and where the texts diverge.

`texts` defines when two tokens count as equal. Where ids and spellings are not on record, texts are not compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specviz.events import prob
from specviz.numerals import number, plural
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, Query, RoundRecord, TextToken
from specviz.view.compare.texts import NOT_ON_RECORD, comparable, n_alike, numbered_alike, prompt_keys, target_of
from specviz.view.frame.run_header import badge, of_whole_run, run_info
from specviz.view.words.numbers import apart
from specviz.view.words.palette import Tone

LETTERS = "ABCDEF"
_LENGTH = ("max_new_tokens", "stop", "seed")  # of the text; the seed is looked at by itself
_DRAWING = ("temperature", "top_k", "top_p", "min_p", "draw")  # what moves nothing where nothing is drawn
_ROUNDING = 0.5  # logits that rounding to 16 bits, or to fewer in a quantised model, can move two tokens apart
_FINE_ROUNDING = 0.01  # the same in float32
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
    """`n_same`: tokens that all lanes begin with. `words`: where they part, in a sentence or two. `known`: whether the
    texts are on record; if not, they neither part nor are the same."""

    prompt: str
    same_prompt: bool
    lanes: tuple[RunLane, ...]
    n_same: int
    parted: bool
    words: str
    known: bool = True

    @property
    def n_positions(self) -> int:
        return max((len(lane.tokens) for lane in self.lanes), default=0)


def listed(sets: Sequence[tuple[str, str]], words: str) -> Aligned:
    """Sets of several recordings, each by its name and size: their texts are not laid side by side."""
    lanes = [
        RunLane(letter, name, size, "", "kept", (), ()) for letter, (name, size) in zip(LETTERS, sets, strict=False)
    ]
    return Aligned("", True, tuple(lanes), 0, False, words, known=False)


def aligned(runs: Sequence[tuple[str, Run]], queries: Sequence[int]) -> Aligned:
    """`runs`: names and runs, each with a query. `queries`: which of its queries is looked at, by place."""
    compared_queries = [run.queries[n] for (_, run), n in zip(runs, queries, strict=True)]
    alone = [run for _, run in runs]
    by_id = numbered_alike([run.header for run in alone])
    texts = [[t for t in query.tokens if t.mark != "prompt"] for query in compared_queries]
    keys = comparable([[(token.token, token.running) for token in text] for text in texts], by_id)
    same = [n_alike(keys[0], other) for other in keys] if keys is not None else [0 for _ in texts]
    parts = [
        n if keys is not None and n < min(len(texts[0]), len(text)) else None
        for n, text in zip(same, texts, strict=True)
    ]
    lanes = tuple(
        _lane(letter, name, run, query, text, part)
        for letter, (name, run), query, text, part in zip(LETTERS, runs, compared_queries, texts, parts, strict=False)
    )
    prompts = {key for (key,) in prompt_keys([[query.prefill] for query in compared_queries])}
    shown = "".join(token.running for token in compared_queries[0].tokens if token.mark == "prompt")
    text = Aligned(
        prompt=shown,
        same_prompt=len(prompts) == 1,
        lanes=lanes,
        n_same=min(same, default=0),
        parted=any(part is not None for part in parts),
        words="",
        known=keys is not None,
    )
    return replace(text, words=_words(text, texts, alone, compared_queries, by_id, None not in prompts))


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
    text: Aligned,
    texts: Sequence[Sequence[TextToken]],
    runs: Sequence[Run],
    queries: Sequence[Query],
    by_id: bool | None,
    told_prompts: bool,
) -> str:
    lanes, n_same = text.lanes, text.n_same
    if not text.known:
        return f"The {NOT_ON_RECORD}: whether they are the same cannot be told. Numbers can be compared."
    if not text.same_prompt:
        return "The runs were given different prompts, so their texts are not the same text; numbers can be compared."
    lengths = {len(lane.tokens) for lane in lanes}
    if text.parted:
        sentence = f"{_begin(n_same)} {_parting(lanes, n_same)}."
    elif len(lengths) == 1:
        sentence = f"The same text in all {len(lanes)}: {plural(n_same, 'token')}, one by one."
    else:
        longest = max(lanes, key=lambda lane: len(lane.tokens))
        beyond = f"{longest.letter} goes on to {len(longest.tokens)}"
        sentence = f"The same text as far as all go, {plural(n_same, 'token')}; {beyond}."
    if not told_prompts:
        return f"{sentence} The prompts are not on record: they may have been others."
    near = _near(lanes, texts, runs, n_same) if text.parted and by_id else None
    return f"{sentence} {_promise(text, runs, queries, near)}".strip()


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
    clauses = []
    for word, letters in groups.items():
        who = " and ".join(filter(None, (", ".join(letters[:-1]), letters[-1])))
        many = len(letters) > 1
        clauses.append(
            f"{who} {'have' if many else 'has'} ended" if word is None else f"{who} write{'' if many else 's'} “{word}”"
        )
    return ", ".join(clauses)


@dataclass(frozen=True, slots=True)
class _Near:
    """How far two tokens were apart where texts part. `margin`: in logits; `rounding`: what rounding can move there."""

    words: str
    margin: float
    rounding: float


def _near(lanes: Sequence[RunLane], texts: Sequence[Sequence[TextToken]], runs: Sequence[Run], at: int) -> _Near | None:
    """What the target gave the tokens that part, by the first lane whose record has two of them."""
    here = [text[at].token for text in texts if at < len(text)]
    for lane, text, run in zip(lanes, texts, runs, strict=True):
        if at >= len(text):
            continue
        logprobs, own = _row(run.rounds[lane.tokens[at].index], text[at]), text[at].token
        other = next((token for token in here if token != own and token in logprobs), None)
        if own not in logprobs or other is None:
            continue
        mine, theirs = apart(prob(logprobs[own]) or 0.0, prob(logprobs[other]) or 0.0)
        target = run.header.models.target if run.header is not None else None
        return _Near(
            f"In {lane.letter} the target gives “{run.name(own)}” {mine} and “{run.name(other)}” {theirs}",
            abs(logprobs[own] - logprobs[other]),
            _FINE_ROUNDING if target is not None and target.dtype == "float32" else _ROUNDING,
        )
    return None


def _row(record: RoundRecord, written: TextToken) -> dict[int, float]:
    """The likeliest tokens of the target's row that a token was written from, with the logs of their probabilities:
    of the row that it was judged by, or one that was rejected in its place."""
    for place, verdict in record.verdicts.items():
        node = record.node(place)
        if place == written.node or (verdict.status == "rejected" and node is not None and node.pos == written.pos):
            return dict(verdict.top or ())
    return {}


def _promise(text: Aligned, runs: Sequence[Run], queries: Sequence[Query], near: _Near | None) -> str:
    """What was to be expected of runs with one target, one seed and one sampling. `near`: how near it was."""
    headers, parted = [run.header for run in runs if run.header is not None], text.parted
    laws = [_law(run, query) for run, query in zip(runs, queries, strict=True)]
    alike = len({repr((target_of(run.header), law)) for run, law in zip(runs, laws, strict=True)}) == 1
    if len(headers) < len(runs) or not alike:
        return "Target, seed or sampling differ." if parted else ""
    if not all(header.lossless for header in headers):
        return ""
    nearness = f" {near.words}." if near is not None else ""
    if laws[0].get("temperature") == 0:
        must = "At temperature 0 a lossless rule writes the target's likeliest tokens"
        return f"{must}, so {_fault(near)}." if parted else f"{must}."
    if all(header.keeps_tokens for header in headers):
        kept = "Each promises the tokens of plain decoding"
        return (
            f"{kept} up to the rounding of its arithmetic, and here that made another.{nearness}"
            if parted
            else f"{kept}."
        )
    if not parted:
        return ""
    if laws[0].get("temperature") is None:
        return "The temperature is not on record: at 0 other tokens would be a fault, above 0 they are none."
    only = [lane.letter for lane, header in zip(text.lanes, headers, strict=True) if not header.keeps_tokens]
    keeps = "keeps" if len(only) == 1 else "keep"
    return f"{', '.join(only)} {keeps} the law of the text, not its tokens, so other ones are no fault."


def _fault(near: _Near | None) -> str:
    """What other tokens of greedy runs are, as far as the record tells."""
    if near is None:
        return (
            "other ones are a fault, or two tokens were nearly tied and rounding chose; how near they were is not on "
            "record: ask for probabilities of the target"
        )
    far = f"{near.words}, {number(near.margin)} logits apart"
    if near.margin <= near.rounding:
        return f"rounding chose between two that were nearly tied, or it is a fault. {far}"
    return f"other ones are a fault: rounding moves less. {far}"


def _law(run: Run, query: Query) -> dict[str, object]:
    """What the text of a query depends on, and the seed where it is drawn. How long it may get is no part of that, and
    neither is how to draw where the likeliest token is taken."""
    sampling = run.header.sampling if run.header is not None else {}
    knobs = query.rounds[0].knobs if query.n_rounds else {}
    law = {name: knobs.get(name, value) for name, value in sorted(sampling.items()) if name not in _LENGTH}
    later = [c for c in run.changes if c.changes_text and c.q == query.number and c.applied_r > 1]
    if later:
        return law | {"temperature": None, "changed": [(c.name, c.new, c.applied_r) for c in later]}
    if law.get("temperature") == 0:
        return {name: value for name, value in law.items() if name not in _DRAWING or name == "temperature"}
    return law | {"seed": query.prefill.seed if query.prefill is not None else None}
