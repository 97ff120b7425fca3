"""What a `specviz run --stream` says of itself: every query, every domain, what was learnt; for people and programs.

Numbers come from `specviz.metrics`, one tally a query and one a domain; the bandit's from its own records.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from specviz import events
from specviz.cli.result import Result, shown_estimate
from specviz.events import Event
from specviz.metrics import Tally
from specviz.view import numbers


@dataclass(slots=True)
class QueryRow:
    """One query. `adapt`: what was learnt at its end, where something may be."""

    prefill: events.Prefill
    tally: Tally = field(default_factory=Tally)
    text: str = ""
    tokens: list[int] = field(default_factory=list)
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
        self.tally.add(event)
        if isinstance(event, events.Commit):
            self.text += "".join(event.texts)
            self.tokens += event.tokens
            self.finish = event.finish
        elif isinstance(event, events.RoundEnd):
            self.ended = self.finish is not None
        elif isinstance(event, events.Adapt):
            self.adapt = event

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
            "rounds": len(self.tally.rows),
            "metrics": msgspec.to_builtins(self.tally.summary(), str_keys=True),
            "adapt": None if self.adapt is None else msgspec.to_builtins(self.adapt),
        }


def seconds(value: float) -> str:
    """`1.4 s`, `-12 ms`, `0 s`."""
    if not value:
        return "0 s"
    return f"{'-' if value < 0 else ''}{numbers.duration(round(abs(value) * 1e9))}"


class StreamResult(Result):
    """A sink that folds a run query by query."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[QueryRow] = []
        self.domains: dict[str, Tally] = {}
        self._opening: list[Event] = []  # what stands before the first query, for every tally

    def __call__(self, event: Event) -> None:
        """Take one event."""
        super().__call__(event)
        if isinstance(event, events.Header):
            self._opening.append(event)
        elif isinstance(event, events.Prefill):
            self.rows.append(QueryRow(event, Tally().add_all(self._opening)))
        if self.rows and not isinstance(event, events.End):
            row = self.rows[-1]
            row.take(event)
            self.domains.setdefault(row.domain, Tally().add_all(self._opening)).add(event)

    @property
    def learns(self) -> bool:
        """Whether the drafter may learn between queries."""
        return self._header is not None and self._header.knobs.get("adapt") == "on"

    @property
    def decided(self) -> list[events.Adapt]:
        """What was done at the ends of queries."""
        return [row.adapt for row in self.rows if row.adapt is not None]

    def of(self, domain: str) -> list[QueryRow]:
        """The queries of a domain."""
        return [row for row in self.rows if row.domain == domain]

    def as_json(self) -> dict[str, Any]:
        """One object: the whole, then queries, domains, and what was learnt."""
        whole = super().as_json()
        for name in ("text", "tokens", "n_prompt", "finish"):
            del whole[name]
        whole["ended"] = self._end.reason if self._end else None
        whole["queries"] = [row.as_json() for row in self.rows]
        whole["domains"] = {
            domain: {
                "n_queries": len(self.of(domain)),
                "actions": self._actions(domain),
                "metrics": msgspec.to_builtins(tally.summary(), str_keys=True),
            }
            for domain, tally in self.domains.items()
        }
        whole["learning"] = self._learning() if self.decided else None
        return whole

    def _actions(self, domain: str) -> dict[str, int]:
        taken = Counter(row.adapt.action for row in self.of(domain) if row.adapt is not None)
        return {action: taken[action] for action in ("skip", "head", "full")}

    def _learning(self) -> dict[str, Any]:
        """Sums over the run; regrets in seconds, null where nothing tells."""
        found = self.decided
        updates = [each for each in found if each.action != "skip"]
        return {
            "n_updates": len(updates),
            "n_kept": sum(not each.reverted for each in updates),
            "n_reverted": sum(each.reverted for each in updates),
            "n_resets": sum(each.reset is not None for each in found),
            "version": found[-1].version_after,
            "serving_s": sum(each.seconds for each in found),
            "update_s": sum(each.update_s or 0.0 for each in found),
            "boundary_s": sum(each.dur_ns for each in found) / 1e9,
            "explored_s": found[-1].spent,
            "budget_s": found[-1].budget,
            "regret_s": _sum([each.regret for each in found]),
            "replay_regret_s": _sum([each.replay_regret for each in found]),
            "next_regret_s": _sum([each.next_regret for each in found]),
        }

    def summary(self) -> list[str]:
        """The lines of a single run, for all queries together; then what learning took and what it gave up."""
        n = len(self.rows)
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
            f"regret      {' · '.join(regret)}, over {len(self.decided)} queries",
        ]

    def domain_lines(self) -> list[tuple[str, ...]]:
        """A row a domain: queries, tokens, length, acceptance, speed, actions."""
        out: list[tuple[str, ...]] = []
        for domain, tally in self.domains.items():
            metrics, taken = tally.summary(), self._actions(domain)
            tokens = sum(len(row.tokens) for row in self.of(domain))
            actions = " · ".join(f"{action} {n}" for action, n in taken.items()) if self.decided else ""
            out.append((
                domain, str(len(self.of(domain))), str(tokens), shown_estimate(metrics.mean_acceptance_length),
                shown_estimate(metrics.draft_acceptance_rate), shown_estimate(metrics.tokens_per_second), actions,
            ))  # fmt: skip
        return out


def _sum(values: "list[float | None]") -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
