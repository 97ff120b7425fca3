"""`specviz lab ablate`: SpecBranch with and without its parts, beside the pipelines it is compared with.

Standard output is a card for people and, last, one JSON line; with `--json` the line alone. Bad input is refused before
torch is imported.
"""

import math
from collections.abc import Mapping
from typing import Any

import click

from specviz.cli import flags
from specviz.cli.flags import value
from specviz.cli.printing import narrate
from specviz.cli.request import check_models
from specviz.errors import KnobError, SpecvizError
from specviz.methods import pick_verifier
from specviz.sources.prompts import load_prompts
from specviz_lab.bench.settings import VARIANTS, BenchSettings
from specviz_lab.commands import shared

_SECTIONS = {
    "What": ("gamma", "max_new_tokens", "temperature", "knobs", "ratios", "noise"),
    "How much": ("prompts", "limit", "repeats", "minutes", "timed"),
    "Models": ("target", "draft", "device", "dtype", "threads", "compile", "lanes"),
    "Output": ("html", "as_json", "quiet"),
}


@click.command("ablate", cls=flags.SectionedCommand, sections=_SECTIONS)
@value("--gamma", click.IntRange(1, 16), 4, "Drafted tokens, for all alike.")
@shared.length("Tokens every run writes.")
@shared.knob("A knob of one of the methods, of all its rows that do not switch it off; repeatable.")
@click.option(
    "--ratio",
    "ratios",
    type=click.FloatRange(0.1),
    multiple=True,
    metavar="C",
    help="The modelled clock also with a target that is C times slower than the draft; repeatable.",
)
@click.option(
    "--draft-noise",
    "noise",
    type=click.FloatRange(0),
    default=0.0,
    metavar="X",
    help="A weak draft model: noise on its matrices, X times their own spread.",
)
@shared.amounts(repeats=3)
@click.option(
    "--timed/--not-timed",
    default=True,
    show_default=True,
    help="Time whole runs; without, rollback and the modelled clock alone.",
)
@flags.TARGET
@flags.DRAFT
@shared.machine("one for a small target", show_default=False)
@shared.OUTPUT
def command(**options: Any) -> None:
    """Take SpecBranch apart: rollback rate and speed-up with and without H-RAD and with and without branches.

    Beside SpS, AdaEDL, PEARL and Lookahead on the same prompts and models. Speed-ups stand on two clocks: measured
    here, and modelled, which plays the same rounds at the calibrated costs as if both models ran beside each other.

    \b
      specviz lab ablate --minutes 3
      specviz lab ablate --gamma 6 --temperature 1 --ratio 8 --ratio 15
      specviz lab ablate --knob specbranch.epsilon=0.5 --knob specbranch.k_max=4
      specviz lab ablate --draft-noise 0.4 --prompts questions.jsonl --limit 10
    """
    settings = _settings(options)
    page = shared.page_of(options["html"])
    load_prompts(settings.prompts, settings.limit)  # a bad file is told before torch is imported
    from specviz_lab.bench.ablation import AblationSettings, ablate
    from specviz_lab.bench.report import ablation as words

    question = AblationSettings(settings, tuple(options["ratios"]), options["noise"], options["timed"])
    report = ablate(
        question,
        flags.command_line("specviz lab ablate", command, options),
        (lambda _: None) if options["quiet"] else narrate,
    )
    shared.put_out(options, report, words, "specviz lab ablate", page)


def _settings(options: Mapping[str, Any]) -> BenchSettings:
    """Raises SpecvizError for anything that can be known without a model."""
    check_models(options["target"], options["draft"], True)
    for name, option in (("minutes", "minutes"), ("temperature", "temperature"), ("noise", "draft-noise")):
        if options[name] is not None and not math.isfinite(options[name]):
            raise SpecvizError(f"--{option} {options[name]} is no number to work with; give a finite one")
    if not all(map(math.isfinite, options["ratios"])):
        raise SpecvizError("--ratio: give finite numbers")
    settings = shared.settings_of(options, arms=())
    _check_knobs(settings)
    return settings


def _check_knobs(settings: BenchSettings) -> None:
    """Every variant's knobs, before a model is loaded. Raises SpecvizError."""
    methods = list(dict.fromkeys(variant.method for variant in VARIANTS))
    for kind in settings.knobs:
        if kind not in methods:
            raise SpecvizError(f"--knob {kind}: {kind} is not measured here; known: {', '.join(methods)}")
    for variant in VARIANTS:
        try:
            method, knobs = settings.method_knobs(variant.method, variant.knobs)
            pick_verifier(method, None, knobs)
        except KnobError as error:
            raise SpecvizError(f"--knob {variant.method}: {error}") from None
