"""The model card: what the pair was made from, what it measures, how to make it again.

`card.json` holds every number; `README.md` and `loss.svg` are drawn from it. No file names a path of the machine that
made them.
"""

import json
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from specviz.train.cards import card_page, plot
from specviz.train.common import measure
from specviz.train.common.loop import Ledger
from specviz.train.common.measure import GAMMA, SAMPLE_PROMPT
from specviz.train.common.tokens import MIX, Store


@dataclass(frozen=True, slots=True)
class Made:
    """How the pair came about: options by their names, the command that repeats it, what each part spent."""

    options: dict[str, Any]
    command: str
    ledgers: dict[str, Ledger]


def write(folder: Path, made: Made, store: Store) -> dict[str, Any]:
    """Measure the saved pair in `folder` and write its card, numbers and curves beside it."""
    numbers = _numbers(folder, made, store)
    (folder / "card.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    (folder / "loss.svg").write_text(_curves(made.ledgers), encoding="utf-8")
    (folder / "README.md").write_text(card_page.page(numbers), encoding="utf-8")
    return numbers


def _numbers(folder: Path, made: Made, store: Store) -> dict[str, Any]:
    """Measured on the weights as saved (rounded to bfloat16), computed in float32."""
    target, draft = (
        LlamaForCausalLM.from_pretrained(folder / name, dtype=torch.float32, trust_remote_code=False).eval()
        for name in ("target", "draft")
    )
    speed = measure.measure_speed(target, draft)
    domains = {name: measure.measure_domain(target, draft, ids) for name, ids in store.held_out.items()}
    continuation = measure.sample(target, AutoTokenizer.from_pretrained(folder / "target", trust_remote_code=False))
    return {
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
        "options": made.options,
        "command": made.command,
        "mix": MIX,
        "corpus_tokens": {
            "train": {name: len(ids) for name, ids in store.train.items()},
            "held_out": {name: len(ids) for name, ids in store.held_out.items()},
        },
        "training": {name: _spent(ledger) for name, ledger in made.ledgers.items()},
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
        "threads": torch.get_num_threads(),
    }


def _spent(ledger: Ledger) -> dict[str, Any]:
    """A ledger with short numbers."""
    curve = [[tokens, round(train, 3), round(held_out, 3)] for tokens, train, held_out in ledger.curve]
    return {"steps": ledger.steps, "tokens": ledger.tokens, "minutes": round(ledger.seconds / 60, 1), "curve": curve}


def _curves(ledgers: dict[str, Ledger]) -> str:
    """Held-out loss on code of the three parts, and the training losses that are plain cross-entropy."""
    lines = []
    for name, label in (
        ("target", "target"),
        ("draft", "draft, text"),
        ("distil", "draft, distilled"),
        ("follow", "draft, following"),
    ):
        curve = ledgers[name].curve
        lines.append(plot.Line(f"{label}: held-out code", [(n / 1e6, held_out) for n, _, held_out in curve]))
        if name in ("target", "draft"):
            lines.append(plot.Line(f"{label}: training mix", [(n / 1e6, train) for n, train, _ in curve], dashed=True))
    return plot.svg("Loss while training the embedded pair", lines)
