"""The model card: what the pair was made from, what it measures, how to make it again.

`card.json` holds every number; `README.md` and `loss.svg` are drawn from it. No file names a path of the machine that
made them.

The model card as a page: the words around the numbers of `card.json`.
"""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from specviz.train.cards import plot
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
    (folder / "README.md").write_text(page(numbers), encoding="utf-8")
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


_PAGE = """---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---

# The embedded pair

Two Llama-architecture models trained from nothing by `specviz train pair`, small enough to ship and to run on any
CPU: a **target** of {n[target_params]:,} parameters (12 layers) and a **draft model** of {n[draft_params]:,} (2
layers), with one byte-level BPE tokenizer of 4,096 tokens. They exist to show speculative decoding on real weights
and real text. They know Python's shape, some of its documentation and simple sums; they know no facts and follow no
instructions.

`target/` and `draft/` are ordinary `save_pretrained` folders (bfloat16 safetensors): `AutoModelForCausalLM` and
`AutoTokenizer` load them without specviz.

## Measured

On held-out files and documents, weights as shipped, computed in float32. Loss in nats per token (of this
tokenizer); agreement is the share of positions where both models hold the same token most likely; chain acceptance
is accepted / drafted tokens at gamma {n[gamma]} and temperature 0, on the target's own greedy continuation of
held-out beginnings.

{domains}

One-token step, float32, one thread of the training machine, plain `transformers`: target {n[target_step_ms]} ms,
draft {n[draft_step_ms]} ms, so the speed ratio **c = {n[speed_ratio]}**.

Greedy continuation by the target; the first {n[sample][n_python_lines]} non-empty lines after the prompt pass
`tokenize`:

```python
{sample}
```

## Made from

{corpus}

* **code**: the Python {n[versions][python]} standard library with its tests (PSF-2.0){packages}. Identical files
  count once; generated tables, minified lines and files above 300,000 characters are left out, and no package gives
  more than 8 MB.
* **prose**: the language reference inside `pydoc_data` and the longer docstrings of the same files (their
  licences){texts}.
* **sums**: arithmetic pages written by a seeded generator of specviz.

Held out by file: the hash of a file's contents decides, so docstrings fall on the side of their file. Installed
packages repeat one another's idioms, which flatters the loss on code; the row for the standard library alone is the
stricter one. No benchmark prompts (HumanEval, Spec-Bench) were trained on.

## Trained

{spent}

Seed {n[options][seed]}; torch {n[versions][torch]}; bfloat16 autocast on {n[threads]} CPU threads. Muon on the
hidden matrices (0.02), AdamW on embedding and norms (0.003), 1 % warm-up, linear decay to zero over the time budget;
windows of 256 tokens first, of 1,024 at the end. Then the target settles: at a low rate, half of its code windows
begin at a top-level definition that has no docstring, as prompts do. The draft model begins as two of the target's
layers and its embedding, projected on fewer axes; it is trained on the text, then distilled: forward KL from the
target's distribution and a fifth of plain cross-entropy; last (follow), the same on windows that are mostly text the
target wrote itself, half of it greedily, from beginnings in the training text.

![loss curves](loss.svg)

## Make it again

```
{n[command]}
```

The budget is time, so another machine, or a busier one, reads a different number of tokens and ends with other
weights; the text and the draws are the same for the same seed, Python and packages. `--minutes 3` makes a valid,
weaker pair.

## Licences

The weights are released with specviz under Apache-2.0. Training text: Python standard library, PSF-2.0; other
sources as named above, each under its own licence. Of the text only what a model of this size remembers is in the
weights.
"""


def page(numbers: dict[str, Any]) -> str:
    """The whole card."""
    options = numbers["options"]
    packages = " and the packages of the Python environment (each its own licence)" if options["packages"] else ""
    texts = "".join(f", `{name}`{_LICENCES.get(name, '')}" for name in options["texts"])
    return _PAGE.format(
        n=numbers,
        domains=_domains(numbers["domains"]),
        corpus=_corpus(numbers),
        spent=_page_spent(numbers["training"]),
        packages=packages,
        texts=texts,
        sample=numbers["sample"]["prompt"] + numbers["sample"]["continuation"].rstrip(),
    )


_LICENCES = {"gsm8k_train.jsonl": " (GSM8K, MIT, without its calculator marks)"}


def _domains(rows: dict[str, dict[str, float]]) -> str:
    keys = ("target_loss", "draft_loss", "agreement", "chain_acceptance")
    head = ("held-out text", "target loss", "draft loss", "agreement", "chain acceptance")
    return _table(head, [(name, *(f"{row[key]:.3f}" for key in keys)) for name, row in rows.items()])


def _corpus(numbers: dict[str, Any]) -> str:
    train, held_out = numbers["corpus_tokens"]["train"], numbers["corpus_tokens"]["held_out"]
    rows = [
        (name, f"{share:.0%}", f"{train[name]:,}", f"{held_out.get(name, 0):,}")
        for name, share in numbers["mix"].items()
        if name in train
    ]
    return _table(("domain", "share of the windows", "tokens to train on", "tokens held out"), rows)


def _page_spent(parts: dict[str, dict[str, Any]]) -> str:
    rows = [(name, f"{each['steps']:,}", f"{each['tokens']:,}", str(each["minutes"])) for name, each in parts.items()]
    return _table(("part", "steps", "tokens seen", "minutes"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
