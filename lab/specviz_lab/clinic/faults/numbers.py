"""7: numbers do not mean what they say. Healthy: an engine that reports what its rounds show."""

from collections.abc import Callable
from dataclasses import dataclass

from specviz.events import Commit
from specviz.runlog.fold import Run
from specviz.trace.reader import read_events
from specviz.trace.writer import Writer
from specviz.view.clinic.played import RUN
from specviz_lab.clinic.plant import Bench, small, texts

FAULT = 7
PLANT = "an engine's report counts otherwise than its rounds: bonus tokens as accepted, untested as not drafted"


def ill(bench: Bench) -> None:
    _report(bench, _WRONG[bench.seed % len(_WRONG)])


def well(bench: Bench) -> None:
    _report(bench, lambda n: n)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a report counts; only rounds that drafted are rounds."""

    rounds: int
    drafted: int
    tested: int
    accepted: int


_WRONG: tuple[Callable[[Counts], Counts], ...] = (
    lambda n: Counts(n.rounds, n.drafted, n.tested, n.accepted + n.rounds),  # the token that closes a round as well
    lambda n: Counts(n.rounds, n.tested, n.tested, n.accepted),  # tested and drafted are one
    lambda n: Counts(n.rounds, n.drafted + n.rounds, n.tested, n.accepted + n.rounds),
)


def _report(bench: Bench, counted: Callable[[Counts], Counts]) -> None:
    """A run, written as an engine's recording with what that engine says it counted."""
    bench.run(small(), texts(bench.seed), tokens=64, name="rounds.sv.jsonl")
    rounds = bench.folder / "rounds.sv.jsonl.gz"
    run = Run().extend(read_events(rounds))
    rounds.unlink()
    sums = Counts(0, 0, 0, 0)
    with Writer(bench.folder / RUN, "vLLM", rule="p/q", known="decisions", chains=True, temperature=0.7) as out:
        query = -1
        for record in run.rounds:
            commit = record.last(Commit)
            if record.end is None or commit is None:
                continue
            if record.end.q != query:
                query, prefill = record.end.q, record.query.prefill
                out.request(prefill.prompt if prefill else ())
            out.round()
            for node in record.nodes.values():
                out.drafted(node.token, node.text)
            out.committed(
                commit.tokens,
                commit.texts,
                n_accepted=record.end.n_accepted,
                finish=commit.finish,
                took_ns=sum(record.end.stage_ns.values()),
            )
            end = record.end
            sums = Counts(
                sums.rounds + (end.n_drafted > 0),
                sums.drafted + end.n_drafted,
                sums.tested + end.n_tested,
                sums.accepted + end.n_accepted,
            )
        counts = counted(sums)
        out.reported(
            "vLLM",
            n_requests=len(run.queries),
            n_rounds=counts.rounds,
            n_drafted=counts.drafted,
            n_accepted=counts.accepted,
            draft_acceptance_rate=round(counts.accepted / counts.drafted, 4),
            mean_acceptance_length=round(1 + counts.accepted / counts.rounds, 4),
        )
