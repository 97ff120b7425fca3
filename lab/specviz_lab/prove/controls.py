"""Wrong rules on purpose, for the check to catch: a proof that lets one of them pass proves nothing.

Each is a mistake that stands in a paper, a public code or an obvious first attempt. None
is for use. Their exact distances are known, which makes the check itself checkable.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import Draw, Plan, State, Step, Test
from specviz.probability.rows import positive_part
from specviz.probability.table_models import CASES, Problem, law
from specviz.verifiers import all_verifiers, get_verifier
from specviz_lab.prove import layouts
from specviz_lab.prove.enumerate import deviation, total_variation
from specviz_lab.prove.known import golden
from specviz_lab.prove.layouts import DraftBuilder, Grow
from specviz_lab.prove.proof import Rule, continued, in_fractions, rounds_of


@dataclass(frozen=True, slots=True)
class WrongRule:
    """A wrong rule on a case. `distance`: the TV it must have; None: more than nothing, its size is not published."""

    name: str
    mistake: str
    case: str
    gamma: int
    rule: Callable[[Problem], Rule]
    distance: Fraction | None
    chained: bool = False  # seen over several blocks only

    @property
    def problem(self) -> Problem:
        """The tables, with this gamma."""
        return replace(CASES[self.case], gamma=self.gamma)


@dataclass(frozen=True, slots=True)
class Caught:
    """How far the law of a control is off."""

    control: WrongRule
    tv: Any
    max_abs_err: Any

    @property
    def fails(self) -> bool:
        """Not the target's law, and as far off as it must be: what is wanted of a control."""
        known = self.control.distance
        return bool(self.tv > 0) and known in (None, self.tv)


def catch(control: WrongRule) -> Caught:
    problem = control.problem
    rounds = rounds_of(problem, control.rule(problem))
    broken = rounds.law(problem.gamma + 1) if control.chained else continued(rounds.first(), problem)
    target = law(problem.p, problem.gamma + 1)
    return Caught(control, total_variation(broken, target), deviation(broken, target))


def registered() -> Iterator[WrongRule]:
    """The verifiers that say they are not lossless, held to the distance on their badge and to the golden ones."""
    for verifier in all_verifiers().values():
        if verifier.lossless:
            continue
        for gamma, case in product((2, 3), CASES):
            vector = golden(case, verifier.name, "chain", replace(CASES[case], gamma=gamma))
            known = vector.tv if vector else None
            if known is None and (case, gamma) != ("A", 2):
                continue
            if known is None and verifier.distance is not None:
                known = Fraction(verifier.distance).limit_denominator(10_000)
            rule = _rule(layouts.chain, in_fractions(verifier).plan)
            yield WrongRule(verifier.name, verifier.help.partition(";")[0], case, gamma, rule, known)


# One chain, backward scan. Wrong in the weight, in the last test, in the sums or in the direction.


@dataclass(frozen=True, slots=True)
class _Weights:
    """`test[t]` enters the tests, `residual[t]` the closing row, t = 0..gamma. `last`: chance of the whole draft."""

    test: list[Any]
    residual: list[Any]
    last: Any


def _capped(ratios: list[Any]) -> list[Any]:
    peaks = [max(ratios[: t + 1]) for t in range(len(ratios))]
    return [ratio / peak for ratio, peak in zip(ratios, peaks, strict=True)]


def _right(ratios: list[Any]) -> _Weights:
    weights = _capped(ratios)
    return _Weights(weights, weights, weights[-1])


def _literal(ratios: list[Any]) -> _Weights:
    """The cap index over i < t, as it is printed: the weight of a new maximum exceeds 1."""
    printed = [ratios[0], *(ratios[t] / max(ratios[:t]) for t in range(1, len(ratios)))]
    return _Weights(_capped(ratios), printed, _capped(ratios)[-1])


def _scan(weigh: Callable[[list[Any]], _Weights], *, with_ratios: bool = False, gives_up: bool = False) -> Any:
    """A plan function. `with_ratios`: sums of (w p/q - 1) q, blind where q = 0. `gives_up`: at the first failure."""

    def plan(draft: Draft, rows: Any) -> Plan:
        gamma, laws = len(draft), [draft.law(t, len(rows[0])) for t in range(len(draft))]
        ratios: list[Any] = [Fraction(1)]
        for t, token in enumerate(draft.tokens):
            ratios.append(ratios[-1] * rows[t][token] / laws[t][token])
        weights = weigh(ratios)

        def lacking(t: int, weight: Any) -> Any:
            row = positive_part(weight * rows[t], laws[t])
            return np.where(laws[t] > 0, row, 0 * row) if with_ratios else row

        def threshold(t: int) -> Any:
            if t == gamma:
                return weights.last
            if weights.test[t] == 1 and not with_ratios:
                return 1
            mass, over = lacking(t, weights.test[t]).sum(), positive_part(laws[t], weights.test[t] * rows[t]).sum()
            return mass / max(mass, over) if max(mass, over) > 0 else 1

        def closing(t: int) -> Any:
            row = lacking(t, weights.residual[t])
            return row if row.sum() > 0 else rows[t]

        def open_step(state: State) -> Step:
            scanning, t = state
            if scanning and t > 0:
                failed = (False, 0) if gives_up else (True, t - 1)
                return Test(t - 1, threshold(t), (False, t), failed, 0, 0)
            if t == gamma:
                return Draw(t - 1, lambda: rows[t], {}, "target", "bonus")
            return Draw(t - 1, lambda: closing(t), {}, "residual", "recovered")

        return Plan(draft, (True, gamma), open_step)

    return plan


