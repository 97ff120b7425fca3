"""The measuring loop: warm-up, interleaved turns within a time bound, then one run a prompt that is taken apart.

It knows arms by their protocol only, so its order and its arithmetic are tested on fakes.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from specviz.bench.arms import BenchArm, Sample, Split, Tokens, turns

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
    gc.collect()
    gc.freeze()  # what is loaded now stays; collections between runs need not look at it again
    try:
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
    finally:
        gc.unfreeze()
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
