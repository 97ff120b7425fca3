"""Synthetic event streams that are true: a table model of 16 tokens is really decoded by the real verifiers.

`make_events(Recipe(..))` gives the records of one run, header to end, as the core would write them; every decision can be
decided again from them. `write_trace(path, events)` puts them into a file through the recorder. `plain_round` builds the
records of level `none` for tests that work out numbers by hand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from specviz import events as ev
from specviz.draft import ROOT, Draft
from specviz.events import Event
from specviz.keys import Keys, interval
from specviz.laws import Certain, CertainRows, at, dense
from specviz.plan import DrawResult, Outcome, TestResult
from specviz.verifiers import get_verifier

Row = Any  # [V]
# Token 0 ends the text. A newline, a wide character, markup and an escape sequence are there on purpose: text is hostile.
TEXTS = (
    "<|end|>",
    " the",
    " cat",
    " sat",
    " on",
    "\n",
    "def",
    " f",
    "(",
    "x",
    "):",
    " 猫",
    "[red]",
    " \x1b[31m",
    " 1",
    "�",
)
EOS, V = 0, len(TEXTS)
PROMPT = (6, 7, 8, 9, 10, 5)


@dataclass(frozen=True)
class Recipe:
    """What to decode. `seed` keys all draws; `noise` is how far the draft model is from the target."""

    shape: str = "chain"  # chain | tree | none (plain decoding)
    temperature: float = 0.0
    verifier: str | None = None  # None: the default of the contract
    new_tokens: int = 24
    queries: int = 1
    seed: int = 0
    gamma: int = 4
    noise: float = 0.8
    draw: str = "cdf"
    level: str = "full"
    stops: bool = False  # the end token may come
    knob_at: int | None = None  # a gamma change takes effect in this round
    reason: str = "done"

    @property
    def rule(self) -> str:
        """The verifier that judges."""
        sampled = self.shape == "chain" and self.temperature > 0
        return self.verifier or ("tokenwise" if sampled else "walk")


@dataclass
class Table:
    """Target and draft logits as fixed functions of (last token, position)."""

    recipe: Recipe

    def logits(self, token: int, pos: int, model: str) -> Row:
        """Raw logits `[V]` for the token after `token` at `pos`."""
        rng = np.random.default_rng([token, pos % 7, 99])
        base = rng.normal(size=V) * 2
        base[EOS] = 0.5 if self.recipe.stops else -1e9
        if model == "draft":
            return base + rng.normal(size=V) * self.recipe.noise
        return base

    def law(self, token: int, pos: int, model: str) -> Row:
        """The warped law: what is sampled from."""
        logits = self.logits(token, pos, model)
        if self.recipe.temperature == 0:
            return Certain(int(logits.argmax()), V)
        return softmax(logits / self.recipe.temperature)


def softmax(logits: Row) -> Row:
    """`[V]` probabilities."""
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@dataclass
class Clock:
    """Nanoseconds that only go on when told to."""

    now: int = 1_000_000_000
    count: int = 0

    def stamp(self, event: Event, q: int, r: int) -> Event:
        """The event with its number, time, query and round."""
        event.i, event.t, event.q, event.r = self.count, self.now, q, r
        self.count += 1
        return event


@dataclass
class Run:
    """A run in the making: the events so far and what the next round needs."""

    recipe: Recipe
    clock: Clock = field(default_factory=Clock)
    tokens: list[int] = field(default_factory=list)
    next_id: int = 0
    gamma: int = 4
    version: int = 0

    def __post_init__(self) -> None:
        self.table, self.gamma = Table(self.recipe), self.recipe.gamma


def make_events(recipe: Recipe | None = None, **changes: Any) -> list[Event]:
    """The records of a whole run, header to end (without `n_lines` and `sha256`, which the recorder adds)."""
    recipe = recipe or Recipe(**changes)
    run = Run(recipe)
    out = [run.clock.stamp(make_header(recipe), 0, 0)]
    for q in range(recipe.queries):
        out += _query(run, q)
    out.append(run.clock.stamp(ev.End(reason=recipe.reason), out[-1].q, out[-1].r))
    kept = [e for e in out if ev.LEVELS[ev.LEVEL_OF.get(type(e), "none")] <= ev.LEVELS[recipe.level]]
    for i, event in enumerate(kept):
        event.i = i
    return kept


def make_header(recipe: Recipe | None = None, **changes: Any) -> ev.Header:
    """A header; keyword arguments replace fields."""
    from specviz.methods import get_method

    recipe = recipe or Recipe()
    method = "ar" if recipe.shape == "none" else "draft"
    table = get_method(method).table
    own = (
        {}
        if method == "ar"
        else {"shape": recipe.shape, "gamma": recipe.gamma, "d_max": 3, "k_max": 3, "w_max": 2, "node_budget": 8}
    )
    knobs = table.knobs({**own, "temperature": recipe.temperature, "seed": recipe.seed, "draw": recipe.draw}).values
    sampling = {k: knobs[k] for k in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "draw", "seed")}
    models = ev.Models(
        target=ev.ModelInfo(name="table", vocab=V), draft=None if method == "ar" else ev.ModelInfo(name="table-draft")
    )
    values: dict[str, Any] = dict(
        schema=ev.SCHEMA, v=ev.VERSION, run="factory", wall="2026-01-01T00:00:00Z", method=method, drafter=method,
        verifier=recipe.rule, lanes="serial", lossless=True, keeps_tokens=recipe.rule == "walk", models=models,
        knobs=dict(knobs), knob_specs=list(table.specs), sampling=sampling, level=recipe.level,
    )  # fmt: skip
    return ev.Header(**{**values, **changes})


def _query(run: Run, q: int) -> Iterator[Event]:
    recipe, clock = run.recipe, run.clock
    run.tokens, run.next_id = [*PROMPT[: len(PROMPT) - q % 2]], 0
    n_prompt, r, finish = len(run.tokens), 0, None
    clock.now += 5_000_000
    text = "".join(TEXTS[t] for t in run.tokens)
    yield clock.stamp(
        ev.Prefill(prompt=list(run.tokens), text=text, n_prompt=n_prompt, seed=recipe.seed + q, dur_ns=5_000_000), q, 0
    )
    while finish is None:
        r += 1
        if r == recipe.knob_at:
            run.version += 1
            knob = ev.Knob(name="gamma", old=run.gamma, new=run.gamma + 2, requested_r=r - 1, applied_r=r)
            run.gamma += 2
            yield clock.stamp(knob, q, r)
        room = recipe.new_tokens - (len(run.tokens) - n_prompt)
        records, finish = _round(run, q, r, room)
        for record in records:
            yield clock.stamp(record, q, r) if record.i < 0 else record


def _round(run: Run, q: int, r: int, room: int) -> tuple[list[Event], ev.End | str | None]:
    recipe, n, clock = run.recipe, len(run.tokens), run.clock
    keys = Keys(recipe.seed + q, r, recipe.draw)  # type: ignore[arg-type]
    start = clock.stamp(
        ev.RoundStart(n=n, root=run.tokens[-1], knob_version=run.version, kv={"target": n - 1, "draft": n - 1}), q, r
    )
    draft, born = _draft(run, keys, room - 1)
    rows = _target_rows(run, draft)
    outcome = get_verifier(recipe.rule).plan(draft, rows).walk(keys, n)
    tokens, kinds, finish, cut = _emitted(draft, outcome, room)
    started, steps = clock.now, max(draft.depths, default=0)
    stage = {"draft": 300_000 * steps, "target": 2_000_000, "verdict": 50_000, "commit": 20_000, "other": 30_000}
    clock.now += sum(stage.values())
    verdicts = _verdicts(run, draft, rows, outcome, len(tokens), cut)
    closing = _closing(run, draft, rows, outcome, cut)
    run.tokens += tokens
    commit = ev.Commit(tokens=tokens, texts=[TEXTS[t] for t in tokens], kinds=kinds, n=len(run.tokens), finish=finish)
    n_accepted = sum(k == "accepted" for k in kinds)
    walk_end = finish or ("rejected" if outcome.kind == "recovered" else "leaf")
    end = ev.RoundEnd(
        n_drafted=len(draft), n_tested=sum(v.order is not None for v in verdicts), n_accepted=n_accepted,
        n_emitted=len(tokens), n_draft_calls=steps, n_syncs=1, stage_ns=stage, probe_ns=10_000, draft_end=draft.draft_end,
        walk_end=walk_end, cut=cut, kv={"target": len(run.tokens) - 1, "draft": len(run.tokens) - 1},
    )  # fmt: skip
    spans = [ev.Span(lane="target", name="forward", t0=started + stage["draft"], dur_ns=stage["target"])]
    if steps:
        spans.insert(0, ev.Span(lane="draft", name="propose", t0=started, dur_ns=stage["draft"]))
    return [start, *born, *verdicts, closing, commit, *spans, end], finish


def _draft(run: Run, keys: Keys, room: int) -> tuple[Draft, list[Event]]:
    if run.recipe.shape == "none" or room < 1:
        return Draft(draft_end="length"), []
    build = _chain if run.recipe.shape == "chain" else _tree
    draft, born = build(run, keys, room)
    run.next_id += len(born)
    return draft, born


def _chain(run: Run, keys: Keys, room: int) -> tuple[Draft, list[Event]]:
    n, last, laws, tokens, born = len(run.tokens), run.tokens[-1], [], [], []
    sampled = run.recipe.temperature > 0 and run.recipe.rule == "tokenwise"
    for k in range(min(run.gamma, room)):
        law, raw = run.table.law(last, n + k, "draft"), softmax(run.table.logits(last, n + k, "draft"))
        last = keys.draw("draft", n + k, law).token if sampled else int(raw.argmax())
        laws.append(dense(law))
        tokens.append(last)
        logq = ev.log6(at(law, last)) if sampled else None
        born.append(_node(run, len(tokens) - 1, k - 1, k + 1, last, raw, logq, "sampled" if sampled else "argmax"))
    count = len(tokens)
    return Draft(
        tokens=tuple(tokens), parents=tuple(range(-1, count - 1)), ids=tuple(e.node for e in born), n_judged=count, n_fed=count,
        law_rows=np.array(laws) if sampled else None, row_of=tuple(range(count)) if sampled else (-1,) * count,
        draft_end="full" if count == run.gamma else "length",
    ), born  # fmt: skip


def _tree(run: Run, keys: Keys, room: int) -> tuple[Draft, list[Event]]:
    """Top 3 of the root, then 2 children of the best 3 nodes a level, 3 levels; the best 8 by joint probability stay."""
    n, rows, level = len(run.tokens), [], [(-1, 0.0, run.tokens[-1])]
    for depth in range(1, min(3, room) + 1):
        grown = []
        for parent, cum, last in level:
            raw = softmax(run.table.logits(last, n + depth - 1, "draft"))
            for token in np.argsort(-raw, kind="stable")[: 3 if depth == 1 else 2]:
                grown.append((len(rows), cum + float(np.log(raw[token])), int(token)))
                rows.append((parent, depth, int(token), raw, grown[-1][1]))
        level = sorted(grown, key=lambda g: (-g[1], g[0]))[:3]
    kept = sorted(sorted(range(len(rows)), key=lambda i: (-rows[i][4], rows[i][1], i))[:8])
    place = {node: k for k, node in enumerate(kept)} | {ROOT: ROOT}
    born = [
        _node(run, i, parent, d, t, raw, None, "argmax", i in place) for i, (parent, d, t, raw, _) in enumerate(rows)
    ]
    draft = Draft(
        tokens=tuple(rows[i][2] for i in kept), parents=tuple(place[rows[i][0]] for i in kept),
        ids=tuple(born[i].node for i in kept), n_judged=len(kept), n_fed=len(kept), row_of=(-1,) * len(kept),
    )  # fmt: skip
    return draft, born


def _node(
    run: Run,
    number: int,
    parent: int,
    depth: int,
    token: int,
    raw: Row,
    logq: float | None,
    mode: Any,
    kept: bool = True,
) -> ev.Node:
    first = run.next_id
    return ev.Node(
        node=first + number, parent=parent if parent < 0 else first + parent, depth=depth, pos=len(run.tokens) - 1 + depth,
        token=token, text=TEXTS[token], logq=logq, log_conf=ev.log6(float(raw[token])), mode=mode, kept=kept, fed=kept,
        bytes="ff" if token == V - 1 else None, top=_top(run, raw), entropy_q=_full(run, ev.six(entropy(raw))),
    )  # fmt: skip


def _target_rows(run: Run, draft: Draft) -> Any:
    n = len(run.tokens)
    laws = [run.table.law(run.tokens[-1], n, "target")]
    laws += [run.table.law(t, n + d, "target") for t, d in zip(draft.tokens, draft.depths, strict=True)]
    if run.recipe.temperature == 0:
        return CertainRows(tuple(law.token for law in laws), V)
    return np.array(laws)


def _emitted(draft: Draft, outcome: Outcome, room: int) -> tuple[list[int], list[Any], str | None, bool]:
    tokens = [draft.tokens[i] for i in outcome.accepted]
    kinds: list[Any] = ["accepted"] * len(tokens)
    if outcome.closing is not None:
        tokens, kinds = [*tokens, outcome.closing], [*kinds, outcome.kind]
    whole = len(tokens)
    if EOS in tokens:
        stop = tokens.index(EOS) + 1
        return tokens[:stop], kinds[:stop], "eos", stop < whole
    return tokens, kinds, "length" if whole == room else None, False


def _verdicts(run: Run, draft: Draft, rows: Any, outcome: Outcome, n_emitted: int, cut: bool) -> list[ev.Verify]:
    found: dict[int, dict[str, Any]] = {}
    for result in outcome.trace:
        _judge(found, draft, result)
    out = []
    for i in range(len(draft)):
        facts = found.get(i) or _unjudged(found, draft, i)
        if cut and draft.depths[i] > n_emitted:
            facts = {"order": None, "status": "untested", "why": "after_stop"}
        found[i] = facts
        out.append(_verify(run, draft, rows, i, facts))
    return out


def _judge(found: dict[int, dict[str, Any]], draft: Draft, result: TestResult | DrawResult) -> None:
    order = sum(f["order"] is not None for f in found.values())
    if isinstance(result, TestResult):
        why = "kept" if result.passed else "target_zero" if result.step.threshold == 0 else "u_above"
        status = "accepted" if result.passed else "rejected"
        found[result.step.node] = dict(
            order=order, kind="test", thr=float(result.step.threshold), u=result.u, status=status, why=why
        )
        return
    children = draft.children.get(result.step.node, ())
    row, left = result.step.row(), 1.0
    for child in children if not any(c in found for c in children) else ():
        held = interval(row, draft.tokens[child]) if result.drawn.lo is not None else None
        kept = child == result.kept
        status, why = ("accepted", "kept") if kept else ("rejected", "not_drawn")
        p = float(at(row, draft.tokens[child]) / dense(row).sum())
        thr = min(1.0, p / left) if left > 1e-12 else 0.0
        found[child] = dict(order=order, kind="draw", thr=thr, u=result.drawn.u, interval=held, status=status, why=why)
        order, left = order + 1, left - p
        if kept:
            break


def _unjudged(found: dict[int, dict[str, Any]], draft: Draft, i: int) -> dict[str, Any]:
    parent = found.get(draft.parents[i], {"status": "accepted", "why": "kept"})
    why = {"accepted": "sibling_kept", "rejected": "parent_rejected"}.get(parent["status"])
    if why is None:
        why = "sibling_kept" if parent["why"] == "sibling_kept" else "prefix_rejected"
    return {"order": None, "status": "untested", "why": why}


def _verify(run: Run, draft: Draft, rows: Any, i: int, facts: dict[str, Any]) -> ev.Verify:
    n, parent, token = len(run.tokens), draft.parents[i], draft.tokens[i]
    last = run.tokens[-1] if parent < 0 else draft.tokens[parent]
    raw = softmax(run.table.logits(last, n - 1 + draft.depths[i], "target"))
    raw_q = softmax(run.table.logits(last, n - 1 + draft.depths[i], "draft"))
    drawn = draft.row_of[i] >= 0
    return ev.Verify(**{
        "node": draft.ids[i], "kind": "test" if run.recipe.rule == "tokenwise" else "draw", "thr": None, "u": None,
        "logp": ev.log6(at(rows[parent + 1], token)), "logq": ev.log6(at(draft.law(i, V), token)) if drawn else None,
        "argmax_p": _full(run, int(raw.argmax())), "rank_p": _full(run, rank(raw, token)),
        "top": _top(run, raw) if draft.parents.index(parent) == i else None,  # siblings share it
        "rank_q": _full(run, rank(raw_q, token)), "entropy_p": _full(run, ev.six(entropy(raw))),
        "tv_pq": _full(run, ev.six(float(np.abs(raw - raw_q).sum() / 2))), **facts,
    })  # fmt: skip


def _closing(run: Run, draft: Draft, rows: Any, outcome: Outcome, cut: bool) -> ev.Closing:
    stop = outcome.stop
    node = ROOT if stop == ROOT else draft.ids[stop]
    last = outcome.trace[-1] if outcome.trace else None
    if cut or outcome.closing is None or not isinstance(last, DrawResult):
        return ev.Closing(node=node, kind="none", token=None, text=None, u=None)
    token, row = outcome.closing, dense(last.step.row())
    target = rows[stop + 1]
    order = np.argsort(-row, kind="stable")[:8]
    table = [(int(y), at(target, int(y)), None, float(row[y]), float(row[y] / row.sum())) for y in order if row[y] > 0]
    return ev.Closing(
        node=node, kind=outcome.kind or "none", token=token, text=TEXTS[token], u=last.drawn.u, mass=float(row.sum()),
        interval=None if last.drawn.lo is None or last.drawn.hi is None else (last.drawn.lo, last.drawn.hi),
        logp=ev.log6(at(target, token)), rank_p=rank(dense(target), token),
        equals_drafted=token in [draft.tokens[c] for c in draft.children.get(stop, ())],
        fallback=last.step.fallback, row=_full(run, table),
    )  # fmt: skip


def _full(run: Run, value: Any) -> Any:
    return value if run.recipe.level == "full" else None


def _top(run: Run, raw: Row) -> Any:
    return _full(run, [(int(y), ev.log6(float(raw[y]))) for y in np.argsort(-raw, kind="stable")[:8]])


def entropy(row: Row) -> float:
    """In nats."""
    return float(-sum(p * np.log(p) for p in row if p > 0))


def rank(row: Row, token: int) -> int:
    """1 for the likeliest token."""
    return int((row > row[token]).sum()) + 1


def plain_round(
    r: int, n: int, n_drafted: int, n_accepted: int, *, closing: str | None = "recovered", q: int = 0, n_tested: int | None = None,
    ms: float = 2.0, carry: float | None = None, cut: bool = False, t: int = 0, stage_ms: dict[str, float] | None = None,
    probe_ms: float = 0.0,
) -> list[Event]:  # fmt: skip
    """Records of level `none` of one round that starts at `n`: start, commit, end. All times by hand."""
    stages = {k: int(v * 1e6) for k, v in (stage_ms or {"target": ms}).items()}
    count = n_accepted + (closing is not None)
    kinds: list[Any] = ["accepted"] * n_accepted + ([closing] if closing else [])
    tested = n_tested if n_tested is not None else min(n_drafted, n_accepted + (closing == "recovered"))
    end = t + int(ms * 1e6)
    return [
        ev.RoundStart(q=q, r=r, t=t, n=n, root=1, knob_version=0, carry=carry),
        ev.Commit(q=q, r=r, t=end, tokens=[1] * count, texts=["a"] * count, kinds=kinds, n=n + count),
        ev.RoundEnd(
            q=q, r=r, t=end, n_drafted=n_drafted, n_tested=tested, n_accepted=n_accepted, n_emitted=count, n_draft_calls=1,
            n_syncs=1, stage_ns=stages, probe_ns=int(probe_ms * 1e6), draft_end="full",
            walk_end="rejected" if closing == "recovered" else "leaf", cut=cut,
        ),
    ]  # fmt: skip


def plain_run(rounds: Sequence[Sequence[Event]], **header: Any) -> list[Event]:
    """Header, one prefill a query, the rounds and an end, numbered. `t` of a prefill is 0, its length 10 ms."""
    out: list[Event] = [make_header(Recipe(level="none"), **{"level": "none", **header})]
    seen: set[int] = set()
    for records in rounds:
        q = records[0].q
        if q not in seen:
            first = records[0]
            assert isinstance(first, ev.RoundStart), type(first)
            out.append(
                ev.Prefill(q=q, t=first.t, prompt=[1] * first.n, text="p", n_prompt=first.n, seed=q, dur_ns=10_000_000)
            )
            seen.add(q)
        out += records
    out.append(ev.End(reason="done"))
    for i, event in enumerate(out):
        event.i = i
    assert all(a.i < b.i for a, b in pairwise(out))
    return out


def write_trace(path: Path, events: Sequence[Event]) -> Path:
    """Records the events; returns the path of the finished (zipped) file."""
    from specviz.trace import Recorder

    recorder = Recorder(path)
    for event in events:
        recorder.write(event)
    recorder.close()
    return recorder.path
