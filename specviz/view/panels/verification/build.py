"""`verification(..)`: everything the screens *HSD* and *Verification* show of one moment."""

from typing import TYPE_CHECKING

from specviz.runlog.fold import Run
from specviz.runlog.tree import Family
from specviz.view.frame.steps import Moment
from specviz.view.panels.verification.model import Verification
from specviz.view.panels.verification.ratios import NO_ROWS, branches, closing_row, stairs
from specviz.view.panels.verification.rules import comparison, paired, survival
from specviz.view.panels.verification.scan import Look, scan
from specviz.view.why.chains import looked_at, why_no_chain
from specviz.view.why.node_context import case
from specviz.view.why.values_text import node_words

if TYPE_CHECKING:
    from specviz.metrics import Metrics

_BEFORE = "Longer prefixes are tested first: each `.` tests one, right to left, until one passes."
_FORWARD = "This rule tests left to right. The rows say what a backward scan makes of the same draft."


def nothing(run: Run, why: str) -> Verification:
    """Before the first round."""
    verifier = run.header.verifier if run.header else ""
    return Verification(why, None, None, (), None, None, None, None, (), verifier)


def verification(
    run: Run, family: Family, now: Moment, selected: int | None, metrics: "Metrics | None", ascii: bool = False
) -> Verification:
    """The scan of the selected chain, its pictures, other rules on the same draft, and the run as a whole."""
    verifier = run.header.verifier if run.header else ""
    over_run = survival(run.rule.replays_as, metrics), paired(metrics)
    path = looked_at(run, family, selected)
    if path is None:
        return Verification(why_no_chain(run, family), None, None, (), None, None, None, *over_run, verifier)
    look = Look(run, family, now, path, selected, ascii)
    found = branches(look) if now.has_p else ()
    chained = any(link.chain is not None for link in path.links)
    return Verification(
        missing=None,
        scan=scan(look, _words(look)),
        stairs=stairs(look) if now.has_p else None,
        branches=found,
        branches_missing=None if chained or not now.has_p else NO_ROWS,
        closing=closing_row(look),
        comparison=comparison(look),
        survival=over_run[0],
        paired=over_run[1],
        own_rule=verifier,
    )


def _words(look: Look) -> str:
    """The sentence on the position under the cursor, once its verdict may be told."""
    if not look.backward and not look.judged:
        return _FORWARD
    node = look.selected if look.selected is not None and look.path.link(look.selected) else None
    if node is None and look.judged:  # the closing token or the root is looked at: where the scan came to its end
        node = look.path.links[max(0, (look.stop() or 1) - 1)].node
    if node is None or node not in look.now.verdicts:
        return _BEFORE if look.backward and not look.judged else ""
    return node_words(case(look.run, look.family, node))
