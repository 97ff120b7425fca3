"""`comparison(runs)`: everything that a page or a command says of several runs, or sets of them, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.errors import SpecvizError
from specviz.numerals import plural
from specviz.runlog.fold import Run
from specviz.view.compare.aligned import LETTERS, Aligned, aligned, listed
from specviz.view.compare.figures import Compared, Steps, compared, steps
from specviz.view.compare.sets import RunSet, set_of, shared_requests
from specviz.view.compare.settings import Setting, settings
from specviz.view.compare.texts import TextParting, TextsBeside, parting

MOST = len(LETTERS)  # most runs whose colours differ clearly in one plot


@dataclass(frozen=True, slots=True)
class SideBySide:
    """`texts`: of all prompts, each set but the first beside the first. `shared`: of every prompt that all have, its
    place in each run; `prompt`: which of them `text` and `steps` are of. Sets of several recordings have no text by
    position, so neither places nor steps."""

    text: Aligned
    texts: tuple[TextsBeside, ...]
    numbers: Compared
    settings: tuple[Setting, ...]
    steps: tuple[Steps, ...]
    shared: tuple[tuple[int, ...], ...]
    prompt: int

    @property
    def n_prompts(self) -> int:
        """Prompts that all runs were given."""
        return len(self.shared)

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
    """Of recordings by their names. Raises SpecvizError for fewer than two or more than six, for one without a round,
    and for a prompt that is not there."""
    if not 2 <= len(runs) <= MOST:
        raise SpecvizError(f"{len(runs)} runs to compare; name 2 to {MOST}")
    return comparison_of([set_of(name, run) for name, run in runs], prompt)


def comparison_of(sets: Sequence[RunSet], prompt: int = 0) -> SideBySide:
    """Of at most six sets; of a single one, all that can be said of it. Raises SpecvizError for a prompt that is not
    there."""
    shared, untold = shared_requests(sets)
    if shared and not 0 <= prompt < len(shared):
        raise SpecvizError(f"no prompt {prompt + 1} of those the runs share; there are {len(shared)}")
    texts = tuple(_texts(sets[0], run_set, [(at[0], at[k]) for at in shared], untold) for k, run_set in enumerate(sets))
    places = [tuple(run_set.requests[k].place for run_set, k in zip(sets, at, strict=True)) for at in shared]
    queries = places[prompt] if shared else (0,) * len(sets)
    runs = [run_set.run for run_set in sets if run_set.run is not None]
    single = len(runs) == len(sets)
    return SideBySide(
        aligned([(run_set.name, run) for run_set, run in zip(sets, runs, strict=True)], queries)
        if single
        else listed([(run_set.name, _size(run_set)) for run_set in sets], _words(texts[1:])),
        texts[1:],
        compared(sets),
        settings([run_set.set_to for run_set in sets]),
        tuple(steps(run, query) for run, query in zip(runs, queries, strict=True)) if single else (),
        tuple(places) if single else (),
        prompt if shared else 0,
    )


def _words(texts: Sequence[TextsBeside]) -> str:
    if len(texts) == 1:
        return texts[0].words
    return " ".join(f"{letter}: {beside.words}" for letter, beside in zip(LETTERS[1:], texts, strict=False))


def _size(run_set: RunSet) -> str:
    rounds = sum(request.tally.n_rounds for request in run_set.requests)
    return f"{plural(len(run_set.requests), 'prompt')}, {plural(rounds, 'round')}"


def _texts(first: RunSet, other: RunSet, pairs: Sequence[tuple[int, int]], untold: int) -> TextsBeside:
    """`untold`: requests without a prompt on record."""
    both = [(first.requests[a], other.requests[b]) for a, b in pairs]
    outcomes = [parting((a.name, b.name), (a.written, b.written), (a.header, b.header)) for a, b in both]
    partings = tuple(outcome for outcome in outcomes if isinstance(outcome, TextParting))
    return TextsBeside(n_same=outcomes.count(True), n_unknown=untold + outcomes.count(None), partings=partings)
