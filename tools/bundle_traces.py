"""Record the traces that ship: methods on chats with SmolLM2 in assets, and those of the tests by the embedded pair.

    python -m tools.bundle_traces [--pair] [--out DIR] [--only TITLE ..] [--force]

What those in assets decode, and how, stands in `tools/bundled.toml`. SmolLM2 must be here (`specviz models get
smollm2`); its parts are those that ship. Run it on a quiet machine, with nothing else at work: it says how busy the
machine is and refuses a busy one, and it refuses a recording whose draft was slower than its target, whose text turns
in a circle or whose speed was not measured (`tools.recordings`), after some tries. `--force` keeps all the same. The
traces in place are replaced one by one, each once its successor is good. Deterministic but for the clock: same weights,
same tokens.
"""

import os
import tempfile
import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from specviz.cli import main as specviz
from specviz.commands import Prompt, Start
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.sources.bundled import bundled_prompts
from specviz.sources.chat_examples import CHAT_EXAMPLES
from specviz.sources.gallery import gallery_card
from specviz.trace import Recorder
from tools.recordings import fault, untold

MODEL = "smollm2"
SAMPLED = {"temperature": 0.7, "seed": 7, "max_new_tokens": 72}
OTHER = {"temperature": 0.9, "seed": 7, "max_new_tokens": 72}
LIKELIEST = {"temperature": 0.0, "max_new_tokens": 72}
TREE = {"shape": "tree", "node_budget": 16, "d_max": 4, "w_max": 3, "k_max": 4}
BRANCHES = {**OTHER, "epsilon": 0.15, "k_max": 8}
LEARNS = {"adapt": "on", "adapt_budget": 0.3, "max_new_tokens": 48, "temperature": 0.7, "seed": 7}
MOST_LOAD, TRIES = 0.5, 3  # processes that wanted to run in the last minute


@dataclass(frozen=True)
class Recording:
    """One run: a prompt by its name, or several, one after another; a method, what else it is given.

    `swept`: with what every exit head says added, so that its settings can be replayed. `draft`: the draft model, where
    it is not the usual one of the target. `folder`: of assets.
    """

    prompt: str
    method: str
    knobs: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)
    swept: bool = False
    draft: str | None = None
    prompts: tuple[str, ...] = ()
    folder: str = "traces"


# Sampled on code, where the embedded target's likeliest text turns in a circle within a line; on prose and sums at
# temperature 0 the prompts are those whose likeliest text is no circle.
_ON = {"code": "code-stack", "prose": "prose-modules", "sums": "sums-story"}
_LIKELY_ON = {"prose": "prose-files", "sums": "sums-running"}
PAIR: dict[str, Recording] = {
    **{f"{name}-ar": Recording(on, "ar", {**SAMPLED, "max_new_tokens": 40}) for name, on in _ON.items()},
    **{f"{name}-draft": Recording(on, "draft", SAMPLED) for name, on in _ON.items()},
    **{
        f"{name}-hsd": Recording(on, "draft", {**SAMPLED, "temperature": 1.0, "gamma": 5}, {"verifier": "hsd"})
        for name, on in _ON.items()
    },
    "code-tree": Recording(_ON["code"], "draft", {**SAMPLED, **TREE}),
    "code-ngram": Recording(_ON["code"], "ngram", OTHER),
    **{f"{name}-tree": Recording(on, "draft", {**SAMPLED, **TREE, **LIKELIEST}) for name, on in _LIKELY_ON.items()},
    **{f"{name}-ngram": Recording(on, "ngram", {**OTHER, **LIKELIEST}) for name, on in _LIKELY_ON.items()},
    "code-specbound": Recording(_ON["code"], "specbound", {**SAMPLED, "observe_all": True}, swept=True),
    "code-specbranch": Recording(_ON["code"], "specbranch", BRANCHES, {"lanes": "threads"}),
    "code-pearl": Recording(_ON["code"], "pearl", SAMPLED, {"lanes": "threads"}),
    "code-lookahead": Recording(_ON["code"], "lookahead", OTHER),
    "code-kangaroo": Recording(_ON["code"], "kangaroo", SAMPLED),
    "code-specblock": Recording(_ON["code"], "specblock", SAMPLED),
    "code-eagle3": Recording(_ON["code"], "eagle3", SAMPLED),
    "code-mtp": Recording(_ON["code"], "mtp", SAMPLED),
    "code-dflash": Recording(_ON["code"], "dflash", SAMPLED),
    "stream-specblock": Recording("", "specblock", LEARNS, {"level": "summary"}, prompts=tuple(bundled_prompts())),
}


def _chats() -> tuple[dict[str, str], dict[str, Recording]]:
    """Of what comes along: the prompts by name, and what is recorded."""
    tables = tomllib.loads(Path(__file__).with_name("bundled.toml").read_text(encoding="utf-8"))
    prompts = {**CHAT_EXAMPLES, **tables.pop("prompts")}
    chats = {}
    for title, table in tables.items():
        more = {name: table.pop(name) for name in ("verifier", "lanes", "level") if name in table}
        chats[title] = Recording(**{"prompt": "", **table, "prompts": tuple(table.get("prompts", ()))}, more=more)
    return prompts, chats


