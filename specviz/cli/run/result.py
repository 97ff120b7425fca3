"""What a finished `specviz run` says of itself: a few lines for people, one object for programs.

Numbers come from `specviz.metrics`, by the names defined there; nothing is worked out a second time here.

What a `specviz run --stream` says of itself: every query, every domain, what was learnt; for people and programs.

Numbers come from `specviz.metrics`, one tally a query and one a domain; the bandit's from its own records.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from specviz import events
from specviz.errors import SpecvizError
from specviz.events import Event
from specviz.metrics import Estimate, Metrics, Tally
from specviz.text import running
from specviz.view.words import numbers

STAGES = ("prefill", "draft", "target", "verdict", "commit", "adapt", "other")
_FINISHED = ("done", "stopped")
_REASONS = {
    "eos": "end of text", "stop": "stop text", "length": "--max-new-tokens reached", "context": "the context is full",
    "cancelled": "interrupted", "error": "an error", "stopped": "stopped",
}  # fmt: skip


class RunError(SpecvizError):
    """The model or the machine failed while decoding: nothing the command line could have known."""

    exit_code = 1


class Result:
    """A sink that folds a run into its metrics and remembers how it ended. `text`, `tokens`, `trace` are set on it."""

    def __init__(self) -> None:
        self.text = ""
        self.tokens: list[int] = []
        self.trace: Path | None = None
        self.tally = Tally()
        self._header: events.Header | None = None
        self._prefill: events.Prefill | None = None
        self._finish: str | None = None
        self._n_tokens = 0
        self._end: events.End | None = None
        self._stage_ns: dict[str, int] = dict.fromkeys(STAGES, 0)

    def __call__(self, event: Event) -> None:
        """Take one event."""
        self.tally.add(event)
        if isinstance(event, events.Header):
            self._header = event
        elif isinstance(event, events.Prefill):
            self._prefill = event
            self._stage_ns["prefill"] += event.dur_ns
        elif isinstance(event, events.Commit):
            self._finish = event.finish
            self._n_tokens += len(event.tokens)
        elif isinstance(event, events.RoundEnd):
            for stage, ns in event.stage_ns.items():
                self._stage_ns[stage] = self._stage_ns.get(stage, 0) + ns
        elif isinstance(event, events.Adapt):
            self._stage_ns["adapt"] += event.dur_ns
        elif isinstance(event, events.End):
            self._end = event

    @property
    def has_begun(self) -> bool:
        """Whether a run came about at all."""
        return self._header is not None

    @property
    def is_done(self) -> bool:
        """Whether it came to its own end."""
        return self._end is not None and self._end.reason in _FINISHED

    @property
    def finish(self) -> str:
        """Why the text ended, or why the run did when the text had not."""
        return self._finish or (self._end.reason if self._end else "unfinished")

    def as_json(self) -> dict[str, Any]:
        """The object of `--json`. Timings are milliseconds by stage, over the whole run."""
        assert self._header is not None
        return {
            "text": self.text,
            "tokens": self.tokens,
            "method": self._header.method,
            "verifier": self._header.verifier,
            "lossless": self._header.lossless,
            "rounds": self.tally.n_rounds,
            "finish": self.finish,
            "n_prompt": self._prefill.n_prompt if self._prefill else None,
            "metrics": self.tally.summary().as_dict(),
            "timings": {stage: round(ns / 1e6, 3) for stage, ns in self._stage_ns.items()},
            "models": msgspec.to_builtins(self._header.models),
            "trace": str(self.trace) if self.trace else None,
        }

    def summary(self) -> list[str]:
        """Speed, acceptance, time and trace, a line each."""
        metrics = self.tally.summary()
        seconds = self.tally.totals["ns"]
        ended = _REASONS.get(self.finish, self.finish)
        lines = [
            f"{self._n_tokens} tokens in {metrics.n_rounds} rounds, {numbers.duration(seconds)}: "
            f"{shown_estimate(metrics.tokens_per_second)} tokens/s · ended: {ended}",
            f"acceptance  {_acceptance(metrics)}",
            f"time        {self._shares()}",
        ]
        return lines + ([f"trace       {running(str(self.trace))}"] if self.trace else [])

    def _shares(self) -> str:
        total = sum(self._stage_ns.values()) or 1
        spent = [(stage, ns) for stage, ns in self._stage_ns.items() if ns]
        return " · ".join(f"{stage} {numbers.percent(ns / total)}" for stage, ns in spent) or "none"


def _acceptance(metrics: Any) -> str:
    length = f"{shown_estimate(metrics.mean_acceptance_length)} tokens a round"
    if not metrics.n_drafted:
        return f"nothing drafted, {length}"
    kept = f"{metrics.n_accepted} of {metrics.n_drafted} drafted tokens kept"
    return f"{shown_estimate(metrics.draft_acceptance_rate)} ({kept}) · {length}"


def shown_estimate(estimate: Estimate | None) -> str:
    """Value and how far it can be trusted."""
    if estimate is None:
        return numbers.UNKNOWN
    return f"{numbers.number(estimate.value)} {numbers.uncertainty(estimate)}".strip()


@dataclass(slots=True)
class QueryRow:
    """One query. `adapt`: what was learnt at its end, where something may be.

    A stream may go on for hours. So what only `--json` prints is kept only where `whole` says so, and of a query that
    is over (`settle`) the sums have become numbers.
    """

    prefill: events.Prefill
    tally: Tally | None = field(default_factory=Tally)
    whole: bool = True
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    n_tokens: int = 0
    n_rounds: int = 0
    settled: Metrics | None = None
    finish: str | None = None
    ended: bool = False  # its last round is over
    adapt: events.Adapt | None = None

    @property
    def q(self) -> int:
        """Its number."""
        return self.prefill.q

    @property
    def domain(self) -> str:
        """As the file has it: hostile text."""
        return self.prefill.domain or ""

    def take(self, event: Event) -> None:
        """One event of this query."""
        if self.tally is not None:
            self.tally.add(event)
        if isinstance(event, events.Commit):
            self.n_tokens += len(event.tokens)
            if self.whole:
                self.text += "".join(event.texts)
                self.tokens += event.tokens
            self.finish = event.finish
        elif isinstance(event, events.RoundEnd):
            self.n_rounds += 1
            self.ended = self.finish is not None
        elif isinstance(event, events.Adapt):
            self.adapt = event

    @property
    def metrics(self) -> Metrics:
        """Of its rounds so far."""
        if self.settled is not None:
            return self.settled
        assert self.tally is not None
        return self.tally.summary()

    def settle(self) -> None:
        """Nothing more comes of this query."""
        self.settled, self.tally = self.metrics, None

    def as_json(self) -> dict[str, Any]:
        """Its part of `--json`."""
        return {
            "q": self.q,
            "domain": self.domain,
            "prompt": self.prefill.text,
            "seed": self.prefill.seed,
            "drafter_version": self.prefill.drafter_version,
            "text": self.text,
            "tokens": self.tokens,
            "finish": self.finish,
            "rounds": self.n_rounds,
            "metrics": self.metrics.as_dict(),
            "adapt": None if self.adapt is None else msgspec.to_builtins(self.adapt),
        }


def seconds(value: float) -> str:
    """`1.4 s`, `-12 ms`, `0 s`."""
    if not value:
        return "0 s"
    return f"{'-' if value < 0 else ''}{numbers.duration(round(abs(value) * 1e9))}"


_LEARNT = ("seconds", "update_s", "dur_ns", "regret", "replay_regret", "next_regret")  # fields that are summed


class StreamResult(Result):
    """A sink that folds a run query by query. `whole`: every query is kept to the end, for `as_json`.

    Otherwise only the last two are; `dropped` says how many went before `rows[0]`.
    """

    def __init__(self, whole: bool = True) -> None:
        super().__init__()
        self.rows: list[QueryRow] = []
        self.dropped = 0
        self.domains: dict[str, Tally] = {}
        self._whole = whole
        self._n_queries: Counter[str] = Counter()  # by domain
        self._n_tokens_of: Counter[str] = Counter()
        self._taken: dict[str, Counter[str]] = {}  # by domain: queries by action
        self._sums: dict[str, float | None] = dict.fromkeys(_LEARNT)  # None: on no record
        self._n_kept = self._n_reverted = self._n_resets = 0
        self._learnt_last: events.Adapt | None = None
        self._opening: list[Event] = []  # what stands before the first query, for every tally

    def __call__(self, event: Event) -> None:
        """Take one event."""
        super().__call__(event)
        if isinstance(event, events.Header):
            self._opening.append(event)
        elif isinstance(event, events.Prefill):
            self._begin(QueryRow(event, Tally().add_all(self._opening), self._whole))
        if self.rows and not isinstance(event, events.End):
            row = self.rows[-1]
            row.take(event)
            self.domains.setdefault(row.domain, Tally().add_all(self._opening)).add(event)
            if isinstance(event, events.Commit):
                self._n_tokens_of[row.domain] += len(event.tokens)
            elif isinstance(event, events.Adapt):
                self._learn(row.domain, event)

    def _begin(self, row: QueryRow) -> None:
        if self.rows:
            self.rows[-1].settle()
        if not self._whole:
            self.dropped += len(self.rows[:-1])
            del self.rows[:-1]
        self.rows.append(row)
        self._n_queries[row.domain] += 1

    def _learn(self, domain: str, found: events.Adapt) -> None:
        """What was done at the end of a query."""
        self._learnt_last = found
        self._taken.setdefault(domain, Counter())[found.action] += 1
        for name in _LEARNT:
            value = getattr(found, name)
            if value is not None:
                self._sums[name] = (self._sums[name] or 0) + value
        self._n_kept += found.action != "skip" and not found.reverted
        self._n_reverted += found.action != "skip" and found.reverted
        self._n_resets += found.reset is not None

    @property
    def learns(self) -> bool:
        """Whether the drafter may learn between queries."""
        return self._header is not None and self._header.knobs.get("adapt") == "on"

    @property
    def decided(self) -> bool:
        """Whether anything was decided at the end of a query."""
        return self._learnt_last is not None

    def as_json(self) -> dict[str, Any]:
        """One object: the whole, then queries, domains, and what was learnt."""
        whole = super().as_json()
        for name in ("text", "tokens", "n_prompt", "finish"):
            del whole[name]
        whole["ended"] = self._end.reason if self._end else None
        whole["queries"] = [row.as_json() for row in self.rows]
        whole["domains"] = {
            domain: {
                "n_queries": self._n_queries[domain],
                "actions": self._actions(domain),
                "metrics": tally.summary().as_dict(),
            }
            for domain, tally in self.domains.items()
        }
        whole["learning"] = self._learning() if self.decided else None
        return whole

    def _actions(self, domain: str) -> dict[str, int]:
        taken = self._taken.get(domain, Counter())
        return {action: taken[action] for action in ("skip", "head", "full")}

    def _learning(self) -> dict[str, Any]:
        """Sums over the run; regrets in seconds, null where nothing tells."""
        last, sums = self._learnt_last, self._sums
        assert last is not None
        return {
            "n_updates": self._n_kept + self._n_reverted,
            "n_kept": self._n_kept,
            "n_reverted": self._n_reverted,
            "n_resets": self._n_resets,
            "version": last.version_after,
            "serving_s": sums["seconds"] or 0.0,
            "update_s": sums["update_s"] or 0.0,
            "boundary_s": (sums["dur_ns"] or 0) / 1e9,
            "explored_s": last.spent,
            "budget_s": last.budget,
            "regret_s": sums["regret"],
            "replay_regret_s": sums["replay_regret"],
            "next_regret_s": sums["next_regret"],
        }

    def summary(self) -> list[str]:
        """The lines of a single run, for all queries together; then what learning took and what it gave up."""
        n = self._n_queries.total()
        head, *rest = super().summary()
        lines = [f"{n} {'query' if n == 1 else 'queries'}: {head}", *rest]
        behind = lines[len(lines) - (self.trace is not None) :]
        return [*lines[: len(lines) - len(behind)], *(self._learnt() if self.decided else []), *behind]

    def _learnt(self) -> list[str]:
        sums = self._learning()
        share = sums["update_s"] / sums["serving_s"] if sums["serving_s"] else 0.0
        kept = f"{sums['n_kept']} of {sums['n_updates']} updates kept"
        resets = f", {sums['n_resets']} resets" if sums["n_resets"] else ""
        regret = [f"{seconds(sums['regret_s'])} given up by the bandit's own estimates"]
        if sums["replay_regret_s"] is not None:
            regret.append(f"{seconds(sums['replay_regret_s'])} by replayed coverage")
        if sums["next_regret_s"] is not None:
            regret.append(f"{seconds(sums['next_regret_s'])} by the next query decoded with each action")
        return [
            f"learning    {kept}{resets}, weights v{sums['version']} · updates took {seconds(sums['update_s'])} beside "
            f"{seconds(sums['serving_s'])} of serving ({numbers.percent(share)}), exploring "
            f"{seconds(sums['explored_s'])} of {seconds(sums['budget_s'])}",
            f"regret      {' · '.join(regret)}, over {sum(taken.total() for taken in self._taken.values())} queries",
        ]

    def domain_lines(self) -> list[tuple[str, ...]]:
        """A row a domain: queries, tokens, length, acceptance, speed, actions."""
        out: list[tuple[str, ...]] = []
        for domain, tally in self.domains.items():
            metrics, taken = tally.summary(), self._actions(domain)
            actions = " · ".join(f"{action} {n}" for action, n in taken.items()) if self.decided else ""
            out.append((
                domain, str(self._n_queries[domain]), str(self._n_tokens_of[domain]),
                shown_estimate(metrics.mean_acceptance_length),
                shown_estimate(metrics.draft_acceptance_rate), shown_estimate(metrics.tokens_per_second), actions,
            ))  # fmt: skip
        return out
