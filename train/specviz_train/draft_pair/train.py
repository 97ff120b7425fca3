"""The whole of `specviz train pair`: text, tokenizer, target, draft model, distillation, measuring, saving.

Each part leaves a file in the work folder and is skipped when its file says it is done, so an interrupted run goes on
where it was. The budget is shared out in advance: a part that is slowed down does not shorten the ones after it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from specviz_train import recipe
from specviz_train.common import corpus, own_text, training_text
from specviz_train.common.console import Console
from specviz_train.common.files import save_arrays, save_model
from specviz_train.common.loop import Loop, TrainingLedger
from specviz_train.common.optim import FULL, BatchStage, Budget
from specviz_train.common.training_text import cut
from specviz_train.draft_pair import card, models, tokenizer
from specviz_train.draft_pair.models import LanguageObjective, WindowLoss, distilled, next_token

N_SUM_PAGES = 12_000
BATCHES_PER_MINUTE = 0.24


@dataclass(frozen=True, slots=True)
class PairRun:
    """One of the five training runs: its share of the time, stages, peak rate, seed offset, and which windows.

    `aligned` of the code windows begin at a definition; `own_share` of all windows are text the target wrote.
    """

    name: str
    share: float
    stages: tuple[BatchStage, ...]
    rate: float
    offset: int
    aligned: float = 0.0
    own_share: float = 0.0


_TEXT_STAGES = (BatchStage(0.5, 256, 8, 1), BatchStage(0.85, 256, 8, 2), BatchStage(1.0, 512, 4, 2))
_DISTIL_STAGES = (BatchStage(0.4, 256, 8, 1), BatchStage(0.8, 256, 8, 2), BatchStage(1.0, 1_024, 2, 2))
TARGET = PairRun("target", 0.58, FULL, rate=1.0, offset=1)
SETTLE = PairRun("settle", 0.0324, (BatchStage(1.0, 256, 8, 1),), rate=0.15, offset=4, aligned=0.5)
DRAFT = PairRun("draft", 0.2, _TEXT_STAGES, rate=1.0, offset=2)
DISTIL = PairRun("distil", 0.0876, _DISTIL_STAGES, rate=0.5, offset=3, aligned=0.3)
# The long windows at the end are no luxury: after short ones alone, a draft model guesses from position 400 on.
_FOLLOW_STAGES = (BatchStage(0.5, 256, 8, 1), BatchStage(1.0, 1_024, 2, 1))
FOLLOW = PairRun("follow", 0.1, _FOLLOW_STAGES, rate=0.5, offset=5, aligned=0.3, own_share=0.6)


@dataclass(frozen=True, slots=True)
class PairRequest:
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
class TrainingSetup:
    """What every part of the training needs."""

    request: PairRequest
    console: Console
    store: training_text.TokenStore
    starts: NDArray[np.int64]

    def feed(self, part: PairRun) -> training_text.WindowFeed:
        """The windows of a part."""
        streams, starts, mix = dict(self.store.train), {"code": self.starts}, dict(training_text.MIX)
        if part.own_share:
            with np.load(self.request.work / "own_text.npz") as written:
                streams["own"], starts["own"] = written["stream"], written["starts"]
            mix = {name: share * (1 - part.own_share) for name, share in mix.items()} | {"own": part.own_share}
        return training_text.WindowFeed(streams, starts, {"code": part.aligned, "own": 1.0}, mix)

    def write_own_text(self, target: LlamaForCausalLM) -> None:
        """Have the target write what the draft model will learn to follow, unless it has."""
        path = self.request.work / "own_text.npz"
        if not path.exists():
            self.console.say("the target writes the text that the draft model will learn to follow")
            n_batches, how = max(1, round(self.request.minutes * BATCHES_PER_MINUTE)), own_text.PAIR
            feed, seed = self.feed(DISTIL), self.request.seed
            prompts = (cut(feed, how.rows, how.prompt, (seed, number, 0)) for number in range(n_batches))
            batches = [own_text.write_batch(target, rows, (seed, n), how).ids for n, rows in enumerate(prompts)]
            stream = np.concatenate(batches).ravel().astype(np.uint16)
            save_arrays(path, stream=stream, starts=np.arange(0, len(stream), how.length))

    def run(self, part: PairRun, model: LlamaForCausalLM, loss: WindowLoss) -> TrainingLedger:
        """Train `model`, or take the weights of a run that is done, until the part's share of time is spent."""
        request = self.request
        held_out = training_text.fixed(self.store.held_out["code"], 64, 256)
        objective = LanguageObjective(
            model, loss, self.feed(part), held_out, part.stages, request.seed + part.offset, part.rate, request.compiled
        )
        budget = Budget(seconds=60 * request.minutes * part.share)
        model.train()
        with self.console.bar(part.name, budget) as report:
            ledger = Loop(objective, budget, request.work / f"{part.name}.pt").finish(report)
        model.eval()
        model.set_attn_implementation("sdpa")
        return ledger


def train_pair(request: PairRequest, console: Console) -> dict[str, Any]:
    """Run what is not done yet; write the pair, its card and its loss curves; return the card's numbers."""
    recipe.claim(request.work, request.out, request.settings)
    disable_progress_bar()  # the library draws one for every file it writes
    words, store = prepare(request, console)
    workshop = TrainingSetup(request, console, store, tokenizer.definition_starts(store.train["code"], words))
    target = models.build(models.target_config(), request.seed)
    ledgers = {
        "target": workshop.run(TARGET, target, next_token(target)),
        "settle": workshop.run(SETTLE, target, next_token(target)),
    }
    seen = training_text.fixed(store.train["code"], 8, 255)
    draft = models.narrowed(target, models.draft_config(), seen, request.seed)
    ledgers["draft"] = workshop.run(DRAFT, draft, next_token(draft))
    ledgers["distil"] = workshop.run(DISTIL, draft, distilled(draft, target))
    workshop.write_own_text(target)
    ledgers["follow"] = workshop.run(FOLLOW, draft, distilled(draft, target))
    for name, model in (("target", target), ("draft", draft)):
        save_model(model, words, request.out / name)
    console.say("measuring; that is not in the minutes")
    return card.write(request.out, request.settings, request.command, ledgers, store)


def prepare(request: PairRequest, console: Console) -> tuple[PreTrainedTokenizerFast, training_text.TokenStore]:
    """Gather the text, learn the tokenizer and encode; read all three back when they are there."""
    folder, encoded = request.work / "tokenizer", request.work / "tokens.npz"
    if encoded.exists():
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False), training_text.TokenStore.load(encoded)
    console.say("reading the text and learning the tokenizer, a minute or three")
    n_pages = N_SUM_PAGES if request.arithmetic else 0
    documents = corpus.gather(corpus.CorpusRequest(request.packages, request.texts, n_pages, request.seed))
    console.say(
        f"{len(documents):,} documents, {sum(len(document.text) for document in documents) / 1e6:.0f} MB of text"
    )
    words = tokenizer.train_tokenizer(tokenizer.learnt_from(documents))
    words.save_pretrained(folder)
    store = tokenizer.encode(documents, words)
    store.save(encoded)
    for side, streams in (("train", store.train), ("held out", store.held_out)):
        console.say(f"{side}: " + ", ".join(f"{name} {len(ids):,} tokens" for name, ids in streams.items()))
    return words, store
