"""The measuring loop: warm-up, interleaved turns within a time bound, then one run a prompt that is taken apart.

It knows arms by their protocol only, so its order and its arithmetic are tested on fakes. How many threads they get is
found by a short probe, because more are not always faster: on small models two can cost several times one.
Every count decodes a few tokens with every unwatched arm, interleaved; the count with the smallest geometric mean
of best times wins, so neither side chooses alone.
"""

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from specviz.collecting import seldom
from specviz.comparison.machine import cores

Tokens = list[int]


@dataclass(slots=True)
class Split:
    """One run taken apart. `rounds`: milliseconds by stage; the first round, which carries prompts, is left out."""

    n_tokens: int = 0
    n_rounds: int = 0  # passes of the target that emitted tokens
    n_drafted: int = 0
    n_accepted: int = 0
    rounds: list[dict[str, float]] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)  # layers x rows of every pass, where that is known
    n_draft_calls: int = 0
    chains: list[tuple[int, int]] = field(
        default_factory=list
    )  # drafted and accepted, of rounds whose draft is a chain


class BenchArm(Protocol):
    """A contestant. `ready` does what is not to be timed and returns the run itself."""

    name: str

    def ready(self, prompt: Tokens, n: int, seed: int) -> Callable[[], Tokens]: ...
    def split(self, prompt: Tokens, n: int, seed: int) -> Split: ...


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt in one repeat; every arm runs once, in this order."""

    repeat: int
    prompt: int
    order: tuple[int, ...]


def turns(n_arms: int, n_prompts: int, n_repeats: int) -> Iterator[Turn]:
    """Interleaved: all arms on a prompt before the next prompt, all prompts before the next repeat.

    The order begins one arm later every turn, so that none always runs on the caches of the same neighbour.
    """
    count = 0
    for repeat in range(n_repeats):
        for prompt in range(n_prompts):
            start = count % n_arms
            yield Turn(repeat, prompt, (*range(start, n_arms), *range(start)))
            count += 1


@dataclass(slots=True)
class Sample:
    """One timed run."""

    arm: int
    prompt: int
    repeat: int
    seconds: float
    tokens: Tokens
    cpu_seconds: float | None = None  # of all threads of this process


def of_arm(samples: Sequence[Sample], arm: int) -> dict[tuple[int, int], Sample]:
    """The samples of one arm by (prompt, repeat)."""
    return {(s.prompt, s.repeat): s for s in samples if s.arm == arm}


Tell = Callable[[str], None]
Clock = Callable[[], float]


@dataclass(slots=True)
class Measurement:
    """Everything that was timed. `splits[arm]` holds one entry a prompt; `cut`: the time was up before the end."""

    samples: list[Sample] = field(default_factory=list)
    splits: list[list[Split]] = field(default_factory=list)
    cut: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MeasuringPlan:
    n_tokens: int
    repeats: int
    seconds: float | None = None  # bound; None: as long as it takes
    apart: bool = True  # whether one run a prompt is taken apart at the end


def measure(
    arms: Sequence[BenchArm],
    prompts: Sequence[Tokens],
    plan: MeasuringPlan,
    tell: Tell,
    clock: Clock = time.perf_counter,
) -> Measurement:
    """Run everything. A turn begins only when one as long as the longest so far would end in time; the first always."""
    out, began, longest = Measurement(), clock(), 0.0
    seen: set[int] = set()
    for arm in arms:  # the first call of anything allocates, compiles and looks up
        arm.ready(prompts[0], min(plan.n_tokens, 8), 0)()
    with seldom():
        for turn in turns(len(arms), len(prompts), plan.repeats):
            at = clock()
            # Behind the turns comes one run apart for every prompt seen, as long as a turn each.
            needed = longest * (1 + plan.apart * max(len(seen), 1))
            if plan.seconds is not None and seen and at - began + needed > plan.seconds:
                out.cut = True
                break
            seen.add(turn.prompt)
            for index in turn.order:
                out.samples.append(_timed(arms[index], index, turn.prompt, turn.repeat, prompts, plan, clock))
            longest = max(longest, clock() - at)
            tell(f"repeat {turn.repeat + 1} of {plan.repeats}, prompt {turn.prompt + 1} of {len(prompts)}")
        out.splits = [[] for _ in arms]
        if plan.apart:
            tell("taking single runs apart")
        for prompt in sorted(seen) if plan.apart else ():
            for index, arm in enumerate(arms):
                out.splits[index].append(arm.split(prompts[prompt], plan.n_tokens, 0))
    out.seconds = clock() - began
    return out


def _timed(
    arm: BenchArm, index: int, prompt: int, repeat: int, prompts: Sequence[Tokens], plan: MeasuringPlan, clock: Clock
) -> Sample:
    run = arm.ready(prompts[prompt], plan.n_tokens, repeat)
    gc.collect()
    began, cpu = clock(), time.process_time()
    tokens = run()
    seconds, cpu = clock() - began, time.process_time() - cpu
    return Sample(index, prompt, repeat, seconds, tokens, cpu)


_PASSES, _TOKENS = 3, 12


def counts() -> list[int]:
    """1, 2, 4, .. and the number of cores."""
    most, out = cores(), [1]
    while out[-1] * 2 < most:
        out.append(out[-1] * 2)
    return out if most == 1 else [*out, most]


def probe_threads(arms: Sequence[BenchArm], prompt: Tokens) -> dict[int, float]:
    """`{threads: milliseconds a token}`; torch is left with the best of them."""
    best: dict[int, list[float]] = {n: [math.inf] * len(arms) for n in counts()}
    for _ in range(_PASSES):
        for n, times in best.items():
            torch.set_num_threads(n)
            for index, arm in enumerate(arms):
                run = arm.ready(prompt, _TOKENS, 0)
                began = time.perf_counter()
                run()
                times[index] = min(times[index], time.perf_counter() - began)
    ms = {n: math.exp(sum(map(math.log, t)) / len(t)) * 1e3 / _TOKENS for n, t in best.items()}
    torch.set_num_threads(min(ms, key=lambda n: ms[n]))
    return ms
