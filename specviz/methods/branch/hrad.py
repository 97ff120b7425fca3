"""The signal of a branch drafter: how much of a draft is kept; and H-RAD, SpecBranch's network behind it.

A signal is 0 keep nothing, 1 until the draft model is unsure, 2 everything. It may read committed tokens and the
target's states about them, never a drafted continuation: that would bias the text. Without a classifier, or a feature
row for it, it is 1, the implicit confidence rule alone, until verdicts of this run show that the target mostly takes
what the draft model is unsure of: then 2 (`VerdictRecord`).

H-RAD reads `z = (f, e)`: the target's states at the row whose logits chose the newest committed token (the last
`hrad_layers` entries of the library's list of hidden states, so the last of them is behind the final norm), and the
embedding of that token. Three classes: 0 nothing will be accepted, 1 some, 2 all of `gamma_label`.

A folder holds `hrad.safetensors` and `config.json`, and is refused for any other target or draft model than its own.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from specviz.engine.decode.context import Context, Observation
from specviz.engine.model.adapter import Model, ModelAdapter
from specviz.engine.model.rows import States, Tensor
from specviz.events import Signal, Span, Warn, six
from specviz.events.branch import SignalSource, Stage
from specviz.methods import Part
from specviz.methods.trained.part_kind import PartKind, misshapen, other_sizes
from specviz.methods.trained.part_kind import width_of as width_of
from specviz.probability.host import fetch

NO_HRAD = (
    "no H-RAD classifier worth asking for this pair: the confidence rule alone decides (signal 1), or nothing is cut "
    "(2) while the target takes most of what the draft model is unsure of; train one with specviz train hrad"
)


class HradSignal(NamedTuple):
    """The class and the probabilities of all three."""

    s: int
    probs: tuple[float, float, float]


class Classifier(ABC):
    """Predicts how a round will end. `taps`: layers of the target whose states it reads."""

    taps: tuple[int, ...]
    learned: tuple[int, float] | None = None  # gamma and temperature of the rounds it learned from, where that is known

    @abstractmethod
    def classify(self, features: Mapping[int, Tensor], token: int) -> HradSignal:
        """The class of the round that begins after `token`. `features[tap]`: states `[n, width]`, the newest last."""

    def mismatch(self, gamma: int, temperature: float) -> str | None:
        """Why it learned from other rounds than those of a run with these knobs; None: from such rounds."""
        return None


@dataclass(frozen=True, slots=True)
class SignalAnswer:
    s: int
    source: SignalSource
    probs: tuple[float, ...] | None = None


class VerdictRecord:
    """What this run's target made of the newest drafts: of all, and of those the draft model was unsure of.

    Read before anything is drawn, and of verdicts alone, so what it decides leaves the law of the text alone.
    """

    SPAN, WORTH, LIKELY = 32, 2 / 3, 1 / 4

    def __init__(self) -> None:
        self._taken, self._unsure = deque[bool](maxlen=self.SPAN), deque[bool](maxlen=self.SPAN)

    def add(self, judged: Iterable[tuple[float, bool]], epsilon: float) -> None:
        """Judged places: the draft model's confidence (unsure below `epsilon`), whether the target took its token."""
        for conf, taken in judged:
            self._taken.append(taken)
            if conf < epsilon:
                self._unsure.append(taken)

    @property
    def signal(self) -> int:
        """2, nothing is cut, while the target takes `WORTH` of the unsure; else 1. Half, until some were judged.

        A stop spares a rollback and gives up what could be drafted behind it. Where a share a is taken, h is the chance
        that any branch is hit and γ is near c, drafting on pays from a (γ - 1) > (h - a) γ at the first place to a > h
        at the last.
        """
        return 2 if sum(self._unsure) + 1 >= self.WORTH * (len(self._unsure) + 2) else 1

    def likely_len(self, most: int) -> int:
        """Length of a branch, 1..`most`, whose tokens are all taken, the first being so, with a chance of `LIKELY`."""
        share = (sum(self._taken) + 1) / (len(self._taken) + 1)
        return next((n for n in range(1, most) if share**n < self.LIKELY), most)


