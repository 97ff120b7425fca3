"""The whole of `specviz train block-drafter`: text, the target's own words, training, measuring, saving.

Each part leaves a file in the work folder and is skipped when it is done, so an interrupted run goes on where it was.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch

from specviz.drafters.blocks.files import KIND, Config, Trained
from specviz.drafters.blocks.fit import taps
from specviz.drafters.blocks.losses import How, RankLoss
from specviz.drafters.blocks.network import BlockNetwork, RopeMode
from specviz.drafters.part_files import fingerprint
from specviz.engine import loading
from specviz.engine.model import ModelAdapter
from specviz.errors import SpecvizError
from specviz.train import block_card, block_text, corpus, head_text, part
from specviz.train.block_loop import BlockSteps
from specviz.train.block_sizes import head_rows, layer_like, vocabulary_of
from specviz.train.console import Console
from specviz.train.drafter_loop import DrafterRun
from specviz.train.schedule import Budget

WRITING = 0.25  # of the time goes into the target's own text
N_WINDOWS = 24


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for. The last five are ablations: what the paper's parts are worth."""

    target: str | None
    out: Path
    work: Path
    minutes: float
    seed: int = 0
    slots: int = 4
    layers: int = 2
    blocks: int = 3
    width: int = 0
    draft_vocab: int = 0
    packages: bool = False
    texts: tuple[Path, ...] = ()
    device: str | None = None
    rope_mode: str = "offset"
    rank_loss: str = "invsqrt"
    shift: bool = True
    broadcast: bool = True
    valid_prefix: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """What fixes the result, without paths of this machine."""
        names = ("seed", "slots", "layers", "blocks", "width", "draft_vocab", "packages", "rope_mode", "rank_loss",
                 "shift", "broadcast", "valid_prefix")  # fmt: skip
        return {name: getattr(self, name) for name in names} | {"texts": [path.name for path in self.texts]}

    @property
    def command(self) -> str:
        """The command that repeats this run."""
        plain = Request(None, self.out, self.work, self.minutes).settings
        words = ["specviz train block-drafter", f"--minutes {self.minutes:g}", f"--seed {self.seed}"]
        words += [f"--target {Path(self.target).name}"] if self.target is not None else []
        for name, value in self.settings.items():
            flag = name.replace("_", "-")
            if name in ("seed", "texts") or value == plain[name]:
                continue
            words.append(f"--{flag}" if value is True else f"--no-{flag}" if value is False else f"--{flag} {value}")
        return " ".join([*words, *(f"--text {path.name}" for path in self.texts)])


def train_block_drafter(request: Request, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write drafter and card; return the card's numbers."""
    _refuse(request)
    loaded = loading.load(request.target, "target", request.device, None)
    adapter = loaded.adapter
    part.claim(request.work, request.out, {"target": fingerprint(adapter), **request.settings})
    wanted = corpus.Wanted(request.packages, request.texts, head_text.N_SUM_PAGES, request.seed)
    source = part.source(request.work, wanted, loaded.tokenizer, console)
    feed = head_text.beginnings(source.train)
    windows = block_text.written(
        adapter.model, feed, request.work / "own_text.npz", _share(request, WRITING), request.seed, console
    )
    trained = _begin(request, adapter, windows)
    how = How(rank_loss=request.rank_loss, valid_prefix=request.valid_prefix)  # type: ignore[arg-type]
    steps = BlockSteps(adapter.model, adapter.embedding, trained, windows, how, request.seed)
    run = DrafterRun(trained.network, _share(request, 1 - WRITING), request.work / "drafter.pt", steps)
    with console.bar("blocks", run.budget) as report:
        ledger = run.finish(report)
    KIND.write(request.out, trained)
    console.say("measuring")
    held = head_text.beginnings(source.held_out)
    windows_held = block_text.write_batch(adapter.model, held, (request.seed + 1, 0), N_WINDOWS)
    spent = ledger.spent(request.minutes, windows)
    made = block_card.Made(trained.config, request.command, spent, source.held_out)
    held_out = torch.from_numpy(windows_held).long()
    return block_card.write(request.out, made, adapter, KIND.load(request.out, adapter), held_out, windows.answer_from)


def _refuse(request: Request) -> None:
    for name, value, known in (
        ("rope-mode", request.rope_mode, get_args(RopeMode)), ("rank-loss", request.rank_loss, get_args(RankLoss)),
    ):  # fmt: skip
        if value not in known:
            raise SpecvizError(f"--{name} {value}: unknown; use {' or '.join(known)}")


def _share(request: Request, share: float) -> Budget:
    return Budget(seconds=60 * request.minutes * share)


def _begin(request: Request, adapter: ModelAdapter, windows: block_text.Windows) -> Trained:
    """A network with seeded weights; its head begins at the target's own, in storage of its own."""
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    layer, width = layer_like(adapter, request.width), int(adapter.head.weight.shape[1])
    config = Config(
        target=fingerprint(adapter), target_name=adapter.name, target_layers=adapter.n_layers, target_width=width,
        embed_width=int(adapter.embedding.weight.shape[1]), taps=taps(adapter.n_layers), vocab=adapter.vocab,
        draft_vocab=vocabulary.n_draft, width=layer.width, heads=layer.heads, kv_heads=layer.kv_heads,
        head_dim=layer.head_dim, ff=layer.ff, rope_theta=layer.rope_theta,
        rope_mode=request.rope_mode,  # type: ignore[arg-type]
        slots=request.slots, n_layers=request.layers, shift=request.shift, broadcast=request.broadcast,
        trained_blocks=request.blocks,
    )  # fmt: skip
    network = BlockNetwork(config.shape, torch.Generator().manual_seed(request.seed)).to(adapter.device)
    if layer.width == width:
        with torch.no_grad():
            network.head.weight.copy_(head_rows(adapter, vocabulary))
    return Trained(config, network.float(), vocabulary)
