"""`specviz sweep`: what other early-exit settings would have brought on a recorded text, without decoding it again."""

from itertools import product
from pathlib import Path
from typing import Any

import click
import msgspec

from specviz.cli.layout import echo_json, narrate
from specviz.cost.grid import Text, grid
from specviz.cost.recorded import Query, n_layers_of, own_values, queries
from specviz.cost.replay import Setting, Total, added, total
from specviz.errors import SpecvizError
from specviz.events import End, Event, ExitTable, Header, Knob
from specviz.methods import early, get_method
from specviz.trace import Trace

METHODS = {"specbound": 0.5, "adadecode": 1.0, "layerskip": 1.0}  # the share of the layers that d_max -1 stands for
ADVISED = "advised exit layers"  # the part of a header that keeps what `auto` stands for
_KNOBS = ("alpha", "tau", "d_max", "w_max")


@click.command("sweep")
@click.argument("method", type=click.Choice(list(METHODS)))
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--alpha", metavar="X,X", help="Annealing strengths, in steps of 0.1 [default: the run's or method's].")
@click.option("--tau", metavar="X,X", help="Thresholds.")
@click.option("--d-max", metavar="N,N", help="Deepest exit layers; 1..6 names a range.")
@click.option("--w-max", metavar="N,N", help="Drafts fed per round; 0..8 names a range.")
@click.option("--exit-layers", metavar="N,N", help="Layers with a test: numbers, or shares such as L/4.")
@click.option("--heads", metavar="FOLDER", help="Exit heads, or lens [default: those trained for the target].")
@click.option("--target", metavar="MODEL", help="The model that wrote the trace [default: the embedded one].")
@click.option("--write", type=click.Path(path_type=Path), help="Copy the trace with what the heads say added.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(method: str, trace: Path, heads: str | None, target: str | None, write: Path | None, as_json: bool,
            **values: str | None) -> None:  # fmt: skip
    """Replay METHOD on the text of TRACE under every combination of the settings given.

    Under walk the text does not depend on these settings, so tokens per round come out exactly. One pass of the target
    over the text tells what its heads say; a trace that holds that already needs no model.
    """
    with Trace(trace) as opened:
        events = opened.poll()
    header, found = queries(events)
    n_layers = n_layers_of(header)
    said = header.models.parts.get(ADVISED)
    if heads is None and said is not None and all(query.records for query in found):
        advised = [int(layer) for layer in said.split()]
    else:
        advised = _ask_heads(header, found, target, heads)
    if write is not None:
        _copy(events, found, advised, write)
    base = _base(method, header, n_layers, values["exit_layers"], advised)
    totals = _totals(base, [Text(q.table(n_layers), q.room, q.ends) for q in found], values)
    checked = _checked(method, header, events, found, base, n_layers)
    if as_json:
        echo_json({"method": method, "n_layers": n_layers, "totals": [_row(t) for t in totals], "run": checked})
        return
    _show(totals, checked)


def _ask_heads(header: Header, found: list[Query], target: str | None, heads: str | None) -> list[int]:
    """One pass of the target over every text; the layers its heads advise to test.

    Raises SpecvizError for a model that cannot have written them.
    """
    from specviz.drafters.exit_table import exit_table
    from specviz.drafters.heads import pick
    from specviz.engine.local import load_pair

    adapter = load_pair(target, needs_draft=False).target.adapter
    if adapter.n_layers != n_layers_of(header):
        raise SpecvizError(
            f"the trace was written by a target of {n_layers_of(header)} layers, {adapter.name} has "
            f"{adapter.n_layers}; name the right one with --target"
        )
    chosen = pick(adapter, heads)
    narrate(f"asking the heads ({chosen.kind}) about {sum(len(query.tokens) for query in found)} tokens")
    for query in found:
        query.records = list(exit_table(adapter, chosen, query.prompt + query.tokens, len(query.prompt)))
    return list(chosen.advised)


def _base(method: str, header: Header, n_layers: int, exit_layers: str | None, advised: list[int]) -> Setting:
    """The method's setting: the run's own values if it was that method, its defaults otherwise."""
    table = get_method(method).table
    own = own_values(header, (*_KNOBS, "exit_layers")) if header.method == method else {}
    if exit_layers is not None:
        own["exit_layers"] = [exit_layers]
    limits = early.read(table.knobs(own).values, n_layers, METHODS[method], advised)
    return Setting(limits.alpha, limits.tau, limits.d_max, limits.w_max, limits.asked)


