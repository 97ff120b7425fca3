"""The whole of `specviz train pair`: text, tokenizer, target, draft model, distillation, measuring, saving.

Each part leaves a file in the work folder and is skipped when its file says it is done, so an interrupted run goes on
where it was. The budget is shared out in advance: a part that is slowed down does not shorten the ones after it.

The draft model's first weights: two of the target's layers, seen through the directions the target uses most.

A shallow model that starts from its target has nothing to learn of the vocabulary: two thirds of its parameters, the
embedding, are the target's, turned onto fewer axes. On two CPU cores that is worth more than everything else that was
tried: after 100 seconds of text, held-out loss 3.43 from here against 4.44 from fresh weights.
"""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from specviz.errors import SpecvizError
from specviz.train.cards import card
from specviz.train.common import corpus, own_text, tokens, vocabulary
from specviz.train.common import tokens as shapes
from specviz.train.common.job import Console
from specviz.train.common.loop import Job, Ledger, Run
from specviz.train.common.objectives import Objective, distilled, next_token
from specviz.train.common.optim import FULL, Budget, Stage

N_SUM_PAGES = 12_000
TOKENIZER_CHARS = 30e6
BATCHES_PER_MINUTE = 0.24


@dataclass(frozen=True, slots=True)
class Part:
    """One of the five training runs: its share of the time, stages, peak rate, seed offset, and which windows.

    `aligned` of the code windows begin at a definition; `own_share` of all windows are text the target wrote.
    """

    name: str
    share: float
    stages: tuple[Stage, ...]
    rate: float
    offset: int
    aligned: float = 0.0
    own_share: float = 0.0


_TEXT_STAGES = (Stage(0.5, 256, 8, 1), Stage(0.85, 256, 8, 2), Stage(1.0, 512, 4, 2))
_DISTIL_STAGES = (Stage(0.4, 256, 8, 1), Stage(0.8, 256, 8, 2), Stage(1.0, 1_024, 2, 2))
TARGET = Part("target", 0.58, FULL, rate=1.0, offset=1)
SETTLE = Part("settle", 0.0324, (Stage(1.0, 256, 8, 1),), rate=0.15, offset=4, aligned=0.5)
DRAFT = Part("draft", 0.2, _TEXT_STAGES, rate=1.0, offset=2)
DISTIL = Part("distil", 0.0876, _DISTIL_STAGES, rate=0.5, offset=3, aligned=0.3)
# The long windows at the end are no luxury: after short ones alone, a draft model guesses from position 400 on.
_FOLLOW_STAGES = (Stage(0.5, 256, 8, 1), Stage(1.0, 1_024, 2, 1))
FOLLOW = Part("follow", 0.1, _FOLLOW_STAGES, rate=0.5, offset=5, aligned=0.3, own_share=0.6)


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for."""

    out: Path
    work: Path
    minutes: float
    seed: int = 0
    packages: bool = False
    texts: tuple[Path, ...] = ()
    arithmetic: bool = True
    compiled: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the text and the draws; a work folder may only be continued with the same."""
        names = [path.name for path in self.texts]
        return {"seed": self.seed, "packages": self.packages, "texts": names, "arithmetic": self.arithmetic}

    @property
    def command(self) -> str:
        """The command that repeats this run, without paths of this machine."""
        words = ["specviz train pair", f"--minutes {self.minutes:g}", f"--seed {self.seed}"]
        words += ["--packages"] * self.packages + [f"--text {path.name}" for path in self.texts]
        words += [] if self.arithmetic else ["--no-arithmetic"]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Workshop:
    """What every part of the training needs."""

    request: Request
    console: Console
    store: tokens.Store
    starts: NDArray[np.int64]

    def feed(self, part: Part) -> tokens.Feed:
        """The windows of a part."""
        streams, starts, mix = dict(self.store.train), {"code": self.starts}, dict(tokens.MIX)
        if part.own_share:
            written = own_text.Written.load(self.request.work / "own_text.npz")
            streams["own"], starts["own"] = written.stream, written.starts
            mix = {name: share * (1 - part.own_share) for name, share in mix.items()} | {"own": part.own_share}
        return tokens.Feed(streams, starts, {"code": part.aligned, "own": 1.0}, mix)

    def write_own_text(self, target: LlamaForCausalLM) -> None:
        """Have the target write what the draft model will learn to follow, unless it has."""
        path = self.request.work / "own_text.npz"
        if not path.exists():
            self.console.say("the target writes the text that the draft model will learn to follow")
            n_batches = max(1, round(self.request.minutes * BATCHES_PER_MINUTE))
            own_text.write(target, self.feed(DISTIL), n_batches, self.request.seed).save(path)

    def run(self, part: Part, model: LlamaForCausalLM, objective: Objective) -> Ledger:
        """Train `model`, or take the weights of a run that is done, until the part's share of time is spent."""
        request = self.request
        job = Job(
            model=model,
            objective=objective,
            feed=self.feed(part),
            held_out=tokens.fixed(self.store.held_out["code"], 64, 256),
            budget=Budget(seconds=60 * request.minutes * part.share),
            stages=part.stages,
            seed=request.seed + part.offset,
            checkpoint=request.work / f"{part.name}.pt",
            rate=part.rate,
            compiled=request.compiled,
        )
        model.train()
        with self.console.bar(part.name, job.budget) as report:
            ledger = Run(job).finish(report)
        model.eval()
        model.set_attn_implementation("sdpa")
        return ledger


