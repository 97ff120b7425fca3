"""The seam between the measuring loop and what it measures, and the order of runs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

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
