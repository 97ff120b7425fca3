"""The whole of `specviz train pair`: text, tokenizer, target, draft model, distillation, measuring, saving.

Each stage leaves a file in the work folder and is skipped when its file is there, so an interrupted run goes on where
it was. The budget is shared out in advance; a stage that starts late does not shorten the ones after it.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specviz.errors import SpecvizError
from specviz.train import card, corpus, shapes, tokens, vocabulary
from specviz.train.console import Console
from specviz.train.loop import Job, Ledger, Run
from specviz.train.objectives import Objective, distilled, next_token
from specviz.train.schedule import FULL, Budget, Stage

SHARES = {"target": 0.77, "draft": 0.07, "distil": 0.16}
DRAFT_STAGES = (Stage(0.5, 256, 8, 1), Stage(0.85, 256, 8, 2), Stage(1.0, 512, 4, 2))
DISTIL_STAGES = (Stage(0.4, 256, 8, 1), Stage(0.8, 256, 8, 2), Stage(1.0, 1_024, 2, 2))


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for."""

    out: Path
    work: Path
    minutes: float
    seed: int = 0
    packages: bool = False
    texts: tuple[Path, ...] = ()
    arithmetic: bool = False
    compiled: bool = False

    @property
    def settings(self) -> dict[str, object]:
        """What a work folder may only ever be continued with."""
        names = [path.name for path in self.texts]
        return {"seed": self.seed, "packages": self.packages, "texts": names, "arithmetic": self.arithmetic}


def train_pair(request: Request, console: Console) -> None:
    """Run every stage that is not done yet and write the pair, its card and its loss curves to `request.out`."""
    request.work.mkdir(parents=True, exist_ok=True)
    _claim(request)
    tokenizer, store = prepare(request, console)
    target, target_ledger = _trained("target", shapes.target_config(), request, store, console)
    _, draft_ledger = _trained("draft", shapes.draft_config(), request, store, console)
    draft, distil_ledger = _distilled(target, request, store, console)
    for name, model in (("target", target), ("draft", draft)):
        save(model, tokenizer, request.out / name)
    console.say("measuring")
    ledgers = {"target": target_ledger, "draft": draft_ledger, "distil": distil_ledger}
    card.write(request.out, request, store, ledgers)


def _claim(request: Request) -> None:
    """Refuse a work folder begun with other settings: its tokens and weights would not fit."""
    path = request.work / "settings.json"
    if path.exists() and json.loads(path.read_text()) != request.settings:
        raise SpecvizError(
            f"{request.work} was begun with {path.read_text()}, not {json.dumps(request.settings)}; "
            "use the same options or another --work folder"
        )
    path.write_text(json.dumps(request.settings))


def prepare(request: Request, console: Console) -> tuple[PreTrainedTokenizerFast, tokens.Store]:
    """Gather the text, learn the tokenizer and encode; read all three back when they are there."""
    folder, encoded = request.work / "tokenizer", request.work / "tokens.npz"
    if encoded.exists():
        return AutoTokenizer.from_pretrained(folder), tokens.Store.load(encoded)
    n_pages = 12_000 if request.arithmetic else 0
    documents = corpus.gather(corpus.Wanted(request.packages, request.texts, n_pages, request.seed))
    console.say(f"{len(documents):,} documents, {sum(len(each.text) for each in documents) / 1e6:.0f} MB of text")
    tokenizer = vocabulary.train_tokenizer(_tokenizer_sample(documents), shapes.CONTEXT)
    tokenizer.save_pretrained(folder)
    store = tokens.encode(documents, tokenizer)
    store.save(encoded)
    for side, streams in (("train", store.train), ("held out", store.held_out)):
        console.say(f"{side}: " + ", ".join(f"{name} {len(ids):,} tokens" for name, ids in streams.items()))
    return tokenizer, store


def _tokenizer_sample(documents: list[corpus.Document]) -> list[str]:
    """Training text only, by the shares of the mix."""
    chosen: list[str] = []
    for domain, share in tokens.MIX.items():
        texts = (each.text for each in documents if each.domain == domain and not each.held_out)
        chosen += vocabulary.sample(texts, int(share * 30e6))
    return chosen


def _trained(
    name: str, config: LlamaConfig, request: Request, store: tokens.Store, console: Console
) -> tuple[LlamaForCausalLM, Ledger]:
    """A model trained on the text alone."""
    model = shapes.build(config, request.seed)
    stages = FULL if name == "target" else DRAFT_STAGES
    return model, _run(name, model, next_token(model), stages, request, store, console)


def _distilled(
    target: LlamaForCausalLM, request: Request, store: tokens.Store, console: Console
) -> tuple[LlamaForCausalLM, Ledger]:
    """The draft model, taken on from its own pre-training to follow the target's distribution."""
    draft = shapes.build(shapes.draft_config(), request.seed)
    draft.load_state_dict(torch.load(request.work / "draft.pt", weights_only=True)["model"])
    target.set_attn_implementation("sdpa")
    return draft, _run("distil", draft, distilled(draft, target), DISTIL_STAGES, request, store, console)


def _run(
    name: str,
    model: LlamaForCausalLM,
    objective: Objective,
    stages: tuple[Stage, ...],
    request: Request,
    store: tokens.Store,
    console: Console,
) -> Ledger:
    job = Job(
        model=model,
        objective=objective,
        streams=store.train,
        held_out=tokens.fixed(store.held_out["code"], 64, 256),
        budget=Budget(seconds=60 * request.minutes * SHARES[name]),
        stages=stages,
        seed=request.seed + 1 + list(SHARES).index(name),
        checkpoint=request.work / f"{name}.pt",
        rate=0.5 if name == "distil" else 1.0,
        compiled=request.compiled,
    )
    with console.bar(name, job.budget) as report:
        ledger = Run(job).finish(report)
    model.eval()
    return ledger


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """An ordinary model folder: bfloat16 safetensors, config and tokenizer, no trace of where it was made."""
    if folder.exists():
        shutil.rmtree(folder)
    copy = LlamaForCausalLM(model.config).to(torch.bfloat16)
    copy.load_state_dict(model.state_dict())
    copy.generation_config.pad_token_id = copy.config.pad_token_id
    copy.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def as_dict(ledgers: dict[str, Ledger]) -> dict[str, object]:
    """The ledgers as plain values."""
    return {name: asdict(ledger) for name, ledger in ledgers.items()}
