"""`NodeContext`: everything a sentence about one drafted node may use, looked up once. Only recorded fields, unknown is
None.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from specviz.events import DraftStep, Node, Verify, prob
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.text import quoted, running, shown
from specviz.trace.rules import unlike_ours
from specviz.traits import VerifierTraits
from specviz.view.frame.frame import Values
from specviz.view.words.numbers import joint
from specviz.view.words.palette import ROOT

if TYPE_CHECKING:
    from specviz.metrics.replay_rules import ChainPosition


NO_CHAIN = "run with --method draft --temperature 1 --verifier hsd --level full"

_ENDLESS = 1e8  # a log that stands for infinity: JSON has none


@dataclass(frozen=True, slots=True)
class Path:
    """One drawn chain, root to leaf. `number` counts from 1 of `count` candidates."""

    links: "tuple[ChainPosition, ...]"
    number: int
    count: int

    def link(self, node: int) -> "ChainPosition | None":
        return next((link for link in self.links if link.node == node), None)


def paths(run: Run, tree: RoundTree) -> tuple[Path, ...]:
    """Every drawn chain of the round, in the order of its leaf's id; worked out once."""
    if "paths" not in tree.known:
        tree.known["paths"] = tuple(_paths(run, tree))
    drawn_paths: tuple[Path, ...] = tree.known["paths"]
    return drawn_paths


def _paths(run: Run, tree: RoundTree) -> list[Path]:
    from specviz.metrics.replay_rules import links

    kept, record = tree.kept_nodes, tree.record
    leaves = [i for i in kept if not any(child in kept for child in tree.children.get(i, ()))]
    drawn = [tree.path(i) for i in leaves]
    drawn = [p for p in drawn if all(kept[i].mode == "sampled" and kept[i].logq is not None for i in p if i in kept)]
    seed = record.query.prefill.seed if record.query.prefill else None
    key = None if seed is None else (seed, record.r)
    verdicts = _with_p(tree)
    chains = [
        links([kept[i] for i in p if i in kept], verdicts, record.chains, run.rule.replays_as, key, tree.ordinals)
        for p in drawn
    ]
    return [Path(chain, k, len(chains)) for k, chain in enumerate(chains, 1) if chain]


def _with_p(tree: RoundTree) -> Mapping[int, Verify]:
    """The verdicts with the target's own p, which older traces overwrote where a sibling had failed before."""
    verdicts = tree.record.verdicts
    known = {i: tree.log_p(i) for i in verdicts if i in tree.nodes}
    return {
        i: v if known.get(i, v.logp) == v.logp else msgspec.structs.replace(v, logp=known[i])
        for i, v in verdicts.items()
    }


def looked_at(run: Run, tree: RoundTree, selected: int | None) -> Path | None:
    """The chain of the selected node; else the one that was kept; else the first."""
    every = paths(run, tree)
    for node in (selected, tree.stop):
        if node is not None and node != ROOT:
            through = next((path for path in every if path.link(node) is not None), None)
            if through is not None:
                return through
    return every[0] if every else None


def n_carried(tree: RoundTree, n_kept: int, length: int) -> int:
    """Carried rounds after naive HSD kept `n_kept` tokens of a draft."""
    return max(0, tree.planned(length) - n_kept - 1) if n_kept < length else 0


def carried(log_ratio: float) -> str:
    """The ratio of a carried round; infinite after a token that the draft could not have drawn."""
    return joint(math.inf if abs(log_ratio) > _ENDLESS else log_ratio)


def why_no_chain(run: Run, tree: RoundTree) -> str:
    """Why there is no chain to scan in this round, and what to run instead."""
    record = tree.record
    if missing := run.missing(record):
        return f"{missing}. To see a scan, {NO_CHAIN}."
    if record.start.carry is not None:
        return (
            "A carried round of naive HSD: nothing is drafted, and the token is drawn from max(0, R·p − q), "
            f"R {carried(record.start.carry)} being the joint ratio of what was written since the draft began."
        )
    outside = run.header.outside if run.header is not None else None
    if outside is not None and outside.known != "probabilities":
        return (
            f"Of this run of {running(outside.engine)} {outside.known} are known: a scan needs p and q of every token."
        )
    if run.method_traits.plain:
        return f"Plain decoding drafts nothing: {NO_CHAIN}."
    if record.temperature == 0:
        return f"Temperature 0: nothing is drawn, so there is no ratio to scan. To see one, {NO_CHAIN}."
    if not tree.kept_nodes:
        return "Nothing was drafted in this round."
    if any(node.mode == "shared" for node in tree.kept_nodes.values()):
        return f"This draft was drawn with the target's own noise, so no ratio decides it. To see a scan, {NO_CHAIN}."
    if any(node.mode == "sampled" for node in tree.kept_nodes.values()):
        return "The draft has not been judged yet." if not record.verdicts else f"No chain on record: {NO_CHAIN}."
    return f"This run has no sampled chain (its drafts are the drafter's likeliest tokens): {NO_CHAIN}."


