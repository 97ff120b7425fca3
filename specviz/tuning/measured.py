"""Decode settings on prompts, choose one, and measure it on prompts that the choice never saw."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from typing import Any, Literal

import msgspec

from specviz.commands import Start
from specviz.comparison import machine
from specviz.comparison.measured import machine_of, models_of
from specviz.engine.run.local import LocalRun, Pair
from specviz.errors import KnobError, SpecvizError
from specviz.methods import all_methods, get_method
from specviz.metrics import Estimate
from specviz.metrics.differences import RatioOfSums, growth_of
from specviz.runlog.fold import Run
from specviz.sources.prompts import PromptSet
from specviz.tuning.replays import shortlist
from specviz.tuning.search import KnobTrial, Race
from specviz.tuning.space import KnobSetting, one_at_a_time

Verdict = Literal["pays", "nothing pays", "cannot tell"]
_CONFIRM = 0.4  # of the time
_LEAST = 2  # prompts of which an interval can be told
_TURNS = 100  # over the same prompts, to average what else the machine does
_REPLAYED = 3  # prompts of the run that replays ask
PLAIN = next(method.name for method in all_methods().values() if method.traits.plain)


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """A setting in the search. `over_plain`: times plain decoding over its `n_prompts`, looked at while choosing."""

    method: str
    knobs: dict[str, Any]
    over_plain: float | None
    n_prompts: int
    why: str  # it was left out; "": it was in the race to the end


class TuneReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was tried, what was chosen, and how fast that is on prompts that the search did not see.

    `over_plain` and `over_default`: tokens a second of the chosen setting over those of plain decoding and of its
    method at its defaults, with Student's 95 % interval over `n_confirmed` prompts. `fresh`: the search saw none of
    these. `curves`: by setting and knob, its value and the speed over plain where that alone was changed.
    """

    wall: str
    command: str
    machine: machine.Machine
    models: dict[str, str]
    prompts: dict[str, Any]
    trials: list[TrialResult]
    replays: list[str]
    curves: dict[str, list[tuple[Any, float]]]
    method: str
    knobs: dict[str, Any]
    fixed: dict[str, Any]  # what all settings had beside their own knobs
    over_plain: Estimate
    over_default: Estimate | None
    n_confirmed: int
    fresh: bool
    verdict: Verdict
    seconds: float

    @property
    def setting(self) -> KnobSetting:
        """The one that was chosen."""
        return KnobSetting(self.method, self.knobs)


