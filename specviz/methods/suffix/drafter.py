"""`suffix`: of all suffixes of the text that occurred before, the one is followed whose draft promises most.

A match of m tokens may draft `max_spec_factor * m` tokens. A path's probability is the product of the shares that its
tokens have of what followed; the sum over a draft is how many tokens it promises, and the match with the largest sum
wins, a longer one before a shorter. Matches are in this text, and in the answers to earlier queries of the run.

Only committed tokens are counted, so nothing has to be taken back when a draft fails. Which match is followed and where
a path ends is settled before a token is drawn, so drawn drafts keep their law.
"""

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter, QueryEnd
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.model.rows import Tensor
from specviz.events import DraftStep, Event, six
from specviz.knobs import Knobs
from specviz.methods.common.runner import DraftSampler, laws
from specviz.methods.suffix.counts import SuffixCounts, SuffixMatches, SuffixPosition
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import ROOT, Draft

_EDGE = 1e-9  # of a factor that is no binary fraction: 0.7 * 10 is 7


@dataclass(slots=True)
class AnswerCounts:
    """The newest answers of a run, and their counts."""

    counts: SuffixCounts
    kept: deque[list[int]]

    @classmethod
    def none(cls, depth: int) -> "AnswerCounts":
        return cls(SuffixCounts(depth), deque())

    def keep(self, answer: list[int], most: int) -> None:
        """Take in one more; the oldest leave."""
        if most:
            self.counts.begin()
            for token in answer:
                self.counts.add(token)
            self.counts.begin()
            self.kept.append(answer)
        while len(self.kept) > most:
            self.counts.forget(self.kept.popleft())


@dataclass(frozen=True, slots=True)
class SuffixStep:
    """A token that may follow: `share` of what followed there, `prob` of the path with it."""

    token: int
    count: int
    share: float
    prob: float
    place: SuffixPosition


@dataclass(frozen=True, slots=True)
class SuffixMatch:
    """A suffix that occurred before, and how far a draft may go behind it."""

    place: SuffixPosition
    most: int
    source: str  # text, answers

    @property
    def size(self) -> int:
        return self.place.depth


class Suffix(Drafter):
    """Drafts for one query; `answers` are handed on to the next."""

    def __init__(self, depth: int, mode: Mode, answers: AnswerCounts | None = None) -> None:
        self.mode = mode
        self.counts = SuffixCounts(depth)
        self.answers = answers or AnswerCounts.none(depth)
        self._others = SuffixMatches(self.answers.counts)
        self._read = 0  # tokens of the text that were counted
        self._answer: list[int] = []

    def propose(self, ctx: Context) -> Draft:
        """A chain, or the likeliest paths."""
        tree, knobs = DraftTree(ctx), ctx.knobs
        for token in ctx.tokens[self._read :]:
            self.counts.add(token)
            self._others.add(token)
        self._read = ctx.n
        length = min(knobs["max_spec_tokens"], ctx.reach)
        if not length:
            return tree.draft("length" if knobs["max_spec_tokens"] else "budget")
        match = self._best(ctx, length)
        if match is None:
            known = next(chain(self.counts.matched(), self._others.matched()), None)
            return tree.draft("no_match" if known is None else "low_conf")
        end = self._paths(ctx, tree, match) if knobs["tree"] else self._chain(ctx, tree, match)
        return tree.draft(end, shared=self.mode == "shared" and not ctx.warper.greedy)

    def _best(self, ctx: Context, length: int) -> SuffixMatch | None:
        """The match whose draft promises most tokens."""
        best, promised = None, 0.0
        for source, places in (("text", self.counts.matched()), ("answers", self._others.matched())):
            for place in places:
                most = int(ctx.knobs["max_spec_factor"] * place.depth + _EDGE)
                most = min(most, length, self.counts.depth - place.depth)
                if most <= promised:
                    continue  # no token promises more than one
                match = SuffixMatch(place, most, source)
                expected = sum(step.prob for step in _likeliest(ctx, match))
                if expected > promised:
                    best, promised = match, expected
        return best

    def _chain(self, ctx: Context, tree: DraftTree, match: SuffixMatch) -> DraftEnd:
        """Token by token, the likeliest or drawn by their counts."""
        place, prob, node = match.place, 1.0, ROOT
        sampler, bound = DraftSampler(ctx, self.mode), ctx.knobs["min_token_prob"]
        for _ in range(match.most):
            steps = _after(ctx, place, prob)
            best = _top(steps)
            if best is None:
                return "no_match"
            if best.prob < bound:
                _note(ctx, tree, node, None, best.prob)
                return "low_conf"
            if self.mode == "argmax" or ctx.warper.greedy:
                chosen, law = best, None
            else:
                law = laws(ctx, tree, [node], _scores(ctx, steps))[0]
                token = sampler.token(tree.depth(node) + 1, law)
                chosen = next(step for step in steps if step.token == token)
            parent, node = node, sampler.add(tree, node, chosen.token, law, None, **_facts(match, chosen))
            _note(ctx, tree, parent, node, best.prob)
            place, prob = chosen.place, chosen.prob
            if tree.ends(node):
                return "stop_token"
        return "full" if len(tree) == ctx.knobs["max_spec_tokens"] else "length"

    def _paths(self, ctx: Context, tree: DraftTree, match: SuffixMatch) -> DraftEnd:
        """The likeliest tokens of all paths, as many as the chain may have."""
        waiting: list[tuple[float, int, int, SuffixStep]] = []
        bound, born = ctx.knobs["min_token_prob"], 0
        parent, place, prob = ROOT, match.place, 1.0
        while True:
            if not tree.ends(parent) and place.depth < self.counts.depth:
                for step in _after(ctx, place, prob):
                    heapq.heappush(waiting, (-step.prob, born, parent, step))
                    born += 1
            if not waiting:
                return "no_match"
            _, _, parent, step = heapq.heappop(waiting)
            if step.prob < bound:
                _note(ctx, tree, parent, None, step.prob)
                return "low_conf"
            node = tree.add(step.token, parent, **_facts(match, step))
            _note(ctx, tree, parent, node, step.prob)
            if len(tree) == match.most:
                return "full" if match.most == ctx.knobs["max_spec_tokens"] else "length"
            parent, place, prob = node, step.place, step.prob

    def observe(self, seen: Observation) -> None:
        """Remember the answer."""
        if seen.outcome is not None:
            self._answer += seen.tokens

    def on_query_end(self, query: QueryEnd) -> Sequence[Event]:
        """The answer is one that later queries may repeat."""
        self.answers.keep(self._answer, query.knobs["max_cached_requests"])
        self._answer = []
        return ()

    def next_query(self, models: FactoryModels, knobs: Knobs) -> "Suffix":
        """Who drafts in the next query, with the answers so far where words are counted to the same length."""
        depth = knobs["max_tree_depth"]
        return Suffix(depth, knobs["draft_mode"], self.answers if depth == self.counts.depth else None)