class Signals:
    """Asks the classifier about the newest committed token; the knob `signal` overrides it."""

    def __init__(self, classifier: Classifier | None) -> None:
        self.classifier = classifier
        self.taps: tuple[int, ...] = classifier.taps if classifier else ()
        self.verdicts = VerdictRecord()
        self._features = States({})
        self._told: set[str] = set()

    def parts(self) -> dict[str, str]:
        """What stands in the header: which classifier answers, if any; before the colon as short as a knob is."""
        if self.classifier is None:
            return {"hrad": "none: signal 1, or 2 by what became of unsure tokens"}
        if self.classifier.learned is None:
            return {"hrad": "trained"}
        gamma, temperature = self.classifier.learned
        at = f"gamma {gamma} at temperature {temperature:g}"
        return {"hrad": f"γ{gamma} T{temperature:g}: trained on rounds of {at}"}

    def observe(self, seen: Observation) -> None:
        """Keep what the next question is about."""
        self._features = seen.features

    def ask(self, ctx: Context, stage: Stage) -> int:
        """The signal at this stage, put on record."""
        began = time.perf_counter_ns()
        answer = self._answer(ctx)
        took = time.perf_counter_ns() - began
        if ctx.level != "none":
            asked = answer.source == "hrad"
            probs = None if answer.probs is None else [six(p) for p in answer.probs]
            ctx.note(Signal(stage=stage, s=answer.s, probs=probs, source=answer.source, dur_ns=took if asked else 0))
            if asked:
                ctx.note(Span(lane="hrad", name="classify", t0=began, dur_ns=took))
        return answer.s

    def _answer(self, ctx: Context) -> SignalAnswer:
        forced: Any = ctx.knobs.get("signal", "auto")
        if forced != "auto":
            return SignalAnswer(int(forced), "forced")
        if self.classifier is None:
            self._tell(ctx, "no_hrad", NO_HRAD)
        if self.classifier is None or any(tap not in self._features for tap in self.taps):
            return SignalAnswer(self.verdicts.signal, "fallback")
        self._tell(ctx, "other_hrad", self.classifier.mismatch(ctx.knobs["gamma"], ctx.knobs["temperature"]))
        ctx.counters.n_syncs += 1
        answer = self.classifier.classify(self._features, ctx.tokens[-1])
        return SignalAnswer(answer.s, "hrad", answer.probs)

    def _tell(self, ctx: Context, code: str, message: str | None) -> None:
        """A warning, once in a run; None: there is nothing to tell."""
        if message is not None and code not in self._told:
            self._told.add(code)
            ctx.note(Warn(code=code, message=message))


class Alternating(Signals):
    """PEARL's: nothing before the target has spoken (pre-verify), everything after (post-verify). Not on record."""

    def __init__(self) -> None:
        super().__init__(None)

    def parts(self) -> dict[str, str]:
        """No trained part."""
        return {}

    def ask(self, ctx: Context, stage: Stage) -> int:
        """0 after a rollback, 2 after a hit."""
        return 0 if stage == "draft" else 2


LAYERS = 4  # K of the paper
AGREES = 0.2  # kappa up to which agreement is slight at best (Landis and Koch 1977)
CLASSES = ("none", "some", "all")  # of the drafted tokens are accepted
_ADVICE = "train one for this pair with specviz train hrad"


@dataclass(frozen=True, slots=True)
class HradConfig:
    """`config.json`. `target`, `draft`: fingerprints; `gamma_label`, `temperature`: of the rounds it learned from.

    `counts`: those rounds by class. `confusion[true][predicted]`: rounds of held-out prompts.
    """

    target: str
    target_name: str
    draft: str
    draft_name: str
    n_layers: int
    width: int
    hrad_layers: int
    gamma_label: int
    temperature: float
    counts: tuple[int, int, int]
    confusion: tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]

    @property
    def n_inputs(self) -> int:
        return (self.hrad_layers + 1) * self.width

    @property
    def kappa(self) -> float:
        """Agreement of its classes with the true ones on held-out rounds beyond that of chance (Cohen): 1 is perfect, 0
        that of a guess; 0 without such rounds."""
        n = sum(map(sum, self.confusion))
        true, named = (
            [sum(row) for row in self.confusion],
            [sum(column) for column in zip(*self.confusion, strict=True)],
        )
        chance = sum(a * b for a, b in zip(true, named, strict=True))  # of n^2
        right = sum(row[s] for s, row in enumerate(self.confusion))
        return (right * n - chance) / (n * n - chance) if n * n > chance else 0.0

    def write(self, folder: Path) -> None:
        KIND.save(folder, self)


def _unsound(config: HradConfig) -> str | None:
    if 1 <= config.hrad_layers <= config.n_layers + 1 and config.gamma_label >= 1:
        return None
    wrong = "hrad_layers" if config.gamma_label >= 1 else "gamma_label"
    return f": {wrong} is {getattr(config, wrong)}, which cannot be"


def _unfit(config: HradConfig, target: ModelAdapter) -> str | None:
    unfit = other_sizes(config, target)
    return None if unfit is None else f"{unfit}; {_ADVICE}"


KIND = PartKind(
    part=Part("weights of H-RAD", "specviz train hrad", "hrad*", knob="hrad"),
    format="specviz-hrad",
    config=HradConfig,
    weights="hrad.safetensors",
    hint="give one that specviz train hrad wrote, or none",
    advice=_ADVICE,
    sound=_unsound,
    fits=_unfit,
)