@dataclass
class Tuning:
    """A pair, the methods to search and the time for it. `fixed`: knobs that all settings have; `asked`: values by
    hand of the knobs to search; `how`: what else a drafting run is given, its verifier and lanes."""

    pair: Pair
    prompts: PromptSet
    methods: Sequence[str]
    fixed: Mapping[str, Any]
    asked: Mapping[str, list[Any]]
    seconds: float
    command: str
    progress: Callable[[str], None] = lambda words: None
    how: Mapping[str, Any] = field(default_factory=dict)
    _plain: dict[tuple[int, int], float] = field(default_factory=dict)
    _turns: dict[tuple[str, int], int] = field(default_factory=dict)

    def run(self) -> TuneReport:
        """Search, then confirm. Raises SpecvizError where no method can run with this pair."""
        began, before = time.perf_counter(), machine.load()
        self._decode(KnobSetting(PLAIN), 0)  # what is built or read once is no setting's time
        trials, replays = self._candidates()
        searched, fresh = self._split()
        since, until = time.perf_counter(), began + self.seconds * (1 - _CONFIRM)
        search = Race(
            trials,
            self._measure,
            searched,
            lambda: (time.perf_counter() - since) / max(1.0, until - since),
            self.progress,
        )
        best = search.run()[0].setting
        others = [KnobSetting(PLAIN), *([default] if (default := KnobSetting(best.method)) != best else [])]
        (over_plain, *over_default), n = self.confirmed(best, others, fresh, began + self.seconds)
        return TuneReport(
            wall=datetime.now(UTC).isoformat(timespec="seconds"),
            command=self.command,
            machine=machine_of(self.pair, before),
            models=models_of(self.pair),
            prompts={"source": self.prompts.source, "sha256": self.prompts.sha256, "n_found": self.prompts.n_found},
            trials=[_result(trial) for trial in search.trials],
            replays=replays,
            curves=curves_of(search.trials, best),
            method=best.method,
            knobs=dict(best.knobs),
            fixed=self._of(best.method),
            over_plain=over_plain,
            over_default=over_default[0] if over_default else None,
            n_confirmed=n,
            fresh=searched != fresh,
            verdict=_verdict(over_plain),
            seconds=time.perf_counter() - began,
        )

    def _of(self, method: str) -> dict[str, Any]:
        """The fixed knobs that this method has."""
        names = {spec.name for spec in get_method(method).table.specs}
        return {name: value for name, value in self.fixed.items() if name in names}

    def _candidates(self) -> tuple[list[KnobTrial], list[str]]:
        """Every method's settings, those that a replay rules out left out, and what the replays said."""
        trials: list[KnobTrial] = []
        replays: list[str] = []
        for name in self.methods:
            try:
                settings, words = self._settings(name)
            except SpecvizError as error:
                if len(self.methods) == 1:
                    raise
                self.progress(f"{name} left out: {error}")
                continue
            replays += [words] if words else []
            trials += [KnobTrial(s) for k, s in enumerate(settings) if s not in settings[:k] and self._can(s)]
        if not trials:
            raise SpecvizError("no method that drafts can run with these models; specviz models says what each needs")
        return trials, replays

    def _settings(self, name: str) -> tuple[list[KnobSetting], str]:
        """Of one method, its defaults first. Raises SpecvizError where it cannot run with this pair."""
        method = get_method(name)
        base, *others = one_at_a_time(method, self._of(name), self.asked)
        run = self._recorded(base)
        replayed = None if self.asked else shortlist(self.pair, method, base, run)
        if replayed is None:
            return [base, *others], ""
        shorter, words = replayed
        replayed_knobs = {knob for setting in shorter for knob in setting.knobs}
        return [base, *shorter, *(setting for setting in others if not replayed_knobs & setting.knobs.keys())], words

    def _can(self, setting: KnobSetting) -> bool:
        """Whether its knobs go together."""
        method = get_method(setting.method)
        try:
            method.example(method.table.knobs({**self._of(setting.method), **setting.knobs}).values)
        except KnobError:
            return False
        return True

    def _split(self) -> tuple[Sequence[int], Sequence[int]]:
        """Prompts to choose on, and prompts to measure the chosen one on: every other one, where there are several."""
        numbers = range(len(self.prompts.texts))
        return (numbers, numbers) if len(numbers) < 2 else (numbers[::2], numbers[1::2])

    def _measure(self, setting: KnobSetting, prompt: int) -> tuple[float, float]:
        """Seconds a token of a setting and of plain decoding, which is timed once for each turn over the prompts."""
        turn = self._turns[setting.name, prompt] = self._turns.get((setting.name, prompt), 0) + 1
        if (prompt, turn) not in self._plain:
            self._plain[prompt, turn] = self._decode(KnobSetting(PLAIN), prompt)[0]
        return self._decode(setting, prompt)[0], self._plain[prompt, turn]

    def _decode(self, setting: KnobSetting, prompt: int) -> tuple[float, int, int]:
        """Seconds a token, nanoseconds and new tokens of a run; what reading the prompt took is not in it."""
        knobs = {**self._of(setting.method), **setting.knobs}
        how = {} if setting.method == PLAIN else self.how
        start = Start(prompt=self.prompts.texts[prompt], method=setting.method, knobs=knobs, level="none", **how)
        local = LocalRun(self.pair, start, lambda event: None)
        took = sum(done.ended_ns - done.started_ns for done in local.rounds())
        n = len(local.tokens)
        if not n:
            raise SpecvizError(f"nothing was decoded of {self.prompts.places[prompt] or 'a prompt'}")
        return took / n / 1e9, took, n

    def _recorded(self, setting: KnobSetting) -> Run:
        """The first prompts decoded, with all that a replay asks for."""
        run = Run()
        stream = list(self.prompts.stream[:_REPLAYED])
        start = Start(stream=stream, method=setting.method, knobs=self._of(setting.method), level="full", **self.how)
        for _ in LocalRun(self.pair, start, run.apply).rounds():
            pass
        return run

    def confirmed(
        self, best: KnobSetting, others: Sequence[KnobSetting], prompts: Sequence[int], until: float
    ) -> tuple[list[Estimate], int]:
        """The chosen setting over each of the others, each prompt by all of them in turn; and how many prompts."""
        settings = [best, *others]
        sums = [([0.0] * len(prompts), [0.0] * len(prompts)) for _ in settings]  # tokens and nanoseconds of each prompt
        n = 0
        for k, (turn, prompt) in enumerate(product(range(_TURNS), range(len(prompts)))):
            if k >= _LEAST and time.perf_counter() > until:
                break
            for at in [*range(k % len(settings), len(settings)), *range(k % len(settings))]:
                _, took, new = self._decode(settings[at], prompts[prompt])
                sums[at][0][prompt] += new
                sums[at][1][prompt] += took
            n = prompt + 1 if turn == 0 else n
        mine, *their = [RatioOfSums(tokens[:n], ns[:n]) for tokens, ns in sums]
        return [_times(mine, other) for other in their], n


