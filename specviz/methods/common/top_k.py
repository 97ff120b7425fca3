"""What a round leaves on record whose drafting ends after a weak draft: one `draft_step` for each draft.

Kangaroo's rows are the target's, so their climbs and the cost of the round stand beside, as for every early exit. There
are no gates: no row is declined.
"""

from collections.abc import Iterable, Iterator

from specviz.engine.decode.context import Observation
from specviz.events import DraftStep, six
from specviz.methods.early_exit.recorder import Look, Trail

TOP = 8


def steps(looks: Iterable[Look], first_pos: int, bound: float, ids: Iterable[int], full: bool) -> Iterator[DraftStep]:
    """A record for each look, in the order of the chain. `ids`: of the drafted nodes; `first_pos`: of the first."""
    for k, (look, node) in enumerate(zip(looks, ids, strict=True)):
        yield DraftStep(
            pos=first_pos + k, node=node, conf=look.raw, bound=bound, stopped=look.raw < bound,
            entropy=None if look.entropy is None else six(look.entropy), top=_top(look) if full else None,
        )  # fmt: skip


def _top(look: Look) -> list[tuple[int, float]]:
    logs = look.logits[0].double().log_softmax(-1).topk(min(TOP, look.logits.shape[-1]))
    return [(token, six(log)) for token, log in zip(logs.indices.tolist(), logs.values.tolist(), strict=True)]


class Steps(Trail):
    """The record of a Kangaroo round in the making."""

    def close(self, seen: Observation) -> None:
        """Note climbs, drafts and costs, in this order."""
        if not self.on:
            return
        for climb in self._climbs():
            self.ctx.note(climb)
        looks = [test.look for test in self.tests]
        for step in steps(looks, self.ctx.n, self.limits.tau, seen.draft.ids, self.full):
            self.ctx.note(step)
        self.ctx.note(self._cost(seen))
