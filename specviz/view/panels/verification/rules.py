"""Rules on the same draft and uniforms: in one round, and over the run. Decided again from the record, no model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from specviz.numerals import number, plural
from specviz.runlog.run import Mark
from specviz.traits import CAPPED, NAIVE, RULES, TOKENWISE, Rule
from specviz.view.blocks import Plot, PlotCurve
from specviz.view.frame.parts import Metric
from specviz.view.frame.series import metric, one_series
from specviz.view.frame.steps import node_text
from specviz.view.panels.verification.model import Comparison, Paired, RuleReplay
from specviz.view.panels.verification.scan import LABELS, ScanView
from specviz.view.why.node_context import n_carried

if TYPE_CHECKING:
    from specviz.metrics import Metrics, SameDraft

COLOURS: dict[str, Mark] = {TOKENWISE: "recovered", CAPPED: "bonus", NAIVE: "exit"}
_SEVERAL = "several candidates: what one rule leaves over decides what the next candidate is tested against"
_OBSERVED_ONLY = "Observed only: what a rule must give is known exactly for drafts that are one sampled chain."
_CAVEAT = "Same drafts, same uniforms; a run of its own would have gone on with other text."


def comparison(look: ScanView) -> Comparison | None:
    """Three verifiers, and the run's own where it is none of them; None before the verdicts are on screen."""
    if not look.judged:
        return None
    links = look.path.links
    tokens = tuple(node_text(look.run, look.round_tree, link.node) for link in links)
    us = tuple(link.u for link in links)
    if look.path.count > 1:
        return Comparison(us, tokens, (), "", _SEVERAL)
    rules = [_replayed(look, rule) for rule in RULES]
    if look.rule.replays_as is None:
        rules.append(_own(look))
    return Comparison(us, tokens, tuple(rules), _words(rules))


def _replayed(look: ScanView, rule: "Rule") -> RuleReplay:
    from specviz.metrics.replay_rules import kept, passed, survival

    links, n = look.path.links, len(look.path.links)
    stop, chances = kept(links, rule), survival(links, rule)
    passes = tuple(passed(link, rule) for link in links)
    text = f"keeps {stop} of {n}" if stop is not None else "cannot be told from this recording"
    return RuleReplay(
        rule=rule,
        label=LABELS[rule],
        own=look.rule.replays_as == rule,
        keep=tuple(link.keep[rule] for link in links),
        marks=_marks(rule, passes, stop),
        kept=stop,
        expected=None if chances is None else sum(chances),
        text=text,
        note=_note(look, rule, stop),
    )


def _marks(rule: str, passes: Sequence[bool | None], stop: int | None) -> tuple[Mark, ...]:
    """Kept, failed, and for a forward rule what it never came to."""
    n = len(passes)
    if stop is None:
        return _times("drafted", n)
    n_failed = min(1, n - stop) if rule == TOKENWISE else n - stop
    return _times("accepted", stop) + _times("rejected", n_failed) + _times("untested", n - stop - n_failed)


def _times(mark: Mark, n: int) -> tuple[Mark, ...]:
    return (mark,) * n


def _note(look: ScanView, rule: str, stop: int | None) -> str:
    if stop is None or rule != NAIVE:
        return ""
    more = n_carried(look.round_tree, stop, len(look.path.links))
    return f"then {plural(more, 'carried round')}" if more else ""


def _own(look: ScanView) -> RuleReplay:
    """The run's own rule, as recorded."""
    verdicts = look.round_tree.record.verdicts
    path_verdicts = [verdicts.get(link.node) for link in look.path.links]
    marks: tuple[Mark, ...] = tuple(v.status if v else "drafted" for v in path_verdicts)
    stop = sum(mark == "accepted" for mark in marks)
    header = look.run.header
    lossy = header is not None and not header.lossless
    return RuleReplay(
        rule=look.verifier,
        label=look.verifier,
        own=True,
        keep=tuple(v.thr if v else None for v in path_verdicts),
        marks=marks,
        kept=stop,
        expected=None,
        text=f"keeps {stop} of {len(path_verdicts)}",
        note="not lossless" if lossy else "",
    )


