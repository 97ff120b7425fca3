"""What was learnt while serving, from `adapt` records: a line a query, what was done after it, and what came of it.

Seconds unless said otherwise; `gain` is a rise of the mean acceptance length.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from specviz.events import Adapt
from specviz.numerals import UNKNOWN, number
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, Query, RoundRecord
from specviz.text import shown
from specviz.traits import MethodTraits
from specviz.view.blocks import Block, Cell, Destination, Facts, Plot, PlotCurve, TableBlock, Words
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.parts import WhyRow
from specviz.view.panels import PanelContext
from specviz.view.panels.built import BlockModel, BlockPanel
from specviz.view.words.numbers import short_seconds

ACTIONS: dict[str, str] = {
    "skip": "learn nothing",
    "head": "output and rank head",
    "full": "every weight of the drafter",
}
REASONS: dict[str, str] = {
    "exploit": "it pays for sure: its lower bound is above 0",
    "explore": "it may pay: tried within the exploring budget",
    "skip": "nothing is expected to pay, or too little was learnt from this query",
    "guard": "the guard stepped in",
}


@dataclass(frozen=True, slots=True)
class AdaptView:
    """The run, at the query on screen. `words`: the decision after it; `actions`: what each of them was worth there;
    `queries`: a line each, which leads to its last round."""

    words: str
    actions: tuple[Words, ...]
    summary: Facts
    queries: TableBlock
    stream: Plot  # length by query
    ledger: Plot  # seconds by query

    def __iter__(self) -> Iterator[Block]:
        query = self.queries.cursor
        after = f"After query {self.queries.rows[query][0].text}: " if query is not None else ""
        yield self.summary
        yield Words(f"{after}{self.words}", strong=True)
        yield from self.actions
        yield self.stream
        yield self.ledger
        yield self.queries


class LearningPanel(BlockPanel[PanelOptions]):
    """Of one run."""

    id, title, options = "learning", "Learning", PanelOptions
    key, order = "8", 75
    about = (
        "After each query a bandit weighs two updates of the drafter against doing nothing, in seconds. It takes one "
        "that pays for sure, or tries one within a small budget. Regret is what a decision gave up against the best "
        "expected profit. The text never depends on it. A line of the table leads to the last round of its query."
    )

    @classmethod
    def needs(cls, traits: MethodTraits) -> bool:
        """A drafter that learns while it serves."""
        return traits.learns

    @classmethod
    def relevance(cls, run: Run) -> int:
        """A run that learnt fills it; one that only could have shows nothing."""
        if not _missing(run):
            return 2
        return int(cls.needs(run.method_traits) and run.knobs.get("adapt") == "on")

    def build(self, scene: PanelContext, options: PanelOptions) -> BlockModel:
        """The decisions after every query."""
        missing, view = _missing(self.run), adapt_view(self.run, scene.record)
        return BlockModel(missing) if missing or view is None else BlockModel(None, tuple(view))


def _missing(run: Run) -> str:
    """Why there is no bandit to see."""
    method = run.header.method if run.header else ""
    if not LearningPanel.needs(run.method_traits):
        return f"{method} does not learn while it serves; specviz run --method specblock --adapt on does."
    if any(query.adapt is not None for query in run.queries):
        return ""
    if run.knobs.get("adapt") == "on":
        return "No query has ended yet: the bandit decides between queries."
    return "The drafter does not learn in this run: knob adapt on, with a stream of queries (specviz run --stream)."


def adapt_view(run: Run, record: RoundRecord) -> AdaptView | None:
    """The queries; None before the first decision."""
    learnt = [(query, query.adapt) for query in run.queries if query.adapt is not None]
    if not learnt:
        return None
    decisions = [adapt for _, adapt in learnt]
    total = tuple(accumulate(adapt.regret or 0.0 for adapt in decisions))
    cursor = next((k for k, (query, _) in enumerate(learnt) if query is record.query), None)
    places = tuple(Destination(q.first + q.n_rounds - 1) if q.n_rounds else None for q, _ in learnt)
    queries = TableBlock(
        "learning-queries",
        ("query", "domain", "tok/round", "surprise", "done", "why", "gain", "regret", "so far", ""),
        tuple(_line(query, adapt, total[k]) for k, (query, adapt) in enumerate(learnt)),
        places=places,
        cursor=cursor,
    )
    here = decisions[cursor if cursor is not None else -1]
    length = tuple(adapt.mean_acceptance_length for adapt in decisions)
    stream = Plot(
        "learning-stream",
        "Length by query",
        "query",
        tuple(query.number for query, _ in learnt),
        (PlotCurve("length", length, look="line", marks=tuple(map(_mark, decisions))),),
        help="mean acceptance length; the colour: what was learnt after it, red: taken back",
        words=step_words(here),
        notes=tuple(step_words(adapt) for adapt in decisions),
        places=places,
        cursor=cursor,
        table=queries,
    )
    ledger = replace(
        stream,
        key="learning-ledger",
        title="Spent and given up",
        curves=(
            PlotCurve("spent on exploring", tuple(adapt.spent for adapt in decisions), "recovered", "step"),
            PlotCurve("regret so far", total, "rejected", "step"),
        ),
        unit="seconds",
        help="Exploring has a budget, a share of the serving time. Regret is what the decisions gave up against the "
        "best expected profit.",
        words=f"Exploring spent {short_seconds(decisions[-1].spent)}; regret {short_seconds(total[-1])}.",
        notes=(),
    )
    actions = tuple(Words(text) for text in _actions(here))
    return AdaptView(
        step_words(here), actions, Facts("learning", tuple(_summary(decisions, total[-1]))), queries, stream, ledger
    )


def _mark(adapt: Adapt) -> Mark:
    return "rejected" if adapt.reverted or adapt.reset else "untested" if adapt.action == "skip" else "accepted"


def _line(query: Query, adapt: Adapt, total: float) -> tuple[Cell, ...]:
    domain = adapt.domain or (query.prefill.domain if query.prefill is not None else "") or ""
    gain = UNKNOWN if adapt.measured_gain is None else f"{adapt.measured_gain:+.2f}"
    back = "taken back" if adapt.reverted else f"put back to {adapt.reset}" if adapt.reset else ""
    return (
        Cell(str(query.number), query.number),
        Cell(shown(domain) or UNKNOWN),
        Cell(number(adapt.mean_acceptance_length), adapt.mean_acceptance_length),
        Cell(number(adapt.s), adapt.s),
        Cell(adapt.action, mark=_mark(adapt)),
        Cell(adapt.reason),
        Cell(gain, adapt.measured_gain),
        Cell(short_seconds(adapt.regret), adapt.regret),
        Cell(short_seconds(total), total),
        Cell(back, mark="rejected"),
    )


def _actions(adapt: Adapt) -> list[str]:
    """Every allowed action, the one taken marked; older records hold the one taken alone, and its words say it."""
    out = []
    for arm in adapt.arms:
        upper = math.inf if arm.ucb is None else arm.ucb
        worth = (
            f"expected {short_seconds(arm.save - arm.cost)}" if None not in (arm.save, arm.cost) else "not yet known"
        )
        out.append(
            f"{'▶' if arm.action == adapt.action else ' '} {arm.action} ({ACTIONS.get(arm.action, '')}): {worth}, at "
            f"least {short_seconds(arm.lcb)}, at most {short_seconds(upper)}; costs {short_seconds(arm.cost)}, "
            f"taken {arm.n} times before"
        )
    return out


def step_words(adapt: Adapt) -> str:
    """What was done after a query, why, and what came of it."""
    text = f"{adapt.n_rejections} rejections with a surprise of {number(adapt.s)} a round. "
    if adapt.frozen:
        return f"{text}Updates are frozen: nothing was learnt."
    what = ACTIONS.get(adapt.action, adapt.action)
    text += f"Chosen: {adapt.action} ({what}): {REASONS.get(adapt.reason, adapt.reason)}."
    if adapt.action != "skip" and adapt.measured_gain is not None:
        text += (
            f" Held-out coverage went from {_share(adapt.coverage_before)} to {_share(adapt.coverage_after)}, worth "
            f"{number(adapt.measured_gain)} tokens a round"
        )
        text += f", for {short_seconds(adapt.update_s)}." if adapt.update_s is not None else "."
    if adapt.reverted:
        text += " It was taken back: coverage fell, or a weight was not finite. Its cost stays charged."
    if adapt.reset:
        text += f" Weights were put back to the {adapt.reset}."
    return text


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else number(value)


def _summary(learnt: list[Adapt], total: float) -> list[WhyRow]:
    last, taken = learnt[-1], Counter[str](adapt.action for adapt in learnt)
    share = min(1, last.spent / last.budget) if last.budget else None
    rows = [
        WhyRow("queries", str(len(learnt)), None, " · ".join(f"{name} {taken[name]}" for name in ACTIONS)),
        WhyRow("exploring", f"{short_seconds(last.spent)} of {short_seconds(last.budget)}", share),
        WhyRow("regret so far", short_seconds(total), None, "by the bandit's own estimates"),
        WhyRow("taken back", str(sum(a.reverted for a in learnt)), None, "updates that made held-out coverage worse"),
        WhyRow("weights", f"version {last.version_after}"),
    ]
    true = [adapt.replay_regret for adapt in learnt if adapt.replay_regret is not None]
    if true:
        rows.insert(3, WhyRow("true regret", short_seconds(sum(true)), None, "by replaying every action on copies"))
    return rows
