"""Record the traces that ship in assets: every method on every domain, decoded by the embedded pair.

    python tools/bundle_traces.py [--out DIR] [--target FOLDER --draft FOLDER]

Deterministic but for the clock: same weights, same tokens.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from specviz.engine.local import LocalRun, load_pair
from specviz.trace import Recorder
from specviz.wire import Start

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
}


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=None, help="default: the assets folder")
@click.option("--target", default=None)
@click.option("--draft", default=None)
def main(out: Path | None, target: str | None, draft: str | None) -> None:
    """Record all runs."""
    assets = Path(str(files("specviz_assets")))
    folder = out or assets / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    pair = load_pair(target, draft, threads=1)
    for domain, prompt_name in PROMPTS.items():
        prompt = (assets / "prompts" / f"{prompt_name}.txt").read_text(encoding="utf-8")
        for name, start in RUNS.items():
            path = folder / f"{domain}-{name}.sv.jsonl"
            recorder = Recorder(path)
            run = LocalRun(pair, Start(prompt=prompt, **start), recorder.write, run=f"{domain}-{name}")
            for _ in run.rounds():
                pass
            recorder.close()
            packed = path.with_name(path.name + ".gz")
            size = packed.stat().st_size
            click.echo(f"{packed.name}: {run.session.number} rounds, {len(run.tokens)} tokens, {size} bytes")


if __name__ == "__main__":
    main()
