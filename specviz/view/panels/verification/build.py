"""`VerificationPanel`: the verdict on one draft, scanned backward; other rules on it; the run as a whole.

The pictures of a scan: the ratio staircase, the branches below every prefix, the row at the stop.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.events import Closing
from specviz.events import prob as prob_of
from specviz.numerals import prob
from specviz.runlog.fold import Run
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.steps import node_text
from specviz.view.panels import Panel, PanelContext
from specviz.view.panels.verification.model import ClosingRow, PrefixMass, RatioStairs, VerificationModel, WeighedToken
from specviz.view.panels.verification.rules import comparison, paired, survival
from specviz.view.panels.verification.scan import ScanView, excess, scan
from specviz.view.why.node_context import case, looked_at, why_no_chain
from specviz.view.why.values_text import node_words
from specviz.view.words.numbers import fine, joint
from specviz.view.words.palette import Phase

if TYPE_CHECKING:
    from specviz.metrics.replay_rules import ChainPosition

_BEFORE = "Longer prefixes are tested first: each `.` tests one, right to left, until one passes."
_FIRST = 4  # rounds searched for a sampled chain
_FORWARD = "This rule tests left to right. The rows say what a backward scan makes of the same draft."


class VerificationPanel(Panel[PanelOptions, VerificationModel]):
    """Of one run."""

    id, title = "verification", "HSD"

    @classmethod
    def relevance(cls, run: Run) -> int:
        """A drawn chain to scan; most of all under a rule that scans it."""
        first = (node for record in run.rounds[:_FIRST] for node in record.nodes.values())
        drawn = any(node.mode == "sampled" and node.logq is not None for node in first)
        return int(drawn) + int(drawn and run.backward)

    def empty(self, reason: str) -> VerificationModel:
        return VerificationModel(reason, None, None, (), None, None, None, None, ())

    def build(self, scene: PanelContext, options: PanelOptions) -> VerificationModel:
        """The scan of the selected chain, its pictures, other rules on the same draft, and the run as a whole."""
        return _verification(self.run, scene)


def _verification(run: Run, scene: PanelContext) -> VerificationModel:
    round_tree, now, selected, metrics = scene.round_tree, scene.now, scene.selected, scene.metrics
    over_run = survival(run.rule.replays_as, metrics), paired(metrics)
    path = looked_at(run, round_tree, selected)
    if path is None:
        return VerificationModel(why_no_chain(run, round_tree), None, None, (), None, None, None, *over_run)
    look = ScanView(run, round_tree, now, path, selected, scene.ascii)
    prefix_masses = branches(look) if now.has_p else ()
    chained = any(link.chain is not None for link in path.links)
    return VerificationModel(
        missing=None,
        scan=scan(look, _words(look)),
        stairs=stairs(look) if now.has_p else None,
        branches=prefix_masses,
        branches_missing=None if chained or not now.has_p else NO_ROWS,
        closing=closing_row(look),
        comparison=comparison(look),
        survival=over_run[0],
        paired=over_run[1],
    )


def _words(look: ScanView) -> str:
    """The sentence on the position under the cursor, once its verdict may be told."""
    if not look.backward and not look.judged:
        return _FORWARD
    node = look.selected if look.selected is not None and look.path.link(look.selected) else None
    if node is None and look.judged:  # the closing token or the root is looked at: where the scan came to its end
        node = look.path.links[max(0, (look.stop() or 1) - 1)].node
    if node is None or node not in look.now.verdicts:
        return _BEFORE if look.backward and not look.judged else ""
    return node_words(case(look.run, look.round_tree, node))


_ENTRIES = 8
NO_ROWS = "the branches need whole rows, which only --level full records"


def stairs(look: ScanView) -> RatioStairs:
    """log r step by step, the cap line (its running maximum) and log c, what is left below the cap."""
    links = look.path.links
    cap, peak = [0.0], 0.0
    for link in links:
        peak = max(peak, link.log_r)
        cap.append(peak)
    last = links[-1]
    words = f"The joint ratio ends at {joint(last.log_r)}"
    if peak > 0:
        at = next(k for k, value in enumerate(cap) if value == peak)
        words += f"; it peaked at {joint(peak)} (position {at})"
    words += f", so the whole draft carries weight {fine(math.exp(last.log_c))}."
    log_r, log_c = [_finite(link.log_r) for link in links], [_finite(link.log_c) for link in links]
    return RatioStairs(tuple(range(len(links) + 1)), (0.0, *log_r), tuple(cap), (0.0, *log_c), words)


def _finite(log: float) -> float | None:
    return None if log == -math.inf else log


def branches(look: ScanView) -> tuple[PrefixMass, ...]:
    """One branch below every prefix that has a next drafted token: both laws agree on `1 - D-` of the draft's mass."""
    links, stop = look.path.links, look.stop()
    out = []
    first = look.round_tree.record.verdicts.get(links[0].node)
    gap = first.tv_pq if first is not None else None
    if gap is not None:  # nothing is drafted yet: the weight is 1, so both excesses are the distance of the two rows
        out.append(PrefixMass(0, "at the root", 1 - gap, gap, gap, stop == 0))
    out += [prefix_mass for link in links if (prefix_mass := _branch(look, link, stop)) is not None]
    return tuple(out)


