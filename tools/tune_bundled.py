"""Hold the knobs of the bundled recordings against what `specviz tune` finds: `benchmarks/tuned-bundled.json`.

    python -m tools.tune_bundled [--minutes M] [TITLE ..]    search: other work on the machine only makes it longer
    python -m tools.tune_bundled --confirm [TITLE ..]        measure what was found, on a quiet machine

Searched is what `specviz tune` searches of the method, on the recording's own prompt, decoded several times over: its
model, verifier, lanes and every other knob stay as `tools/bundled.toml` has them. Then the setting found, plain
decoding and the recording's knobs take turns; the intervals are over those repetitions. Recordings stay in the
history for ever, so one is made again only where the setting found is faster by a tenth of plain decoding.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from specviz.cli.printing import narrate
from specviz.methods import get_method
from specviz.metrics import Estimate
from specviz.sources.prompts import PromptSet
from specviz.tuning.measured import PLAIN, Tuning
from specviz.tuning.space import KnobSetting, tunable
from tools.bundle_traces import CHATS, MODEL, PROMPTS, _Models

REPORT = Path(__file__).resolve().parent.parent / "benchmarks/tuned-bundled.json"
LOSE = ("code-specbound", "code-specbranch", "translate-ar")  # lessons about losing; the last drafts nothing
PAY = [title for title, wanted in CHATS.items() if wanted.folder == "traces" and title not in LOSE]
TIMES = 8  # a prompt is decoded in the confirmation


@click.command()
@click.option("--minutes", default=3.0, help="for each")
@click.option("--confirm", is_flag=True, help="measure what was found")
@click.argument("titles", nargs=-1)
def main(minutes: float, confirm: bool, titles: tuple[str, ...]) -> None:
    """Search or confirm, one recording after another; each is kept as soon as it is known."""
    kept: dict[str, Any] = json.loads(REPORT.read_text("utf-8")) if REPORT.exists() else {}
    models = _Models(MODEL)
    for title in titles or PAY:
        tuning, own = _tuning(models, title, minutes)
        kept[title] = {**kept[title], **_confirmed(tuning, own, kept[title])} if confirm else _found(tuning, own)
        REPORT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
        click.echo(f"{title}: {json.dumps(kept[title], ensure_ascii=False)}")


def _tuning(models: _Models, title: str, minutes: float) -> tuple[Tuning, Mapping[str, Any]]:
    """The search, and those of the recording's knobs that it looks for. What learns between prompts is left out."""
    wanted = CHATS[title]
    method = get_method(wanted.method)
    searched = {spec.name for spec in tunable(method, {})}
    texts = [PROMPTS[name] for name in wanted.prompts or [wanted.prompt] * TIMES]
    own = {name: value for name, value in wanted.knobs.items() if name in searched}
    fixed = {k: v for k, v in wanted.knobs.items() if k not in searched and not k.startswith("adapt")}
    how = {name: value for name, value in wanted.more.items() if name != "level"}
    prompts = PromptSet(title, "", len(texts), tuple(texts), tuple(texts), tuple(texts))
    pair = models.pair(wanted.draft)
    return Tuning(pair, prompts, [method.name], fixed, {}, minutes * 60, "", narrate, how), own


def _found(tuning: Tuning, own: Mapping[str, Any]) -> dict[str, Any]:
    report = tuning.run()
    return {"knobs": own, "found": report.knobs, "tried": len(report.trials)}


def _confirmed(tuning: Tuning, own: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """The setting found over plain decoding and over the recording's, which itself is taken over plain decoding too."""
    (method,), load = tuning.methods, os.getloadavg()[0]
    best, recorded, plain = KnobSetting(method, kept["found"]), KnobSetting(method, own), KnobSetting(PLAIN)
    every = range(len(tuning.prompts.texts))
    half = tuning.seconds / 2
    (over_plain, over_own), _ = tuning.confirmed(best, [plain, recorded], every, time.perf_counter() + half)
    (own_over_plain,), _ = tuning.confirmed(recorded, [plain], every, time.perf_counter() + half)
    gains = {"found_over_plain": over_plain, "own_over_plain": own_over_plain, "found_over_own": over_own}
    return {**{name: _told(estimate) for name, estimate in gains.items()}, "load": round(load, 2)}


def _told(estimate: Estimate) -> Any:
    return msgspec.to_builtins(estimate)


if __name__ == "__main__":
    main()
