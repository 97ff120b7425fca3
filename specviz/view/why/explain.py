"""`why(run, family, node, moment)`: the panel that answers why a node is what it is, from recorded fields only.

Before its verdict is on screen a node shows what is known so far (q, then p) and says what will decide; nothing is
given away. The sentences are in `words` and `closings`, the what-if in `flips`.
"""

import math
from typing import Any

import msgspec

from specviz.events import Closing, Verify
from specviz.events import prob as linear
from specviz.numerals import number, plural, prob
from specviz.runlog.fold import Run
from specviz.runlog.tree import RoundTree
from specviz.view.frame.parts import Remark, Why, WhyRow
from specviz.view.frame.steps import Moment
from specviz.view.why.closing_text import closing_title, closing_words, residual
from specviz.view.why.node_context import NodeContext, case, foreign_rule, title
from specviz.view.why.otherwise import otherwise
from specviz.view.why.values_text import flip, node_words
from specviz.view.words.numbers import apart, fine, joint, ordinal, ratio, within
from specviz.view.words.palette import CLOSING, ROOT, Phase, glyph, word


def why(run: Run, tree: RoundTree, node: int, now: Moment, ascii: bool = False, remark: Remark | None = None) -> Why:
    """The panel of a node, the root or the closing token at this moment. `remark`: what the panels add."""
    remark = remark or Remark()
    if node == CLOSING:
        return _closing(run, tree, now, ascii, remark.words)
    if node not in tree.nodes:
        return _root(run, tree, ascii, remark.words)
    return _node(run, tree, node, now, ascii, remark)


def _root(run: Run, tree: RoundTree, ascii: bool, shape: str) -> Why:
    start = tree.record.start
    words = (
        f"The last token of the text, at position {start.n - 1}: committed, not yet in the target's cache. "
        "The target's pass reads it first, and everything drafted hangs below it."
    )
    words += f" {shape}" if shape else ""
    missing = run.missing(tree.record)
    words += f" What was drafted is not on record ({missing})." if missing else ""
    return Why(ROOT, title(run, tree, ROOT), "root", glyph("root", ascii), "ROOT · depth 0", "", (), words)


def _closing(run: Run, tree: RoundTree, now: Moment, ascii: bool, panel_words: str) -> Why:
    mark = now.mark(tree, CLOSING)
    closing = tree.record.closing
    depth = tree.depth.get(tree.stop, 0) + 1
    rows: list[WhyRow] = []
    if closing is not None and closing.logp is not None and tree.record.temperature != 0:
        p = linear(closing.logp)
        rows.append(WhyRow("p  target", fine(p), p))
        if closing.u is not None:
            u, stretch = within(closing.u, *closing.interval) if closing.interval else (fine(closing.u), "")
            rows.append(WhyRow("u", u, closing.u, stretch))
    ranked = f"the target ranks it {ordinal(closing.rank_p)}" if closing is not None and closing.rank_p else None
    return Why(
        node=CLOSING,
        title=closing_title(run, tree),
        mark=mark,
        glyph=glyph(mark, ascii),
        headline=f"{mark.upper()} · depth {depth} · closes the round",
        rule="the engine's own rule" if foreign_rule(run) else _closing_rule(tree),
        rows=tuple(rows),
        words=closing_words(run, tree, panel_words),
        residual=residual(run, tree),
        otherwise=_another(closing) if rows else None,
        rank=ranked,
    )


def _another(closing: Closing | None) -> str | None:
    """When another token would have been drawn."""
    if closing is None or closing.u is None or closing.interval is None:
        return None
    return f"another token for u outside {within(closing.u, *closing.interval)[1]}"


def _closing_rule(tree: RoundTree) -> str:
    closing = tree.record.closing
    if tree.record.temperature == 0:
        return "T 0: the target's most likely token"
    if closing is not None and closing.kind == "recovered" and any(v.kind == "test" for v in tree.tests):
        return "sampled from the residual, without what was rejected"
    return "sampled from the target's row"


