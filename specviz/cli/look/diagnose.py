"""`specviz diagnose`: what is wrong, by all the evidence that is given."""

import click

from specviz.cli.flags import JSON, OWN_LINE
from specviz.cli.printing import echo_json, narrate
from specviz.judge.finding import Finding

_MARKS = {"sure": ("✗", "red"), "likely": ("!", "yellow"), "cannot tell": ("?", "cyan")}
_MOST_PLACES = 6


@click.command("diagnose")
@click.argument("things", metavar="THING..", nargs=-1, required=True)
@OWN_LINE
@JSON
def command(things: tuple[str, ...], pattern: str | None, as_json: bool) -> None:
    """Say what is wrong with a speculative run, by all that is at hand, and what would decide where it cannot be told.

    THING is a trace, a history of counters, a log, printed table, answer or saved issue as 'specviz import' reads them,
    - for standard input, the address of a server, a folder of recordings, a model (target first, then its draft), or a
    serving command as one quoted text. Several are judged together.

    Every finding names one of sixteen faults, says how certain it is (sure, likely, cannot tell), what it rests on,
    what would decide it, the next step, and what it costs. Nothing is run, and no weight is loaded.

    Exit codes: 0 judged, whatever was found · 2 bad input.

    \b
      specviz diagnose run.sv.jsonl.gz
      specviz diagnose server.log
      specviz diagnose localhost:8000
      specviz diagnose engine.log --line 'steps={rounds} proposed={drafted} accepted={kept}'
      xclip -o | specviz diagnose -
      specviz diagnose ./target ./head server.log 'vllm serve ./target --speculative-config {"method":"eagle3"}'
    """
    from specviz.engines.texts.own_line import own_lines
    from specviz.judge import judge
    from specviz.judge.reading import read_things

    read = read_things(things, own_lines(pattern))
    findings = judge(read.evidence)
    for message in read.warnings:
        narrate(f"specviz: {message}")
    if as_json:
        echo_json({"read": read.seen, "findings": [finding.as_object() for finding in findings]})
        return
    for line in read.seen:
        click.echo(f"read {line}")
    for finding in findings:
        _print(finding)
    if not findings:
        click.echo("\nnothing stands out: whatever is seen here, chance explains")


def _print(finding: Finding) -> None:
    mark, colour = _MARKS[finding.certainty]
    click.echo()
    click.secho(f"{mark} {finding.certainty}: {finding.headline}", fg=colour, bold=True)
    places = list(dict.fromkeys(place.at for place in finding.evidence))
    more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    rows = (
        ("", finding.claim),
        ("leads to", finding.faults),
        ("seen in", ", ".join(places[:_MOST_PLACES]) + more),
        ("decides", finding.decides),
        ("next", finding.next_step),
        ("costs", finding.cost.removeprefix("It costs ")),
    )
    for label, words in rows:
        if words:
            click.echo(f"    {label}: {words}" if label else f"    {words}")
