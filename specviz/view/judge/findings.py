"""Rules that say what stands out in a run. Each looks at numbers with their intervals and speaks only where chance does
not explain them; a run of a few rounds has no findings.

A rule is a function with `@detector`; it is given the run and everything counted of it, and returns a `RunFinding` or
None. It knows no method: what to do about a finding is worded by the knobs and traits in the header.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.check.findings import FAULTS
from specviz.runlog.fold import Run
from specviz.text import running
from specviz.view.frame.judgement import LEAST_ROUNDS, EvidencePlace, RunFinding
from specviz.view.words.numbers import number, percent, plural, prob, times

if TYPE_CHECKING:
    from specviz.metrics import ConfidenceBand, Estimate, Metrics, PlainSpeed, Tally
    from specviz.metrics.draft_confidence import TokenPlace

LEAST_TESTS = 12  # of a position that is compared with another
LEAST_TOKENS = 20  # of a band of confidence
IDLE = 12  # rounds in a row without a draft
HOPELESS = 0.25  # share of rounds that keep anything, below which a draft is as good as never kept
CLIFF = 0.25  # by which a position is kept less often than the one before
FALLEN = 0.5  # of what the first third of an answer keeps, below which the last third has lost it
SELDOM = 0.1  # share of rounds that keep the end of the draft
TOO_SURE = 0.1  # by which the draft's probability is above the target's
TOO_GOOD = 0.97  # share of the tested tokens kept, above which a drafter is hardly another model than the target
DEAR_RECORDING = 0.25
DEAR_ROWS = 1.25  # times: a pass of exact rows over one that need not be
LARGE = 8  # nodes of a tree from which on it can be too large
THROWN_AWAY = 0.1  # share of its nodes kept, below which it is

Find = Callable[[int, int], int | None]


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run and what was counted of it."""

    run: Run
    tally: "Tally"
    metrics: "Metrics"
    speed: "PlainSpeed | None"
    confidence: "tuple[ConfidenceBand, ...]"
    find: Find | None = None  # the index of a round of a query; None: the run is asked

    @property
    def shortening_knob(self) -> str:
        """The knob that makes drafts shorter, as people know it: γ, d_max; "" where the method has none."""
        header = self.run.header
        for spec in header.knob_specs if header is not None else ():
            in_use = all(str(self.run.knobs.get(name)) in values for name, values in spec.needs.items())
            if spec.cuts == "depth" and in_use:
                return spec.name if spec.symbol.isascii() else spec.symbol
        return ""

    @property
    def tree_knob(self) -> str:
        """The knob that makes trees smaller: of their nodes, else of the children of each, else of their depth."""
        specs = [] if self.run.header is None else self.run.header.knob_specs
        sized = [spec.name for spec in specs if spec.name == "node_budget" or spec.cuts == "children"]
        return next(iter(sorted(sized, key="node_budget".__ne__)), self.shortening_knob)

    def places(self, found: "Iterable[TokenPlace]") -> tuple[EvidencePlace, ...]:
        """Where they are in this run; those of rounds that are not on record are left out."""
        several = len(self.run.queries) > 1
        places = []
        for place in found:
            index = (self.find or self.run.find)(place.q, place.r)
            if index is not None:
                label = f"q{place.q} r{place.r}" if several else f"r{place.r}"
                places.append(EvidencePlace(index, label, place.node))
        return tuple(places)


Detector = Callable[[JudgedRun], RunFinding | None]
DETECTORS: list[Detector] = []


def detector(rule: Detector) -> Detector:
    """Add a rule; they speak in the order in which they are declared."""
    DETECTORS.append(rule)
    return rule


def found(judged: JudgedRun) -> tuple[RunFinding, ...]:
    """What stands out, the gravest first; then what the trace itself was given as findings."""
    own = (rule(judged) for rule in DETECTORS) if judged.metrics.n_rounds >= LEAST_ROUNDS else ()
    return (*(finding for finding in own if finding is not None), *_recorded(judged))


