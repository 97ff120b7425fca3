"""What a finished `specviz run` says of itself: a few lines for people, one object for programs; of a stream of prompts
also every query, every domain, and what was learnt.

Numbers come from `specviz.metrics`, by the names defined there: one tally for the run, one a query, one a domain. The
bandit's come from its own records.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from specviz import events, numerals
from specviz.errors import SpecvizError
from specviz.events import Event
from specviz.metrics import Estimate, Metrics, Tally
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.text import running
from specviz.view.frame.series import metric
from specviz.view.words import numbers

STAGES = ("prefill", "draft", "target", "verdict", "commit", "adapt", "other")
_FINISHED = ("done", "stopped")
_REASONS = {
    "eos": "end of text",
    "stop": "stop text",
    "length": "--max-new-tokens reached",
    "context": "the context is full",
    "cancelled": "interrupted",
    "error": "an error",
    "stopped": "stopped",
}


class RunError(SpecvizError):
    """The model or the machine failed while decoding: nothing the command line could have known."""

    exit_code = 1


class Result:
    """A sink that folds a run into its metrics and remembers how it ended. `text`, `tokens`, `trace` are set on it.

    `run` is the fold of what came so far, its newest rounds only.
    """

    def __init__(self) -> None:
        self.text = ""
        self.tokens: list[int] = []
        self.trace: Path | None = None
        self.run = Run(whole=False)
        self.tally = Tally()
        self._header: events.Header | None = None  # as the core wrote it, for programs
        self._finish: str | None = None
        self._stage_ns: dict[str, int] = dict.fromkeys(STAGES, 0)

    def __call__(self, event: Event) -> None:
        self.run.apply(event)
        if event.inside_round:
            return
        self.tally.follow(self.run)
        record = self.run.rounds.last
        if isinstance(event, events.RoundEnd) and record is not None:
            self._ended(record)
            for stage, ns in event.stage_ns.items():
                self._stage_ns[stage] = self._stage_ns.get(stage, 0) + ns
        elif isinstance(event, events.Header):
            self._header = event
        elif isinstance(event, events.Prefill):
            self._begun(event)
            self._stage_ns["prefill"] += event.dur_ns
        elif isinstance(event, events.Adapt):
            self._learn(event)
            self._stage_ns["adapt"] += event.dur_ns

    def _begun(self, prefill: events.Prefill) -> None:
        """A query begins."""

    def _ended(self, record: RoundRecord) -> None:
        """A round came to its end."""
        if record.commit is not None:
            self._finish = record.commit.finish

    def _learn(self, adapt: events.Adapt) -> None:
        """Count what was learnt after a query."""

    @property
    def has_begun(self) -> bool:
        """Whether a run came about at all."""
        return self._header is not None

    @property
    def is_done(self) -> bool:
        """Whether it came to its own end."""
        return self.run.end is not None and self.run.end.reason in _FINISHED

    @property
    def finish(self) -> str:
        """Why the text ended, or why the run did when the text had not."""
        return self._finish or (self.run.end.reason if self.run.end else "unfinished")

    def as_json(self) -> dict[str, Any]:
        """The object of `--json`. Timings are milliseconds by stage, over the whole run."""
        assert self._header is not None
        prefill = self.run.queries[-1].prefill if self.run.queries else None
        return {
            "text": self.text,
            "tokens": self.tokens,
            **{name: getattr(self._header, name) for name in ("method", "verifier", "lossless")},
            "rounds": self.tally.n_rounds,
            "finish": self.finish,
            "n_prompt": prefill.n_prompt if prefill else None,
            "metrics": self.tally.summary().as_dict(),
            "timings": {stage: round(ns / 1e6, 3) for stage, ns in self._stage_ns.items()},
            "models": msgspec.to_builtins(self._header.models),
            "trace": str(self.trace) if self.trace else None,
        }

    def summary(self) -> list[str]:
        """Speed, acceptance, time and trace, a line each."""
        metrics = self.tally.summary()
        seconds = self.tally.totals["ns"]
        ended, total = _REASONS.get(self.finish, self.finish), sum(self._stage_ns.values()) or 1
        shares = " · ".join(f"{stage} {numerals.percent(ns / total)}" for stage, ns in self._stage_ns.items() if ns)
        lines = [
            f"{metrics.n_emitted} tokens in {metrics.n_rounds} rounds, {numbers.duration(seconds)}: "
            f"{shown_estimate(metrics.tokens_per_second)} tokens/s · ended: {ended}",
            f"acceptance  {_acceptance(metrics)}",
            f"time        {shares or 'none'}",
        ]
        return lines + ([f"trace       {running(str(self.trace))}"] if self.trace else [])


def _acceptance(metrics: Any) -> str:
    length = f"{shown_estimate(metrics.mean_acceptance_length)} tokens a round"
    if not metrics.n_drafted:
        return f"nothing drafted, {length}"
    kept = f"{metrics.n_accepted} of {metrics.n_drafted} drafted tokens kept"
    return f"{shown_estimate(metrics.draft_acceptance_rate, 'draft_acceptance_rate')} ({kept}) · {length}"


def shown_estimate(estimate: Estimate | None, name: str = "") -> str:
    """Value and how far it can be trusted, as the screens write the metric of that name."""
    return metric(name, "", estimate).text


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
    settled: Metrics | None = None
    finish: str | None = None
    adapt: events.Adapt | None = None

    @property
    def q(self) -> int:
        return self.prefill.q

    @property
    def domain(self) -> str:
        """The domain as the file spells it: untrusted text."""
        return self.prefill.domain or ""

    @property
    def n_rounds(self) -> int:
        return int(self.metrics.n_rounds)

    @property
    def ended(self) -> bool:
        """Whether its last round is over."""
        return self.finish is not None

    def take(self, record: RoundRecord) -> None:
        """A round of this query came to its end."""
        if self.tally is not None:
            self.tally.take(record)
        commit = record.commit
        if commit is not None:
            self.finish = commit.finish
            if self.whole:
                self.text += "".join(commit.texts)
                self.tokens += commit.tokens

    def learn(self, adapt: events.Adapt) -> None:
        """What was made of it at its end."""
        self.adapt = adapt
        if self.tally is not None:
            self.tally.learn(adapt)

    @property
    def metrics(self) -> Metrics:
        if self.settled is not None:
            return self.settled
        assert self.tally is not None
        return self.tally.summary()

    def settle(self) -> None:
        """Nothing more comes of this query."""
        self.settled, self.tally = self.metrics, None

    def as_json(self) -> dict[str, Any]:
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


_RATES = ("mean_acceptance_length", "draft_acceptance_rate", "tokens_per_second")
_LEARNT = ("seconds", "update_s", "dur_ns", "replay_regret", "next_regret")  # fields that are summed


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
        self._sums: dict[str, float | None] = dict.fromkeys(_LEARNT)  # None: on no record
        self._n_kept = self._n_reverted = self._n_resets = 0

    def _begun(self, prefill: events.Prefill) -> None:
        if self.rows:
            self.rows[-1].settle()
        if not self._whole:
            self.dropped += len(self.rows[:-1])
            del self.rows[:-1]
        row = QueryRow(prefill, self._new_tally(), self._whole)
        self.rows.append(row)
        self.domains.setdefault(row.domain, self._new_tally())
        self._n_queries[row.domain] += 1

    def _new_tally(self) -> Tally:
        tally = Tally()
        if self.run.header is not None:
            tally.begin(self.run.header)
        return tally

    def _ended(self, record: RoundRecord) -> None:
        super()._ended(record)
        if self.rows:
            row = self.rows[-1]
            row.take(record)
            self.domains[row.domain].take(record)

    def _learn(self, adapt: events.Adapt) -> None:
        if not self.rows:
            return
        row = self.rows[-1]
        row.learn(adapt)
        self.domains[row.domain].learn(adapt)
        for name in _LEARNT:
            value = getattr(adapt, name)
            if value is not None:
                self._sums[name] = (self._sums[name] or 0) + value
        self._n_kept += adapt.action != "skip" and not adapt.reverted
        self._n_reverted += adapt.action != "skip" and adapt.reverted
        self._n_resets += adapt.reset is not None

    @property
    def learns(self) -> bool:
        """Whether the drafter may learn between queries."""
        return self._header is not None and self._header.knobs.get("adapt") == "on"

    @property
    def decided(self) -> bool:
        """Whether anything was decided at the end of a query."""
        return self.tally.adapted.n > 0

    def as_json(self) -> dict[str, Any]:
        """One object: the whole, then queries, domains, and what was learnt."""
        whole = super().as_json()
        for name in ("text", "tokens", "n_prompt", "finish"):
            del whole[name]
        whole["ended"] = self.run.end.reason if self.run.end else None
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
        taken = self.domains[domain].adapted.actions
        return {action: taken[action] for action in ("skip", "head", "full")}

    def _learning(self) -> dict[str, Any]:
        """Sums over the run; regrets in seconds, null where nothing tells."""
        whole, sums = self.tally.adapted.summary(), self._sums
        assert whole is not None
        return {
            "n_updates": self._n_kept + self._n_reverted,
            "n_kept": self._n_kept,
            "n_reverted": self._n_reverted,
            "n_resets": self._n_resets,
            "version": whole.version,
            "serving_s": sums["seconds"] or 0.0,
            "update_s": sums["update_s"] or 0.0,
            "boundary_s": (sums["dur_ns"] or 0) / 1e9,
            "explored_s": whole.spent_s,
            "budget_s": whole.budget_s,
            "regret_s": whole.regret,
            "replay_regret_s": sums["replay_regret"],
            "next_regret_s": sums["next_regret"],
        }

    def summary(self) -> list[str]:
        """The lines of a single run, for all queries together; then what learning took and what it gave up."""
        n = self._n_queries.total()
        head, *rest = super().summary()
        trace = [rest.pop()] if self.trace else []
        learnt = self._learnt() if self.decided else []
        return [f"{n} {'query' if n == 1 else 'queries'}: {head}", *rest, *learnt, *trace]

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
            f"{seconds(sums['serving_s'])} of serving ({numerals.percent(share)}), exploring "
            f"{seconds(sums['explored_s'])} of {seconds(sums['budget_s'])}",
            f"regret      {' · '.join(regret)}, over {self.tally.adapted.n} queries",
        ]

    def domain_lines(self) -> list[tuple[str, ...]]:
        """A row a domain: queries, tokens, length, acceptance, speed, actions."""
        out: list[tuple[str, ...]] = []
        for domain, tally in self.domains.items():
            metrics, taken = tally.summary(), self._actions(domain)
            counts = str(self._n_queries[domain]), str(metrics.n_emitted)
            rates = (shown_estimate(metrics[name], name) for name in _RATES)
            actions = " · ".join(f"{action} {n}" for action, n in taken.items()) if self.decided else ""
            out.append((domain, *counts, *rates, actions))
        return out