def taps(n_layers: int, hrad_layers: int = LAYERS) -> tuple[int, ...]:
    """The last entries of the library's list of hidden states, which has one more than there are layers."""
    return tuple(range(n_layers + 1 - hrad_layers, n_layers + 1))


class Network(nn.Module):
    """Standardisation, then 256, 64, 3, in float32. Features not seen to vary are left out by a scale of zero."""

    mean: Tensor
    scale: Tensor

    def __init__(self, n_inputs: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(n_inputs))
        self.register_buffer("scale", torch.ones(n_inputs))  # 1 / deviation
        self.layers = nn.Sequential(
            nn.Linear(n_inputs, 256),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(256, 64),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(64, len(CLASSES)),
        )

    def forward(self, rows: Tensor) -> Tensor:
        """Scores `[n, 3]` of feature rows `[n, inputs]` of any dtype."""
        out: Tensor = self.layers((rows.float() - self.mean) * self.scale)
        return out


class Hrad(Classifier):
    """A trained H-RAD of one pair, on the target's device."""

    def __init__(self, target: ModelAdapter, config: HradConfig, network: Network) -> None:
        self.target, self.config = target, config
        self.network = network.to(target.device).float().eval().requires_grad_(False)
        self.taps = taps(config.n_layers, config.hrad_layers)
        self.learned = (config.gamma_label, config.temperature)

    @torch.inference_mode()
    def classify(self, features: Mapping[int, Tensor], token: int) -> HradSignal:
        """The class of the round that begins after `token`, the newest committed one. One read of the device.

        `features[tap]`: states `[n, width]` as observed; the last row is the one whose logits chose `token`.
        """
        newest = {tap: features[tap][-1:] for tap in self.taps}
        (probs,) = fetch(self.network(feature_rows(self.target, newest, [token]))[0].softmax(-1))
        return HradSignal(max(range(len(probs)), key=probs.__getitem__), (probs[0], probs[1], probs[2]))

    def mismatch(self, gamma: int, temperature: float) -> str | None:
        """Why it learned from other rounds than those of a run with these knobs; None: from such rounds."""
        learned = self.config
        if (learned.gamma_label, learned.temperature) == (gamma, temperature):
            return None
        return (
            f"H-RAD learned from rounds of gamma {learned.gamma_label} at temperature {learned.temperature:g}, this "
            f"run has gamma {gamma} at temperature {temperature:g}: the text keeps its law, but it may cut too early "
            f"or too late; train one with specviz train hrad --gamma {gamma} --temperature {temperature:g}"
        )


def feature_rows(target: ModelAdapter, states: Mapping[int, Tensor], tokens: Sequence[int]) -> Tensor:
    """`z` `[n, (K + 1) * width]`, float32: states `[n, width]` by ascending layer, then the embedding of the token that
    each of them chose.
    """
    ids = torch.tensor(tokens, device=target.device)
    parts = [*(states[tap] for tap in sorted(states)), target.embedding(ids)]
    return torch.cat([part.float() for part in parts], -1)


def pick(target: Model, draft: Model | None, wanted: str | None = None, gamma: int = 4) -> Hrad | None:
    """The H-RAD to use: a folder, or of those shipped with the pair the one whose `gamma_label` is nearest to `gamma`.

    One that is not named must agree with the verdicts of its held-out rounds more than slightly (`AGREES`): advice that
    is little better than a guess costs more than it brings. None: the fallback; also when `wanted` is `none`.

    Raises ModelError in one line for a folder that holds no H-RAD, or none of this pair.
    """
    if wanted == "none" or not isinstance(target, ModelAdapter) or not isinstance(draft, ModelAdapter):
        return None
    if wanted is not None:
        return load(Path(wanted), target, draft)
    fitting = [folder for folder in KIND.shipped_for(target, draft) if read(folder).kappa > AGREES]
    nearest = min(fitting, key=lambda folder: abs(read(folder).gamma_label - gamma), default=None)
    return None if nearest is None else load(nearest, target, draft)


def load(folder: Path, target: ModelAdapter, draft: ModelAdapter) -> Hrad:
    """The H-RAD in a folder. Raises ModelError in one line for one that holds none, or none of this pair."""
    config, tensors = KIND.opened(folder, target, draft)
    with torch.device("meta"):  # no weights are drawn only to be replaced: decoding leaves torch's generator alone
        network = Network(config.n_inputs)
    try:
        network.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        raise misshapen(folder, KIND.option, error) from error
    return Hrad(target, config, network)


def read(folder: Path) -> HradConfig:
    """The checked `config.json` of a folder. Raises ModelError in one line."""
    return KIND.parsed(folder, KIND.document(folder))