def _words(rules: Sequence[RuleReplay]) -> str:
    by_rule = {rule.rule: rule.kept for rule in rules}
    ours, theirs = by_rule.get(CAPPED), by_rule.get(TOKENWISE)
    if ours is None or theirs is None:
        return "The uniforms or the rows of this round are not on record."
    if ours == theirs:
        return f"On this draft and these uniforms hsd and token-wise keep the same {ours}."
    gap, which = abs(ours - theirs), "more" if ours > theirs else "fewer"
    luck = "" if ours > theirs else " On average it keeps at least as many; on one draw it may not."
    return f"On this draft and these uniforms hsd keeps {gap} {which} than token-wise.{luck}"


# Over the run -------------------------------------------------------------------------------------------------------


def survival(own: Rule | None, metrics: "Metrics | None") -> Plot:
    """Observed survival with Wilson intervals, and what every rule is expected to keep of exactly these drafts."""
    seen = one_series("survival", metrics)
    same = metrics.same_draft if metrics is not None else None
    curves = [PlotCurve("observed", seen.values, "accepted", lows=seen.lows, highs=seen.highs, ns=seen.ns)]
    words, followed = _OBSERVED_ONLY, ""
    for rule, by_place in same.survival.items() if same is not None else ():
        if by_place is not None:
            name, sign = LABELS[rule], "▶ " if own == rule else ""
            followed = f" The observed points must follow {name}, up to the luck of u." if sign else followed
            expected = tuple(by_place.get(x) for x in seen.xs)
            curves.append(PlotCurve(f"{sign}{name}, expected", expected, COLOURS[rule], "line"))
    if same is not None:
        words = (
            f"Tokens kept per draft, exactly expected on {plural(same.n_drafts, 'draft')}: "
            f"{_totals(same.expected_accepted)}.{followed} Estimated for drafts as this run draws them, of which these "
            f"are a sample: {_totals(same.estimated_accepted)}."
        )
    missing = "" if seen.xs else seen.missing or "nothing here yet"
    return Plot(
        "survival-exact",
        "Survival",
        "tokens kept, at least",
        seen.xs,
        () if missing else tuple(curves),
        "share",
        help="Bars: drafts of which at least so many tokens were kept, with 95 % intervals. Lines: what each rule must "
        "give on these very drafts, exactly.",
        words=missing or words,
        missing=missing,
    )


def _totals(by_rule: Mapping[str, float | None]) -> str:
    return ", ".join(f"{LABELS[rule]} {number(value)}" for rule, value in by_rule.items())


def paired(metrics: "Metrics | None") -> tuple[Paired, ...]:
    """The difference to tokenwise, draft by draft, of every other rule."""
    same = metrics.same_draft if metrics is not None else None
    return () if same is None else tuple(_paired(same, rule) for rule in same.gain)


def _paired(same: "SameDraft", rule: str) -> Paired:
    estimate, label = same.gain[rule], LABELS[rule]
    gain: Metric = metric("gain", f"{label} − token-wise", estimate, "tokens kept per draft, paired")
    ours, theirs = same.expected_accepted[rule], same.expected_accepted[TOKENWISE]
    expected = None if ours is None or theirs is None else ours - theirs
    counts = tuple(same.gains[rule].items())
    if estimate is None:
        missing = "the keep chances of this rule need whole rows: only --level full records them"
        return Paired(rule, label, gain, expected, (), "", missing)
    more = sum(n for difference, n in counts if difference > 0)
    fewer = sum(n for difference, n in counts if difference < 0)
    words = (
        f"Over {plural(same.n_drafts, 'draft')}, {label} minus token-wise: {gain.text} tokens kept a draft "
        f"(exactly expected on them: {number(expected, 3)}); more on {more}, fewer on {fewer}. {_CAVEAT}"
    )
    return Paired(rule, label, gain, expected, counts, words)