def _likeliest(ctx: Context, match: SuffixMatch) -> Iterator[SuffixStep]:
    """The chain of likeliest tokens behind a match."""
    place, prob = match.place, 1.0
    for _ in range(match.most):
        best = _likeliest_after(ctx, place, prob)
        if best is None or best.prob < ctx.knobs["min_token_prob"]:
            return
        yield best
        if best.token in ctx.eos:
            return
        place, prob = best.place, best.prob


def _likeliest_after(ctx: Context, place: SuffixPosition, prob: float) -> SuffixStep | None:
    """Of what may follow the likeliest, of equals the newest; None: nothing may."""
    children = place.node.children
    if ctx.warper.banned or children is None:
        return _top(_after(ctx, place, prob))
    if not children:
        return None
    counts = [child.count for child in children.values()]  # a common word has hundreds: no object for each
    most, total = max(counts), sum(counts)
    token = next(entry for entry, child in reversed(children.items()) if child.count == most)
    after = SuffixPosition(children[token], 0, place.depth + 1)
    return SuffixStep(token, most, most / total, prob * most / total, after)


def _after(ctx: Context, place: SuffixPosition, prob: float) -> list[SuffixStep]:
    """What may follow, banned tokens left out."""
    following = place.following()
    banned = ctx.warper.banned
    if banned:
        following = [entry for entry in following if entry[0] not in banned]
    total = sum(count for _, count, _ in following)
    return [SuffixStep(token, count, count / total, prob * count / total, after) for token, count, after in following]


def _top(steps: Iterable[SuffixStep]) -> SuffixStep | None:
    """The likeliest; of equals the first, which is the newest."""
    return max(steps, key=lambda step: step.count, default=None)


def _scores(ctx: Context, steps: Sequence[SuffixStep]) -> Tensor:
    """The shares as logits `[1, V]`."""
    device = ctx.rows.model.device
    wide = torch.float32 if device.type == "mps" else torch.float64  # which such a device has not
    scores = torch.full((1, ctx.rows.model.vocab), float("-inf"), dtype=wide)
    scores[0, [step.token for step in steps]] = torch.tensor([step.share for step in steps], dtype=wide).log()
    return scores.to(device)


def _facts(match: SuffixMatch, step: SuffixStep) -> dict[str, Any]:
    of = round(step.count / step.share)
    src = {"suffix": match.size, "from": match.source, "count": step.count, "of": of, "cum": six(step.prob)}
    return {"log_conf": math.log(step.share), "src": src}


def _note(ctx: Context, tree: DraftTree, parent: int, node: int | None, prob: float) -> None:
    """Leave on record how probable a path is with the likeliest token after `parent`; `node` None: it was not taken."""
    if ctx.level == "none":
        return
    drafted = None if node is None else tree.node(node).id
    bound = ctx.knobs["min_token_prob"]
    pos = ctx.n + tree.depth(parent)
    ctx.note(DraftStep(pos=pos, node=drafted, conf=six(prob), bound=bound, stopped=node is None))


def make(models: FactoryModels, knobs: Knobs) -> Suffix:
    return Suffix(knobs["max_tree_depth"], knobs["draft_mode"])
