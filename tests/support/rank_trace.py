"""A run of `specblock` without a model: the table model is really drafted for by the real tree growing and really
verified; the rank head is a guess that is often right. With `learns`, queries end with a decision of a real bandit.

Records agree with each other: true ranks are those of the target's rows in the very distributions that made the tree.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz import events as ev
from specviz.events import Event
from specviz.methods.online.bandit import Arm, Bandit
from specviz.methods.online.bandit import BanditKnobs as BanditSetting
from specviz.methods.specblock.growth import GrowingTree, GrowthKnobs, Widths
from specviz.methods.trained.ranks import SlotCandidates
from specviz.probability.draft import ROOT, Draft
from specviz.probability.draws import Keys
from specviz.probability.plan import Outcome
from specviz.probability.rows import dense
from specviz.verifiers import get_verifier
from support.table import EOS, PROMPT, TEXTS, Recipe, Run, V, full, softmax, target_rows
from support.traces import make_header
from support.verdicts import closing_of, verdicts

CALL_NS, PASS_NS = 600_000, 2_000_000


@dataclass(frozen=True)
class Blocks:
    """What is decoded how. `surely`: how often the rank head names the true bucket."""

    method: str = "specblock"
    temperature: float = 0.0
    new_tokens: int = 24
    queries: int = 1
    seed: int = 3
    slots: int = 3
    blocks: int = 2
    widths: tuple[int, int, int, int] = (2, 4, 6, 0)
    beam: int = 5
    budget: int = 14
    trims: bool = False
    merge: bool = True
    start_cap: int = 4
    noise: float = 1.2
    surely: float = 0.7
    level: str = "full"
    learns: bool = False
    domains: tuple[str, ...] = ()  # of the queries in turn

    @property
    def recipe(self) -> Recipe:
        return Recipe(
            shape="tree",
            temperature=self.temperature,
            new_tokens=self.new_tokens,
            queries=self.queries,
            seed=self.seed,
            noise=self.noise,
            level=self.level,
            verifier="walk",
        )


def rank_events(how: Blocks | None = None, **changes: Any) -> list[Event]:
    """The records of the run, header to end."""
    how = how or Blocks(**changes)
    run, out = Run(how.recipe), []
    out.append(run.clock.stamp(_header(how), 0, 0))
    bandit = Bandit({"head": Arm(cost=0.02), "full": Arm(cost=0.2)})
    for q in range(how.queries):
        mine = list(_query(how, run, q))
        out += mine
        if how.learns:
            out.append(run.clock.stamp(_learnt(how, bandit, q, mine), q, mine[-1].r))
    out.append(run.clock.stamp(ev.End(reason="done"), out[-1].q, out[-1].r))
    kept = [e for e in out if ev.LEVELS[e.written_at] <= ev.LEVELS[how.level]]
    for i, event in enumerate(kept):
        event.i = i
    return kept


def _learnt(how: Blocks, bandit: Bandit, q: int, records: list[Event]) -> ev.Adapt:
    """What a real bandit decides after the query; an update helps a little, that of every query 3, 7, .. is harmful."""
    ends = [record for record in records if isinstance(record, ev.RoundEnd)]
    rejections = sum(end.walk_end == "rejected" for end in ends)
    length = sum(end.n_emitted for end in ends) / len(ends)
    seconds = sum(sum(end.stage_ns.values()) for end in ends) / 1e9
    bandit.served.add(length, seconds / len(ends), length * len(ends), seconds + 10)
    s = 2.0 * rejections / len(ends)
    done = bandit.decide(s, rejections, 64, BanditSetting())
    harmful = q % 4 == 3 and done.action != "skip"
    gain = None if done.action == "skip" else -0.2 if harmful else 0.1 * s
    bandit.learn(done, 0.0 if harmful else gain or 0.0, 0.03)
    arms = [
        ev.AdaptArm(
            action=view.action,
            n=bandit.arms[view.action].n,
            gain=view.gain,
            se=view.error,
            save=view.save,
            cost=view.cost,
            lcb=view.lcb,
            ucb=None if math.isinf(view.ucb) else view.ucb,
        )
        for view in done.views.values()
    ]
    return ev.Adapt(
        S=s * len(ends),
        s=s,
        n_rejections=rejections,
        action=done.action,
        reason=done.reason,
        arms=arms,
        spent=done.spent,
        budget=done.budget,
        measured_gain=gain,
        reverted=harmful,
        regret=done.regret,
        version_after=q,
        domain=how.domains[q % len(how.domains)] if how.domains else "",
        mean_acceptance_length=length,
        n_rounds=len(ends),
        n_events=64,
        coverage_before=None if gain is None else 0.5,
        coverage_after=None if gain is None else 0.5 + gain,
        update_s=None if gain is None else 0.03,
    )


def _header(how: Blocks) -> ev.Header:
    knobs: dict[str, Any] = {
        "preset": "paper",
        "node_budget": how.budget,
        "blocks": how.blocks,
        "k_max": how.beam,
        "w_max": 20,
        "widths": [",".join(map(str, how.widths))],
        "trims": "on" if how.trims else "off",
        "start_cap": how.start_cap,
        "merge": how.merge,
        "width_mode": "rank",
        "slots_used": 0,
        "d_max": -1,
    }
    return make_header(
        how.recipe,
        method=how.method,
        drafter="blocks",
        knobs=knobs,
        knob_specs=[],
        models=ev.Models(target=ev.ModelInfo(name="table", vocab=V)),
    )


def _query(how: Blocks, run: Run, q: int) -> Iterator[Event]:
    run.tokens, run.next_id = list(PROMPT), 0
    text = "".join(TEXTS[t] for t in run.tokens)
    prefill = ev.Prefill(prompt=list(PROMPT), text=text, n_prompt=len(PROMPT), seed=how.seed + q, dur_ns=5_000_000)
    yield run.clock.stamp(prefill, q, 0)
    r, finish, n_prompt = 0, None, len(PROMPT)
    while finish is None:
        r += 1
        records, finish = _Round(how, run, q, r, how.new_tokens - (len(run.tokens) - n_prompt)).records()
        for record in records:
            yield run.clock.stamp(record, q, r) if record.i < 0 else record


class _Round:
    """One round in the making."""

    def __init__(self, how: Blocks, run: Run, q: int, r: int, room: int) -> None:
        self.how, self.run, self.q, self.r, self.room = how, run, q, r, room
        self.keys = Keys(how.seed + q, r, "cdf")
        self.n = len(run.tokens)
        rule = Widths(how.widths, how.beam, 20, how.trims)
        deepest = min(how.slots * how.blocks, room - 1)
        setting = GrowthKnobs(rule, deepest, how.merge, how.start_cap, how.budget)
        self.growth = GrowingTree(setting, lambda token: token == EOS)
        self.calls = 0
        self.made: list[tuple[int, int, int]] = []  # node, block, batch

    def records(self) -> tuple[list[Event], str | None]:
        run, n = self.run, self.n
        kv = {"target": n - 1, "draft": n - 1}
        start = run.clock.stamp(ev.RoundStart(n=n, root=run.tokens[-1], knob_version=0, kv=kv), self.q, self.r)
        draft, born = self._draft()
        rows = target_rows(run, draft)
        plan = get_verifier("walk").plan(draft, rows)
        outcome = plan.walk(self.keys, n)
        tokens, kinds, finish, cut = self._emitted(draft, outcome)
        judged = verdicts(run, draft, rows, outcome, len(tokens), cut, plan, self.keys)
        closing = closing_of(run, draft, rows, outcome, cut)
        facts = self._told(draft, rows, outcome, tokens)
        run.tokens += tokens
        commit = ev.Commit(
            tokens=tokens, texts=[TEXTS[t] for t in tokens], kinds=kinds, n=len(run.tokens), finish=finish
        )
        stage = {"draft": CALL_NS * self.calls, "target": PASS_NS, "verdict": 50_000, "commit": 20_000}
        began = run.clock.now
        run.clock.now += sum(stage.values())
        end = ev.RoundEnd(
            n_drafted=len(draft),
            n_tested=sum(v.order is not None for v in judged),
            n_accepted=sum(kind == "accepted" for kind in kinds),
            n_emitted=len(tokens),
            n_draft_calls=self.calls,
            n_syncs=1,
            stage_ns=stage,
            probe_ns=10_000,
            draft_end=draft.draft_end,
            cut=cut,
            walk_end=finish or ("rejected" if outcome.kind == "recovered" else "leaf"),  # type: ignore[arg-type]
            kv={"target": len(run.tokens) - 1, "draft": len(run.tokens) - 1},
        )
        spans = [ev.Span(lane="draft", name="propose", t0=began, dur_ns=stage["draft"])] * bool(self.calls)
        spans.append(ev.Span(lane="target", name="forward", t0=began + stage["draft"], dur_ns=PASS_NS))
        return [start, *born, *facts, *judged, closing, commit, *spans, end], finish

    # Drafting -------------------------------------------------------------------------------------------------------

    def _draft(self) -> tuple[Draft, list[Event]]:
        if self.room < 2:
            return Draft(draft_end="length"), []
        self._expand([(ROOT, 1)])
        for block in range(2, self.how.blocks + 1):
            starts = [(candidate.node, block) for candidate in self.growth.starts()]
            if not starts:
                break
            self._expand(starts)
        kept = self.growth.kept()
        place = {node: k for k, node in enumerate(kept)} | {ROOT: ROOT}
        nodes, first = self.growth.nodes, self.run.next_id
        born = [self._node(number, number in place) for number in range(len(nodes))]
        self.run.next_id += len(nodes)
        draft = Draft(
            tokens=tuple(nodes[k].token for k in kept),
            parents=tuple(place[nodes[k].parent] for k in kept),
            ids=tuple(first + k for k in kept),
            n_judged=len(kept),
            n_fed=len(kept),
            row_of=(-1,) * len(kept),
            draft_end="budget" if len(kept) < len(nodes) else "full",
        )
        self.first = first
        return draft, born

    def _expand(self, level: list[tuple[int, int]]) -> None:
        self.calls += 1
        for node, block in level:
            offers, last = [], self.run.tokens[-1] if node == ROOT else self.growth.nodes[node].token
            depth = self.growth.depth(node)
            for slot in range(self.how.slots):
                offers.append(self._offer(last, self.n + depth + slot, block, slot))
                last = offers[-1].tokens[0]
            self.growth.expand(node, len(self.made), block, offers)
            self.made.append((node, block, len(level)))

    def _offer(self, last: int, pos: int, block: int, slot: int) -> SlotCandidates:
        """Farther slots see less; the rank head knows the true bucket most of the time."""
        noise = np.random.default_rng([last, pos, block, slot]).normal(size=V) * 0.4 * slot
        row = softmax(self.run.table.logits(last, pos, "draft") + noise)
        order = [int(token) for token in np.argsort(-row, kind="stable") if row[token] > 0]
        best = int(np.argmax(self.run.table.logits(last, pos, "target")))
        true = bucket(order.index(best) + 1)
        luck = np.random.default_rng([last, pos, block, slot, 7])
        guess = true if luck.random() < self.how.surely else int(luck.integers(4))
        probs = [0.1] * 4
        probs[guess] = 0.7
        logs = tuple(float(np.log(row[token])) for token in order)
        entropy = -sum(float(row[token]) * log for token, log in zip(order, logs, strict=True))
        return SlotCandidates(tuple(order), logs, guess, tuple(probs), tuple(range(15)), entropy)

    def _node(self, number: int, kept: bool) -> ev.Node:
        node, first = self.growth.nodes[number], self.run.next_id
        expansion = self.growth.expansions[node.expansion]
        offer = expansion.offer
        src = {
            "block": expansion.block,
            "slot": expansion.slot,
            "rank": node.rank,
            "cum": ev.six(node.cum),
            "merged": node.merged,
            "spine": node.is_spine,
            "start": node.start,
        }
        return ev.Node(
            node=first + number,
            parent=ROOT if node.parent == ROOT else first + node.parent,
            depth=node.depth,
            pos=self.n - 1 + node.depth,
            token=node.token,
            text=TEXTS[node.token],
            src=src,
            kept=kept,
            fed=kept,
            bytes="ff" if node.token == V - 1 else None,
            log_conf=ev.six(offer.logs[node.rank - 1]),
            mode="argmax",
            top=full(self.run, list(zip(offer.tokens[:8], map(ev.six, offer.logs[:8]), strict=True))),
        )

    # After the pass -------------------------------------------------------------------------------------------------

    def _emitted(self, draft: Draft, outcome: Outcome) -> tuple[list[int], list[Any], str | None, bool]:
        tokens = [draft.tokens[i] for i in outcome.accepted]
        kinds: list[Any] = ["accepted"] * len(tokens)
        if outcome.closing is not None:
            tokens, kinds = [*tokens, outcome.closing], [*kinds, outcome.kind]
        return tokens, kinds, "length" if len(tokens) == self.room else None, False

    def _told(self, draft: Draft, rows: Any, outcome: Outcome, tokens: list[int]) -> list[Event]:
        """Blocks, expansions with their true ranks, and the tree."""
        if not self.made:
            return []
        row_of = {ROOT: 0} | {draft.ids[k]: k + 1 for k in range(len(draft))}
        path = [ROOT, *(draft.ids[k] for k in outcome.accepted)]
        written = dict(zip(path, tokens, strict=False))
        out: list[Event] = []
        for number, (node, block, batch) in enumerate(self.made):
            chain = [(1, 0, 0)] if block > 1 else []
            out.append(
                ev.Block(
                    start=number,
                    node=self._id(node),
                    block=block,
                    chain=chain,
                    kv_len=self.n,
                    batch=batch,
                    dur_ns=CALL_NS if number == 0 or self.made[number - 1][1] != block else 0,
                )
            )
        right: dict[int, bool | None] = {}
        for number, expansion in enumerate(self.growth.expansions):
            record = self._expansion(number, rows, row_of, written)
            record.valid_prefix = so_far = right.get(expansion.start, True)
            lost = so_far is None or record.true_bucket is None
            right[expansion.start] = None if lost else so_far and record.true_rank_argmax == 1
            out.append(record)
        widths = [expansion.width.n for expansion in self.growth.expansions]
        guessed = [expansion.offer.bucket for expansion in self.growth.expansions]
        cost = 1 + self.calls * CALL_NS / PASS_NS
        out.append(
            ev.TreeMade(
                n_raw=self.growth.n_offered,
                n_merged=self.growth.n_offered - len(self.growth.nodes),
                n_kept=len(draft),
                widths=[widths.count(w) for w in range(max(widths) + 1)],
                buckets=[guessed.count(b) for b in range(4)],
                modelled_speedup=ev.six(len(tokens) / cost),
            )
        )
        return out

    def _id(self, node: int) -> int:
        return ROOT if node == ROOT else self.first + node

    def _expansion(self, number: int, rows: Any, row_of: dict[int, int], written: dict[int, int]) -> ev.Expansion:
        expansion = self.growth.expansions[number]
        offer, parent = expansion.offer, self._id(expansion.parent)
        record = ev.Expansion(
            id=number,
            parent=parent,
            block=expansion.block,
            slot=expansion.slot,
            start=expansion.start,
            bucket=offer.bucket,
            width=expansion.width.n,
            width_reason=expansion.width.reason,
            n_children=len(expansion.children),
            rank_probs=full(self.run, list(offer.rank_probs)),
            phi=full(self.run, list(offer.summary)),
            top=full(self.run, list(zip(offer.tokens, map(ev.six, offer.logs), strict=True))),
            entropy=full(self.run, offer.entropy),
        )
        if parent in row_of:
            best = int(dense(rows[row_of[parent]]).argmax())
            record.true_rank_argmax = offer.tokens.index(best) + 1
            record.true_bucket = bucket(record.true_rank_argmax)
        if parent in written:
            record.on_path, record.true_rank_emitted = True, offer.tokens.index(written[parent]) + 1
        return record


def bucket(rank: int) -> int:
    """The bucket of a 1-based rank."""
    return sum(rank > border for border in (1, 4, 10))