def _totals(base: Setting, texts: list[Text], values: dict[str, str | None]) -> list[Total]:
    """Every combination, the last knob fastest."""
    kinds: dict[str, Any] = {"alpha": float, "tau": float, "d_max": int, "w_max": int}
    given = {
        name: _values(name, text, kinds[name]) if (text := values[name]) else [getattr(base, name)] for name in _KNOBS
    }
    found = grid(texts, **given, layers=base.layers)
    return [found.at(*place) for place in product(*(range(len(chosen)) for chosen in given.values()))]


def _values(name: str, text: str, kind: Any) -> list[Any]:
    """`1,2,5` or `1..5`. Raises SpecvizError."""
    out: list[Any] = []
    try:
        for word in text.split(","):
            first, dots, last = word.partition("..")
            out += range(int(first), int(last) + 1) if dots and kind is int else [kind(word)]
    except ValueError:
        example = "0..6 or 2,4,6" if kind is int else "0.5,0.75"
        raise SpecvizError(f"--{name.replace('_', '-')} {text}: no list of numbers; write {example}") from None
    return out


def _checked(
    method: str, header: Header, events: list[Event], found: list[Query], base: Setting, n_layers: int
) -> dict[str, float] | None:
    """Tokens per round replayed and run, when the trace is a run of this method with one setting throughout."""
    if header.method != method or any(isinstance(event, Knob) for event in events):
        return None
    if header.knobs.get("draft_mode", "argmax") != "argmax" and float(header.sampling["temperature"]) > 0:
        return None
    again = added([total(q.table(n_layers), base, q.room, q.ends) for q in found])
    return {"replayed": again.tokens_per_round, "run": again.n_new / sum(query.n_rounds for query in found)}


def _row(found: Total) -> dict[str, Any]:
    setting, calls = found.setting, found.calls_per_token
    return {
        "alpha": setting.alpha, "tau": setting.tau, "d_max": setting.d_max, "w_max": setting.w_max,
        "exit_layers": list(setting.layers or ()), "tokens_per_round": found.tokens_per_round,
        "draft_precision": found.precision, "layer_calls_per_token": list(calls), "n_new": found.n_new,
        "n_rounds": found.n_rounds,
    }  # fmt: skip


def _show(totals: list[Total], checked: dict[str, float] | None) -> None:
    """One line a setting; the fewest layer calls at worst are marked."""
    best = min(totals, key=lambda found: found.calls_per_token[1])
    click.secho("    α     τ   d   w  tokens/round  drafts right  layer calls/token", bold=True)
    for found in totals:
        setting, (least, most) = found.setting, found.calls_per_token
        right = "-" if found.precision is None else f"{found.precision:.0%}"
        calls = f"{least:.2f}" if most - least < 0.005 else f"{least:.2f} to {most:.2f}"
        click.echo(
            f"{setting.alpha:5.1f} {setting.tau:5.2f} {setting.d_max:3} {setting.w_max:3}  "
            f"{found.tokens_per_round:12.2f}  {right:>12}  {calls}{'  ← fewest' if found is best else ''}"
        )
    narrate(f"plain decoding: 1 token a round, {totals[0].n_layers} layer calls a token; {totals[0].n_new} tokens")
    if checked:
        narrate(f"the recorded run: {checked['replayed']:.4f} tokens a round replayed, {checked['run']:.4f} run")


def _copy(events: list[Event], found: list[Query], advised: list[int], path: Path) -> None:
    """The trace again with the records added in front of its end, and the advice of the heads in its header."""
    from specviz.cli.recording import check_place
    from specviz.trace import Recorder

    check_place(path)
    records = [msgspec.structs.replace(record, q=query.q) for query in found for record in query.records]
    recorder = Recorder(path)
    for event in events:
        for record in records if isinstance(event, End) else ():
            record.t = event.t
            recorder.write(record)
        if isinstance(event, Header):
            parts = event.models.parts | {ADVISED: " ".join(map(str, advised))}
            event = msgspec.structs.replace(event, models=msgspec.structs.replace(event.models, parts=parts))
        if not isinstance(event, ExitTable):
            recorder.write(event)
    recorder.close()
    narrate(f"wrote {recorder.path}")
