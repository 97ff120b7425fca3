"""One comparison of verifiers, from the question to the report."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from specviz.bench import machine
from specviz.bench.compare.results import PromptKind, RunCounts, domains
from specviz.bench.speed.run import machine_of, models_of
from specviz.commands import Start
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.errors import SpecvizError
from specviz.metrics import Tally
from specviz.metrics.replay_rules import DraftReplay
from specviz.probability.plan import Verifier
from specviz.sources.prompts import PromptSet

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """What is compared. The first verifier is the base of differences; `seconds` bounds the decoding."""

    method: str
    verifiers: tuple[Verifier, ...]
    knobs: dict[str, Any]
    n_seeds: int = 1
    seconds: float | None = None
    models: dict[str, Any] = field(default_factory=dict)  # arguments of `load_pair`

    @property
    def seeds(self) -> list[int]:
        """The seeds every prompt is decoded with."""
        first = int(self.knobs.get("seed", 0))
        return list(range(first, first + self.n_seeds))


class VerifierComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The report. `domains`: each kind of prompt by name, then all of them (alone when there is one kind only)."""

    wall: str
    command: str
    machine: machine.Machine
    models: dict[str, str]
    method: str
    knobs: dict[str, Any]
    seeds: list[int]
    prompts: dict[str, Any]
    domains: list[PromptKind]
    seconds: float
    cut: bool  # prompts are left, the time was up or the user had seen enough
    interrupted: bool


def compare(question: ComparisonSettings, prompts: PromptSet, command: str, progress: Progress) -> VerifierComparison:
    """Load and decode; prompt by prompt, all verifiers and seeds of one before the next, so that a cut leaves pairs.

    An interrupt after the first prompt ends the decoding and not the report: the prompts that are done count.
    """
    pair, before = load_pair(**question.models), machine.load()
    began, found, interrupted = time.perf_counter(), list[RunCounts](), False
    fitting = _fitting(question, prompts, pair)
    n_done = 0
    try:
        for runs in _in_time(question, prompts, pair, fitting):
            found, n_done = [*found, *runs], n_done + 1
            progress(n_done, len(fitting))
    except KeyboardInterrupt as stop:
        if not n_done or type(stop) is not KeyboardInterrupt:  # to be terminated is another thing
            raise
        interrupted = True
    return VerifierComparison(
        wall=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        machine=machine_of(pair, before),
        models=models_of(pair),
        method=question.method,
        knobs=question.knobs,
        seeds=question.seeds,
        prompts={
            "source": prompts.source,
            "sha256": prompts.sha256,
            "n_found": prompts.n_found,
            "n_used": n_done,
            "n_too_long": len(prompts.texts) - len(fitting),
        },
        domains=domains(question.verifiers, found, prompts),
        seconds=time.perf_counter() - began,
        cut=n_done < len(fitting),
        interrupted=interrupted,
    )


def _in_time(
    question: ComparisonSettings, prompts: PromptSet, pair: Pair, fitting: Sequence[int]
) -> Iterator[list[RunCounts]]:
    """The runs of prompt after prompt, until the next one would no longer end in time."""
    began, longest = time.perf_counter(), 0.0
    for number in fitting:
        at = time.perf_counter()
        if question.seconds is not None and longest and at - began + longest > question.seconds:
            return
        text = prompts.texts[number]
        yield [
            _run(question, verifier, pair, (number, text, seed))
            for seed in question.seeds
            for verifier in question.verifiers
        ]
        longest = max(longest, time.perf_counter() - at)


def _fitting(question: ComparisonSettings, prompts: PromptSet, pair: Pair) -> Sequence[int]:
    """The prompts that leave room for all new tokens: a run cut by the context would say nothing of a verifier."""
    room = pair.context - int(question.knobs["max_new_tokens"])
    encode = pair.target.tokenizer
    fitting = [k for k, text in enumerate(prompts.texts) if 0 < len(encode(text, verbose=False)["input_ids"]) <= room]
    if not fitting:
        raise SpecvizError(
            f"no prompt of '{prompts.source}' leaves room for {question.knobs['max_new_tokens']} new tokens in a "
            f"context of {pair.context}; give shorter prompts or a smaller --max-new-tokens"
        )
    return fitting


def _run(question: ComparisonSettings, verifier: Verifier, pair: Pair, what: tuple[int, str, int]) -> RunCounts:
    """One run, recorded in memory only; drafts are looked at again only where the base made them."""
    number, prompt, seed = what
    is_base = verifier is question.verifiers[0]
    start = Start(
        prompt=prompt,
        method=question.method,
        verifier=verifier.name,
        knobs={**question.knobs, "seed": seed},
        level="full" if is_base else "summary",
    )
    drafts: list[DraftReplay] = []
    tally = Tally(drafts.append if is_base else None)
    for _ in LocalRun(pair, start, tally.add).rounds():
        pass
    total = tally.totals
    return RunCounts(
        verifier.name,
        number,
        emitted=total["n_emitted"],
        calls=tally.n_rounds,
        accepted=total["n_accepted"],
        drafted=total["n_drafted"],
        blocks=tally.n_blocks,
        replays=tuple(drafts),
    )
