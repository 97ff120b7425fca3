"""The same prompts, seeds and drafts under several verifiers or settings: what each keeps, compared in pairs.

Two answers, kept apart. *Measured*: every verifier decodes every prompt by itself, with the same keys, so that rounds
at the same text have the same draft and the same uniforms; block efficiency is compared in pairs of prompts. *On the
same drafts*: of the sampled chains that the base drafted, how many tokens tokenwise, hsd (= blockwise) and naive HSD
keep in expectation over the uniforms, exactly; and what they would keep of drafts as the base draws them, estimated
from the same chains with far less noise (`specviz.metrics.replay_rules`).
"""

import platform
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import torch

from specviz.commands import Start
from specviz.comparison import machine
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.engine.run.prepare import encode_prompt, wants_chat
from specviz.errors import SpecvizError, WriteError
from specviz.events import Event, ModelInfo
from specviz.metrics import Tally
from specviz.metrics.differences import RatioOfSums, difference_of
from specviz.metrics.estimate import Estimate
from specviz.metrics.replay_rules import DraftReplay
from specviz.probability.plan import Verifier
from specviz.sources.prompts import PromptSet, suited
from specviz.trace import Recorder
from specviz.traits import RULES

ALL = "all"


@dataclass(frozen=True, slots=True)
class RunCounts:
    """One run, in counts. `calls`: target passes, which is rounds."""

    verifier: str
    prompt: int
    emitted: int
    calls: int
    accepted: int
    drafted: int
    blocks: int
    replays: tuple[DraftReplay, ...]
    seconds: float = 0.0  # of its rounds, what recording took not in it


@dataclass(frozen=True, slots=True)
class ComparedSetting:
    """A verifier, and the knobs that it decodes with beside those that all have."""

    verifier: Verifier
    knobs: Mapping[str, Any] = field(default_factory=dict)
    named: bool = True  # whether several verifiers are compared

    @property
    def name(self) -> str:
        """`hsd`; `gamma 4, temperature 0.8`; `hsd, gamma 4`."""
        words = [self.verifier.name] if self.named or not self.knobs else []
        return ", ".join([*words, *(f"{name} {value}" for name, value in self.knobs.items())])

    @property
    def lossless(self) -> bool:
        return self.verifier.lossless


class VerifierResult(msgspec.Struct, frozen=True, kw_only=True):
    """One verifier on one domain. `difference`: of block efficiency, to the base, paired by prompt (null: the base)."""

    verifier: str
    lossless: bool
    n_runs: int
    n_rounds: int
    n_tokens: int
    block_efficiency: Estimate
    mean_accepted: Estimate
    draft_acceptance_rate: Estimate | None
    difference: Estimate | None
    unrecorded_tokens_per_second: Estimate | None = None  # where settings are compared; what recording took left out


class ExpectedKept(msgspec.Struct, frozen=True, kw_only=True):
    """A rule on the drafts of the base's runs, in tokens kept per draft; differences are paired, to tokenwise.

    `expected_accepted`: of exactly these drafts, None where it cannot be told. `estimated_accepted`: of drafts as the
    base draws them.
    """

    rule: str
    n_drafts: int
    expected_accepted: Estimate | None
    difference: Estimate | None
    estimated_accepted: Estimate | None
    estimated_difference: Estimate | None


