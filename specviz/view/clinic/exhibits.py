"""The evidence of a case, one thing a page, of blocks that every front-end draws."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from specviz.judge import Evidence, RoundsCounted
from specviz.numerals import number, percent
from specviz.text import running
from specviz.view.blocks import Block, Cell, TableBlock, Words

_SHOWN = 400  # characters of a text
_PARTS = 6  # of an answer, along it


@dataclass(frozen=True, slots=True)
class Exhibit:
    """What may be opened. `key`: how it is called; `blocks`: what it shows."""

    key: str
    title: str
    blocks: tuple[Block, ...]


def exhibits_of(evidence: Evidence) -> tuple[Exhibit, ...]:
    """All that a case has, each only where there is something to see."""
    counted = evidence.rounds[0]
    exhibits = (Exhibit(key, title, tuple(build(counted, evidence))) for key, title, build in _EXHIBITS)
    return tuple(exhibit for exhibit in exhibits if exhibit.blocks)


def _table(key: str, heads: tuple[str, ...], *rows: tuple[str, ...]) -> Iterator[Block]:
    if rows:
        yield TableBlock(key, heads, tuple(tuple(Cell(text) for text in row) for row in rows))


def _card(counted: RoundsCounted, evidence: Evidence) -> Iterator[Block]:
    header, metrics = counted.run.header, counted.metrics
    if header is None:
        return
    rule = header.verifier if header.outside is None else header.outside.setting
    temperature = counted.temperature
    yield from _table(
        "card",
        ("", ""),
        ("method", running(header.method)),
        ("rule in force", running(rule)),
        ("temperature", "not told" if temperature is None else number(temperature)),
        ("rounds", f"{metrics.n_rounds:,} in {metrics.n_queries} answers"),
        ("drafted, kept", f"{metrics.n_drafted:,}, {metrics.n_accepted:,}"),
    )


def _positions(counted: RoundsCounted, evidence: Evidence) -> Iterator[Block]:
    rates = counted.metrics.position_acceptance or {}
    rows = [(str(at), percent(rate.value), str(rate.n)) for at, rate in rates.items()]
    yield from _table("positions", ("position", "kept of the tested", "tested"), *rows)


def _along(counted: RoundsCounted, evidence: Evidence) -> Iterator[Block]:
    """Parts of an answer, over all answers."""
    sums = [[0, 0] for _ in range(_PARTS)]
    ends = [record.end for record in counted.run.rounds if record.end is not None and record.end.n_drafted]
    for q in dict.fromkeys(end.q for end in ends):
        own = [end for end in ends if end.q == q]
        for k, end in enumerate(own):
            part = sums[k * _PARTS // len(own)]
            part[0], part[1] = part[0] + end.n_drafted, part[1] + end.n_accepted
    rows = [(f"{k + 1} of {_PARTS}", percent(kept / drafted)) for k, (drafted, kept) in enumerate(sums) if drafted]
    yield from _table("along", ("part of the answers", "kept of the drafted"), *rows)


def _tests(counted: RoundsCounted, evidence: Evidence) -> Iterator[Block]:
    texts = counted.tally.texts
    if texts.n_refused and counted.temperature:  # at 0 every other token has none
        yield Words(
            f"Of {texts.n_refused:,} drafted tokens that were refused the target gave {texts.n_ruled_out:,} no chance "
            "at all."
        )
    rows = [(name, percent(kept / n), str(n)) for name, (n, kept) in sorted(texts.by_class.items()) if n]
    yield from _table("tests", ("class of the token", "kept", "tested"), *rows)


def _ends(counted: RoundsCounted, evidence: Evidence) -> Iterator[Block]:
    rows = [(why, str(n)) for why, n in counted.tally.texts.idle.most_common()]
    yield from _table("ends", ("rounds without a draft, by why", "rounds"), *rows)


def _times(counted: RoundsCounted, evidence: Evidence) -> Iterator[Block]:
    stages = {name: took.value for name, took in (counted.metrics.stage_ms or {}).items()}
    speed = counted.speed
    rows = [(name, f"{number(ms)} ms") for name, ms in stages.items()]
    if speed is not None and speed.plain_ms is not None:
        rows.append(("a plain pass", f"{number(speed.plain_ms)} ms"))
    length = counted.metrics.mean_acceptance_length
    if "target" in stages and length is not None:
        rows.append(("tokens a round", number(length.value)))
        yield from _table("times", ("of a round", "usual"), *rows)


def _text(counted: RoundsCounted, evidence: Evidence) -> Iterator[Block]:
    run = counted.run
    prefill = run.queries[0].prefill if run.queries else None
    written = "".join(
        text for record in run.rounds if record.q == 0 and record.commit is not None for text in record.commit.texts
    )
    if prefill is not None and prefill.text:
        yield Words(f"prompt: {running(prefill.text, most=_SHOWN)}")
    if written:
        yield Words(f"answer: {running(written, most=_SHOWN)}")


def _report(counted: RoundsCounted, evidence: Evidence) -> Iterator[Block]:
    for report in counted.run.reported:
        metrics = counted.metrics
        rows = [
            (name, f"{reported:,}", f"{ours:,}")
            for name, reported, ours in (
                ("drafted tokens", report.n_drafted, metrics.n_drafted),
                ("accepted tokens", report.n_accepted, metrics.n_accepted),
            )
            if reported is not None
        ]
        yield from _table("report", ("", f"{running(report.of)} reports", "its rounds add up to"), *rows)


def _files(counted: RoundsCounted, evidence: Evidence) -> Iterator[Block]:
    for pair in evidence.pairs:
        rows = [(seen.severity, running(seen.what)) for seen in pair.findings]
        if rows:
            yield from _table("files", ("", "specviz check"), *rows)
        else:
            yield Words("specviz check of the two folders: nothing.")


def _twin(counted: RoundsCounted, evidence: Evidence) -> Iterator[Block]:
    for other in evidence.rounds[1:]:
        plain = dict(other.tally.texts.texts.values())
        for prompt, text in counted.tally.texts.texts.values():
            same = next((k for k, (a, b) in enumerate(zip(text, plain.get(prompt, []), strict=False)) if a != b), None)
            where = "the same as far as both go" if same is None else f"parts at token {same + 1}"
            yield Words(f"The text beside plain decoding of the same prompt: {where}.")


Build = Callable[[RoundsCounted, Evidence], Iterator[Block]]
_EXHIBITS: tuple[tuple[str, str, Build], ...] = (
    ("card", "how it ran", _card),
    ("positions", "what is kept, by position of the draft", _positions),
    ("along", "what is kept along the answers", _along),
    ("tests", "refused tokens, and classes of tokens", _tests),
    ("ends", "why rounds drafted nothing", _ends),
    ("times", "what a round takes", _times),
    ("text", "prompt and answer", _text),
    ("report", "what the engine reports itself", _report),
    ("files", "the folders of target and draft", _files),
    ("twin", "the same prompts decoded plainly", _twin),
)
