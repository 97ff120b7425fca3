"""The card of an H-RAD: what it learned from, how often it is right, beside what always saying the same would give."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specviz.methods.branch.hrad import CLASSES, HradConfig
from specviz.train.cards import page as cards
from specviz.train.cards import plots
from specviz.train.hrad.objective import FittedHrad, confusion_of, macro_f1
from specviz.train.hrad.rounds import HradRounds

N_BINS, FEWEST = 10, 20  # bins of the plot, and rounds a bin must hold to be drawn


def write(folder: Path, numbers: dict[str, Any], probs: NDArray[np.float64], labels: NDArray[np.int64]) -> None:
    """Card, numbers and plot beside the weights. `probs` `[n, 3]`: what it gives rounds of classes `labels`."""
    curves = [plots.ReliabilityCurve(name, points(probs[:, k], labels == k)) for k, name in enumerate(CLASSES)]
    picture = plots.reliability_plot(
        [("H-RAD, held-out prompts", curves)], "probability it gives a class (across), share of such rounds (up)"
    )
    cards.write(folder, "hrad", numbers, said(numbers), reliability=picture)


def numbers_of(
    config: HradConfig,
    command: str,
    rounds: HradRounds,
    fitted: FittedHrad,
    probs: NDArray[np.float64],
    labels: NDArray[np.int64],
) -> dict[str, Any]:
    """Everything the card states, of all rounds and of what it says `[n, 3]` of the held-out ones."""
    accepted, guess = rounds.accepted[~rounds.held_out], probs.argmax(-1)
    usual = int(np.argmax(config.counts))
    confusion, same = confusion_of(labels, guess), confusion_of(labels, np.full_like(labels, usual))
    counts = np.bincount(accepted, minlength=config.gamma_label + 1)
    return {
        "target": config.target_name,
        "draft": config.draft_name,
        "gamma": config.gamma_label,
        "temperature": config.temperature,
        "hrad_layers": config.hrad_layers,
        "inputs": config.n_inputs,
        "rounds": {"train": len(accepted), "held_out": len(labels), "prompts": int(rounds.prompt.max()) + 1},
        "classes": dict(zip(CLASSES, config.counts, strict=True)),
        "accepted": [int(n) for n in counts],
        "confusion": confusion.tolist(),
        "hrad": _scores(confusion),
        "majority": {"class": CLASSES[usual], **_scores(same)},
        "costly": {
            "all_when_none": _share(confusion[0, 2], confusion[0].sum()),
            "none_when_all": _share(confusion[2, 0], confusion[2].sum()),
        },
        "epoch": fitted.epoch,
        "curve": [[round(loss, 4), round(score, 4)] for loss, score in fitted.curve],
        "command": command,
        "versions": cards.versions(),
    }


def said(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page says besides its numbers: predictions are rows, the truth is columns."""
    counts, confusion = numbers["accepted"], numbers["confusion"]
    precision = numbers["hrad"]["precision"]
    return {
        "counts": range(len(counts)),
        "accepted_rule": "|".join(["---"] * len(counts)),
        "shares": [n / max(1, sum(counts)) for n in counts],
        "truths": [f"was {name}" for name in CLASSES],
        "predicted": [(name, [row[k] for row in confusion], precision[k]) for k, name in enumerate(CLASSES)],
        "epochs": len(numbers["curve"]),
    }


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