def _node(run: Run, tree: RoundTree, node: int, now: Moment, ascii: bool, remark: Remark) -> Why:
    facts = case(run, tree, node)
    mark = now.mark(tree, node)
    decided = mark not in ("drafted", "testing") or now.phase >= Phase.CLOSE
    words, verdict = node_words(facts) if decided else _expectation(facts, now), facts.verdict
    lost = decided and verdict is not None and verdict.status == "rejected"
    drawn_here = lost and now.phase >= Phase.CLOSE and tree.same_row(node)  # what was drawn in its place is on screen
    return Why(
        node=node,
        title=title(run, tree, node),
        mark=mark,
        glyph=glyph(mark, ascii),
        headline=_headline(facts, mark, now.all_tested),
        rule=_rule(facts),
        rows=(*remark.rows, *_rows(facts, now.has_p, decided)),
        words=" ".join(filter(None, (words, remark.words))),
        residual=residual(run, tree) if drawn_here else None,
        cost=f"{plural(facts.n_below, 'node')} below never tested" if lost and facts.n_below else None,
        flip=flip(facts) if decided else None,
        otherwise=otherwise(run, tree, facts) if decided and flip(facts) is None else None,
        rank=_ranks(facts) if now.has_p else None,
        decided=decided,
    )


def _headline(facts: NodeContext, mark: Any, all_tested: bool) -> str:
    """How many tests there are stands there once all are made: the last one is the one that fails."""
    order = facts.verdict.order if facts.verdict else None
    test = f" · test {order + 1}" if order is not None and mark not in ("drafted", "pruned") else ""
    test += f" of {facts.n_tests}" if test and all_tested else ""
    return f"{word(mark).upper()} · depth {facts.depth}{test}"


def _rule(facts: NodeContext) -> str:
    """The rule in one line, in the letters of the rows below it."""
    name = facts.verifier or "rule"
    if facts.how:
        return f"{name}: the engine's own rule"
    if facts.greedy:
        return f"{name}, T 0: keep the target's most likely token"
    if facts.backward:
        return f"{name}: keep the longest prefix with u < h"
    if facts.rule.draws or (facts.verdict is not None and facts.verdict.kind == "draw"):
        return f"{name}: keep it if the target's own draw is this token"
    mass = "R" if facts.n_failed else "p"
    by_ratio = facts.drawn or (facts.elsewhere and facts.node.mode == "sampled")
    return f"{name}: keep if u < {mass}{'/q' if by_ratio else ''}{' + slack' if facts.rule.adds_slack else ''}"


def _rows(facts: NodeContext, has_p: bool, decided: bool) -> list[WhyRow]:
    v = facts.values
    rows = [WhyRow("q  draft", fine(v.q), v.q)]
    if not facts.drawn:
        none = "not on record" if facts.node.mode == "sampled" else "it gives no probability"
        rows = [WhyRow("draft", fine(v.conf), v.conf, "not used by this rule" if v.conf is not None else none)]
    if not has_p:
        return rows
    if facts.greedy:
        return rows + _greedy_rows(facts)
    lost = v.p is None and facts.verdict is not None and facts.verdict.logp is not None
    rows.append(WhyRow("p  target", fine(v.p), v.p, "older trace" if lost else ""))
    if facts.drawn and v.ratio is not None and (v.left is None or not _tested(facts)):
        rows.append(WhyRow("p/q", ratio(v.ratio)))
    return rows + _left_rows(facts) + _prefix_rows(facts) + (_verdict_rows(facts) if decided else [])


def _left_rows(facts: NodeContext) -> list[WhyRow]:
    """What failed siblings left of the target's row, and what of that is this token's: another number than p."""
    v = facts.values
    if v.left is None:
        return []
    after = "candidates" if facts.backward else plural(facts.n_failed, "rejected sibling")
    rows = [WhyRow("R  residual", fine(v.left), v.left, f"after {after}")]
    return [*rows, WhyRow("R/q", ratio(v.left / v.q))] if facts.drawn and v.q and _tested(facts) else rows


def _prefix_rows(facts: NodeContext) -> list[WhyRow]:
    """What a backward scan weighs: the joint ratio of the whole prefix, and what is left of it below its maximum."""
    if not facts.backward or facts.link is None:
        return []
    rows = [WhyRow("r  prefix", joint(facts.link.log_r), None, "p/q of all tokens up to here")]
    if not facts.first_scan and not (facts.verdict is not None and facts.verdict.implied):
        return rows  # a later candidate starts again from weight 1, with another first row
    if facts.rule.capped:
        c = math.exp(facts.link.log_c)
        rows.append(WhyRow("c  capped", fine(c), c))
    return rows


