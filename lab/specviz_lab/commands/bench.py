"""`specviz lab bench`: measure our methods against the library's own loops on this machine.

Standard output is a card for people and, last, one JSON line; with `--json` the line alone. Cheap checks come first,
so that bad input is refused before torch is imported.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from specviz.cli import flags
from specviz.cli.flags import text, value
from specviz.cli.printing import narrate
from specviz.errors import KnobError, SpecvizError, suggestion
from specviz.local_models.shipped import usual_draft
from specviz.methods import pick_verifier
from specviz.sources.prompts import load_prompts
from specviz_lab.bench.settings import DEFAULT, DRAFTED, OURS, PEER_TABLE, PEERS, SHAPES, BenchSettings, contestants
from specviz_lab.commands import shared

_SECTIONS = {
    "What": ("methods", "peers", "gamma", "max_new_tokens", "temperature", "knobs"),
    "How much": ("prompts", "limit", "repeats", "minutes", "identity", "onto"),
    "Models": ("target", "draft", "shape", "device", "dtype", "threads", "compile", "lanes", "auto", "exit_layer"),
    "Output": ("html", "as_json", "quiet"),
}


_METHODS_HELP = (
    f"Of {', '.join((*OURS, *PEERS))}; :NAME behind one of ours is its verifier, @KNOB=VALUE a knob of this arm alone, "
    "which then drafts every round, +none, +summary or +full records it; "
    ":q8_0, :q4_0 behind one of llama.cpp's packs the same weights so."
)
_PEERS_HELP = "The table of peers: transformers, eager and compiled, llama.cpp in three formats, and ours."
_IDENTITY_HELP = "Measure no speed: hold N tokens of every method under walk against plain decoding, bit for bit."
_ONTO_HELP = "With --identity: a report that is kept in this file as it grows, and gone on with by the next call."
_SHAPE_HELP = "Random weights of that size in place of models, for the times of the stages: 0.5b or tiny."


@click.command("bench", cls=flags.SectionedCommand, sections=_SECTIONS)
@text("--methods", "LIST", _METHODS_HELP, default=DEFAULT, show_default=True)
@click.option("--peers", is_flag=True, help=_PEERS_HELP)
@value("--gamma", click.IntRange(1, 64), 4, "Drafted tokens a round, for all chains and lookups.")
@shared.length("Tokens every run writes.")
@shared.knob("A knob of one of ours; repeatable.")
@shared.amounts(repeats=5)
@click.option("--identity", type=click.IntRange(1), metavar="N", help=_IDENTITY_HELP)
@click.option("--onto", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help=_ONTO_HELP)
@flags.TARGET
@flags.DRAFT
@text("--shape", "NAME", _SHAPE_HELP)
@shared.machine("found by a probe")
@click.option(
    "--auto/--no-auto", default=True, help="Ours draft nothing for a while where that does not pay [default: --auto]."
)
@click.option(
    "--exit-layer", type=click.IntRange(1), metavar="N", help="Of hf-early-exit [default: half of the layers]."
)
@shared.OUTPUT
def command(**options: Any) -> None:
    """Measure speeds against the library's own loops.

    Our methods against generate, assisted generation, prompt lookup and early exit of transformers, and against
    llama.cpp's server: same models, prompts, dtype and threads, interleaved, with ratios paired by prompt, a check
    that texts are equal where that is promised, and what recording costs. With methods of early exit also layer calls,
    cells and head tests a token, and predicted beside measured times.

    \b
      specviz lab bench --minutes 3
      specviz lab bench --prompts questions.jsonl --limit 20 --temperature 0.8 --html report.html
      specviz lab bench --methods chain,hf-assisted --gamma 6 --json | jq .ratios
      specviz lab bench --methods ar,llama-plain,chain,llama-draft
      specviz lab bench --methods ar,eagle3,eagle3@node_budget=4,eagle3@node_budget=8
      specviz lab bench --peers --target smollm2 --draft self:int4 --threads 1
      specviz lab bench --methods ar,specbound,layerskip,hf-early-exit,hf-generate
      specviz lab bench --identity 100000 --target smollm2 --dtype bfloat16 --onto identity.json
    """
    if options["peers"]:
        if options["methods"] != DEFAULT or options["identity"] is not None:
            raise SpecvizError("--peers names its methods; leave out --methods and --identity, or --peers")
        options = {**options, "methods": PEER_TABLE}
    if options["identity"] is not None and options["methods"] == DEFAULT:
        options = {**options, "methods": ",".join(OURS)}
    if options["onto"] is not None and options["identity"] is None:
        raise SpecvizError("--onto keeps a report of --identity; give that too, or leave --onto out")
    if options["onto"] is not None:
        shared.check_kept("--onto", options["onto"])
    settings = _settings(options)
    page = shared.page_of(options["html"])
    load_prompts(settings.prompts, settings.limit)  # a bad file is told before torch is imported
    if options["identity"] is not None:
        _identity(settings, options, page)
        return
    from specviz_lab.bench.report import speed as words
    from specviz_lab.bench.speed import bench

    report = bench(
        settings,
        flags.command_line("specviz lab bench", command, options),
        (lambda _: None) if options["quiet"] else narrate,
    )
    shared.put_out(options, report, words, "specviz lab bench", page, words.charts)


def _identity(settings: BenchSettings, options: Mapping[str, Any], page: Path | None) -> None:
    """Exit code 1 where anything differs."""
    if settings.shape is not None:
        raise SpecvizError("--identity decodes texts of a model; leave out --shape")
    from specviz_lab.bench.identity import identity
    from specviz_lab.bench.report import identity as words

    tell = (lambda _: None) if options["quiet"] else narrate
    report = identity(
        settings, options["identity"], flags.command_line("specviz lab bench", command, options), tell, options["onto"]
    )
    shared.put_out(options, report, words, "specviz lab bench --identity", page)
    if report.n_differing or report.n_rows_differing:
        raise SystemExit(1)


def _settings(options: Mapping[str, Any]) -> BenchSettings:
    """Raises SpecvizError for anything that can be known without a model."""
    settings = shared.settings_of(options, arms=contestants(options["methods"]))
    _check_shape(settings)
    if settings.minutes is not None and not math.isfinite(settings.minutes):
        raise SpecvizError(f"--minutes {settings.minutes} is no time; give a number, or leave it out for no bound")
    if (
        settings.target is not None
        and settings.draft is None
        and settings.needs_draft
        and not usual_draft(settings.target)
    ):
        needy = next(arm.name for arm in settings.arms if arm.kind in DRAFTED)
        raise SpecvizError(
            f"--target needs its --draft for '{needy}'; name one, or leave such methods out of --methods"
        )
    for kind in OURS:
        try:
            settings.method_knobs(kind)
        except KnobError as error:
            raise SpecvizError(f"--knob {kind}: {error}" if kind in settings.knobs else str(error)) from None
    for arm in settings.arms:
        if not arm.peer:
            try:
                method, knobs = settings.method_knobs(arm.kind, dict(arm.knobs))
            except KnobError as error:
                raise SpecvizError(f"--methods: '{arm.name}': {error}") from None
            pick_verifier(method, arm.verifier, knobs)
    return settings


def _check_shape(settings: BenchSettings) -> None:
    if settings.shape is None:
        return
    if settings.shape not in SHAPES:
        raise SpecvizError(f"--shape: no size '{settings.shape}'{suggestion(settings.shape, SHAPES)}")
    if settings.target is not None or settings.draft is not None:
        raise SpecvizError("--shape makes models of its own; leave out --target and --draft")
    peer = next((arm.name for arm in settings.arms if arm.peer), None)
    if peer is not None:
        raise SpecvizError(f"--shape measures our own methods, not '{peer}'; name them with --methods, as in chain:hsd")
