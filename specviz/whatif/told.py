"""What the run's own verifier met, read off the record for a plan that is walked again.

Thresholds and tokens at the states it came through are those of the record, to the last digit. And a token that was
drawn from the target's row with the stream that is keyed by the position alone is the token that any rule draws there.
"""

from typing import Any

from specviz.events import Verify
from specviz.probability.draft import ROOT
from specviz.probability.plan import PlanStop, State, Step, Test
from specviz.whatif.decide import MergedPlan
from specviz.whatif.recorded import UNKNOWN_TOKEN, follows


def remember(own: MergedPlan) -> None:
    """Read off the record what its verifier met, by the states of that verifier's own plan on the whole draft."""
    _Recorded(own).follow()


def remember_draws(merged: MergedPlan, own: MergedPlan) -> None:
    """Tell another plan what the recorded one drew from the target's own rows: the same token there for any rule."""
    ids, theirs = own.small.drafts[0].ids, merged.small.drafts[0].ids
    place = {i: k for k, i in enumerate(theirs)}
    names = {token: k for k, token in enumerate(merged.small.tokens)}
    for node, token in own.plain_tokens.items():
        if node == ROOT or ids[node] in place:
            merged.plain_tokens[node if node == ROOT else place[ids[node]]] = names[own.small.name(token)]
    for node, (token, low, high) in own.plain_edges.items():
        if ids[node] in place:
            merged.plain_edges[place[ids[node]]] = (names[own.small.name(token)], low, high)


def remember_text(merged: MergedPlan) -> None:
    """The same of the whole text, where the run's verifier draws every token so; not where its law was moved."""
    of, draft = merged.of, merged.small.drafts[0]
    commit = of.record.commit
    text = follows(of.record) if not of.run.mixed else tuple(commit.tokens if commit is not None else ())
    names = {token: k for k, token in enumerate(merged.small.tokens)}
    for node in range(ROOT, draft.n_fed):
        path = tuple(merged.small.name(token) for token in draft.path(node))
        if len(path) < len(text) and path == text[: len(path)]:
            merged.plain_tokens.setdefault(node, names[text[len(path)]])


class _Recorded:
    """The recorded walk, state by state."""

    def __init__(self, merged: MergedPlan) -> None:
        self.merged, self.draft = merged, merged.small.drafts[0]
        record = merged.of.record
        numbers = {i: k for k, i in enumerate(self.draft.ids)}
        self.made: dict[int, Verify] = {}  # by the node that was tested
        self.implied: dict[int, Verify] = {}
        for verdict in record.verdicts.values():
            tested = numbers.get(verdict.node if verdict.judged is None else verdict.judged)
            if tested is not None and verdict.kind == "test" and verdict.thr is not None:
                (self.made if verdict.order is not None else self.implied)[tested] = verdict
        place = {token: k for k, token in enumerate(merged.small.tokens)}
        self.committed = [place.get(token, UNKNOWN_TOKEN) for token in (record.commit.tokens if record.commit else [])]
        self.closing = record.closing
        for i, node in numbers.items():
            interval = record.verdicts[i].interval
            if interval is not None and record.verdicts[i].kind == "draw":
                merged.plain_edges[node] = (self.draft.tokens[node], *interval)

    def follow(self) -> None:
        """Through the states the recorded walk came to, as far as the record goes."""
        merged = self.merged
        steps: dict[State, Step] = {}

        def step(state: State) -> Step:
            if state not in steps:
                steps[state] = merged.open(state)
            return steps[state]

        state: State = merged.plans[0].start
        while not isinstance(now := step(state), PlanStop):
            if isinstance(now, Test):
                verdict = self.made.get(now.node)
                if verdict is None or verdict.thr is None or verdict.u is None:
                    return
                merged.told[state] = verdict.thr
                if verdict.u < verdict.thr:
                    self._implied(now, step)
                    state = now.kept
                else:
                    state = now.failed
                continue
            depth = merged.plan.depth(now.node)
            if depth >= len(self.committed) or self.committed[depth] == UNKNOWN_TOKEN:
                return
            token = self.committed[depth]
            merged.tokens[state] = token
            if now.stream == "target":
                merged.plain_tokens[now.node] = token
            if token not in now.edges:
                return
            state = now.edges[token][1]

    def _implied(self, now: Test, step: Any) -> None:
        """The tests that a backward scan would have gone on to had this one failed."""
        node, state = now.node, now.failed
        while isinstance(then := step(state), Test) and then.node == self.draft.parents[node]:
            verdict = self.implied.get(then.node)
            if verdict is not None and verdict.thr is not None:
                self.merged.told[state] = verdict.thr
            node, state = then.node, then.failed
