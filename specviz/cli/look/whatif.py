"""`specviz whatif`: recorded rounds decided again with something changed; no model runs."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from specviz.cli.flags import JSON, max_mb_option, text
from specviz.cli.measure.sweep import sweep as replay_exits
from specviz.cli.measure.sweep import sweep_options
from specviz.cli.printing import echo_json, echo_sections, table_of
from specviz.cost.exit_grid import AXES
from specviz.errors import SpecvizError, suggestion
from specviz.knobs import LAST_SEED
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.text import running
from specviz.trace import Trace
from specviz.verifiers import get_verifier
from specviz.verifiers.lossy import lossy_rules
from specviz.whatif import (
    Change,
    Decision,
    ExitReplay,
    RoundAgain,
    RunAgain,
    checked,
    cutting,
    decide,
    decide_run,
    exits_asked,
)

EMBEDDED = "pair/"  # begins the names of models that sweep takes unless told otherwise
_PLACE = re.compile(r"(?:q(\d{1,6})\.?)?r(\d{1,9})")


@click.command("whatif")
@click.argument("trace", type=click.Path(path_type=Path))
@text("--at", "rN", "One round, as r37, or q2r5 of another query [default: all rounds].")
@text("--verifier", "NAME", f"Another verifier; also, of engines and not lossless: {', '.join(lossy_rules())}.")
@text("--knob", "NAME=VALUE", "A knob of the verifier, or one that leaves a part of the draft: gamma=2.", multiple=True)
@text("--u", "nID=U", "With --at: another uniform for the test or draw of a node, as n14=0.2.", multiple=True)
@click.option("--seed", type=click.IntRange(0, LAST_SEED), help="The draws of another seed; the draft stays.")
@text(
    "--sweep", "METHOD", "Early exits under every combination of the settings below: specbound, adadecode, layerskip."
)
@sweep_options
@JSON
@max_mb_option
def command(
    trace: Path,
    at: str | None,
    verifier: str | None,
    knob: tuple[str, ...],
    u: tuple[str, ...],
    seed: int | None,
    sweep: str | None,
    as_json: bool,
    **exits: Any,
) -> None:
    """Decide the rounds of TRACE again: another verifier, a shorter draft, other draws, other early exits.

    The answer stands on the text before each round as it was recorded. It is exact, or cannot be told, for a
    reason that it says.
    """
    if sweep is not None:
        if verifier is not None or at is not None or knob or u or seed is not None:
            raise SpecvizError("--sweep replays whole texts; --at, --verifier, --knob, --u and --seed are of decisions")
        replay_exits(sweep, trace, as_json, **exits)
        return
    alone = next((name for name, value in exits.items() if value), None)
    if alone is not None:
        raise SpecvizError(f"--{alone.replace('_', '-')} is for --sweep METHOD; one setting is --knob {alone}=..")
    if verifier is not None and verifier not in lossy_rules():
        get_verifier(verifier)
    change = Change(verifier, dict(_pair(word, "--knob", "gamma=2") for word in knob), _uniforms(u), seed)
    if change.nothing and at is None:
        raise SpecvizError("nothing is changed; give --verifier, --knob, --u or --seed, or a round with --at")
    with Trace(trace) as opened:
        run = Run().extend(opened.read())
    if run.header is None:
        raise SpecvizError(f"{trace} has nothing in it yet: its recorder has only begun, try again in a moment")
    _refuse_unswept(run, trace, change)
    if at is None:
        _whole(run, change, as_json)
    elif exits_asked(run, change):
        _one_exit(ExitReplay(run, change.knobs), _round(run, at), change, as_json)
    else:
        _one(run, _round(run, at), checked(run.header, change), as_json)


def _refuse_unswept(run: Run, trace: Path, change: Change) -> None:
    """Raises SpecvizError, with the command that helps, for exit settings of a trace without what the heads say."""
    header = run.header
    if header is None or header.method_traits.replay_depth is None or any(query.exit_table for query in run.queries):
        return
    cuts = {spec.name for spec in cutting(header)}
    name = next((name for name in change.knobs if name in AXES and name not in cuts), None)
    if name is None:
        return
    target, swept = header.models.target, trace.name.partition(".")[0] + "-swept.sv.jsonl"
    model = f" --target {target.name}" if target is not None and not target.name.startswith(EMBEDDED) else ""
    raise SpecvizError(
        f"knob {name} needs what the exit heads say of the text: run 'specviz whatif {trace} --sweep "
        f"{header.method}{model} --write {swept}', then ask whatif of {swept}.gz"
    )


def _pair(word: str, flag: str, example: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (name.strip() and equals and value.strip()):
        raise SpecvizError(f"{flag} {word}: write it as {flag} {example}")
    return name.strip().removeprefix("--").replace("-", "_"), value.strip()


def _uniforms(words: tuple[str, ...]) -> dict[int, float]:
    out: dict[int, float] = {}
    for word in words:
        name, value = _pair(word, "--u", "n14=0.2")
        try:
            node, u = int(name.removeprefix("n")), float(value)
        except ValueError:
            raise SpecvizError(f"--u {word}: write it as --u n14=0.2") from None
        if not 0 <= u < 1:
            raise SpecvizError(f"--u {word}: a uniform lies in [0, 1); 0 passes every test that can be passed")
        out[node] = u
    return out


def _round(run: Run, at: str) -> RoundRecord:
    """The round that a word names. Raises SpecvizError with those that there are."""
    match = _PLACE.fullmatch(at)
    if match is None:
        raise SpecvizError(f"--at {at}: write a round as r37, or as q2r5 of another query")
    q, r = int(match[1] or (run.queries[0].number if run.queries else 0)), int(match[2])
    index = run.find(q, r)
    if index is None:
        query = next((query for query in run.queries if query.number == q), None)
        if query is None:
            raise SpecvizError(f"--at {at}: no query {q}{suggestion(str(q), [str(x.number) for x in run.queries])}")
        raise SpecvizError(f"--at {at}: query {q} has no round {r}; it has r1..r{query.n_rounds}")
    return run.rounds[index]


def _one(run: Run, record: RoundRecord, change: Change, as_json: bool) -> None:
    from specviz.view.whatif import what_if

    decision = decide(run, record, change)
    shown = what_if(run, decision, change)
    if as_json:
        echo_json(_json_round(decision, shown.sentence))
        return
    click.echo(f"r{decision.r}: {shown.sentence}")
    if shown.nodes:
        from rich.console import Console

        table = table_of("node", "", "was", "now", "")
        for node in shown.nodes:
            table.add_row(f"n{node.node}", node.token, *node.glyphs, node.words)
        Console(highlight=False, markup=False).print(table)
    if shown.note:
        click.echo(shown.note)


def _one_exit(replay: ExitReplay, record: RoundRecord, change: Change, as_json: bool) -> None:
    from specviz.view.whatif import exits_words

    decision, words = replay.decide(record), Change(knobs=replay.knobs)
    sentence = exits_words(decision, words)
    if as_json:
        echo_json({**{f.name: getattr(decision, f.name) for f in fields(decision)}, "sentence": sentence})
    else:
        click.echo(f"r{decision.r}: {sentence}")


def _json_round(decision: Decision, sentence: str) -> dict[str, Any]:
    parting, now = decision.parting, decision.now
    return {
        "q": decision.q,
        "r": decision.r,
        "n": decision.n,
        "verifier": decision.verifier,
        "why": decision.why or None,
        "was": _json_way(decision.was),
        "now": None
        if now is None
        else _json_way(now) | {"tests": now.tests, "carried_rounds": now.carries} | _json_loosened(now),
        "kept": decision.kept,
        "cut": decision.gone,
        "parting": None if parting is None else {"pos": parting.pos, "sure": parting.sure},
        "sentence": sentence,
    }


def _json_loosened(now: RoundAgain) -> dict[str, Any]:
    """The JSON fields of a lossy rule, which is evaluated from the record instead of run."""
    if not now.compared:
        return {}
    compared = {f"n{node}": test for node, test in now.compared.items()}
    return {"compared": compared, "law_off": now.moved, "law_off_untold": now.unmoved or None}


def _json_way(way: RoundAgain) -> dict[str, Any]:
    """Nodes by their ids; a token that is not on record is null."""
    return {
        "accepted": way.accepted,
        "tokens": [None if token < 0 else token for token in way.tokens],
        "marks": {f"n{node}": mark for node, mark in way.marks.items()},
        "closing": way.kind,
    }


def _whole(run: Run, change: Change, as_json: bool) -> None:
    from specviz.view.whatif import what_if_run

    replayed = decide_run(run, change)
    shown = what_if_run(replayed, _typed(run, change))
    if as_json:
        echo_json(_json_run(replayed, shown.sentence))
        return
    echo_sections({running(shown.sentence): shown.rows})
    click.echo(shown.note)


def _typed(run: Run, change: Change) -> Change:
    """The change with its values as numbers, for the sentence."""
    assert run.header is not None
    if exits_asked(run, change):
        return Change(knobs=ExitReplay(run, change.knobs).knobs)
    return checked(run.header, change)


def _json_run(replayed: RunAgain, sentence: str) -> dict[str, Any]:
    return {
        "verifier": replayed.verifier,
        "n_rounds": len(replayed.rounds),
        "n_told": replayed.n_told,
        "n_unfit": replayed.unfit,
        "kept_as_recorded": replayed.was,
        "difference": replayed.difference,
        "verdict": replayed.verdict,
        "carried_rounds": replayed.carried,
        "law_off": replayed.moved,
        "law_off_untold": replayed.unmoved or None,
        "rounds": [
            {
                "q": g.q,
                "r": g.r,
                "was": g.was,
                "kept": g.kept,
                "parts_at": g.pos,
                "parts_for_sure": g.sure,
                "why": g.why or None,
            }
            for g in replayed.rounds
        ],
        "sentence": sentence,
    }
