"""`slack`: keep a drafted token with min(1, p/q + slack), and correct as if the rule were right. NOT lossless.

A typical speed-up by loosening, here as a control: what it costs can be computed. On case A, gamma 2, total variation
from the target is 2/3 min(slack, 1/2), 1/6 at the default; with slack 0 it is `tokenwise`.
"""

from dataclasses import replace

from specviz.knobs import Knobs, real
from specviz.probability.draft import Draft
from specviz.probability.plan import Plan, PlanOf, State, Step, Test, Verifier
from specviz.probability.rows import Rows
from specviz.traits import VerifierTraits
from specviz.verifiers import tokenwise
from specviz.verifiers._scan import misfit

DEFAULT = 0.25
KNOB = real(
    "slack",
    0,
    1,
    DEFAULT,
    "added to the keep chance p/q by verifier slack; above 0 the law of the text is another one",
    text="L",
)


def slack_plan(slack: float) -> PlanOf:
    """The plan function of one slack."""

    def plan(draft: Draft, target_probs: Rows) -> Plan:
        exact = tokenwise.plan(draft, target_probs)

        def open_step(state: State) -> Step:
            step = exact.step(state)
            return replace(step, threshold=min(1, step.threshold + slack)) if isinstance(step, Test) else step

        return Plan(draft, exact.start, open_step)

    return plan


def distance(slack: float) -> float:
    """Total variation from the target on case A, gamma 2."""
    return 2 / 3 * min(slack, 0.5)


def tuned(knobs: Knobs) -> Verifier:
    """The verifier with the slack the knobs ask for."""
    slack = float(knobs.get(KNOB.name, DEFAULT))
    return replace(VERIFIER, plan=slack_plan(slack), distance=distance(slack))


VERIFIER = Verifier(
    name="slack",
    lossless=False,
    keeps_tokens=False,
    help="keep with chance min(1, p/q + slack); not lossless, for comparison only",
    traits=VerifierTraits(adds_slack=True),
    plan=slack_plan(DEFAULT),
    refuses=misfit,
    layouts=("chain",),
    distance=distance(DEFAULT),
    knobs=(KNOB,),
    tune=tuned,
)
