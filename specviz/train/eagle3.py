"""The whole of `specviz train eagle3`: text, the target's own words, training, measuring, saving.

The same text and the same share of time for writing it as `block-drafter`, so that the two can be compared. Each part
leaves a file in the work folder and is skipped when it is done, so an interrupted run goes on where it was.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.drafters.blocks.fit import taps
from specviz.drafters.eagle.files import KIND, Config, Trained
from specviz.drafters.eagle.network import EagleNetwork
from specviz.drafters.part_files import fingerprint
from specviz.engine import loading
from specviz.engine.model import ModelAdapter
from specviz.train import block_text, corpus, eagle_card, head_text, part
from specviz.train.block_sizes import head_rows, layer_like, vocabulary_of
from specviz.train.console import Console
from specviz.train.drafter_loop import DrafterRun
from specviz.train.eagle_loop import EagleSteps
from specviz.train.schedule import Budget

WRITING = 0.25  # of the time goes into the target's own text
N_WINDOWS = 24


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for. `steps`: levels unrolled in training."""

    target: str | None
    out: Path
    work: Path
    minutes: float
    seed: int = 0
    steps: int = 7
    draft_vocab: int = 0
    packages: bool = False
    texts: tuple[Path, ...] = ()
    device: str | None = None

    @property
    def command(self) -> str:
        """The command that repeats this run, without paths of this machine."""
        words = ["specviz train eagle3", f"--minutes {self.minutes:g}", f"--seed {self.seed}"]
        words += [f"--target {Path(self.target).name}"] if self.target is not None else []
        words += [f"--steps {self.steps}"] * (self.steps != 7)
        words += [f"--draft-vocab {self.draft_vocab}"] * bool(self.draft_vocab)
        words += ["--packages"] * self.packages + [f"--text {path.name}" for path in self.texts]
        return " ".join(words)


def train_eagle3(request: Request, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write drafter and card; return the card's numbers."""
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
    steps = EagleSteps(adapter.model, adapter.embedding, trained, windows, request.seed)
    run = DrafterRun(trained.network, _share(request, 1 - WRITING), request.work / "drafter.pt", steps)
    with console.bar("eagle3", run.budget) as report:
        ledger = run.finish(report)
    KIND.write(request.out, trained)
    console.say("measuring")
    held = head_text.beginnings(source.held_out)
    windows_held = block_text.write_batch(adapter.model, held, (request.seed + 1, 0), N_WINDOWS)
    spent = ledger.spent(request.minutes, windows)
    made = eagle_card.Made(trained.config, request.command, spent, source.held_out)
    held_out = torch.from_numpy(windows_held).long()
    return eagle_card.write(request.out, made, adapter, KIND.load(request.out, adapter), held_out, windows.answer_from)


def _asked(request: Request, target: str) -> dict[str, Any]:
    return {
        "target": target, "seed": request.seed, "steps": request.steps, "draft_vocab": request.draft_vocab,
        "packages": request.packages, "texts": [path.name for path in request.texts],
    }  # fmt: skip


def _share(request: Request, share: float) -> Budget:
    return Budget(seconds=60 * request.minutes * share)


def _begin(request: Request, adapter: ModelAdapter, windows: block_text.Windows) -> Trained:
    """A network with seeded weights; its head begins at the target's own, in storage of its own."""
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    layer = layer_like(adapter)
    config = Config(
        target=fingerprint(adapter), target_name=adapter.name, target_layers=adapter.n_layers,
        target_width=layer.width, taps=taps(adapter.n_layers), vocab=adapter.vocab, draft_vocab=vocabulary.n_draft,
        heads=layer.heads, kv_heads=layer.kv_heads, head_dim=layer.head_dim, ff=layer.ff, rope_theta=layer.rope_theta,
        trained_steps=request.steps,
    )  # fmt: skip
    network = EagleNetwork(config.shape, torch.Generator().manual_seed(request.seed)).to(adapter.device)
    with torch.no_grad():
        network.head.weight.copy_(head_rows(adapter, vocabulary))
    return Trained(config, network.float(), vocabulary)
