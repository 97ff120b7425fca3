"""The card of a run that another engine made: the rule in force, what it promises, what is known and what is closed
because of it, both denominators, and whether what the engine counted agrees with the rounds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from specviz.events import Header, Outside, Reported
from specviz.judge.identities import counted_twice, violations
from specviz.numerals import number, plural, prob
from specviz.runlog.fold import Run
from specviz.text import running
from specviz.trace.rules import unlike_ours
from specviz.traits import CAPPED, TOKENWISE
from specviz.view.frame.judgement import RunCard
from specviz.view.frame.run_header import outside_tone

if TYPE_CHECKING:
    from specviz.metrics import Metrics, Tally

_PROMISES = {
    "same law": "the text has the law of plain decoding",
    "lossy": "LOSSY: by its setting the text has another law",
    "changed": "LAW CHANGED: the text has another law, though no setting says so",
    "invalid": "OUTPUT INVALID: the acceptance is made up, and so is the text",
    "unknown": "not known: nobody said by what rule tokens are kept",
}
_KNOWN = {
    "times": "times: when each stage of a round ran; no token and no count",
    "counts": "counts: how many tokens were drafted and kept in every round",
    "decisions": "decisions: which tokens were drafted and which kept; not what the target gave them",
    "probabilities": "probabilities: what the models gave drafted tokens, as far as they were tested",
}
_CLOSED = {
    "times": "all but lanes: they need tokens, or how many were kept",
    "counts": "tree, why, verification, ranks, layers, lanes: they need the drafted tokens",
    "decisions": "verification and what other rules would keep: they need p and q",
    "probabilities": "layers, and what if: its random numbers are not keyed",
}


def run_card(run: Run, tally: "Tally", metrics: "Metrics | None") -> RunCard | None:
    """The card; None of a run of ours."""
    header = run.header
    if header is None or header.outside is None:
        return None
    outside = header.outside
    rows = (
        ("engine", _engine(outside)),
        ("rule in force", _rule(header, outside)),
        ("promise", _PROMISES[outside.promise]),
        ("known", _KNOWN[outside.known]),
        ("closed", _CLOSED[outside.known]),
        *_means(outside, tally, metrics),
        *_others(outside, tally, metrics),
        *_checked(run, tally, metrics),
    )
    title = f"{running(outside.engine)} {running(outside.version or '')}".strip()
    return RunCard(title, outside_tone(outside), rows, tuple(violations(run, tally, metrics)))


def _engine(outside: Outside) -> str:
    version = running(outside.version) if outside.version else "version not said"
    return f"{running(outside.engine)}, {version}" + (f", from its {running(outside.source)}" if outside.source else "")


def _rule(header: Header, outside: Outside) -> str:
    ours = "" if header.verifier == outside.setting else f"; here {running(header.verifier)}"
    if unlike_ours(header.verifier) is not None:
        ours = "; no verifier here decides so"
    return f"{running(outside.setting)}: {running(outside.how)}{ours}"


def _means(outside: Outside, tally: "Tally", metrics: "Metrics | None") -> Iterator[tuple[str, str]]:
    """The two ways to average, which fall apart where requests are unlike."""
    counts = tally.outside
    rate, length = counts.mean_rate, counts.mean_length
    if metrics is None or rate is None or length is None or not metrics.n_drafted:
        return
    pooled = 1 + metrics.n_accepted / counts.n_drafting
    requests = plural(counts.n_requests, "request")
    share = metrics.n_accepted / metrics.n_drafted
    yield (
        "accepted / drafted",
        f"{prob(share)} pooled ({metrics.n_accepted} / {metrics.n_drafted}) · {prob(rate)} mean of {requests}",
    )
    of_tested = counts.mean_tested_rate
    if of_tested is not None and metrics.n_tested and (outside.chains or outside.known != "counts"):
        tested = metrics.n_accepted / metrics.n_tested
        yield (
            "accepted / tested",
            f"{prob(tested)} pooled ({metrics.n_accepted} / {metrics.n_tested}) · {prob(of_tested)} mean of {requests}",
        )
    yield (
        "tokens a drafting round",
        f"{number(pooled, 2)} pooled ({plural(counts.n_drafting, 'round')}) · {number(length, 2)} mean of {requests}",
    )


def _others(outside: Outside, tally: "Tally", metrics: "Metrics | None") -> Iterator[tuple[str, str]]:
    """What other rules would keep of the same drafts, where p and q are known of whole drafts."""
    if outside.known != "probabilities":
        return
    counts, same = tally.outside, None if metrics is None else metrics.same_draft
    name, rules = "other rules on these drafts", []
    if counts.n_walked < counts.n_chains:
        who = "and those are the ones that did well" if counts.n_walked else "as it ends at the failed test"
        yield name, f"cannot be told: p is on record whole for {counts.n_walked} of {counts.n_chains} drafts, {who}"
        return
    kept = number(counts.walked / counts.n_walked, 2) if counts.n_walked else ""
    of = plural(counts.n_walked, "draft")
    if counts.n_walked and counts.n_sure == counts.n_walked:
        yield (
            name,
            f"tokenwise, blockwise and walk {kept} tokens kept each, expected over {of}: "
            "the draft's likeliest tokens have no q to test by",
        )
        return
    if same is not None:
        rules = [f"tokenwise {number(same.expected_accepted[TOKENWISE], 2)}"]
    if counts.n_walked:
        rules.append(f"walk {kept}")
    if rules:
        n = same.n_drafts if same is not None else counts.n_walked
        words = f"{' · '.join(rules)} tokens kept, expected over {plural(n, 'draft')}"
        # Its tests need whole rows, which another engine does not tell; what such drafts keep on average needs none.
        more = "" if same is None else f" · blockwise {number(same.estimated_accepted[CAPPED], 2)}, an estimate"
        yield name, words + more


def _checked(run: Run, tally: "Tally", metrics: "Metrics | None") -> Iterator[tuple[str, str]]:
    pairs = list(counted_twice(run, tally, metrics))
    n, wrong = len(pairs), sum(reported != ours for _, reported, ours in pairs)  # sums, and positions as one
    if n:
        agree = "all agree" if not wrong else plural(wrong, "violation")
        yield "identities checked", f"{plural(n, 'total')} that the engine counted itself against the rounds: {agree}"
    for report in run.reported:
        if report.whole or metrics is None or not metrics.n_rounds:
            yield f"counted by {running(report.of)}", _told(report)


def _told(report: Reported) -> str:
    parts = [
        f"{value} {name}"
        for name, value in (
            ("requests", report.n_requests),
            ("rounds", report.n_rounds),
            ("drafted", report.n_drafted),
            ("accepted", report.n_accepted),
            ("new tokens", report.n_emitted),
        )
        if value is not None
    ]
    if report.draft_acceptance_rate is not None:
        parts.append(f"acceptance {prob(report.draft_acceptance_rate)}")
    if report.mean_acceptance_length is not None:
        parts.append(f"{number(report.mean_acceptance_length, 2)} tokens a drafting round")
    return " · ".join(parts)