def train_pair(request: Request, console: Console) -> dict[str, Any]:
    """Run what is not done yet; write the pair, its card and its loss curves; return the card's numbers."""
    _claim(request)
    disable_progress_bar()  # the library draws one for every file it writes
    tokenizer, store = prepare(request, console)
    workshop = Workshop(request, console, store, tokens.definition_starts(store.train["code"], tokenizer))
    target = shapes.build(shapes.target_config(), request.seed)
    ledgers = {
        "target": workshop.run(TARGET, target, next_token(target)),
        "settle": workshop.run(SETTLE, target, next_token(target)),
    }
    seen = tokens.fixed(store.train["code"], 8, 255)
    draft = narrowed(target, shapes.draft_config(), seen, request.seed)
    ledgers["draft"] = workshop.run(DRAFT, draft, next_token(draft))
    ledgers["distil"] = workshop.run(DISTIL, draft, distilled(draft, target))
    workshop.write_own_text(target)
    ledgers["follow"] = workshop.run(FOLLOW, draft, distilled(draft, target))
    for name, model in (("target", target), ("draft", draft)):
        save(model, tokenizer, request.out / name)
    console.say("measuring; that is not in the minutes")
    return card.write(request.out, card.Made(request.settings, request.command, ledgers), store)


def _claim(request: Request) -> None:
    """Make the work folder, or refuse one begun with other settings: its tokens and weights would not fit."""
    path = request.work / "settings.json"
    try:
        request.work.mkdir(parents=True, exist_ok=True)
        request.out.mkdir(parents=True, exist_ok=True)
        begun = json.loads(path.read_text()) if path.exists() else request.settings
        path.write_text(json.dumps(request.settings if begun == request.settings else begun))
    except (OSError, ValueError) as error:
        raise SpecvizError(f"cannot use the work folder {request.work}: {error}; give another with --work") from error
    differing = [name for name, value in request.settings.items() if begun.get(name) != value]
    if differing:
        was = ", ".join(f"{name}={begun.get(name)}" for name in differing)
        raise SpecvizError(
            f"{request.work} holds a run begun with {was}; give the same options, or another --work folder"
        )


