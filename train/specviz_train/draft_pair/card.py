"""The card of the pair: what it was made from, what it measures, how to make it again."""

import io
import tokenize
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerFast

from specviz.engine.model.adapter import ModelAdapter
from specviz_train.cards import page as cards
from specviz_train.common.loop import TrainingLedger
from specviz_train.common.training_text import MIX, Ids, TokenStore, fixed
from specviz_train.draft_model.card import GAMMA, drafted, measure_speed
from specviz_train.draft_pair.models import held_out_loss
from specviz_train.exits.card import greedy_texts

_CURVES = {"target": "target", "draft": "draft, text", "distil": "draft, distilled", "follow": "draft, following"}
_LICENCES = {"gsm8k_train.jsonl": " (GSM8K, MIT, without its calculator marks)"}


def write(
    folder: Path, options: dict[str, Any], command: str, ledgers: Mapping[str, TrainingLedger], store: TokenStore
) -> dict[str, Any]:
    """Measure the pair as saved in `folder` (rounded to bfloat16), in float32; write its card."""
    target, draft = (
        LlamaForCausalLM.from_pretrained(folder / name, dtype=torch.float32, trust_remote_code=False).eval()
        for name in ("target", "draft")
    )
    speed = measure_speed(ModelAdapter(target), ModelAdapter(draft))
    domains = {name: measure_domain(target, draft, ids) for name, ids in store.held_out.items()}
    continuation = sample(target, AutoTokenizer.from_pretrained(folder / "target", trust_remote_code=False))
    numbers = {
        "target_params": target.num_parameters(),
        "draft_params": draft.num_parameters(),
        "speed_ratio": round(speed.ratio, 2),
        "target_step_ms": round(speed.target_ms, 3),
        "draft_step_ms": round(speed.draft_ms, 3),
        "gamma": GAMMA,
        "domains": {
            name: {key: round(value, 4) for key, value in asdict(row).items()} for name, row in domains.items()
        },
        "sample": {
            "prompt": SAMPLE_PROMPT,
            "continuation": continuation,
            "n_python_lines": n_python_lines(SAMPLE_PROMPT, continuation),
        },
        "options": options,
        "command": command,
        "mix": MIX,
        "corpus_tokens": {
            "train": {name: len(ids) for name, ids in store.train.items()},
            "held_out": {name: len(ids) for name, ids in store.held_out.items()},
        },
        "training": {name: _spent(ledger) for name, ledger in ledgers.items()},
        "versions": cards.versions(),
        "threads": torch.get_num_threads(),
    }
    cards.write(folder, "pair", numbers, page_facts(numbers), loss=_plot(ledgers))
    return numbers


def page_facts(numbers: dict[str, Any]) -> dict[str, Any]:
    """What the page says besides its numbers."""
    options, corpus = numbers["options"], numbers["corpus_tokens"]
    return {
        "packages": " and the packages of the Python environment (each its own licence)" * options["packages"],
        "texts": "".join(f", `{name}`{_LICENCES.get(name, '')}" for name in options["texts"]),
        "corpus": [
            (name, share, corpus["train"][name], corpus["held_out"].get(name, 0))
            for name, share in numbers["mix"].items()
            if name in corpus["train"]
        ],
        "continued": numbers["sample"]["continuation"].rstrip(),
    }


def _spent(ledger: TrainingLedger) -> dict[str, Any]:
    curve = [[tokens, round(train, 3), round(held_out, 3)] for tokens, train, held_out in ledger.curve]
    return {"steps": ledger.steps, "tokens": ledger.tokens, "minutes": round(ledger.seconds / 60, 1), "curve": curve}


def _plot(ledgers: Mapping[str, TrainingLedger]) -> str:
    """Held-out loss on code of the four runs, and the training losses that are plain cross-entropy."""
    lines = []
    for name, label in _CURVES.items():
        points = ledgers[name].curve
        lines.append(cards.Line(f"{label}: held-out code", [(n / 1e6, held_out) for n, _, held_out in points]))
        if name in ("target", "draft"):
            trained = [(n / 1e6, train) for n, train, _ in points]
            lines.append(cards.Line(f"{label}: training mix", trained, dashed=True))
    return cards.loss_plot("Loss while training the embedded pair", lines)


SAMPLE_PROMPT = "def fibonacci(n):"
_N_WINDOWS, _LENGTH = 64, 512
_N_PROMPTS, _PROMPT = 16, 64


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """One domain of held-out text: losses in nats per token, rates as shares."""

    target_loss: float
    draft_loss: float
    agreement: float
    chain_acceptance: float


def measure_domain(target: LlamaForCausalLM, draft: LlamaForCausalLM, stream: Ids) -> PairAgreement:
    """All rates of one held-out stream."""
    windows, prompts = fixed(stream, _N_WINDOWS, _LENGTH), fixed(stream, _N_PROMPTS, _PROMPT)
    return PairAgreement(
        held_out_loss(target, windows),
        held_out_loss(draft, windows),
        agreement(target, draft, windows),
        drafted(ModelAdapter(target), ModelAdapter(draft), prompts[:, :_PROMPT].tolist())["kept"],
    )


@torch.no_grad()
def agreement(target: LlamaForCausalLM, draft: LlamaForCausalLM, windows: Tensor) -> float:
    """Share of positions of `windows` `[n, length + 1]` where both models hold the same token most likely."""
    same = [
        (target(input_ids=part[:, :-1]).logits.argmax(-1) == draft(input_ids=part[:, :-1]).logits.argmax(-1)).float()
        for part in torch.split(windows, 4)
    ]
    return float(torch.cat(same).mean())


def sample(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompt: str = SAMPLE_PROMPT) -> str:
    """The model's greedy continuation of `prompt`, without it."""
    (text,) = greedy_texts(model, [tokenizer.encode(prompt)], 80)
    return str(tokenizer.decode(text.tokens[text.n_prompt :]))


def n_python_lines(prompt: str, continuation: str) -> int:
    """How many non-empty lines of the continuation belong to the longest beginning that `tokenize` accepts."""
    lines = (prompt + continuation).splitlines(keepends=True)
    for end in range(len(lines) - 1, 0, -1):  # the last line is cut off by the token limit
        with suppress(tokenize.TokenError, SyntaxError):
            tokens = tokenize.generate_tokens(io.StringIO("".join(lines[:end])).readline)
            if tokenize.ERRORTOKEN not in [token.type for token in tokens]:
                return sum(bool(line.strip()) for line in lines[1:end])
    return 0
