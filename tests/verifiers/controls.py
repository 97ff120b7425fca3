"""Wrong rules on purpose: a law check that lets one of them pass is too weak. Nothing here is for use.

`blockwise` alone is right: a backward scan is what it takes to see draws keyed without the round.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from specviz.probability.draft import ROOT, Draft, Spelling
from specviz.probability.draws import Tested
from specviz.probability.plan import Draw, Plan, State, Step, Test
from specviz.probability.rows import positive_part
from specviz.probability.table_models import Problem
from specviz.verifiers import tokenwise, walk
from specviz_lab.prove.controls import retested as retested
from specviz_lab.prove.controls import softmax_argmax as softmax_argmax
from specviz_lab.prove.controls import stop_dropped as stop_dropped
from specviz_lab.prove.enumerate import BranchKeys, Law
from verifiers.drafts import DraftBuilder, Grow, chain, siblings, without
from verifiers.rounds import chained, emitted, play_once


def backward_scan(draft: Draft, rows: Any, *, cap_last: bool = True) -> Plan:
    """Blockwise: tests from the last position down, the first success stops. `cap_last=False` is `hsd_ref`."""
    gamma, weights, ratio = len(draft), [1], 1
    for t in range(gamma):
        rho = rows[t][draft.tokens[t]] / draft.law(t, len(rows[0]))[draft.tokens[t]]
        weights.append(min(1, weights[-1] * rho))
        ratio = ratio * rho

    def residual(t: int) -> Any:
        return rows[gamma] if t == gamma else positive_part(weights[t] * rows[t], draft.law(t, len(rows[0])))

    def threshold(t: int) -> Any:
        if t == gamma:
            return weights[t] if cap_last else min(1, ratio)
        if weights[t] == 1:
            return 1
        lacking = residual(t).sum()
        return lacking / (lacking + 1 - weights[t])

    def open_step(state: State) -> Step:
        scanning, t = state  # type: ignore[misc]
        if scanning and t > 0:
            return Test(t - 1, threshold(t), (False, t), (True, t - 1), 0, 0)
        return Draw(t - 1, lambda: residual(t), {}, "residual" if t < gamma else "target", "bonus")

    return Plan(draft, (True, gamma), open_step)


def uncapped_last(draft: Draft, rows: Any) -> Plan:
    """`hsd_ref`: the last test is min(1, r), not the capped ratio."""
    return backward_scan(draft, rows, cap_last=False)


class _OwnChildren(Spelling):
    def candidates(self, node: int) -> tuple[int, ...]:
        return self._draft.children.get(node, ())


def own_children_only(draft: Draft, rows: Any) -> Plan:
    """Tokenwise that tries the children of the accepted node alone, not of every node that spells the same."""
    rule = tokenwise._Tokenwise(draft, rows)
    rule.spelling = _OwnChildren(draft)
    return Plan(draft, (ROOT, 0), rule.open)


def by_probability(draft: Draft, rows: Any) -> Plan:
    """Tokenwise with siblings tried in falling order of their draft probability instead of birth order."""
    share = [
        draft.law_rows[draft.row_of[0]][t] for t in draft.tokens
    ]  # all siblings of the root: the first row is whole
    order = sorted(range(len(draft)), key=lambda i: -share[i])
    ids = tuple(order.index(i) for i in range(len(draft)))
    return tokenwise.plan(Draft(**{f: getattr(draft, f) for f in _FIELDS} | {"ids": ids}), rows)


_FIELDS = ("tokens", "parents", "ids", "n_judged", "n_fed", "law_rows", "row_of", "shared")


def redraw_after_miss(draft: Draft, rows: Any) -> Plan:
    """Walk that throws away a draw that is no child and draws the closing token afresh."""

    def open_step(state: State) -> Step:
        node, missed = state  # type: ignore[misc]
        if missed:
            return Draw(node, lambda: rows[node + 1], {}, "residual", "recovered")
        children = draft.children.get(node, ())
        edges: dict[int, tuple[int, State]] = dict.fromkeys(
            range(len(rows[0])) if children else (), (node, (node, True))
        )
        edges |= {draft.tokens[c]: (c, (c, False)) for c in children}
        return Draw(node, lambda: rows[node + 1], edges, "target", "bonus")

    return Plan(draft, (ROOT, False), open_step)


def softmax_best(width: int) -> Grow:
    """Top-`width` siblings that record the softmax they were not drawn from."""

    def grow(b: DraftBuilder) -> None:
        row = b.row(ROOT)
        for token in np.argsort(-row, kind="stable")[:width]:
            b.point(ROOT, int(token), law=row)

    return grow


def softmax_best_without(width: int) -> Grow:
    """The same, each recording what the better ones left of the softmax."""

    def grow(b: DraftBuilder) -> None:
        row = b.row(ROOT)
        left = row
        for token in np.argsort(-row, kind="stable")[:width]:
            b.point(ROOT, int(token), law=left)
            left = without(left, int(token))

    return grow


def not_renormalised(draft: Draft, rows: Any) -> Plan:
    """Point-mass siblings in turn, each kept with its plain share: what the ones before left is not scaled up."""

    def open_step(state: State) -> Step:
        node, failed = state  # type: ignore[misc]
        children = draft.children.get(node, ())
        if failed < len(children):
            child = children[failed]
            share = rows[node + 1][draft.tokens[child]]
            return Test(child, share, (child, 0), (node, failed + 1), share, None, child)
        left = rows[node + 1]
        for child in children:
            left = positive_part(left, draft.law(child, len(left)))
        return Draw(node, lambda: left, {}, "residual" if children else "target", "recovered")

    return Plan(draft, (ROOT, 0), open_step)


def plain_row_kept(width: int) -> Grow:
    """Siblings drawn without replacement that record the whole row."""
    return lambda b: siblings(b, ROOT, width, replacement=False, record_plain=True) and None


class LooseKeys(BranchKeys):
    """`u <= threshold` on a grid of uniforms 0, 1/n, .., (n - 1)/n, in place of `u < threshold`."""

    grid = 2**24

    def passes(self, pos: int, threshold: Any, index: int = 0) -> Tested:
        not_above = int(threshold * self.grid) + 1  # grid points
        return super().passes(pos, min(Fraction(not_above, self.grid), 1), index)


class OneNoiseKeys(BranchKeys):
    """Accept tests that use the uniform their token was drafted with."""

    def passes(self, pos: int, threshold: Any, index: int = 0) -> Tested:
        return Tested(self.uniform("draft", pos, index) < threshold, 0.0)


def control_law(problem: Problem, grow: Grow, plan: Any, length: int, **options: Any) -> Law:
    """The law of `length` tokens under any plan function.

    `once`: a single round, plain target draws after it (what golden distances are of). `kind`: other keys.
    `keyed=False`: no round in the keys.
    """
    once, kind = options.pop("once", False), options.pop("kind", BranchKeys)

    def play(keys: Any, text: tuple[int, ...], round_: int) -> tuple[int, ...]:
        used = kind(keys.branch, keys.round, keys.way)
        if once and round_ > 1:
            return emitted(*play_once(keys, text, problem, chain(0), walk.plan))
        return emitted(*play_once(used, text, problem, grow, plan))

    return chained(play, length, **options)