def _recorded(judged: JudgedRun) -> list[RunFinding]:
    """`finding` records: whoever wrote the trace wrote their words, so these are escaped."""
    made, find = [], judged.find or judged.run.find
    for event in judged.run.findings:
        indices = [(r, find(event.q, r)) for r in event.evidence]
        places = tuple(EvidencePlace(index, f"r{r}") for r, index in indices if index is not None)
        made.append(
            RunFinding(running(event.detector), running(event.detector), running(event.message), "", "tree", places)
        )
    return made


# Drafts that bring nothing -------------------------------------------------------------------------------------------


@detector
def nothing_drafted(judged: JudgedRun) -> RunFinding | None:
    """Nothing was drafted, or nothing any more."""
    tally, run = judged.tally.confidence, judged.run
    n, n_idle, since = judged.metrics.n_rounds, tally.n_idle, tally.idle_since
    if run.method_traits.plain or since is None or n_idle < min(IDLE, n):
        return None
    method = running(run.header.method) if run.header is not None else "the method"
    calls = (
        "its drafter is not even asked"
        if not judged.metrics.n_draft_calls
        else "what it costs to draft is paid all the same"
    )
    if n_idle == n:
        said = f"In {plural(n, 'round')} not one token was drafted: this is plain decoding, called {method}; {calls}."
    else:
        said = f"In the last {plural(n_idle, 'round')} nothing was drafted: since then {method} decodes plainly."
    return RunFinding(
        "nothing_drafted",
        "nothing is drafted",
        said,
        "See the warnings (w), and the knobs that stop a draft: a threshold nothing reaches, a depth of 0.",
        "tree",
        judged.places([since]),
    )


@detector
def never_kept(judged: JudgedRun) -> RunFinding | None:
    """Dead drafting: tokens are drafted and never kept."""
    from specviz.metrics import wilson_interval

    tally, n, kept = judged.tally.confidence, judged.metrics.n_drafted, judged.metrics.n_accepted
    if tally.n_drafting < LEAST_ROUNDS:
        return None
    most = wilson_interval(tally.n_kept, tally.n_drafting)[1]
    if most >= HOPELESS:
        return None
    return RunFinding(
        "never_kept",
        "the draft is never kept" if not kept else "the draft is hardly ever kept",
        f"Of {n:,} drafted tokens {kept:,} were kept, in {tally.n_kept} of {plural(tally.n_drafting, 'round')} that "
        "drafted: drafter and target do not agree, and every round pays for a draft that is thrown away.",
        "Draft with a model of the same family and tokenizer, with parts that were trained for this target, or with "
        "the target itself in fewer bits.",
        "tree",
        judged.places(judged.tally.confidence.empty),
    )


@detector
def dearer_than_it_pays(judged: JudgedRun) -> RunFinding | None:
    """The run is slower than plain decoding would be."""
    speed, length = judged.speed, judged.metrics.mean_acceptance_length
    found = None if speed is None else speed.trusted
    if speed is None or found is None or length is None or not found.value:
        return None
    most = found.interval[1] if found.interval is not None else found.value
    if most >= 1:
        return None
    share, recording = judged.metrics.drafting_share, judged.metrics.overhead
    part = None if share is None else min(1.0, share.value * (1 + (0.0 if recording is None else recording.value)))
    drafting = f" Drafting is {percent(part)} of a round without its recording." if part is not None else ""
    how = "" if speed.measured else " (modelled)"
    return RunFinding(
        "dearer_than_it_pays",
        f"slower than plain decoding: {times(found.value)}",
        f"A round costs as much as {number(length.value / found.value, 1)} plain rounds{how} and brings "
        f"{number(length.value, 1)} tokens.{drafting}",
        _shorter(judged, "A shorter draft") or "A cheaper drafter, or one that is right more often, would pay.",
        "tree",
        judged.places(judged.tally.confidence.empty),
    )


