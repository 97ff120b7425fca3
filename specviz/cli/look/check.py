"""`specviz check`: two models looked at together, by their files alone."""

from collections import Counter

import click
import msgspec

from specviz.cli.flags import JSON
from specviz.cli.printing import echo_json
from specviz.text import running

_MARKS = {"error": ("✗", "red"), "warning": ("!", "yellow"), "note": ("·", "cyan")}


@click.command("check")
@click.argument("target")
@click.argument("draft")
@JSON
@click.pass_context
def command(ctx: click.Context, target: str, draft: str, as_json: bool) -> None:
    """Say whether a target and a draft can work together, without loading a weight.

    Each is a folder, a name of 'specviz models list', or a hub id that lies in the cache. Looked at: tokens by id,
    rows and padding, chat templates, positions and windows, the layers and the vocabulary map of a head that reads its
    target's states, missing tensors, speculators_config. Every finding says which fault it leads to, and the fix.

    Exit codes: 0 nothing that prevents the pair · 1 it cannot work · 2 bad input.

    \b
      specviz check smollm2 smollm2-draft
      specviz check owner/target ./my-head --json
    """
    from specviz.check import check_pair, fault_of, read_side

    sides = [read_side(target), read_side(draft)]
    found = check_pair(*sides)
    wrong = any(each.severity == "error" for each in found)
    if as_json:
        findings = [{**msgspec.to_builtins(each), "fault_text": fault_of(each)} for each in found]
        echo_json({"target": target, "draft": draft, "works": not wrong, "findings": findings})
    else:
        for each in found:
            mark, colour = _MARKS[each.severity]
            click.secho(f"{mark} {each.severity}  ", fg=colour, bold=True, nl=False)
            click.echo(running(each.what))
            click.echo(f"    leads to {each.fault:>2}: {fault_of(each)}")
            click.echo(f"    fix: {running(each.fix)}  [{each.code}]")
        counts: Counter[str] = Counter(each.severity for each in found)
        told = ", ".join(f"{counts[kind]} {kind}{'s' * (counts[kind] != 1)}" for kind in _MARKS if counts[kind])
        verdict = "cannot work together" if wrong else "can work together"
        click.echo(f"{running(target)} and {running(draft)} {verdict}: {told or 'nothing found'}")
    if wrong:
        ctx.exit(1)
