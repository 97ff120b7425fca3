"""The signal of a branch drafter: 0 keep nothing, 1 until the draft model is unsure, 2 everything (specbranch.md 3).

It may read committed tokens and the target's states about them, never a drafted continuation: that would bias the text
(5.1 b, 5.3). Without a classifier, or a feature row for it, it is 1, the implicit confidence rule alone.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from specviz.engine.decode.context import Context, Observation
from specviz.engine.model.rows import Tensor
from specviz.events import Signal, Span, Warn, six
from specviz.events.branch import SignalSource, Stage

NO_HRAD = (
    "no H-RAD classifier for this pair: the signal is 1 throughout, so the confidence rule alone decides; train one "
    "with specviz train hrad, or set signal to 0, 1 or 2"
)


class SignalVerdict(Protocol):
    """A class and the probabilities of all three."""

    @property
    def s(self) -> int: ...
    @property
    def probs(self) -> tuple[float, float, float]: ...


class Classifier(ABC):
    """What foretells the outcome of a round. `taps`: layers of the target that it reads."""

    taps: tuple[int, ...]
    learned: tuple[int, float] | None = None  # gamma and temperature of the rounds it learned from, where that is known

    @abstractmethod
    def classify(self, features: Mapping[int, Tensor], token: int) -> SignalVerdict:
        """The class of the round that begins after `token`. `features[tap]`: states `[n, width]`, the newest last."""

    def mismatch(self, gamma: int, temperature: float) -> str | None:
        """Why its word is about other rounds than those of a run with these knobs; None: it is not."""
        return None


@dataclass(frozen=True, slots=True)
class SignalAnswer:
    s: int
    source: SignalSource
    probs: tuple[float, ...] | None = None


class Signals:
    """Asks the classifier about the newest committed token; the knob `signal` overrides it."""

    def __init__(self, classifier: Classifier | None) -> None:
        self.classifier = classifier
        self.taps: tuple[int, ...] = classifier.taps if classifier else ()
        self._features: dict[int, Tensor] = {}
        self._told: set[str] = set()

    def parts(self) -> dict[str, str]:
        """What stands in the header: which classifier answers, if any; before the colon as short as a knob is."""
        if self.classifier is None:
            return {"hrad": "none: signal 1"}
        if self.classifier.learned is None:
            return {"hrad": "trained"}
        gamma, temperature = self.classifier.learned
        at = f"gamma {gamma} at temperature {temperature:g}"
        return {"hrad": f"γ{gamma} T{temperature:g}: trained on rounds of {at}"}

    def seen(self, seen: Observation) -> None:
        """Keep the one row that the next question is about."""
        self._features = {tap: rows[-1:] for tap, rows in seen.features.items() if len(rows)}

    def ask(self, ctx: Context, stage: Stage) -> int:
        """The signal at this stage, put on record."""
        began = time.perf_counter_ns()
        said = self._answer(ctx)
        took = time.perf_counter_ns() - began
        if ctx.level != "none":
            asked = said.source == "hrad"
            probs = None if said.probs is None else [six(p) for p in said.probs]
            ctx.note(Signal(stage=stage, s=said.s, probs=probs, source=said.source, dur_ns=took if asked else 0))
            if asked:
                ctx.note(Span(lane="hrad", name="classify", t0=began, dur_ns=took))
        return said.s

    def _answer(self, ctx: Context) -> SignalAnswer:
        forced: Any = ctx.knobs.get("signal", "auto")
        if forced != "auto":
            return SignalAnswer(int(forced), "forced")
        if self.classifier is None:
            self._tell(ctx, "no_hrad", NO_HRAD)
        if self.classifier is None or any(tap not in self._features for tap in self.taps):
            return SignalAnswer(1, "fallback")
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
        """Nothing was trained."""
        return {}

    def ask(self, ctx: Context, stage: Stage) -> int:
        """0 after a rollback, 2 after a hit."""
        return 0 if stage == "draft" else 2
