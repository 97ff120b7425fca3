"""The whole of `specviz train medusa`: text, the target's own words, training, the fixed tree, measuring, saving.

Each part leaves a file in the work folder and is skipped when it is done, so an interrupted run goes on where it was.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from specviz.drafters.medusa.drafter import Medusa
from specviz.drafters.medusa.files import KIND, Config, Trained
from specviz.drafters.medusa.network import MedusaHeads
from specviz.drafters.part_files import fingerprint
from specviz.drafters.rank_paths import best_paths, expected
from specviz.engine import loading
from specviz.engine.model import ModelAdapter
from specviz.methods.blocks import MEDUSA
from specviz.train import block_measure, block_text, corpus, head_card, head_text, part
from specviz.train.block_measure import share, table
from specviz.train.block_sizes import head_rows, vocabulary_of
from specviz.train.console import Console
from specviz.train.drafter_loop import DrafterRun
from specviz.train.medusa_loop import MedusaSteps, counted_ranks
from specviz.train.schedule import Budget

WRITING = 0.25  # of the time goes into the target's own text
N_WINDOWS, N_PROMPTS, PROMPT, N_NEW = 24, 6, 48, 64
TREE = 63
ARMS: tuple[dict[str, Any], ...] = ({}, {"node_budget": 24}, {"temperature": 1.0})


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for."""

    target: str | None
    out: Path
    work: Path
    minutes: float
    seed: int = 0
    heads: int = 4
    draft_vocab: int = 0
    packages: bool = False
    texts: tuple[Path, ...] = ()
    device: str | None = None

    @property
    def command(self) -> str:
        """The command that repeats this run, without paths of this machine."""
        words = ["specviz train medusa", f"--minutes {self.minutes:g}", f"--seed {self.seed}"]
        words += [f"--target {Path(self.target).name}"] if self.target is not None else []
        words += [f"--heads {self.heads}"] * (self.heads != 4)
        words += [f"--draft-vocab {self.draft_vocab}"] * bool(self.draft_vocab)
        words += ["--packages"] * self.packages + [f"--text {path.name}" for path in self.texts]
        return " ".join(words)


def train_medusa(request: Request, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write heads and card; return the card's numbers."""
    loaded = loading.load(request.target, "target", request.device, None)
    adapter = loaded.adapter
    part.claim(request.work, request.out, _asked(request, fingerprint(adapter)))
    wanted = corpus.Wanted(request.packages, request.texts, head_text.N_SUM_PAGES, request.seed)
    source = part.source(request.work, wanted, loaded.tokenizer, console)
    feed = head_text.beginnings(source.train)
    windows = block_text.written(
        adapter.model, feed, request.work / "own_text.npz", _share(request, WRITING), request.seed, console
    )
    trained = _begin(request, adapter, windows)
    steps = MedusaSteps(adapter.model, trained, windows, request.seed)
    run = DrafterRun(trained.network, _share(request, 1 - WRITING), request.work / "heads.pt", steps)
    with console.bar("medusa", run.budget) as report:
        ledger = run.finish(report)
    console.say("counting ranks, measuring")
    held = head_text.beginnings(source.held_out)
    greedy = block_text.write_batch(adapter.model, held, (request.seed + 1, 0), N_WINDOWS, block_text.GREEDY)
    right = counted_ranks(adapter, trained, torch.from_numpy(greedy).long(), windows.answer_from)
    KIND.write(request.out, Trained(replace(trained.config, right=right), trained.network, trained.vocabulary))
    prompts = head_card.prompts(source.held_out, N_PROMPTS, PROMPT)
    return _card(request, KIND.load(request.out, adapter), adapter, prompts, ledger.spent(request.minutes, windows))


def _asked(request: Request, target: str) -> dict[str, Any]:
    return {
        "target": target, "seed": request.seed, "heads": request.heads, "draft_vocab": request.draft_vocab,
        "packages": request.packages, "texts": [path.name for path in request.texts],
    }  # fmt: skip


def _share(request: Request, share_: float) -> Budget:
    return Budget(seconds=60 * request.minutes * share_)


def _begin(request: Request, adapter: ModelAdapter, windows: block_text.Windows) -> Trained:
    """Heads that say what the target's own says."""
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    width = int(adapter.head.weight.shape[1])
    config = Config(
        fingerprint(adapter), adapter.name, adapter.n_layers, width, adapter.vocab, vocabulary.n_draft, request.heads
    )
    network = MedusaHeads(request.heads, width, vocabulary.n_draft).to(adapter.device)
    return Trained(config, network.begin(head_rows(adapter, vocabulary)), vocabulary)


def _card(
    request: Request,
    trained: Trained,
    adapter: ModelAdapter,
    prompts: dict[str, list[list[int]]],
    spent: dict[str, Any],
) -> dict[str, Any]:
    right = trained.config.right
    numbers: dict[str, Any] = {
        "n_params": sum(parameter.numel() for parameter in trained.network.parameters()),
        "right": right, "tree": best_paths(right, TREE), "expected": round(expected(right, best_paths(right, TREE)), 3),
        "decoding": block_measure.compared(adapter, MEDUSA, lambda: Medusa(trained), prompts, N_NEW, ARMS),
        "config": asdict(trained.config), "command": request.command, "training": spent,
    }  # fmt: skip
    (request.out / "card.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    (request.out / "README.md").write_text(_page(numbers), encoding="utf-8")
    return numbers


def _page(numbers: dict[str, Any]) -> str:
    config, spent = numbers["config"], numbers["training"]
    named = (1, 2, 3, 5, 10)
    lines = [
        f"# Medusa heads for {config['target_name']}", "",
        f"{numbers['n_params']:,} weights in {config['heads']} heads on the target's last state, "
        f"{config['draft_vocab']:,} of {config['vocab']:,} tokens. Whatever they say, the text stays the target's own.",
        "", "## Where the target's token stands in each head", "",
        "Share of places where it was among the first n, on held-out text the target wrote greedily.", "",
        "| head |" + "".join(f" {n} |" for n in named), "|---|" + "---|" * len(named),
    ]  # fmt: skip
    lines += [
        f"| {j} |" + "".join(f" {share(sum(row[:n]))} |" for n in named) for j, row in enumerate(numbers["right"], 1)
    ]
    lines += [
        "", f"The {TREE} best paths of ranks are expected to bring {numbers['expected']:.2f} tokens a round besides "
        "the target's own, if heads were independent.", "",
        "## What decoding gains", "",
        "Method `medusa`, knobs at their defaults unless named; mean acceptance length counts the closing token.", "",
        *table(numbers["decoding"]), "",
        "## Made by", "",
        f"`{numbers['command']}`: {spent['own_tokens']:,} tokens written by the target, {spent['steps']:,} steps, "
        f"{spent['pairs']:,} states, {spent['minutes']:g} minutes.", "",
    ]  # fmt: skip
    return "\n".join(lines)
