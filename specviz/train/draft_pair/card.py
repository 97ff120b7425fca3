"""The card of the pair: what it was made from, what it measures, how to make it again."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from specviz.train.cards import page as cards
from specviz.train.cards import plots
from specviz.train.common.loop import TrainingLedger
from specviz.train.common.tokens import MIX, TokenStore
from specviz.train.draft_pair import measure
from specviz.train.draft_pair.measure import GAMMA, SAMPLE_PROMPT

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
    speed = measure.measure_speed(target, draft)
    domains = {name: measure.measure_domain(target, draft, ids) for name, ids in store.held_out.items()}
    continuation = measure.sample(target, AutoTokenizer.from_pretrained(folder / "target", trust_remote_code=False))
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
            "n_python_lines": measure.n_python_lines(SAMPLE_PROMPT, continuation),
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
    cards.write(folder, "pair", numbers, said(numbers), loss=_plot(ledgers))
    return numbers


def said(numbers: dict[str, Any]) -> dict[str, Any]:
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
        lines.append(plots.Line(f"{label}: held-out code", [(n / 1e6, held_out) for n, _, held_out in points]))
        if name in ("target", "draft"):
            trained = [(n / 1e6, train) for n, train, _ in points]
            lines.append(plots.Line(f"{label}: training mix", trained, dashed=True))
    return plots.loss_plot("Loss while training the embedded pair", lines)