def _times(mine: RatioOfSums, other: RatioOfSums) -> Estimate:
    """How many times as fast, prompts in pairs."""
    grown = growth_of(mine, other)
    interval = None if grown.interval is None else (max(0.0, 1 + grown.interval[0]), 1 + grown.interval[1])
    return Estimate(value=1 + grown.value, interval=interval, n=grown.n)


def _verdict(over_plain: Estimate) -> Verdict:
    if over_plain.interval is None or over_plain.interval[0] <= 1 <= over_plain.interval[1]:
        return "cannot tell"
    return "pays" if over_plain.interval[0] > 1 else "nothing pays"


def _result(trial: KnobTrial) -> TrialResult:
    return TrialResult(
        method=trial.setting.method,
        knobs=dict(trial.setting.knobs),
        over_plain=trial.over_plain,
        n_prompts=len(trial.gains),
        why=trial.why,
    )


def curves_of(trials: Sequence[KnobTrial], best: KnobSetting) -> dict[str, list[tuple[Any, float]]]:
    """`draft gamma` → its values with the speed over plain, of the trials where that knob alone was changed: from a
    method's defaults, and from the setting that was chosen (`specbound, alpha 0.0, d_max 2 w_max`)."""
    curves: dict[str, list[tuple[Any, float]]] = {}
    for base in [*(KnobSetting(name) for name in dict.fromkeys(trial.setting.method for trial in trials)), best]:
        own = [trial for trial in trials if trial.setting.method == base.method]
        for knob in dict.fromkeys(name for trial in own for name in trial.setting.knobs):
            rest = KnobSetting(base.method, _without(base, knob))
            default = get_method(base.method).table.spec(knob).default
            points = {
                trial.setting.knobs.get(knob, default): trial.over_plain
                for trial in own
                if trial.over_plain is not None and _without(trial.setting, knob) == rest.knobs
            }
            if len(points) > 1:
                curves[f"{rest.name} {knob}"] = sorted(points.items())
    return curves


def _without(setting: KnobSetting, knob: str) -> dict[str, Any]:
    return {name: value for name, value in setting.knobs.items() if name != knob}