@detector
def dear_exact_rows(judged: JudgedRun) -> RunFinding | None:
    """Exact rows are padded, which plain decoding without that promise would not pay."""
    price = None if judged.speed is None else judged.speed.price
    if price is None or price < DEAR_ROWS:
        return None
    return RunFinding(
        "dear_exact_rows",
        f"exact rows cost {times(price)} a pass",
        f"So that a row has the same bits in every pass, passes are padded here: one over a single row takes "
        f"{times(price)} as long as without. The speed-up is over plain decoding without padding.",
        "The compiled kernel needs none: --compile auto, and a C compiler.",
        "overview",
    )


# Where drafts are lost -----------------------------------------------------------------------------------------------


@detector
def position_cliff(judged: JudgedRun) -> RunFinding | None:
    """A position is kept far less often than the one before it."""
    rates: dict[int, Estimate] = judged.metrics.position_acceptance or {}
    drops = []
    for at, here in rates.items():
        before = rates.get(at - 1)
        if before is None or min(before.n, here.n) < LEAST_TESTS or before.interval is None or here.interval is None:
            continue
        if before.value - here.value >= CLIFF and before.interval[0] > here.interval[1]:
            drops.append((before.value - here.value, at))
    if not drops:
        return None
    at = max(drops)[1]
    before, here = rates[at - 1], rates[at]
    return RunFinding(
        "position_cliff",
        f"a cliff at position {at}",
        f"At position {at - 1} of a draft {prob(before.value)} of the tested tokens are kept (n {before.n}), at "
        f"position {at} {prob(here.value)} (n {here.n}); what stands behind is lost with it.",
        _shorter(judged, f"A draft of {plural(at - 1, 'token')}"),
        "tree",
        judged.places(judged.tally.confidence.lost_at.get(at, ())),
    )


@detector
def tree_thrown_away(judged: JudgedRun) -> RunFinding | None:
    """Of a large tree next to nothing is kept, and nobody can say that it pays."""
    kept, n = judged.metrics.draft_acceptance_rate, judged.metrics.n_drafted / judged.metrics.n_rounds
    if not judged.tally.has_trees or n < LARGE or kept is None or not _below(kept, THROWN_AWAY):
        return None
    speed = None if judged.speed is None else judged.speed.trusted
    if speed is not None and speed.interval is not None and speed.interval[0] > 1:
        return None
    tested = judged.metrics.n_tested / judged.metrics.n_rounds
    first = (judged.metrics.position_acceptance or {}).get(1)
    at_first = f" One of its first tokens is kept in {percent(first.value)} of the rounds." if first else ""
    knob = judged.tree_knob
    return RunFinding(
        "tree_thrown_away",
        f"{percent(1 - kept.value)} of the tree is thrown away",
        f"A round drafts {number(n, 0)} tokens, tests {number(tested, 1)} of them and keeps {number(kept.value * n)}; "
        f"every one is a row of the target's pass.{at_first}",
        f"A smaller tree keeps nearly as much for less: lower {knob}." if knob else "",
        "tree",
        judged.places(judged.tally.confidence.empty),
    )


@detector
def long_tail(judged: JudgedRun) -> RunFinding | None:
    """The end of the draft is hardly ever kept, though nothing breaks off at one place."""
    survival: dict[int, Estimate] = judged.metrics.survival or {}
    idle = [t for t, share in survival.items() if t > 1 and share.n >= LEAST_TESTS and _below(share, SELDOM)]
    if not idle or not judged.metrics.n_accepted or position_cliff(judged) is not None:
        return None
    first, last = min(idle), max(survival)
    return RunFinding(
        "long_tail",
        f"drafts are longer than what is kept: {first - 1} of {last}",
        f"{percent(survival[first].value)} of the drafts that reach position {first} keep {plural(first, 'token')} (n "
        f"{survival[first].n}); what is drafted from there on to position {last} is hardly ever used.",
        _shorter(judged, f"A draft of {plural(first - 1, 'token')}"),
        "tree",
        judged.places(judged.tally.confidence.lost_at.get(first, ())),
    )