@dataclass(frozen=True, slots=True)
class PlaceTaker:
    """The token committed at the node's position instead of it."""

    token: str
    by: Literal["sibling", "closing"]
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Blocker:
    """The nearest ancestor that is not in the text, `levels` up, and what took its place."""

    token: str
    levels: int
    rejected: bool
    taker: PlaceTaker | None


@dataclass(frozen=True, slots=True)
class NodeContext:
    """A drafted node with its verdict and its neighbours."""

    node: Node
    verdict: Verify | None
    token: str
    depth: int
    values: Values
    greedy: bool
    drawn: bool  # sampled from a recorded law; else a point mass
    backward: bool
    verifier: str
    rule: VerifierTraits
    n_failed: int  # siblings that were tested before it and failed
    n_tests: int
    n_below: int  # drafted nodes under it that were never tested
    taker: PlaceTaker | None
    blocker: Blocker | None
    stop_depth: int
    n_siblings: int
    budget: int | None
    finish: str | None
    raw_p: float | None  # before temperature 0, when it is among the recorded entries
    raw_least: float | None  # the smallest recorded entry: what is not recorded lies below it
    cuts: bool  # top-k, top-p or min-p is on: a probability of 0 may come from them
    link: "ChainPosition | None"  # its place in a drawn chain
    first_scan: bool  # nothing off that chain was tested before it: only the target's own rows, and weight 1, count
    length: int  # of that chain
    n_carried: int  # carried rounds of naive HSD if the scan stops here
    fate: str | None = None  # told in this round, of a token drafted beside the target's pass
    ahead: bool = False  # drafted beside the target's pass: a later round judges it
    judged: int | None = None  # the twin whose test decided for it
    stands_for: int | None = None  # the kept twin that carries this node's test
    twin: str | None = None  # the kept one of several nodes that spell its text, when it is another
    own_test: Verify | None = None  # the test that was made on it, where a twin carries it
    elsewhere: bool = False  # decided by another engine
    how: str = ""  # the rule of another engine, in words: no verifier here decides alike
    cut: DraftStep | None = None  # the look that ended the draft before this token, which had been filled all the same

    @property
    def mass(self) -> float | None:
        """What its test compared with q: what failed siblings left of it, else p."""
        return self.values.p if self.values.left is None else self.values.left


def values(tree: RoundTree, node: int, *, with_p: bool = True) -> Values:
    """The numbers of a drafted node, linear. Without p: before the target's pass."""
    born, verdict = tree.nodes[node], tree.record.verdicts.get(node) if with_p else None
    q, conf = prob(born.logq), prob(born.log_conf)
    if verdict is None:
        return Values(q=q, conf=conf, point_mass=q is None and born.mode != "sampled")
    p, q = tree.p(node), q if q is not None else prob(verdict.logq)
    lo, hi = verdict.interval or (None, None)
    return Values(
        p=p,
        q=q,
        ratio=p / q if p is not None and q else None,
        u=verdict.u,
        thr=verdict.thr,
        rank=verdict.rank_p,
        conf=conf,
        lo=lo,
        hi=hi,
        point_mass=q is None and born.mode != "sampled",
        left=tree.left(node),
    )


