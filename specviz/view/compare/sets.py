"""What is compared: a recording, or a set of them, as requests: a prompt, what was written, the sums of its rounds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specviz.errors import SpecvizError
from specviz.events import Header, Prefill
from specviz.metrics import Tally
from specviz.metrics.sets import by_query
from specviz.runlog.fold import Run
from specviz.view.compare.settings import set_to
from specviz.view.compare.texts import prompt_keys


@dataclass(frozen=True, slots=True)
class Request:
    """A query with finished rounds. `place`: among the queries of its run; `written`: ids and texts of its tokens."""

    name: str
    place: int
    header: Header | None
    prefill: Prefill | None
    written: tuple[tuple[int, str], ...]
    tally: Tally

    @property
    def kind(self) -> str:
        """The kind (domain) of the prompt; empty where none is on record."""
        return (self.prefill and self.prefill.domain) or ""


@dataclass(frozen=True, slots=True)
class RunSet:
    """One side of a comparison. `run`: the recording, where it is a single one; `set_to`: what its runs were set to."""

    name: str
    run: Run | None
    requests: tuple[Request, ...]
    set_to: Mapping[str, str]


def set_of(name: str, run: Run) -> RunSet:
    """One recording, as far as it goes. Raises SpecvizError where it has no round."""
    if run.header is None or not run.rounds:
        raise SpecvizError(
            f"{name} has no round in it yet: there is nothing to compare; record a run to its first round"
        )
    tallies = by_query(run.rounds, run.header, run.calibration)
    requests = tuple(
        Request(
            f"{name} q{query.number}",
            place,
            run.header,
            query.prefill,
            tuple((token.token, token.running) for token in query.tokens if token.mark != "prompt"),
            tallies[query.number],
        )
        for place, query in enumerate(run.queries)
        if query.number in tallies
    )
    return RunSet(name, run, requests, set_to(run.header, run.queries[0].prefill if run.queries else None))


def set_of_all(name: str, sets: Sequence[RunSet]) -> RunSet:
    """Several recordings as one set; what they were set to is told with every value that occurs."""
    values_of: dict[str, set[str]] = {}
    for run_set in sets:
        for setting, value in run_set.set_to.items():
            values_of.setdefault(setting, set()).add(value)
    settings = {setting: ", ".join(sorted(values)) for setting, values in values_of.items()}
    return RunSet(name, None, tuple(request for run_set in sets for request in run_set.requests), settings)


def shared_requests(sets: Sequence[RunSet]) -> tuple[list[tuple[int, ...]], int]:
    """Of every prompt that all sets have, repetition by repetition, the place of its request in each, in the order of
    the first set; and of how many requests of one set at most the prompt is not on record."""
    keys = prompt_keys([[request.prefill for request in set_keys.requests] for set_keys in sets])
    named = []
    for set_keys in keys:
        seen: Counter[str] = Counter()
        of_set: dict[tuple[str, int], int] = {}
        for place, key in enumerate(set_keys):
            if key is not None:
                of_set[key, seen[key]] = place
                seen[key] += 1
        named.append(of_set)
    shared = [
        tuple(set_keys[key] for set_keys in named) for key in named[0] if all(key in set_keys for set_keys in named)
    ]
    return shared, max(set_keys.count(None) for set_keys in keys)