class PromptKind(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one kind of prompt, or about all."""

    name: str
    n_prompts: int
    lines: list[VerifierResult]
    same_drafts: list[ExpectedKept]


def domains(
    verifiers: Sequence[ComparedSetting | Verifier], runs: Sequence[RunCounts], prompts: PromptSet
) -> list[PromptKind]:
    """Every kind of prompt by itself, then all."""
    kinds = {prompts.domains[run.prompt] for run in runs}
    # a kind of prompt that a file calls `all` is not all of them
    names = {kind: f"{ALL} (a kind)" if kind == ALL else kind for kind in sorted(kinds)}
    named = [(name, [r for r in runs if prompts.domains[r.prompt] == kind]) for kind, name in names.items()]
    return [_domain(verifiers, name, part) for name, part in [*(named if len(named) > 1 else []), (ALL, list(runs))]]


def _domain(verifiers: Sequence[ComparedSetting | Verifier], name: str, runs: Sequence[RunCounts]) -> PromptKind:
    base = [run for run in runs if run.verifier == verifiers[0].name]
    lines = [
        _line(verifier, [run for run in runs if run.verifier == verifier.name], base if k else None)
        for k, verifier in enumerate(verifiers)
    ]
    return PromptKind(name=name, n_prompts=len({run.prompt for run in runs}), lines=lines, same_drafts=_same(base))


def _line(
    verifier: ComparedSetting | Verifier, mine: Sequence[RunCounts], base: Sequence[RunCounts] | None
) -> VerifierResult:
    emitted, calls = _by_prompt(mine, "emitted"), _by_prompt(mine, "calls")
    drafted, seconds = _by_prompt(mine, "drafted"), _by_prompt(mine, "seconds")
    difference = None
    if base is not None:
        other = RatioOfSums(_by_prompt(base, "emitted"), _by_prompt(base, "calls"))
        difference = difference_of(RatioOfSums(emitted, calls), other)
    accepted = _by_prompt(mine, "accepted")
    return VerifierResult(
        verifier=verifier.name,
        lossless=verifier.lossless,
        n_runs=len(mine),
        n_rounds=int(sum(calls)),
        n_tokens=int(sum(emitted)),
        block_efficiency=RatioOfSums(emitted, calls).estimate(),
        mean_accepted=RatioOfSums(accepted, _by_prompt(mine, "blocks")).estimate(),
        draft_acceptance_rate=RatioOfSums(accepted, drafted).estimate() if sum(drafted) else None,
        difference=difference,
        unrecorded_tokens_per_second=RatioOfSums(emitted, seconds).estimate() if all(seconds) else None,
    )


def _by_prompt(runs: Iterable[RunCounts], name: str) -> list[float]:
    """`[prompts]` sums over the runs of each prompt, in the order of prompts."""
    sums: dict[int, int] = {}
    for run in runs:
        sums[run.prompt] = sums.get(run.prompt, 0) + getattr(run, name)
    return [float(sums[prompt]) for prompt in sorted(sums)]


def _same(base: Sequence[RunCounts]) -> list[ExpectedKept]:
    """The three rules on the drafts of the base's runs; nothing when they were no sampled chains."""
    by_prompt: dict[int, list[DraftReplay]] = {}
    for run in base:
        by_prompt.setdefault(run.prompt, []).extend(replay for replay in run.replays if replay.length)
    drafts = [prompt_drafts for _, prompt_drafts in sorted(by_prompt.items()) if prompt_drafts]
    if not drafts:
        return []
    names: tuple[str, ...] = RULES
    expected = {
        rule: _over([[draft.survival[rule] for draft in prompt_drafts] for prompt_drafts in drafts]) for rule in names
    }
    estimated = {
        rule: _over([[draft.credits[rule] for draft in prompt_drafts] for prompt_drafts in drafts]) for rule in names
    }
    estimates = {rule: None if over is None else over.estimate() for rule, over in estimated.items()}
    return [
        ExpectedKept(
            rule=rule,
            n_drafts=sum(map(len, drafts)),
            expected_accepted=mine.estimate() if (mine := expected[rule]) is not None else None,
            difference=_to_first(rule, expected),
            estimated_accepted=estimates[rule],
            estimated_difference=_to_first(rule, estimated),
        )
        for rule in RULES
    ]


def _over(chances: Sequence[Sequence[Sequence[float] | None]]) -> RatioOfSums | None:
    """Tokens kept per draft, of the drafts of each prompt; None where they cannot be told of every draft."""
    sums = [[sum(draft) for draft in prompt_drafts if draft is not None] for prompt_drafts in chances]
    counts = [len(prompt_drafts) for prompt_drafts in chances]
    if [len(prompt_drafts) for prompt_drafts in sums] != counts:
        return None
    return RatioOfSums([sum(prompt_drafts) for prompt_drafts in sums], counts)


def _to_first(rule: str, ratios: Mapping[str, RatioOfSums | None]) -> Estimate | None:
    mine, first = ratios[rule], ratios[RULES[0]]
    return None if rule == RULES[0] or mine is None or first is None else difference_of(mine, first)


Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """What is compared. The first is the base of differences; `seconds` bounds the decoding.

    `varied`: knobs with the values they are given in turn, each with each.
    """

    method: str
    verifiers: tuple[Verifier, ...]
    knobs: dict[str, Any]
    n_seeds: int = 1
    seconds: float | None = None
    models: dict[str, Any] = field(default_factory=dict)  # arguments of `load_pair`
    varied: dict[str, list[Any]] = field(default_factory=dict)
    traces: Path | None = None  # a folder that keeps the recording of every run

    @property
    def settings(self) -> list[ComparedSetting]:
        """Every verifier under every combination of what is varied."""
        grid = [dict(zip(self.varied, values, strict=True)) for values in product(*self.varied.values())]
        several = len(self.verifiers) > 1
        return [ComparedSetting(verifier, knobs, several) for verifier in self.verifiers for knobs in grid]

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
    varied: dict[str, list[Any]] = {}
    seconds: float
    cut: bool  # prompts are left, the time was up or the user had seen enough
    interrupted: bool


def machine_of(pair: Pair, before: float | None) -> machine.Machine:
    """What the pair runs on, with the load `before` and now."""
    device = pair.target.adapter.device
    return machine.Machine(
        processor=machine.processor(),
        cores=machine.cores(),
        system=f"{platform.system()} {platform.machine()}",
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        threads=torch.get_num_threads(),
        versions=machine.versions() | {"products": pair.target.adapter.products},
        commit=machine.commit(),
        load_before=before,
        load_after=machine.load(),
    )


def models_of(pair: Pair) -> dict[str, str]:
    """One line on each model."""

    def line(info: ModelInfo) -> str:
        size = f"{info.n_layers} layers, {(info.n_params or 0) / 1e6:.1f}M parameters"
        return f"{info.name}, {info.arch}, {size}, {info.dtype}"

    infos = {"target": pair.target.info} | ({"draft": pair.draft.info} if pair.draft else {})
    return {role: line(info) for role, info in infos.items()}


def compare(question: ComparisonSettings, prompts: PromptSet, command: str, progress: Progress) -> VerifierComparison:
    """Load and decode; prompt by prompt, all verifiers and seeds of one before the next, so that a cut leaves pairs.

    An interrupt after the first prompt ends the decoding and not the report: the prompts that are done count.
    """
    pair, before = load_pair(**question.models), machine.load()
    pair.runtime.begin()
    prompts = suited(prompts, wants_chat(pair.target, None))
    began, interrupted = time.perf_counter(), False
    numbers = list(fitting(prompts, pair, int(question.knobs["max_new_tokens"])))
    done: dict[int, list[RunCounts]] = {}
    try:
        for number, runs in _in_time(question, prompts, pair, numbers):
            done[number] = runs
            progress(len(done), len(numbers))
    except KeyboardInterrupt as stop:
        if not done or type(stop) is not KeyboardInterrupt:  # to be terminated is another thing
            raise
        interrupted = True
    return VerifierComparison(
        wall=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        machine=machine_of(pair, before),
        models=models_of(pair),
        method=question.method,
        knobs={name: value for name, value in question.knobs.items() if name not in question.varied},
        varied=question.varied,
        seeds=question.seeds,
        prompts={
            "source": prompts.source,
            "sha256": prompts.sha256,
            "n_found": prompts.n_found,
            "n_used": len(done),
            "n_too_long": len(prompts.texts) - len(numbers),
        },
        domains=domains(question.settings, [run for number in sorted(done) for run in done[number]], prompts)
        if done
        else [],
        seconds=time.perf_counter() - began,
        cut=len(done) < len(numbers),
        interrupted=interrupted,
    )


def _in_time(
    question: ComparisonSettings, prompts: PromptSet, pair: Pair, numbers: Sequence[int]
) -> Iterator[tuple[int, list[RunCounts]]]:
    """The number and the runs of prompt after prompt, until the next one would no longer end in time."""
    began, longest = time.perf_counter(), 0.0
    for number in numbers:
        at = time.perf_counter()
        if question.seconds is not None and longest and at - began + longest > question.seconds:
            return
        text = prompts.texts[number]
        runs = [
            _run(question, setting, pair, (number, text, seed))
            for seed in question.seeds
            for setting in question.settings
        ]
        yield number, runs
        longest = max(longest, time.perf_counter() - at)


def fitting(prompts: PromptSet, pair: Pair, n_new: int) -> dict[int, list[int]]:
    """The prompts, by number, that leave room for so many new tokens, as ids. Raises SpecvizError when none does.

    A run cut by the context would say nothing of a verifier.
    """
    chat = wants_chat(pair.target, None)
    encodings = [encode_prompt(pair.target.tokenizer, text, chat) if text else [] for text in prompts.texts]
    kept = {k: ids for k, ids in enumerate(encodings) if ids and len(ids) + n_new <= pair.context}
    if not kept:
        raise SpecvizError(
            f"no prompt of '{prompts.source}' fits: the shortest has {min(map(len, encodings))} tokens, with {n_new} "
            f"new ones the context of {pair.context} is exceeded; give shorter prompts or a smaller --max-new-tokens"
        )
    return kept


@contextmanager
def _recorder(
    question: ComparisonSettings, setting: ComparedSetting, number: int, seed: int
) -> Iterator[Callable[[Event], None]]:
    """Where the events of a run are written; one that was left in the middle is written over. Raises WriteError."""
    if question.traces is None:
        yield lambda event: None
        return
    words = re.sub(r"[^\w.]+", "-", setting.name)
    recorder = Recorder(question.traces / f"p{number + 1:04d}-seed-{seed}-{words}.sv.jsonl")
    try:
        yield recorder.write
    finally:
        recorder.close("cancelled")  # of a run that did not come to its end
    if recorder.problem:
        raise WriteError(f"the trace {recorder.path} was not written whole: {recorder.problem}")


def _run(question: ComparisonSettings, setting: ComparedSetting, pair: Pair, what: tuple[int, str, int]) -> RunCounts:
    """One run, counted as it goes; drafts are looked at again only where the base made them."""
    number, prompt, seed = what
    is_base = setting == question.settings[0]
    start = Start(
        prompt=prompt,
        method=question.method,
        verifier=setting.verifier.name,
        knobs={**question.knobs, **setting.knobs, "seed": seed},
        level="full" if is_base or question.traces else "summary",
    )
    drafts: list[DraftReplay] = []
    tally = Tally(drafts.append if is_base else None)
    with _recorder(question, setting, number, seed) as record:

        def sink(event: Event) -> None:
            tally.add(event)
            record(event)

        rounds = LocalRun(pair, start, sink).rounds()
        took = sum(done.ended_ns - done.started_ns for done in rounds)
    total = tally.totals
    return RunCounts(
        setting.name,
        number,
        emitted=total["n_emitted"],
        calls=tally.n_rounds,
        accepted=total["n_accepted"],
        drafted=total["n_drafted"],
        blocks=tally.n_blocks,
        replays=tuple(drafts),
        seconds=took / 1e9 if question.varied else 0.0,
    )