def _rule(grow: Callable[[int], Grow], plan: Any, **options: Any) -> Callable[[Problem], Rule]:
    """A rule that drafts with `grow(gamma)`."""

    def rule(problem: Problem) -> Rule:
        def draft(keys: Any, text: tuple[int, ...]) -> Draft:
            builder = DraftBuilder(keys, text, problem.q)
            grow(problem.gamma)(builder)
            return builder.build()

        return Rule(draft, plan, **options)

    return rule


# Drafts that record a law their tokens were not drawn from.


def softmax_argmax(gamma: int) -> Grow:
    """An arg-max chain that records the softmax."""

    def grow(b: DraftBuilder) -> None:
        node = ROOT
        for _ in range(gamma):
            row = b.row(node)
            node = b.point(node, int(np.argmax(row)), law=row)

    return grow


def stop_dropped(gamma: int, stop: int = 0) -> Grow:
    """A drawn chain that ends *before* the stop token it drew."""

    def grow(b: DraftBuilder) -> None:
        node = ROOT
        for depth in range(gamma):
            row = b.row(node)
            token = b.keys.draw("draft", len(b.text) + depth, row, 0).token
            if token == stop:
                return
            node = b.point(node, token, law=row)

    return grow


def plain_row_kept(gamma: int) -> Grow:
    """Two siblings drawn without replacement that record the whole row."""

    def grow(b: DraftBuilder) -> None:
        layouts.siblings(b, ROOT, 2, replacement=False, record_plain=True)

    return grow


def retested(gamma: int, count: int = 2) -> Grow:
    """A caterpillar whose shared nodes are written down, and so tested, once per chain."""

    def grow(b: DraftBuilder) -> None:
        main = [ROOT]
        for _ in range(gamma):
            main.append(b.draw(main[-1]))
        for depth, _ in product(range(1, gamma), range(count - 1)):
            node = ROOT
            for shared in main[1 : depth + 1]:
                node = b.point(node, b.tokens[shared], law=b.laws[shared])
            for _ in range(gamma - depth):
                node = b.draw(node)

    return grow


def _chains(plan: Any, **options: Any) -> Callable[[Problem], Rule]:
    return _rule(layouts.chain, plan, **options)


_TOKENWISE, _BLOCKWISE = get_verifier("tokenwise").plan, get_verifier("blockwise").plan
_RULES: dict[str, Callable[[Problem], Rule]] = {
    "hsd_literal": _chains(_scan(_literal)),
    "ratio form": _chains(_scan(_right, with_ratios=True)),
    "first failure ends": _chains(_scan(_right, gives_up=True)),
    "shared node retested": _rule(retested, _TOKENWISE),
    "softmax for arg-max": _rule(softmax_argmax, _TOKENWISE),
    "plain row kept": _rule(plain_row_kept, _TOKENWISE),
    "stop token dropped": _rule(stop_dropped, _BLOCKWISE),
    "key without round": _chains(_BLOCKWISE, keyed=False),
}
# The smallest cases that show it: case and gamma, with the distance where it is known, else `-`.
_PLACES = """
hsd_literal          | cap index over i < t, as printed                             | B2 9/800, C2 -
ratio form           | sums of (w p/q - 1) q, blind where q = 0                     | C2 29/600, C3 782/9375
first failure ends   | the backward scan gives up at its first failure              | A2 -
shared node retested | a caterpillar's shared node is tested once per chain         | C2 -
softmax for arg-max  | an arg-max draft with the softmax on record                  | A1 1/6
plain row kept       | siblings without replacement, recorded with the whole row    | C1 -
stop token dropped   | the token that ended the draft is not in it                  | A2 1/9, B3 2597/10000
key without round    | the same draws in every round                                | A2 7/108
"""


def _controls() -> Iterator[WrongRule]:
    for line in _PLACES.strip().splitlines():
        name, mistake, places = (part.strip() for part in line.split("|"))
        for where, distance in (place.split() for place in places.split(", ")):
            known = None if distance == "-" else Fraction(distance)
            over_blocks = name == "key without round"  # one block cannot show it
            yield WrongRule(name, mistake, where[0], int(where[1:]), _RULES[name], known, over_blocks)


CONTROLS: tuple[WrongRule, ...] = tuple(_controls())