PROMPTS, CHATS = _chats()


@click.command()
@click.option("--pair", "of_pair", is_flag=True, help="those of the tests, by the embedded pair")
@click.option("--out", type=click.Path(path_type=Path), help="default: the assets folder, or that of the tests")
@click.option("--only", multiple=True, type=click.Choice([*dict.fromkeys((*CHATS, *PAIR))]), help="repeatable")
@click.option("--force", is_flag=True, help="also on a busy machine, and keep what would be refused")
def main(of_pair: bool, out: Path | None, only: tuple[str, ...], force: bool) -> None:
    """Record all runs."""
    load = os.getloadavg()[0]
    click.echo(f"load {load:.2f} on {os.cpu_count()} cores")
    if load > MOST_LOAD and not force:
        raise click.ClickException(
            f"this machine is busy (load {load:.2f}, at most {MOST_LOAD}): times now would be those of waiting; wait "
            " a minute or two with nothing at work, or give --force"
        )
    wanted = {
        title: recording for title, recording in (PAIR if of_pair else CHATS).items() if not only or title in only
    }
    models = _Models(None if of_pair else MODEL)
    refused = []
    for title, recording in wanted.items():
        usual = Path("tests/recordings") if of_pair else Path(str(files("specviz_assets"))) / recording.folder
        folder = out or usual
        folder.mkdir(parents=True, exist_ok=True)
        if not _made(models, title, recording, folder, force):
            refused.append(title)
    click.echo(f"load {os.getloadavg()[0]:.2f} at the end, our own included")
    if refused:
        raise click.ClickException(f"not replaced: {', '.join(refused)}; the machine was not quiet, try again")


@dataclass(frozen=True)
class _Models:
    """A target and what it is asked."""

    target: str | None
    pairs: dict[str | None, Pair] = field(default_factory=dict)

    def pair(self, draft: str | None) -> Pair:
        """Loaded once, and warm: the first passes of a process are slow."""
        if draft in self.pairs:
            return self.pairs[draft]
        self.pairs[draft] = pair = load_pair(self.target, draft, threads=1)
        with tempfile.TemporaryDirectory() as scratch:
            start = Start(prompt="def", method="draft", knobs={"max_new_tokens": 16})
            _record(pair, start, Path(scratch) / "warm")
        return pair

    @property
    def prompts(self) -> dict[str, str]:
        return bundled_prompts() if self.target is None else PROMPTS

    def start(self, wanted: Recording) -> Start:
        """What to decode: a prompt, or several, of which each belongs to a domain by the first word of its name."""
        fields = {"method": wanted.method, "knobs": wanted.knobs, **wanted.more}
        if not wanted.prompts:
            return Start(prompt=self.prompts[wanted.prompt], **fields)
        stream = [Prompt(text=self.prompts[name], domain=name.partition("-")[0]) for name in wanted.prompts]
        return Start(stream=stream, **fields)


def _made(models: _Models, title: str, wanted: Recording, folder: Path, force: bool) -> bool:
    """Record one run until it is good, and put it in place; whether it ever was."""
    pair, start = models.pair(wanted.draft), models.start(wanted)
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as scratch:
            packed, summary = _record(pair, start, Path(scratch) / title)
            if wanted.swept:
                _sweep(wanted.method, packed, models.target)
            wrong = fault(packed) or (untold(packed) if models.target is not None else None)
            if wrong is None or force:
                (folder / packed.name).write_bytes(packed.read_bytes())
                size = (folder / packed.name).stat().st_size
                click.echo(
                    f"{packed.name}: {summary}, {_pays(packed)}, {size} bytes, load {os.getloadavg()[0]:.2f}"
                    + (f"; kept by force: {wrong}" if wrong else "")
                )
                return True
        click.echo(f"{title}: {wrong}; again", err=True)
    return False


def _record(pair: Pair, start: Start, title: Path) -> tuple[Path, str]:
    """The recording, zipped, and its size in words."""
    path = title.with_name(f"{title.name}.sv.jsonl")
    recorder = Recorder(path)
    run = LocalRun(pair, start, recorder.write, run=title.name)
    for _ in run.rounds():
        pass
    recorder.close()
    return path.with_name(path.name + ".gz"), f"{run.session.number} rounds, {len(run.tokens)} tokens"


def _pays(trace: Path) -> str:
    card = gallery_card(trace)
    return "of unknown speed" if card is None else card.pays


def _sweep(method: str, trace: Path, target: str | None) -> None:
    """Put what every head says into the trace itself."""
    swept = trace.with_name(f"swept-{trace.name.removesuffix('.gz')}")
    named = [] if target is None else ["--target", target]
    if specviz(["whatif", str(trace), "--sweep", method, *named, "--write", str(swept)]) != 0:
        raise click.ClickException(f"{trace.name} could not be swept")
    swept.with_name(swept.name + ".gz").replace(trace)


if __name__ == "__main__":
    main()
