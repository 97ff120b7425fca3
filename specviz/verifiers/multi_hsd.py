"""`multi_hsd`: several candidates, each judged by the joint rule of `hsd` (= `blockwise`), one after the other.

R is the row required next, at first the target's. A candidate that begins with the text kept so
far, and whose further nodes are all its own, is scanned from its leaf back, with R in place of its first row and start
weight 1, never the ratio of the kept prefix. Where it stops in front of its end, R becomes the residual row of that
stop and the next candidate is tried; a candidate kept whole ends the round. The closing token comes from R.

A node is tested at most once: retesting a shared one, or starting with the prefix's ratio, breaks the law.
Draws without replacement need nothing but the law each sibling was really drawn from.
"""

from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import Draw, Plan, PlanStop, State, Step, Test, Verifier
from specviz.probability.rows import Certain, Rows
from specviz.traits import VerifierTraits
from specviz.verifiers import _joint
from specviz.verifiers._candidates import RequiredRow, candidates, misfit, ordinals

History = tuple[tuple[int, int], ...]  # (candidate, tokens of it kept) of all that were tried


class _MultiHsd:
    """States: `("scan", history, candidate, t)` tests its first t tokens, `("close", history)` ends the round."""

    def __init__(self, draft: Draft, target_probs: Rows) -> None:
        self.draft, self.target_probs = draft, target_probs
        self.candidates = candidates(draft)
        self.spelling = draft.spelling
        self.ordinals = ordinals(draft)
        self.rows: dict[History, RequiredRow] = {}
        self.parts: dict[tuple[History, int], tuple[_joint.JointChain, _joint.WeighedChain]] = {}

    def node(self, history: History) -> int:
        """The node kept so far, by spelling."""
        length = _length(history)
        return self.spelling.first(self.candidates[history[-1][0]].nodes[length - 1]) if length else ROOT

    def following(self, history: History) -> State:
        """The state after some candidates were tried: the next usable one from its leaf, or the end."""
        text, tried = self.draft.path(self.node(history)), history[-1][0] + 1 if history else 0
        for b in range(tried, 0 if self.whole(history) else len(self.candidates)):
            if self.candidates[b].usable(text):
                return ("scan", history, b, len(self.candidates[b].nodes))
        return ("close", history)

    def open(self, state: State) -> Step:
        if state[0] == "close":
            return self.close(state[1])
        _, history, b, t = state
        return self.test(history, b, t)

    def test(self, history: History, b: int, t: int) -> Test:
        """Whether candidate b is kept up to its t-th token."""
        node, kept = self.candidates[b].nodes[t - 1], _length(history)
        weighed = self.part(history, b)[1]
        shorter = ("scan", history, b, t - 1) if t - 1 > kept else self.following((*history, (b, kept)))
        law = None if self.draft.row_of[node] < 0 else weighed.q[t - 1 - kept]
        return Test(
            node,
            weighed.keep(t - kept),
            self.following((*history, (b, t))),
            shorter,
            weighed.p[t - 1 - kept],
            law,
            self.ordinals[node],
            bool(history) and t - 1 == kept,
        )

    def part(self, history: History, b: int) -> tuple[_joint.JointChain, _joint.WeighedChain]:
        """What candidate b has behind the text kept so far, weighed from 1."""
        if (history, b) not in self.parts:
            nodes = self.candidates[b].nodes[_length(history) :]
            first = self.required(history).row if history else None
            part = _joint.chain(self.draft, nodes, self.target_probs, first)
            self.parts[history, b] = part, _joint.weigh(part)
        return self.parts[history, b]

    def required(self, history: History) -> RequiredRow:
        """The row required after some candidates were tried; normalised."""
        if not history or self.whole(history):
            return RequiredRow(self.target_probs[self.node(history) + 1])
        if history not in self.rows:
            before, (b, length) = history[:-1], history[-1]
            part, weighed = self.part(before, b)
            passed = length - _length(before)
            mass = weighed.lack[passed]
            asked = RequiredRow(part.rows[passed]) if passed else self.required(before)
            row = _joint.residual(part, weighed, passed)
            self.rows[history] = asked.after(row if isinstance(row, Certain) or not mass > 0 else row / mass, mass)
        return self.rows[history]

    def whole(self, history: History) -> bool:
        """Whether the last candidate tried was kept to its leaf."""
        return bool(history) and history[-1][1] == len(self.candidates[history[-1][0]].nodes)

    def close(self, history: History) -> Step:
        """The end of the round: bonus behind a whole candidate, else a token from what is required."""
        node = self.node(history)
        if not self.draft.has_row(node):
            return PlanStop(node)
        required = self.required(history)
        if not history or self.whole(history):
            return Draw(node, lambda: required.row, {}, "target", "bonus")
        return required.closing(node)


def _length(history: History) -> int:
    """How many tokens are kept."""
    return history[-1][1] if history else 0


def plan(draft: Draft, target_probs: Rows) -> Plan:
    """The plan over all candidates. `target_probs` `[n_fed + 1, V]`: row 0 after the root, row i + 1 after node i."""
    rule = _MultiHsd(draft, target_probs)
    return Plan(draft, rule.following(()), rule.open)


VERIFIER = Verifier(
    name="multi_hsd",
    lossless=True,
    keeps_tokens=False,
    help="several candidates one after the other, each judged jointly as by hsd; chains, caterpillar, drawn tree",
    traits=VerifierTraits(direction="backward", order="candidates", page="docs/papers/hsd.md"),
    plan=plan,
    refuses=misfit,
    layouts=("parallel", "caterpillar", "drawn_tree", "tree"),
)
