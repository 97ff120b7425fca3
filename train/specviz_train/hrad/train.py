"""The whole of `specviz train hrad`: text, rounds of speculative sampling, training, measuring, saving.

Each part leaves files in the work folder and is skipped when it is done, so an interrupted run goes on where it was;
one that is asked for more rounds keeps those it has.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from specviz.engine.model.files import loading
from specviz.engine.run.local import Pair, load_pair
from specviz.errors import SpecvizError
from specviz.methods.branch import hrad
from specviz.methods.branch.hrad import CLASSES, HradConfig, Network
from specviz.methods.trained.parts import fingerprint
from specviz_train import recipe
from specviz_train.cards import page as cards
from specviz_train.common.console import Console
from specviz_train.hrad.objective import (
    FittedHrad,
    HradObjective,
    LabelledRounds,
    confusion_of,
    fit,
    macro_f1,
    predicted,
)
from specviz_train.hrad.rounds import HradRounds, RoundCollector, RoundSettings, collect
from specviz_train.recipe import TrainingRequest

FEWEST = 20  # rounds of each side without which nothing can be said


@dataclass(frozen=True, slots=True)
class HradRequest(TrainingRequest):
    """What the command line asks for. `gamma`, `temperature`: those it will be used with."""

    command_name: ClassVar[str] = "hrad"
    models: ClassVar[tuple[str, ...]] = ("target", "draft")
    effort: ClassVar[tuple[str, ...]] = ("rounds",)
    named: ClassVar[tuple[str, ...]] = ("gamma", "temperature")

    draft: str | None = None
    rounds: int = 20_000
    gamma: int = 4
    temperature: float = 0.0
    layers: int = hrad.LAYERS


def train_hrad(request: HradRequest, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write network, card and plot; return the card's numbers."""
    if not math.isfinite(request.temperature):  # nan would never equal the setting that the work folder holds
        raise SpecvizError(f"--temperature {request.temperature} is no number to work with; give a finite one")
    pair = load_pair(request.target, request.draft, device=request.device, threads=request.threads)
    pair.runtime.begin()
    assert pair.draft is not None
    target, draft = pair.target.adapter, pair.draft.adapter
    if not 1 <= request.layers <= target.n_layers + 1:
        raise SpecvizError(f"--layers {request.layers}: the target has states after 0 to {target.n_layers} layers")
    asked = {"target": fingerprint(target), "draft": fingerprint(draft), **request.settings}
    recipe.claim(request.work, request.out, asked, request.usual)
    rounds = _rounds(request, pair, console)
    train, held_out = (_side(request, rounds, side) for side in (False, True))
    objective = HradObjective(train, held_out, request.seed)
    with console.count("training", objective.epochs, "epochs") as report:
        fitted = fit(objective, request.work / "fit.pt", report)
    network = fitted.network
    with torch.no_grad():  # rounded as the file holds them, so that what is measured is what is shipped
        for weight in network.parameters():
            weight.copy_(weight.half())
    probs = predicted(network, held_out)
    counts: Any = tuple(map(tuple, confusion_of(held_out.labels, probs.argmax(-1)).tolist()))
    config = HradConfig(
        target=fingerprint(target),
        target_name=target.name,
        draft=fingerprint(draft),
        draft_name=draft.name,
        n_layers=target.n_layers,
        width=hrad.width_of(target),
        hrad_layers=request.layers,
        gamma_label=request.gamma,
        temperature=request.temperature,
        counts=tuple(confusion_of(train.labels, train.labels).diagonal().tolist()),
        confusion=counts,
    )
    save(request.out, config, network)
    numbers = numbers_of(config, request.command, rounds, fitted, probs, held_out.labels)
    write_card(request.out, numbers, probs, held_out.labels)
    return numbers


def _rounds(request: HradRequest, pair: Pair, console: Console) -> HradRounds:
    """The rounds asked for, made or read."""
    store = recipe.source(request, pair.target.tokenizer, console)
    assert pair.draft is not None
    collector = RoundCollector(
        pair.target.adapter,
        pair.draft.adapter,
        loading.stop_tokens(pair.target),
        RoundSettings(request.gamma, request.temperature, request.layers, request.seed),
    )
    with console.count("rounds", request.rounds, "rounds") as report:
        return collect(collector, store, request.work, request.rounds, report)


def _side(request: HradRequest, rounds: HradRounds, held_out: bool) -> LabelledRounds:
    here = rounds.held_out == held_out
    side = LabelledRounds(rounds.features[here], rounds.labels(request.gamma)[here])
    if len(side.labels) < FEWEST:
        what = "to measure on" if held_out else "to learn from"
        raise SpecvizError(f"only {len(side.labels)} rounds {what}: ask for more with --rounds")
    return side


def save(folder: Path, config: HradConfig, network: Network) -> None:
    """`hrad.safetensors`, weights in float16 and the standardisation in float32, and `config.json`."""
    weights = {name for name, _ in network.named_parameters()}
    state = network.state_dict().items()
    hrad.KIND.save(folder, config, {name: tensor.half() if name in weights else tensor for name, tensor in state})


N_BINS, FEWEST_IN_BIN = 10, 20  # bins of the plot, and rounds a bin must hold to be drawn


def write_card(folder: Path, numbers: dict[str, Any], probs: NDArray[np.float64], labels: NDArray[np.int64]) -> None:
    """Card, numbers and plot beside the weights. `probs` `[n, 3]`: what it gives rounds of classes `labels`."""
    curves = [cards.ReliabilityCurve(name, points(probs[:, k], labels == k)) for k, name in enumerate(CLASSES)]
    picture = cards.reliability_plot(
        [("H-RAD, held-out prompts", curves)], "probability it gives a class (across), share of such rounds (up)"
    )
    cards.write(folder, "hrad", numbers, page_facts(numbers), reliability=picture)


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


def page_facts(numbers: Mapping[str, Any]) -> dict[str, Any]:
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
    full = [bins == k for k in range(N_BINS) if (bins == k).sum() >= FEWEST_IN_BIN]
    return [(float(probs[here].mean()), float(true[here].mean())) for here in full]