@detector
def falls_along_the_text(judged: JudgedRun) -> RunFinding | None:
    """Less and less is kept the longer an answer grows."""
    along = judged.tally.along.along()
    if along is None or along.ends > FALLEN * along.begins or along.difference.interval is None:
        return None
    if along.difference.interval[1] >= 0:
        return None
    where = "the answer" if along.n == 1 else f"{along.n} answers"
    return RunFinding(
        "falls_along_the_text",
        f"{FAULTS[3]}: {percent(along.begins)} to {percent(along.ends)}",
        f"In the first third of {where} {percent(along.begins)} of the drafted tokens are kept, in the last third "
        f"{percent(along.ends)}. One answer that changes its subject does that as well; several alike hardly do.",
        "Held against a text as long as those the drafter was trained on: see its positions (rope, window), and stop "
        "drafting where a round brings less than it costs.",
        "overview",
        judged.places(along.lost),
    )


@detector
def overconfident_draft(judged: JudgedRun) -> RunFinding | None:
    """Where the draft is sure, the target is not."""
    wrong = [
        band
        for band in judged.confidence
        if band.lo >= 0.5
        and band.n >= LEAST_TOKENS
        and band.gap.interval is not None
        and band.gap.interval[0] > TOO_SURE
    ]
    if not wrong:
        return None
    band = max(wrong, key=lambda band: band.gap.value)
    symbol = judged.run.method_traits.threshold_symbol
    said = f"{prob(band.lo)} or more" if band.hi == 1 else f"{prob(band.lo)} to {prob(band.hi)}"
    advice = (
        f"A threshold on its confidence lets too much through: a higher {symbol} stops earlier."
        if symbol
        else ("Its probabilities cannot be taken at their word: a threshold on them lets too much through.")
    )
    return RunFinding(
        "overconfident_draft",
        "the draft is too sure of itself",
        f"Tokens that the draft gives {said} ({prob(band.q)} on average, n {band.n}) get {prob(band.p)} from the "
        f"target, and {prob(band.kept.value)} of them are kept.",
        advice,
        "tree",
        judged.places(judged.tally.confidence.surest_lost),
    )


@detector
def too_good(judged: JudgedRun) -> RunFinding | None:
    """Nearly every tested token is kept: the target drafts for itself, or the text is a loop or a copy."""
    from specviz.metrics import wilson_interval

    n, kept = judged.metrics.n_tested, judged.metrics.n_accepted
    # A backward scan keeps what it never tests; so may counts of another engine.
    if judged.metrics.test_acceptance_rate is None or not 0 < kept <= n:
        return None
    if wilson_interval(kept, n)[0] <= TOO_GOOD:
        return None
    return RunFinding(
        "too_good",
        f"{FAULTS[15]}?",
        f"Of {n:,} tested tokens {kept:,} were kept. A smaller model hardly ever agrees so often: the target may draft "
        "for itself, or the text may be a loop or a copy. The counts cannot tell which.",
        "Read the text for repetition; see that target and draft are two models: specviz check TARGET DRAFT.",
    )


@detector
def dear_recording(judged: JudgedRun) -> RunFinding | None:
    """Recording takes a large part of the time."""
    cost = judged.metrics.overhead
    if cost is None or cost.value < DEAR_RECORDING:
        return None
    spent = percent(cost.value) if cost.value < 1 else times(cost.value)
    return RunFinding(
        "dear_recording",
        f"recording took {spent} of the other time",
        f"Times of rounds and tok/s have it in them: recording took {spent} of what everything else took. The speed-up "
        "leaves it out.",
        "Level summary records less: --level summary.",
        "overview",
    )


def _below(share: "Estimate", most: float) -> bool:
    return share.interval is not None and share.interval[1] < most


def _shorter(judged: JudgedRun, what: str) -> str:
    """What to try, by the method's own knob; "" where it has none for that."""
    knob = judged.shortening_knob
    return f"{what} keeps nearly as much for less: lower {knob}." if knob else ""
