"""The card of an H-RAD: what it learned from, how often it is right, beside what always saying the same would give.

`card.json` holds every number; `README.md` and `reliability.svg` are drawn from it and from the curves. No file names
a path of the machine that made them.
"""

import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from specviz.methods.branch.hrad import CLASSES, Config
from specviz.train.cards import head_plot
from specviz.train.hrad.fit import macro_f1, table

N_BINS, FEWEST = 10, 20  # bins of the plot, and rounds a bin must hold to be drawn


@dataclass(frozen=True, slots=True)
class Made:
    """How it came about: tokens accepted in every training round, and what it says `[n, 3]` of held-out rounds."""

    config: Config
    command: str
    accepted: NDArray[np.int16]
    n_prompts: int
    epoch: int
    curve: list[tuple[float, float]]
    probs: NDArray[np.float64]
    labels: NDArray[np.int64]


def write(folder: Path, made: Made) -> dict[str, Any]:
    """Card, numbers and plot beside the weights."""
    numbers = numbers_of(made)
    curves = [head_plot.Curve(name, points(made.probs[:, k], made.labels == k)) for k, name in enumerate(CLASSES)]
    picture = head_plot.svg(
        [("H-RAD, held-out prompts", curves)], "probability it gives a class (across), share of such rounds (up)"
    )
    (folder / "card.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    (folder / "reliability.svg").write_text(picture, encoding="utf-8")
    (folder / "README.md").write_text(page(numbers), encoding="utf-8")
    return numbers


def numbers_of(made: Made) -> dict[str, Any]:
    """Everything the card states."""
    config, guess = made.config, made.probs.argmax(-1)
    usual = int(np.argmax(config.counts))
    confusion, same = table(made.labels, guess), table(made.labels, np.full_like(made.labels, usual))
    counts = np.bincount(made.accepted, minlength=config.gamma_label + 1)
    return {
        "target": config.target_name, "draft": config.draft_name, "gamma": config.gamma_label,
        "temperature": config.temperature, "hrad_layers": config.hrad_layers, "inputs": config.n_inputs,
        "rounds": {"train": len(made.accepted), "held_out": len(made.labels), "prompts": made.n_prompts},
        "classes": dict(zip(CLASSES, config.counts, strict=True)),
        "accepted": [int(n) for n in counts],
        "confusion": confusion.tolist(),
        "hrad": _scores(confusion),
        "majority": {"class": CLASSES[usual], **_scores(same)},
        "costly": {
            "all_when_none": _share(confusion[0, 2], confusion[0].sum()),
            "none_when_all": _share(confusion[2, 0], confusion[2].sum()),
        },
        "epoch": made.epoch,
        "curve": [[round(loss, 4), round(score, 4)] for loss, score in made.curve],
        "command": made.command,
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
    }  # fmt: skip


def _scores(confusion: NDArray[np.int64]) -> dict[str, Any]:
    """Accuracy and macro-F1; precision and recall by class (null where nothing was said, or there was nothing)."""
    right = np.diag(confusion)
    return {
        "accuracy": round(float(right.sum() / confusion.sum()), 4),
        "macro_f1": round(macro_f1(confusion), 4),
        "precision": [_share(a, b) for a, b in zip(right, confusion.sum(0), strict=True)],
        "recall": [_share(a, b) for a, b in zip(right, confusion.sum(1), strict=True)],
    }


def _share(part: Any, whole: Any) -> float | None:
    return round(float(part / whole), 4) if whole else None


def points(probs: NDArray[np.float64], true: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """(mean probability given, share that came true) by bin of probability, bins with too few rounds left out."""
    bins = np.minimum((probs * N_BINS).astype(int), N_BINS - 1)
    full = [bins == k for k in range(N_BINS) if (bins == k).sum() >= FEWEST]
    return [(float(probs[here].mean()), float(true[here].mean())) for here in full]


_PAGE = """\
# H-RAD for {target} with {draft}

A small network that tells before a round how much of the draft will be accepted: none, some, or all of {gamma} tokens.
It reads the target's states at the row that chose the newest token (the last {hrad_layers} of the library's list of
hidden states) and that token's embedding: {inputs} numbers, then layers of 256, 64 and 3. SpecBranch drafts as it says.
Whatever it says, the text stays the target's own; better advice only makes it come sooner.

## What it learned from

{train:,} rounds of plain speculative sampling (gamma {gamma}, temperature {temperature:g}) over {prompts:,} prompts,
every tenth of them held out, from documents that none of the others come from: {held_out:,} rounds to measure on.
Rounds cut by the end of a text are left out. Accepted tokens in the training rounds:

| {accepted_heads} |
|{accepted_rule}|
| {accepted_cells} |

## How often it is right

On the held-out rounds, beside the guess that looks at nothing: always *{majority_class}*, the most frequent class.

| | accuracy | macro-F1 |
|---|---|---|
| H-RAD | {accuracy} | {macro_f1:.3f} |
| always *{majority_class}* | {majority_accuracy} | {majority_macro_f1:.3f} |

| predicted | {truths} | right |
|---|---|---|---|---|
{confusion_lines}
| found | {recalls} | |

The two costly errors: *all* predicted where nothing was accepted, {all_when_none} of such rounds (drafts for nothing);
*none* predicted where all would have been, {none_when_all} (nothing drafted where it would have paid). The epoch
({epoch} of {epochs}) was chosen by macro-F1 on these same rounds, so that number is a little flattered.

![How often each class comes true against the probability it is given](reliability.svg)

## Made by

`{command}`
"""


def page(numbers: dict[str, Any]) -> str:
    """The card as a page: predictions are rows, the truth is columns."""
    own, usual, confusion = numbers["hrad"], numbers["majority"], numbers["confusion"]
    counts = numbers["accepted"]
    same = {name: numbers[name] for name in (
        "target", "draft", "gamma", "temperature", "hrad_layers", "inputs", "epoch", "command",
    )}  # fmt: skip
    return _PAGE.format(
        **same,
        **numbers["rounds"],
        accepted_heads=" | ".join(map(str, range(len(counts)))),
        accepted_rule="|".join(["---"] * len(counts)),
        accepted_cells=" | ".join(f"{n / max(1, sum(counts)):.0%}" for n in counts),
        majority_class=usual["class"],
        accuracy=_percent(own["accuracy"]),
        macro_f1=own["macro_f1"],
        majority_accuracy=_percent(usual["accuracy"]),
        majority_macro_f1=usual["macro_f1"],
        truths=" | ".join(f"was {name}" for name in CLASSES),
        confusion_lines="\n".join(
            f"| {name} | {' | '.join(str(row[k]) for row in confusion)} | {_percent(own['precision'][k])} |"
            for k, name in enumerate(CLASSES)
        ),
        recalls=" | ".join(map(_percent, own["recall"])),
        all_when_none=_percent(numbers["costly"]["all_when_none"]),
        none_when_all=_percent(numbers["costly"]["none_when_all"]),
        epochs=len(numbers["curve"]),
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
