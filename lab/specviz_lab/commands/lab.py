"""`specviz lab`: the commands that measure and prove, which users of the screens never need."""

import click

from specviz.cli import LazyGroup

_WORDS = {
    "bench": "Measure speeds against the library's own loops.",
    "ablate": "Take SpecBranch apart beside the pipelines it is compared with, on two clocks.",
    "clinic": "Plant faults in real runs, and score the judge on them.",
    "papers": "Recompute what stands beside the published numbers of five papers.",
    "prove": "Prove by enumeration that verifiers keep the target's law; wrong ones fail.",
}


@click.group("lab", cls=LazyGroup, homes={name: f"specviz_lab.commands.{name}" for name in _WORDS}, words=_WORDS)
def command() -> None:
    """Measure speeds, take a method apart, prove laws."""