def prepare(request: Request, console: Console) -> tuple[PreTrainedTokenizerFast, tokens.Store]:
    """Gather the text, learn the tokenizer and encode; read all three back when they are there."""
    folder, encoded = request.work / "tokenizer", request.work / "tokens.npz"
    if encoded.exists():
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False), tokens.Store.load(encoded)
    console.say("reading the text and learning the tokenizer, a minute or three")
    n_pages = N_SUM_PAGES if request.arithmetic else 0
    documents = corpus.gather(corpus.Wanted(request.packages, request.texts, n_pages, request.seed))
    console.say(f"{len(documents):,} documents, {sum(len(each.text) for each in documents) / 1e6:.0f} MB of text")
    tokenizer = vocabulary.train_tokenizer(_tokenizer_sample(documents), shapes.CONTEXT)
    tokenizer.save_pretrained(folder)
    store = tokens.encode(documents, tokenizer)
    store.save(encoded)
    for side, streams in (("train", store.train), ("held out", store.held_out)):
        console.say(f"{side}: " + ", ".join(f"{name} {len(ids):,} tokens" for name, ids in streams.items()))
    return tokenizer, store


def _tokenizer_sample(documents: list[corpus.Document]) -> Iterable[str]:
    """Training text only, by the shares of the mix."""
    for domain, share in tokens.MIX.items():
        texts = (each.text for each in documents if each.domain == domain and not each.held_out)
        yield from vocabulary.sample(texts, int(share * TOKENIZER_CHARS))


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """An ordinary model folder: bfloat16 safetensors, config and tokenizer, no trace of where it was made."""
    if folder.exists():
        shutil.rmtree(folder)
    copy = LlamaForCausalLM(model.config).to(torch.bfloat16)
    copy.load_state_dict(model.state_dict())
    copy.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # weights are written for the owner alone, which a package must not carry on


LAYERS = (0, 10)
"""Of all pairs of the shipped target's twelve layers, the one that loses least when the other ten are left out."""

_NORMED = {
    "input_layernorm": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "post_attention_layernorm": ("mlp.gate_proj", "mlp.up_proj"),
}
_BACK = ("self_attn.o_proj", "mlp.down_proj")


@torch.no_grad()
def narrowed(target: LlamaForCausalLM, config: LlamaConfig, windows: Tensor, seed: int) -> LlamaForCausalLM:
    """A model of `config` (heads and inner width as the target's) that begins as a reduced `target`.

    `windows` [rows, length] is text by which the target's last states are seen. A norm's gains are folded into the
    matrices behind it, because they do not turn with the axes; the last norm has the tied embedding behind it, which
    must not change, and keeps the diagonal of its turned gains.
    """
    old = {name: value.double() for name, value in target.state_dict().items()}
    axes = _axes(target, windows, config.hidden_size)
    scale = (config.hidden_size / target.config.hidden_size) ** 0.5  # fewer axes, the same mean square
    embedding = old["model.embed_tokens.weight"] @ axes
    gains = (axes.T * old["model.norm.weight"]) @ axes
    new = {
        "model.embed_tokens.weight": embedding, "lm_head.weight": embedding,
        "model.norm.weight": gains.diagonal() * scale,
    }  # fmt: skip
    for number, layer in enumerate(LAYERS):
        source, place = f"model.layers.{layer}.", f"model.layers.{number}."
        for norm, matrices in _NORMED.items():
            new[f"{place}{norm}.weight"] = torch.full((config.hidden_size,), scale)
            for name in matrices:
                new[f"{place}{name}.weight"] = old[f"{source}{name}.weight"] * old[f"{source}{norm}.weight"] @ axes
        for name in _BACK:
            new[f"{place}{name}.weight"] = axes.T @ old[f"{source}{name}.weight"]
    model = tokens.build(config, seed)
    model.load_state_dict({name: value.float() for name, value in new.items()})
    return model


def _axes(target: LlamaForCausalLM, windows: Tensor, width: int) -> Tensor:
    """`[target width, width]` orthonormal: the principal directions of the embedding, read in and out, and the states.

    Each of the three counts by rows of mean length one.
    """
    read_in = target.get_input_embeddings().weight.double()
    states = target.model(input_ids=windows).last_hidden_state.flatten(0, 1).double()
    seen = [read_in, read_in * target.model.norm.weight.double(), states]
    directions = torch.linalg.svd(torch.cat([rows / rows.norm(dim=1).mean() for rows in seen]), full_matrices=False)[2]
    axes: Tensor = directions[:width].T
    return axes
