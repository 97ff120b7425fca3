"""`specviz check`: whether a draft fits its target, judged from the files of both without loading a weight."""

from collections import Counter
from dataclasses import asdict

import click
import msgspec

from specviz.cli.flags import JSON
from specviz.cli.printing import echo_json
from specviz.errors import SpecvizError
from specviz.text import running

_MARKS = {"error": ("✗", "red"), "warning": ("!", "yellow"), "note": ("·", "cyan")}


@click.command("check")
@click.argument("target")
@click.argument("draft", required=False)
@click.option(
    "--serve", "line", metavar="COMMAND", help="How they are served: whether it names the draft for what it is."
)
@JSON
@click.pass_context
def command(ctx: click.Context, target: str, draft: str | None, line: str | None, as_json: bool) -> None:
    """Say what a draft is and whether it can work with its target, without loading a weight.

    Each is a folder, a GGUF file, a name of 'specviz models list', or a hub id that lies in the cache; DRAFT may be
    self:int4, and a target with MTP layers of its own needs none. Looked at: the kind of draft, tokens by id, rows and
    padding, chat templates, positions and windows, the layers and the vocabulary map of a head that reads its target's
    states, missing tensors, speculators_config, and what is known of such pairs. Every finding says which fault it
    leads to, and the fix.

    Exit codes: 0 nothing that prevents the pair · 1 it cannot work · 2 bad input.

    \b
      specviz check smollm2 smollm2-draft
      specviz check owner/target ./my-head --json
      specviz check target.gguf draft.gguf
      specviz check ./target ./head --serve 'vllm serve ./target --speculative-config {"method":"eagle3"}'
    """
    from specviz.check import check_pair, fault_of, kind_of_draft, parse_serve, read_side
    from specviz.check.kinds import ITSELF
    from specviz.mtp_layers import own_mtp_layers
    from specviz.self_drafts import is_self

    served = None if line is None else parse_serve(line)
    first = read_side(target)
    if draft is None and not own_mtp_layers(first.config, first.tensors):
        raise SpecvizError(f"{running(target)} has no MTP layers of its own: name its DRAFT")
    draft = draft or target
    kind, findings = ITSELF, []
    if not is_self(draft):
        second = read_side(draft)
        kind, findings = kind_of_draft(first, second), check_pair(first, second, served)
    wrong = any(finding.severity == "error" for finding in findings)
    if as_json:
        as_objects = [{**msgspec.to_builtins(finding), "fault_text": fault_of(finding)} for finding in findings]
        kind_object = {**asdict(kind), "served": kind.served}
        echo_json({"target": target, "draft": draft, "kind": kind_object, "works": not wrong, "findings": as_objects})
    else:
        click.echo(running(f"the draft is {kind.named}: {kind.seen}"))
        if kind.served:
            click.echo(running(f"  served as {kind.served}"))
        if kind.since:
            click.echo(running(f"  read since {kind.since}; older engines take it for another drafter"))
        for finding in findings:
            mark, colour = _MARKS[finding.severity]
            click.secho(f"{mark} {finding.severity}  ", fg=colour, bold=True, nl=False)
            click.echo(running(finding.what))
            click.echo(f"    leads to {finding.fault:>2}: {fault_of(finding)}")
            click.echo(f"    fix: {running(finding.fix)}  [{finding.code}]")
        counts: Counter[str] = Counter(finding.severity for finding in findings)
        counted = ", ".join(f"{counts[kind]} {kind}{'s' * (counts[kind] != 1)}" for kind in _MARKS if counts[kind])
        verdict = "cannot work together" if wrong else "can work together"
        click.echo(f"{running(target)} and {running(draft)} {verdict}: {counted or 'nothing found'}")
    if wrong:
        ctx.exit(1)
