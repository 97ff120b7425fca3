"""Record the traces that ship in assets: every method on every domain, decoded by the embedded pair.

    python -m tools.bundle_traces [--out DIR] [--target FOLDER --draft FOLDER] [--only RUN ..] [--force]

Run it on a quiet machine, with nothing else at work: it says how busy the machine is and refuses a busy one, and it
refuses a recording whose draft was slower than its target or whose text turns in a circle (`tools.recordings`), after
some tries. `--force` keeps all the same. The traces in place are replaced one by one, each once its successor is good.
Deterministic but for the clock: same weights, same tokens.
"""

import os
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from specviz.cli import main as specviz
from specviz.commands import Prompt, Start
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.trace import Recorder
from tools.recordings import fault

PROMPTS = {"code": "code-stack", "prose": "prose-modules", "sums": "sums-story"}
GREEDY_PROMPTS = {**PROMPTS, "prose": "prose-files", "sums": "sums-running"}  # whose likeliest text is no circle
SAMPLED = {"temperature": 0.7, "seed": 7, "max_new_tokens": 72}
OTHER = {"temperature": 0.9, "seed": 7, "max_new_tokens": 72}
TREE = {"shape": "tree", "node_budget": 16, "d_max": 4, "w_max": 3, "k_max": 4}
# Sampled on code, where this target's likeliest text turns in a circle within a line; `GREEDY` elsewhere.
RUNS: dict[str, dict[str, Any]] = {
    "ar": {"method": "ar", "knobs": {**SAMPLED, "max_new_tokens": 40}},
    "draft": {"method": "draft", "knobs": SAMPLED},
    "hsd": {"method": "draft", "verifier": "hsd", "knobs": {**SAMPLED, "temperature": 1.0, "gamma": 5}},
    "tree": {"method": "draft", "knobs": {**SAMPLED, **TREE}},
    "ngram": {"method": "ngram", "knobs": OTHER},
    "specbound": {"method": "specbound", "knobs": {**SAMPLED, "observe_all": True}},
    "specbranch": {"method": "specbranch", "knobs": {**OTHER, "epsilon": 0.15, "k_max": 8}, "lanes": "threads"},
    "pearl": {"method": "pearl", "knobs": SAMPLED, "lanes": "threads"},
    "lookahead": {"method": "lookahead", "knobs": OTHER},
    "kangaroo": {"method": "kangaroo", "knobs": SAMPLED},
    "specblock": {"method": "specblock", "knobs": SAMPLED},
    "eagle3": {"method": "eagle3", "knobs": SAMPLED},
    "stream-specblock": {
        "method": "specblock",
        "level": "summary",
        "knobs": {"adapt": "on", "adapt_budget": 0.3, "max_new_tokens": 48, "temperature": 0.7, "seed": 7},
    },
}
GREEDY = ("tree", "ngram")  # at temperature 0 on prose and sums
SWEPT = ("specbound",)  # with what every head says added, so that its settings can be replayed
STREAMS = ("stream-specblock",)  # over all bundled prompts, domain after domain
EVERYWHERE = ("ar", "draft", "hsd", "tree", "ngram")  # the others on code alone
MOST_LOAD, TRIES = 0.5, 3  # processes that wanted to run in the last minute


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=None, help="default: the assets folder")
@click.option("--target", default=None)
@click.option("--draft", default=None)
@click.option("--only", multiple=True, type=click.Choice(list(RUNS)), help="these runs; repeatable")
@click.option("--force", is_flag=True, help="also on a busy machine, and keep what would be refused")
def main(out: Path | None, target: str | None, draft: str | None, only: tuple[str, ...], force: bool) -> None:
    """Record all runs."""
    load = os.getloadavg()[0]
    click.echo(f"load {load:.2f} on {os.cpu_count()} cores")
    if load > MOST_LOAD and not force:
        raise click.ClickException(
            f"this machine is busy (load {load:.2f}, at most {MOST_LOAD}): times now would be those of waiting; wait "
            " a minute or two with nothing at work, or give --force"
        )
    assets = Path(str(files("specviz_assets")))
    folder = out or assets / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    pair = load_pair(target, draft, threads=1)
    wanted = [
        (domain, name)
        for domain in PROMPTS
        for name in RUNS
        if (not only or name in only) and (domain == "code" or name in EVERYWHERE)
    ]
    with tempfile.TemporaryDirectory() as scratch:  # the first passes of a process are slow
        _record(pair, Start(prompt="def", method="draft", knobs={"max_new_tokens": 16}), Path(scratch) / "warm")
    refused = [title for title in (_made(pair, assets, *each, folder, force) for each in wanted) if title]
    click.echo(f"load {os.getloadavg()[0]:.2f} at the end, our own included")
    if refused:
        raise click.ClickException(f"not replaced: {', '.join(refused)}; the machine was not quiet, try again")


def _made(pair: Pair, assets: Path, domain: str, name: str, folder: Path, force: bool) -> str | None:
    """Record one run until it is good, and put it in place. Its name when it never was."""
    title = name if name in STREAMS else f"{domain}-{name}"
    start = _start(assets, domain, name)
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as scratch:
            packed, said = _record(pair, start, Path(scratch) / title)
            if name in SWEPT:
                _sweep(name, packed)
            wrong = fault(packed)
            if wrong is None or force:
                (folder / packed.name).write_bytes(packed.read_bytes())
                size = (folder / packed.name).stat().st_size
                click.echo(
                    f"{packed.name}: {said}, {size} bytes, load {os.getloadavg()[0]:.2f}"
                    + (f"; kept by force: {wrong}" if wrong else "")
                )
                return None
        click.echo(f"{title}: {wrong}; again", err=True)
    return title


def _start(assets: Path, domain: str, name: str) -> Start:
    """What to decode: a prompt, or the stream of all."""
    greedy = domain != "code" and name in GREEDY
    fields = {**RUNS[name], "knobs": {**RUNS[name]["knobs"], **({"temperature": 0.0} if greedy else {})}}
    if name in STREAMS:
        return Start(stream=_stream(assets), **fields)
    prompt = (GREEDY_PROMPTS if greedy else PROMPTS)[domain]
    return Start(prompt=(assets / "prompts" / f"{prompt}.txt").read_text(encoding="utf-8"), **fields)


def _record(pair: Pair, start: Start, title: Path) -> tuple[Path, str]:
    """The recording, zipped, and its size in words."""
    path = title.with_name(f"{title.name}.sv.jsonl")
    recorder = Recorder(path)
    run = LocalRun(pair, start, recorder.write, run=title.name)
    for _ in run.rounds():
        pass
    recorder.close()
    return path.with_name(path.name + ".gz"), f"{run.session.number} rounds, {len(run.tokens)} tokens"


def _stream(assets: Path) -> list[Prompt]:
    """All bundled prompts, so that what they are about shifts twice."""
    paths = [path for domain in PROMPTS for path in sorted((assets / "prompts").glob(f"{domain}-*.txt"))]
    return [Prompt(text=path.read_text(encoding="utf-8"), domain=path.stem.split("-")[0]) for path in paths]


def _sweep(method: str, trace: Path) -> None:
    """Put what every head says into the trace itself."""
    swept = trace.with_name(f"swept-{trace.name.removesuffix('.gz')}")
    if specviz(["sweep", method, str(trace), "--write", str(swept)]) != 0:
        raise click.ClickException(f"{trace.name} could not be swept")
    swept.with_name(swept.name + ".gz").replace(trace)


if __name__ == "__main__":
    main()
