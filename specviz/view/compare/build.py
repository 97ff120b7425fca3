"""`comparison(runs)`: everything that a page or a command says of several runs side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.errors import SpecvizError
from specviz.runlog.fold import Run
from specviz.view.compare.aligned import LETTERS, Aligned, aligned, shared_prompts
from specviz.view.compare.figures import Compared, Steps, compared, steps
from specviz.view.compare.settings import Setting, settings

MOST = len(LETTERS)  # runs that can be told apart on one picture


@dataclass(frozen=True, slots=True)
class SideBySide:
    """`n_prompts`: prompts that all runs share; `prompt`: which of them is looked at. `steps`: of every run, for it."""

    text: Aligned
    numbers: Compared
    settings: tuple[Setting, ...]
    steps: tuple[Steps, ...]
    n_prompts: int
    prompt: int

    @property
    def differing(self) -> tuple[Setting, ...]:
        """What runs that have it have otherwise."""
        return tuple(setting for setting in self.settings if setting.differs)

    @property
    def partly(self) -> tuple[Setting, ...]:
        """What only some runs have."""
        return tuple(setting for setting in self.settings if setting.partly)

    @property
    def n_alike(self) -> int:
        """Settings that are the same in all runs."""
        return len(self.settings) - len(self.differing) - len(self.partly)


def comparison(runs: Sequence[tuple[str, Run]], prompt: int = 0) -> SideBySide:
    """Raises SpecvizError for fewer than two runs or more than six, for one without a round, and for a prompt that is
    not there."""
    if not 2 <= len(runs) <= MOST:
        raise SpecvizError(f"{len(runs)} runs to compare; name 2 to {MOST}")
    for name, run in runs:
        if run.header is None or not run.rounds:
            raise SpecvizError(
                f"{name} has no round in it yet: there is nothing to compare; record a run to its first round"
            )
    alone = [run for _, run in runs]
    shared = shared_prompts(alone)
    if shared and not 0 <= prompt < len(shared):
        raise SpecvizError(f"no prompt {prompt + 1} of those the runs share; there are {len(shared)}")
    queries = shared[prompt] if shared else (0,) * len(runs)
    return SideBySide(
        aligned(runs, queries),
        compared(alone),
        settings(alone),
        tuple(steps(run, query) for run, query in zip(alone, queries, strict=True)),
        len(shared),
        prompt if shared else 0,
    )