def _branch(look: ScanView, link: "ChainPosition", stop: int | None) -> PrefixMass | None:
    plus, minus = excess(look, link)
    if plus is None or minus is None:
        return None
    shown = f"after {node_text(look.run, look.round_tree, link.node)}"
    return PrefixMass(link.t, shown, max(0.0, 1 - minus), plus, minus, link.t == stop)


# The row at the stop ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Weights:
    """How p and q enter the row: `max(0, a·p − b·q)`, with the letters that stand for it."""

    a: float
    b: float
    p_label: str = "p"
    q_label: str = "q"
    residual: bool = True
    several: bool = False  # candidates before it have taken their part of the row: p and q alone do not make it


def closing_row(look: ScanView) -> ClosingRow | None:
    """The row the closing token was drawn from, against p and q; None before it is drawn."""
    closing = look.round_tree.record.closing
    if closing is None or look.now.phase < Phase.CLOSE:
        return None
    if closing.kind == "none":
        return ClosingRow("", "p", "q", (), "", "the text ended with a kept token: nothing was drawn")
    if not closing.row:
        return ClosingRow("", "p", "q", (), "", "the row is not on record: only --level full records it")
    weights = _weights(look, closing)
    entries = [_weighed(look, closing, entry, weights) for entry in (*closing.row, *_unlisted(closing))]
    entries.sort(key=lambda e: (-e.share, -e.p))
    entries = entries[:_ENTRIES] + [e for e in entries[_ENTRIES:] if e.drawn]
    drawn = next((e for e in entries if e.drawn), None)
    words = f"{drawn.shown} was drawn; it had {drawn.text} of the row." if drawn else ""
    return ClosingRow(_title(look, closing, weights), weights.p_label, weights.q_label, tuple(entries), words)


def _unlisted(closing: Closing) -> list[tuple[int, float, float | None, float, float]]:
    """The drawn token when it was too unlikely for the recorded part of the row: its interval is its share."""
    row = closing.row or []
    if closing.token is None or closing.interval is None or any(token == closing.token for token, *_ in row):
        return []
    share = closing.interval[1] - closing.interval[0]
    mass = 1.0 if closing.mass is None else closing.mass
    return [(closing.token, prob_of(closing.logp) or 0.0, None, share * mass, share)]


def _weights(look: ScanView, closing: Closing) -> _Weights:
    if closing.kind == "bonus" or look.rule.draws:
        return _Weights(1.0, 1.0, residual=False)
    link = look.path.link(closing.node)
    if not look.backward or look.path.count > 1:
        return _Weights(1.0, 1.0, several=look.path.count > 1)
    if look.naive:
        r = math.exp(min(link.log_r, 700)) if link is not None else 1.0
        return _Weights(r, 1.0, "r·p", "q") if r < 1 else _Weights(1.0, 1 / r, "p", "q/r")
    return _Weights(math.exp(link.log_c) if link is not None else 1.0, 1.0, f"{look.rule.letter}·p", "q")


def _title(look: ScanView, closing: Closing, weights: _Weights) -> str:
    if closing.kind == "bonus":
        return "The target's row after the whole draft: a bonus token comes from it"
    if not weights.residual:
        return "The target's row at the stop"
    if weights.several:
        return f"What the candidates left of the target's row: mass {prob(closing.mass, 3)}"
    link = look.path.link(closing.node)
    formula = ""
    if look.naive:
        formula = f", r {joint(link.log_r if link else 0.0)}"
    elif look.backward:
        formula = f", {weights.p_label[0]} {fine(weights.a)}"
    mass = f": mass {prob(closing.mass, 3)}" if closing.mass is not None else ""
    return f"Residual max(0, {weights.p_label} − {weights.q_label}){formula}{mass}"


def _weighed(
    look: ScanView, closing: Closing, entry: tuple[int, float, float | None, float, float], weights: _Weights
) -> WeighedToken:
    token, p, q, weight, share = entry  # the weight is normalised where a rule handles a normalised row
    left = weight if closing.mass is None or not weights.residual else share * closing.mass
    drafted = any(
        link.t == look.round_tree.depth.get(look.round_tree.stop, 0) + 1
        and look.round_tree.nodes[link.node].token == token
        for link in look.path.links
    )
    return WeighedToken(
        shown=look.run.word(token),
        p=p,
        q=q,
        weighed_p=weights.a * p,
        weighed_q=None if q is None or weights.several else weights.b * q,
        left=left,
        share=share,
        text=prob(share),
        drawn=token == closing.token,
        drafted=drafted,
    )
