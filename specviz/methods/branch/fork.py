"""SpecBranch's forking: how many branches, which tokens, how long, and drafting on in all of them at once.

There is no confidence stop in here: what of a branch is worth keeping is told when it has survived, and then by
the rows its tokens were drawn from, not by the tokens.

Which tokens begin the branches, and how many.

The set is fixed by what is known before anything is drawn there, or drawn from a law that is put on record; the
verifier then judges the tokens as siblings in this order, with no rule of its own:

* `topk`    the k likeliest, point masses: a hit iff the target's own token is among them.
* `hybrid`  the k - 1 likeliest, and one drawn from the draft law restricted to the others and renormalised.
* `swor`    k draws without replacement, each with the law that the ones before left.

Counts come from the raw softmax, draws from the processed law; mixing the two breaks greedy forks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from specviz.engine.model.rows import Tensor
from specviz.engine.row_stats import entries, largest, ranks_of
from specviz.events import BranchToken, Fork, log6, six
from specviz.events.branch import Rule
from specviz.methods.branch.model_cache import DraftModelCache
from specviz.methods.branch.round import BranchRound, DraftRow
from specviz.methods.branch.spec import AUTO_LEN, LIKELY_LEN, PARALLEL, branch_count
from specviz.methods.common.runner import prefixes, without, without_replacement
from specviz.probability.rows import Certain, Row

DrawFrom = Callable[[Row], int]


@dataclass(frozen=True, slots=True)
class BranchChoice:
    """One branch token. `law` None: it was fixed, not drawn."""

    token: int
    law: Row | None


def choose(rule: Rule, scores: Tensor, law: Row, k: int, draw: DrawFrom) -> list[BranchChoice]:
    """At most k branch tokens. `scores` `[V]` rank the allowed tokens (banned: -inf), `law` `[V]` is the draft law."""
    if rule == "swor":
        return [BranchChoice(*drawn) for drawn in without_replacement(law, k, draw)]
    fixed = _best(scores, k if rule == "topk" else k - 1)
    out = [BranchChoice(token, None) for token in fixed]
    if rule == "hybrid":
        rest = without(law, *fixed) if fixed else law
        out += [BranchChoice(*drawn) for drawn in without_replacement(rest, 1, draw)]
    return out


def _best(scores: Tensor, k: int) -> list[int]:
    if k <= 0:
        return []
    ids, values, _ = largest(None, scores, k)
    return [token for token, score in zip(ids, values, strict=True) if score > -1e300]


class BranchDrafter:
    """The branches of one flight. `target_ns`: how long the target's pass takes, as far as is known; `likely_len`: how
    much of a branch is likely to be kept, of at most so many tokens."""

    def __init__(
        self, flight: BranchRound, rows: DraftModelCache, target_ns: float | None, likely_len: Callable[[int], int]
    ) -> None:
        self.flight, self.rows, self.target_ns, self.likely_len = flight, rows, target_ns, likely_len
        self.ctx, self.tree, self.knobs = flight.ctx, flight.tree, flight.ctx.knobs

    def run(self) -> None:
        """Fork and draft, unless nothing may follow the pending tokens."""
        flight, k_max = self.flight, self.knobs.get("k_max", 1)
        pos = self.ctx.n + len(flight.pending)
        fork = Fork(pos=pos, conf=None, k_raw=None, k=0, k_max=k_max, known=False, reason=flight.reason)
        flight.note(fork)
        if self.tree.ends(flight.tip):
            fork.reason = "eos"
            return
        longest = min(self.knobs["gamma"], self.rows.reach(self.ctx) - len(flight.pending))
        if longest <= 0:
            fork.reason = "cap"
            return
        known = flight.point is not None
        look = flight.point or flight.looks(self.rows.tip(self.ctx)[None], self.rows, "fork")[0]
        k = branch_count(k_max, look.conf, len(look.raw))
        length = self._length(longest, k, known)
        fork.conf, fork.k_raw, fork.known, fork.branch_len = six(look.conf), six(k_max * (1 - look.conf)), known, length
        self._fork(fork, look, k)
        self._grow(length)
        fork.n_rows = self.rows.peak
        fork.kv_bytes = fork.n_rows * self.rows.slot_bytes
        prefix = self.ctx.n - 1 + len(flight.pending)
        fork.kv_saved = max(0, fork.k - 1) * prefix * self.rows.slot_bytes

    def _length(self, longest: int, k: int, known: bool) -> int:
        """Tokens per branch, fixed before anything is drawn: by knob, room, free slots, what was kept so far, or the
        target's usual time.

        A timed length keeps the law; but two runs may draft differently, and only `walk` then gives the same tokens.
        """
        asked = self.knobs.get("branch_len", PARALLEL)
        if asked == AUTO_LEN and self.target_ns is not None:
            first, row_ns = self.rows.typical_ns(1), self.rows.typical_ns(k)
            if first is not None and row_ns is not None:
                asked = auto_branch_len(self.target_ns, first, row_ns, known)
        if asked == LIKELY_LEN:
            asked = self.likely_len(longest)
        wanted = longest if asked in (AUTO_LEN, PARALLEL) else min(longest, asked)
        return max(1, min(wanted, 1 + self.rows.free(len(self.flight.pending)) // k))

    @property
    def rule(self) -> Rule:
        """The match rule of this round; where nothing is drawn all three are `topk`."""
        if self.ctx.warper.greedy or self.flight.mode == "argmax":
            return "topk"
        asked: str = self.knobs.get("branch_rule", "hybrid")
        return "topk" if asked == "topk" else "swor" if asked == "swor" else "hybrid"

    def _fork(self, fork: Fork, look: DraftRow, k: int) -> None:
        """Place the branch tokens behind the last pending one; they are not fed to the target."""
        flight, tip = self.flight, self.flight.tip
        law = flight.law([tip], [look])[0]
        scores = self.ctx.warper.allowed(look.raw[None], prefixes(self.ctx, self.tree, [tip]))[0]
        depth = self.tree.depth(tip) + 1
        flight.rule = self.rule
        choices = choose(flight.rule, scores, law, k, lambda row: flight.sampler.token(depth, row))
        for b, choice in enumerate(choices):
            node = flight.add(choice.token, tip, choice.law, look, len(choices), b)
            self.tree.unfed.add(node)
            flight.branches.append([node])
        fork.k = len(choices)
        if flight.recorded:
            taken = [*dict.fromkeys(choice.token for choice in choices)]
            ranks = dict(zip(taken, ranks_of(scores[None], [0] * len(taken), taken), strict=True))
            logs = dict(zip(taken, map(log6, entries(law, taken)), strict=True))
            fork.branches = [self._told(b, choice, ranks, logs) for b, choice in enumerate(choices)]

    def _told(self, branch: int, choice: BranchChoice, ranks: dict[int, int], logs: dict[int, float]) -> BranchToken:
        node = self.tree.node(self.flight.branches[branch][0]).id
        is_drawn = choice.law is not None and not isinstance(choice.law, Certain)
        return BranchToken(
            branch=branch,
            node=node,
            token=choice.token,
            logq=logs[choice.token],
            rank=ranks[choice.token],
            kind="drawn" if is_drawn else "top",
        )

    def _grow(self, length: int) -> None:
        """Draft on in all branches, one forward a level, until they are long enough or have ended."""
        flight, tree = self.flight, self.tree
        for level in range(1, length):
            live = [b for b, nodes in enumerate(flight.branches) if len(nodes) == level and not tree.ends(nodes[-1])]
            if not live:
                return
            ends = [flight.branches[b][-1] for b in live]
            logits = self.rows.expand(self.ctx, tree, ends)
            looks = flight.looks(logits, self.rows, f"branch x{len(live)}")
            for b, end, look, law in zip(live, ends, looks, flight.law(ends, looks), strict=True):
                node = flight.add(flight.sampler.token(tree.depth(end) + 1, law), end, law, look, len(live), b)
                flight.branches[b].append(node)
                flight.step(node, look, None, b)


def auto_branch_len(target_s: float, first_s: float, step_s: float, known: bool) -> int:
    """The branch length that fills the target's pass and no more: `1 + floor((tau_p - [unknown] tau_q(1))/tau_q(k))`.

    `first_s` is the forward that finds the branch point's law when it is not `known`. At least 1, the branch token.
    """
    spare = target_s - (0.0 if known else first_s)
    return 1 + max(0, math.floor(spare / step_s + 1e-9))