def case(run: Run, tree: RoundTree, node: int) -> NodeContext:
    record, born = tree.record, tree.nodes[node]
    verdict = record.verdicts.get(node)
    verifier = run.header.verifier if run.header else ""
    numbers = values(tree, node)
    carrier = tree.stands_for(node) if verdict else None
    kept_twin = next((i for i in tree.twins(node) if i in tree.accepted), None)
    top = tree.top(node)
    path = looked_at(run, tree, node) if numbers.q is not None else None
    link = path.link(node) if path is not None else None
    return NodeContext(
        node=born,
        verdict=verdict,
        token=quoted(born.text, born.bytes),
        depth=tree.depth[node],
        values=numbers,
        greedy=record.temperature == 0,
        drawn=numbers.q is not None,
        backward=run.backward,
        verifier=verifier,
        rule=run.rule,
        n_failed=tree.failed_before(node) if verdict else 0,
        n_tests=len(tree.tests),
        n_below=never_tested(tree, node),
        taker=taker(run, tree, node),
        blocker=blocker(run, tree, node),
        stop_depth=tree.depth.get(tree.stop, 0),
        n_siblings=len(tree.siblings(node)) - 1,
        budget=_budget(record),
        finish=record.commit.finish if record.commit else None,
        raw_p=tree.raw_p(node),
        raw_least=prob(top[-1][1]) if top else None,
        cuts=any(
            isinstance(value := record.knobs.get(name), int | float) and value != off
            for name, off in (("top_k", 0), ("top_p", 1), ("min_p", 0))
        ),
        fate=tree.settled.get(node),
        ahead=tree.ahead(node),
        first_scan=path is not None and _first_scan(tree, node, path),
        judged=tree.judged(node),
        stands_for=carrier,
        twin=None if kept_twin is None else f"n{kept_twin}",
        own_test=record.verdicts.get(carrier) if carrier is not None else None,
        link=link,
        length=len(path.links) if path is not None else 0,
        n_carried=n_carried(tree, link.t, len(path.links)) if path is not None and link is not None else 0,
        elsewhere=run.header is not None and run.header.outside is not None,
        how=foreign_rule(run),
        cut=None if born.kept else cut_before(record, born),
    )


def foreign_rule(run: Run) -> str:
    """What decided, in words, where that is a rule of another engine which no verifier here stands for."""
    header = run.header
    if header is None or header.outside is None or unlike_ours(header.verifier) is None:
        return ""
    return header.outside.how


def _first_scan(tree: RoundTree, node: int, path: Path) -> bool:
    """Whether every test before a node's was on its own chain: then no earlier candidate had changed row or weight."""
    verdict = tree.record.verdicts.get(node)
    order = verdict.order if verdict else None
    if order is None:
        return False
    return all(path.link(v.node) is not None for v in tree.tests if (v.order or 0) < order)


def never_tested(tree: RoundTree, node: int) -> int:
    """Nodes below that the target saw for nothing; a backward scan has tested them before."""
    verdicts = tree.record.verdicts
    below = (i for i in tree.descendants(node) if tree.nodes[i].kept and not tree.ahead(i))
    return sum(i not in verdicts or verdicts[i].status == "untested" for i in below)


def taker(run: Run, tree: RoundTree, node: int) -> PlaceTaker | None:
    """The token committed at the position of `node`: a kept sibling, or the closing token."""
    sibling = tree.kept_sibling(node)
    if sibling is not None:
        verdict = tree.record.verdicts[sibling]
        born = tree.nodes[sibling]
        return PlaceTaker(quoted(born.text, born.bytes), "sibling", verdict.interval)
    closing = tree.record.closing
    if closing is None or closing.token is None or node in tree.accepted or not tree.same_row(node):
        return None
    return PlaceTaker(run.name(closing.token), "closing", closing.interval)


def blocker(run: Run, tree: RoundTree, node: int) -> Blocker | None:
    """The topmost ancestor that did not make it into the text: there the text went another way."""
    lost = None
    for levels, ancestor in enumerate(tree.ancestors(node), 1):
        verdict = tree.record.verdicts.get(ancestor)
        if ancestor in tree.accepted or verdict is None:
            continue
        born = tree.nodes[ancestor]
        rejected = verdict.status == "rejected"
        lost = Blocker(quoted(born.text, born.bytes), levels, rejected, taker(run, tree, ancestor))
    return lost


def title(run: Run, tree: RoundTree, node: int) -> str:
    """`n14 "▁mat"`, or the root or closing token by its role."""
    if node == ROOT:
        return f'root "{run.word(tree.record.start.root)}"'
    born = tree.nodes[node]
    return f'n{node} "{shown(born.text, born.bytes)}"'


def cut_before(record: RoundRecord, node: Node) -> DraftStep | None:
    """The look at which the draft of a node that was never sent had stopped; None where none did."""
    looks = (look for look in record.every(DraftStep) if look.branch == node.branch)
    return next((look for look in looks if look.stopped and look.pos <= node.pos), None)


def _budget(record: RoundRecord) -> int | None:
    """The nodes that may be sent; -1 stands for a preset's, which is what was sent where any were pruned."""
    value = record.knobs.get("node_budget")
    if not isinstance(value, int):
        return None
    return record.tree.n_kept if value < 0 and record.tree is not None else value
