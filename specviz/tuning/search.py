"""Successive halving: settings decode the same prompts, the slower half goes, the others get twice as many.

A setting is measured by how many times as fast as plain decoding it was, prompt by prompt, plain decoding taking its
turn beside it, so that what moves the machine moves both. What was looked at while choosing flatters the one that was
chosen: its speed is told from prompts that the search never saw (`measured`), and no interval stands beside these.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from specviz.tuning.space import KnobSetting

FINALISTS = 3  # settings at which halving ends
Measure = Callable[[KnobSetting, int], tuple[float, float]]  # setting and prompt: seconds a token, of it and of plain


@dataclass
class KnobTrial:
    """A setting and what it was found to be. `gains`: log of the speed over plain decoding, one number a prompt.

    `left_after`: prompts after which it was left out; None: it is in the race to the end.
    """

    setting: KnobSetting
    gains: list[float] = field(default_factory=list)
    left_after: int | None = None
    why: str = ""

    @property
    def over_plain(self) -> float | None:
        """The geometric mean over its prompts; None where it was never decoded."""
        return math.exp(fmean(self.gains)) if self.gains else None


@dataclass
class Race:
    """The race. `measure` decodes one prompt; `prompts` are used in turn; `spent`: the share of the time that is gone.

    Every rung has the same time, so that those who are left decode twice as much.
    """

    trials: list[KnobTrial]
    measure: Measure
    prompts: Sequence[int]
    spent: Callable[[], float]
    progress: Callable[[str], None] = lambda words: None

    def run(self) -> list[KnobTrial]:
        """The trials that are left, fastest first. Every trial decodes at least once, whatever the time."""
        racing, used = list(self.trials), 0
        rungs = 1 + max(0, math.ceil(math.log2(len(racing) / FINALISTS)))
        for rung in range(rungs):
            began = used
            while used == began or self.spent() < (rung + 1) / rungs:
                self._round(racing, self.prompts[used % len(self.prompts)], used)
                used += 1
            ranked = self._ranked(racing)
            self.progress(
                f"{len(racing)} settings, {used - began} prompts: {ranked[0].setting.name} leads, "
                f"{ranked[0].over_plain or 0:.2f}x plain decoding"
            )
            if rung + 1 < rungs:
                racing = self._halved(ranked)
                racing += self._combined(racing)
        return self._ranked(racing)

    def _round(self, racing: Sequence[KnobTrial], prompt: int, used: int) -> None:
        """One prompt by everyone, in an order that turns."""
        start = used % len(racing)
        for trial in [*racing[start:], *racing[:start]]:
            mine, plain = self.measure(trial.setting, prompt)
            trial.gains.append(math.log(plain / mine))

    def _ranked(self, racing: Iterable[KnobTrial]) -> list[KnobTrial]:
        return sorted((t for t in racing if t.gains), key=lambda trial: fmean(trial.gains), reverse=True)

    def _halved(self, ranked: list[KnobTrial]) -> list[KnobTrial]:
        keep = max(FINALISTS, (len(ranked) + 1) // 2)
        for trial in ranked[keep:]:
            trial.left_after, trial.why = len(trial.gains), "in the slower half"
        return ranked[:keep]

    def _combined(self, racing: Sequence[KnobTrial]) -> Iterator[KnobTrial]:
        """Of each method still racing, the best value of every knob put together, once only single ones are left."""
        known = [trial.setting for trial in self.trials]
        for method in dict.fromkeys(trial.setting.method for trial in racing):
            best: dict[str, tuple[float, object]] = {}
            base = next(trial for trial in self.trials if trial.setting == KnobSetting(method))
            floor = base.over_plain or 0.0
            for trial in self.trials:
                changed, speed = trial.setting.knobs, trial.over_plain
                if trial.setting.method != method or len(changed) != 1 or speed is None or speed <= floor:
                    continue
                ((name, value),) = changed.items()
                if name not in best or speed > best[name][0]:
                    best[name] = (speed, value)
            together = KnobSetting(method).with_(**{name: value for name, (_, value) in best.items()})
            if len(best) > 1 and together not in known:
                trial = KnobTrial(together)
                self.trials.append(trial)
                yield trial
