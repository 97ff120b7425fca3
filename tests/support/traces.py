"""Synthetic event streams that are true: a table model of 16 tokens is really decoded by the real verifiers.

`make_events(Recipe(..))` gives the records of one run, header to end, as the core would write them; every decision
can be made again from them. `write_trace(path, events)` puts them into a file through the recorder. `plain_round`
builds the records of level `none` for tests that work out numbers by hand.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from specviz import events as ev
from specviz.events import Event
from specviz.methods import get_method
from specviz.probability.draft import Draft
from specviz.probability.draws import Keys
from specviz.probability.plan import Outcome
from specviz.trace import Recorder
from specviz.verifiers import get_verifier
from support.table import EOS, PROMPT, TEXTS, Recipe, Run, V, draft_of, target_rows
from support.verdicts import chains, closing_of, verdicts

__all__ = [
    "EOS",
    "TEXTS",
    "Recipe",
    "V",
    "make_events",
    "make_header",
    "of_kind",
    "plain_round",
    "plain_run",
    "write_trace",
]


def make_events(recipe: Recipe | None = None, **changes: Any) -> list[Event]:
    """The records of a whole run, header to end (without `n_lines` and `sha256`, which the recorder adds)."""
    recipe = recipe or Recipe(**changes)
    run = Run(recipe)
    out = [run.clock.stamp(make_header(recipe), 0, 0)]
    for q in range(recipe.queries):
        out += _query(run, q)
    out.append(run.clock.stamp(ev.End(reason=recipe.reason), out[-1].q, out[-1].r))
    kept = [e for e in out if ev.LEVELS[e.written_at] <= ev.LEVELS[recipe.level]]
    for i, event in enumerate(kept):
        event.i = i
    return kept


def make_header(recipe: Recipe | None = None, **changes: Any) -> ev.Header:
    """A header; keyword arguments replace fields."""
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
    verifier = get_verifier(recipe.rule)
    values: dict[str, Any] = {
        "schema": ev.SCHEMA,
        "v": ev.VERSION,
        "run": "factory",
        "wall": "2026-01-01T00:00:00Z",
        "method": method,
        "drafter": method,
        "verifier": recipe.rule,
        "lanes": "serial",
        "lossless": verifier.lossless,
        "keeps_tokens": verifier.keeps_tokens,
        "distance": verifier.distance,
        "models": models,
        "knobs": dict(knobs),
        "knob_specs": list(table.specs),
        "sampling": sampling,
        "level": recipe.level,
    }
    return of_kind(ev.Header(**{**values, **changes}))


def of_kind(header: ev.Header, method: str = "") -> ev.Header:
    """The header (of `method`) with what its method and its verifier say of themselves, as the core writes it."""
    header.method = method or header.method
    header.method_traits = get_method(header.method).traits
    header.verifier_traits = get_verifier(header.verifier).traits
    return header


def _query(run: Run, q: int) -> Iterator[Event]:
    recipe, clock = run.recipe, run.clock
    run.tokens, run.next_id = [*PROMPT[: len(PROMPT) - q % 2]], 0
    n_prompt, r, finish = len(run.tokens), 0, None
    run.carry = None
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
    carry = None if run.carry is None else ev.six(run.carry.log_ratio)
    start = clock.stamp(
        ev.RoundStart(
            n=n, root=run.tokens[-1], knob_version=run.version, carry=carry, kv={"target": n - 1, "draft": n - 1}
        ),
        q,
        r,
    )
    draft, born = draft_of(run, keys, room - 1)
    rows = target_rows(run, draft)
    plan = get_verifier(recipe.rule).plan(draft, rows)
    outcome = plan.walk(keys, n)
    run.carry = outcome.carry
    tokens, kinds, finish, cut = _emitted(draft, outcome, room)
    started, steps = clock.now, max(draft.depths, default=0)
    stage = {"draft": 300_000 * steps, "target": 2_000_000, "verdict": 50_000, "commit": 20_000, "other": 30_000}
    clock.now += sum(stage.values())
    judged = verdicts(run, draft, rows, outcome, len(tokens), cut, plan, keys)
    closing = closing_of(run, draft, rows, outcome, cut)
    run.tokens += tokens
    commit = ev.Commit(tokens=tokens, texts=[TEXTS[t] for t in tokens], kinds=kinds, n=len(run.tokens), finish=finish)
    n_accepted = sum(k == "accepted" for k in kinds)
    walk_end = finish or ("rejected" if outcome.kind == "recovered" else "leaf")
    end = ev.RoundEnd(
        n_drafted=len(draft),
        n_tested=sum(v.order is not None for v in judged),
        n_accepted=n_accepted,
        n_emitted=len(tokens),
        n_draft_calls=steps,
        n_syncs=1,
        stage_ns=stage,
        probe_ns=10_000,
        draft_end=draft.draft_end,
        walk_end=walk_end,
        cut=cut,
        kv={"target": len(run.tokens) - 1, "draft": len(run.tokens) - 1},
    )
    spans = [ev.Span(lane="target", name="forward", t0=started + stage["draft"], dur_ns=stage["target"])]
    if steps:
        spans.insert(0, ev.Span(lane="draft", name="propose", t0=started, dur_ns=stage["draft"]))
    return [start, *born, *judged, *chains(draft, rows), closing, commit, *spans, end], finish


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


def plain_round(
    r: int,
    n: int,
    n_drafted: int,
    n_accepted: int,
    *,
    closing: str | None = "recovered",
    q: int = 0,
    n_tested: int | None = None,
    ms: float = 2.0,
    carry: float | None = None,
    cut: bool = False,
    t: int = 0,
    stage_ms: dict[str, float] | None = None,
    probe_ms: float = 0.0,
) -> list[Event]:
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
            q=q,
            r=r,
            t=end,
            n_drafted=n_drafted,
            n_tested=tested,
            n_accepted=n_accepted,
            n_emitted=count,
            n_draft_calls=1,
            n_syncs=1,
            stage_ns=stages,
            probe_ns=int(probe_ms * 1e6),
            draft_end="full",
            walk_end="rejected" if closing == "recovered" else "leaf",
            cut=cut,
        ),
    ]


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
    recorder = Recorder(path)
    for event in events:
        recorder.write(event)
    recorder.close()
    return recorder.path
