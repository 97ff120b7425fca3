"""Record the traces that ship in assets: every method on every domain, decoded by the embedded pair.

    python tools/bundle_traces.py [--out DIR] [--target FOLDER --draft FOLDER] [--only RUN ..]

Deterministic but for the clock: same weights, same tokens.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from specviz.cli import main as specviz
from specviz.engine.local import LocalRun, load_pair
from specviz.trace import Recorder
from specviz.wire import Prompt, Start

PROMPTS = {"code": "code-stack", "prose": "prose-modules", "sums": "sums-story"}
SAMPLED = {"temperature": 0.7, "seed": 7, "max_new_tokens": 72}
RUNS: dict[str, dict[str, Any]] = {
    "ar": {"method": "ar", "knobs": {**SAMPLED, "max_new_tokens": 40}},
    "draft": {"method": "draft", "knobs": SAMPLED},
    "hsd": {"method": "draft", "verifier": "hsd", "knobs": {**SAMPLED, "temperature": 1.0, "gamma": 6}},
    "tree": {
        "method": "draft",
        "knobs": {"shape": "tree", "node_budget": 16, "d_max": 4, "w_max": 3, "k_max": 4, "max_new_tokens": 72},
    },
    "ngram": {"method": "ngram", "knobs": {"max_new_tokens": 72}},
    "specbound": {"method": "specbound", "knobs": {"max_new_tokens": 72, "observe_all": True}},
    "specbranch": {"method": "specbranch", "knobs": {**SAMPLED, "epsilon": 0.15, "k_max": 8}, "lanes": "threads"},
    "pearl": {"method": "pearl", "knobs": {"max_new_tokens": 72}, "lanes": "threads"},
    "lookahead": {"method": "lookahead", "knobs": {"max_new_tokens": 72}},
    "kangaroo": {"method": "kangaroo", "knobs": {"max_new_tokens": 72}},
    "specblock": {"method": "specblock", "knobs": {"max_new_tokens": 72}},
    "eagle3": {"method": "eagle3", "knobs": {"max_new_tokens": 72}},
    "stream-specblock": {
        "method": "specblock", "level": "summary",
        "knobs": {"adapt": "on", "adapt_budget": 0.3, "max_new_tokens": 48},
    },
}  # fmt: skip
SWEPT = ("specbound",)  # with what every head says added, so that its settings can be replayed
STREAMS = ("stream-specblock",)  # over all bundled prompts, domain after domain
EVERYWHERE = ("ar", "draft", "hsd", "tree", "ngram")  # the others on code alone


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=None, help="default: the assets folder")
@click.option("--target", default=None)
@click.option("--draft", default=None)
@click.option("--only", multiple=True, type=click.Choice(list(RUNS)), help="these runs; repeatable")
def main(out: Path | None, target: str | None, draft: str | None, only: tuple[str, ...]) -> None:
    """Record all runs."""
    assets = Path(str(files("specviz_assets")))
    folder = out or assets / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    pair = load_pair(target, draft, threads=1)
    for domain, prompt_name in PROMPTS.items():
        prompt = (assets / "prompts" / f"{prompt_name}.txt").read_text(encoding="utf-8")
        for name, start in RUNS.items():
            if (only and name not in only) or (domain != "code" and name not in EVERYWHERE):
                continue
            title = name if name in STREAMS else f"{domain}-{name}"
            path = folder / f"{title}.sv.jsonl"
            path.with_name(path.name + ".gz").unlink(missing_ok=True)  # a name in use is refused
            recorder = Recorder(path)
            asked = {"stream": _stream(assets)} if name in STREAMS else {"prompt": prompt}
            run = LocalRun(pair, Start(**asked, **start), recorder.write, run=title)
            for _ in run.rounds():
                pass
            recorder.close()
            packed = path.with_name(path.name + ".gz")
            if name in SWEPT:
                _sweep(name, packed)
            size = packed.stat().st_size
            click.echo(f"{packed.name}: {run.session.number} rounds, {len(run.tokens)} tokens, {size} bytes")


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
