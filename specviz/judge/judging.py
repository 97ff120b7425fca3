"""`judge(evidence) -> findings`, the best first: every detector is asked of every part that it takes."""

from collections.abc import Iterator
from typing import Any

from specviz.judge.evidence import LEAST_ROUNDS, Evidence, RoundsCounted
from specviz.judge.finding import EvidencePlace, Finding
from specviz.judge.registry import best_first, detectors
from specviz.text import running


def judge(evidence: Evidence) -> tuple[Finding, ...]:
    """What stands out; empty where chance explains all of it. Behind it what traces were given as findings."""
    parts = [*_parts(evidence)]
    findings = []
    for declared in detectors():
        for part in parts:
            finding = declared.rule(part) if isinstance(part, declared.kind) else None
            if finding is not None:
                findings.append((declared.rank, finding))
    return (*best_first(findings), *(finding for counted in evidence.rounds for finding in _recorded(counted)))


def _parts(evidence: Evidence) -> Iterator[Any]:
    """What detectors are given: every part, and the whole. A few rounds say nothing."""
    yield evidence
    yield from (counted for counted in evidence.rounds if counted.metrics.n_rounds >= LEAST_ROUNDS)
    yield from evidence.counts
    yield from (finding for pair in evidence.pairs for finding in pair.findings)


def _recorded(counted: RoundsCounted) -> Iterator[Finding]:
    """`finding` records: whoever wrote the trace wrote their words, so these are escaped."""
    find = counted.find or counted.run.find
    for event in counted.run.findings:
        indices = [(r, find(event.q, r)) for r in event.evidence]
        places = tuple(EvidencePlace(index, f"r{r}") for r, index in indices if index is not None)
        name = running(event.detector)
        yield Finding(name, 0, name, running(event.message), evidence=places)