def _tested(facts: NodeContext) -> bool:
    return facts.verdict is not None and facts.verdict.kind == "test" and facts.verdict.thr is not None


def _verdict_rows(facts: NodeContext) -> list[WhyRow]:
    if facts.own_test is not None:
        return [
            WhyRow("judged", "here", None, f"kept as twin n{facts.stands_for}"),
            *_test_rows(facts.own_test, facts.backward),
        ]
    v, verdict = facts.values, facts.verdict
    if verdict is None or (verdict.order is None and not verdict.implied) or v.u is None:
        return []
    if verdict.kind == "draw":
        if v.lo is None or v.hi is None:
            return []
        if v.hi <= v.lo:
            return [WhyRow("u", fine(v.u), v.u, "nothing to fall in")]
        u, stretch = within(v.u, v.lo, v.hi)
        return [WhyRow("u", u, v.u, f"{'falls in' if verdict.status == 'accepted' else 'not in'} {stretch}")]
    judged_rows = [] if facts.judged is None else [WhyRow("judged", f"n{facts.judged}", None, "its twin")]
    return [*judged_rows, *_test_rows(verdict, facts.backward)]


def _test_rows(verdict: Verify, backward: bool) -> list[WhyRow]:
    """The keep chance and the uniform it was compared with."""
    sign = "<" if verdict.thr is not None and verdict.u is not None and verdict.u < verdict.thr else "≥"
    u, thr = apart(verdict.u, verdict.thr)
    return [WhyRow("h" if backward else "keep", thr, verdict.thr), WhyRow("u", u, verdict.u, f"{sign} {thr}")]


def _greedy_rows(facts: NodeContext) -> list[WhyRow]:
    """At temperature 0 p is 0 or 1; the row before the choice says more, where the trace has it."""
    verdict = facts.verdict
    if verdict is None:
        return []
    rows = []
    if facts.raw_p is not None:
        rows.append(WhyRow("p  target", fine(facts.raw_p), facts.raw_p, "at T 1; greedy takes the argmax"))
    elif facts.raw_least is not None:
        rows.append(WhyRow("p  target", f"<{fine(facts.raw_least)}", None, "at T 1, not among the largest"))
    if verdict.margin is not None:
        tie = "a tie: two tokens are the most likely" if verdict.margin == 0 else "logits, top 1 over top 2"
        rows.append(WhyRow("margin", number(verdict.margin), None, tie))
    return rows


def _expectation(facts: NodeContext, now: Moment) -> str:
    """What will decide, without the verdict."""
    if now.phase == Phase.DRAFT or not now.has_p:
        sure = facts.values.q if facts.drawn else facts.values.conf
        odds = f" The draft gives it {prob(sure)}." if sure is not None else ""
        return f"Drafted, not judged yet.{odds}"
    if facts.verdict is None and facts.node.branch is not None:
        return "Drafted beside the target's pass, which has not covered it."
    if facts.verdict is None or facts.verdict.node != now.testing:  # which turns come gives verdicts away
        return f"The target's pass has covered it. If its turn comes: {_rule(facts)}."
    return f"Test {len(now.verdicts) + 1} comes next: {_rule(facts)}."


def _ranks(facts: NodeContext) -> str | None:
    verdict = facts.verdict
    if verdict is None or verdict.rank_p is None:
        return None
    draft = f"the draft ranked it {ordinal(verdict.rank_q)}, " if verdict.rank_q is not None else ""
    return f"{draft}the target ranks it {ordinal(verdict.rank_p)}"


def node_record(tree: RoundTree, node: int) -> dict[str, Any] | None:
    """What the trace has of a node, as plain values; None for the root, and for a token that closes nothing."""
    record = tree.record
    if node in tree.nodes:
        return {"node": _plain(tree.nodes[node]), "verify": _plain(record.verdicts.get(node))}
    return _plain(record.closing) if node == CLOSING and record.closing is not None else None


def _plain(event: msgspec.Struct | None) -> dict[str, Any]:
    plain: dict[str, Any] = {} if event is None else msgspec.to_builtins(event)
    return plain
