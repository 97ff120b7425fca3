"""What is tried, and who goes on."""

import math
import random

import pytest

from specviz.knobs import KnobSpec, real, whole
from specviz.methods import all_methods, get_method
from specviz.tuning.measured import curves_of
from specviz.tuning.search import FINALISTS, KnobTrial, Race
from specviz.tuning.space import KnobSetting, ladder, one_at_a_time, tunable

DRAFTING = [method for method in all_methods().values() if not method.traits.plain]


@pytest.mark.parametrize("method", DRAFTING, ids=lambda method: method.name)
def test_every_value_that_is_tried_is_one_that_the_knob_may_have(method) -> None:  # type: ignore[no-untyped-def]
    assert tunable(method, {}), "a method that drafts has something to tune"
    for spec in tunable(method, {}):
        values = ladder(spec)
        assert spec.default in values
        assert values == sorted(set(values))
        assert [spec.check(value) for value in values] == values


def test_what_changes_the_text_or_was_set_by_hand_is_not_searched() -> None:
    names = {spec.name for spec in tunable(get_method("draft"), {"gamma": 4})}
    assert not names & {"temperature", "top_k", "slack", "seed", "max_new_tokens", "gamma"}


def test_a_knob_without_effect_is_not_searched() -> None:
    def names(shape: str) -> set[str]:
        return {spec.name for spec in tunable(get_method("draft"), {"shape": shape})}

    assert "node_budget" not in names("chain")
    assert {"node_budget", "d_max"} <= names("tree")
    assert "gamma" not in names("tree")


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (whole("n", 0, 64, 4, ""), [1, 2, 3, 4, 6, 8, 12, 16]),
        (whole("n", 2, 5, 5, ""), [2, 3, 4, 5]),
        (real("x", 0, 1, 0.25, ""), [0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
        (real("x", 0, 4, 0.5, ""), [0.125, 0.25, 0.5, 1.0]),
    ],
)
def test_a_ladder_stays_in_the_range_and_near_the_default(spec: KnobSpec, values: list[float]) -> None:
    assert ladder(spec) == values


def test_values_by_hand_are_all_that_is_searched() -> None:
    settings = one_at_a_time(get_method("draft"), {}, {"gamma": [2, 4, 8]})
    assert [dict(setting.knobs) for setting in settings] == [{}, {"gamma": 2}, {"gamma": 8}]


def test_curves_show_what_a_knob_does_alone_from_the_defaults_and_from_the_winner() -> None:
    base = KnobSetting("specbound")
    best = base.with_(d_max=2, w_max=3)
    speeds = (0.8, 1.3, 0.9, 1.0, 1.2)
    settings = (base, best, best.with_(w_max=1), base.with_(tau=0.5), best.with_(d_max=4))
    trials = [KnobTrial(setting, [math.log(speed)]) for setting, speed in zip(settings, speeds, strict=True)]
    curves = {name: [(x, round(speed, 6)) for x, speed in points] for name, points in curves_of(trials, best).items()}
    assert curves == {
        "specbound tau": [(0.5, 1.0), (0.75, 0.8)],
        "specbound, d_max 2 w_max": [(1, 0.9), (3, 1.3)],
        "specbound, w_max 3 d_max": [(2, 1.3), (4, 1.2)],
    }


class KnownSpeeds:
    """Settings with known speeds over plain decoding, and noise as a loaded machine has it."""

    def __init__(self, speeds: dict[str, float], noise: float = 0.0) -> None:
        self.speeds, self.noise, self.decoded = speeds, noise, 0
        self._draws = random.Random(7)

    def measure(self, setting: KnobSetting, prompt: int) -> tuple[float, float]:
        self.decoded += 1
        return 1 / (self.speeds[setting.name] * self._draws.lognormvariate(0, self.noise)), 1.0

    def search(self, budget: int, trials: list[KnobTrial]) -> Race:
        return Race(trials, self.measure, range(5), lambda: self.decoded / budget)


def _chains(*gammas: int) -> list[KnobTrial]:
    return [KnobTrial(KnobSetting("draft")), *(KnobTrial(KnobSetting("draft", {"gamma": gamma})) for gamma in gammas)]


def test_the_fastest_is_left_and_had_the_most_prompts() -> None:
    trials = _chains(*range(5, 28))
    speeds = {trial.setting.name: 1 + k / 20 for k, trial in enumerate(trials)}
    race = KnownSpeeds(speeds, noise=0.3)
    best, *others = race.search(600, trials).run()
    assert speeds[best.setting.name] >= sorted(speeds.values())[-4], "noise may change places near the top"
    assert len(others) == FINALISTS - 1
    assert len(best.gains) > 4 * min(len(trial.gains) for trial in trials)
    assert {trial.why for trial in trials if trial.left_after is not None} == {"in the slower half"}


def test_without_noise_it_is_the_fastest_and_its_speed_is_the_right_one() -> None:
    trials = _chains(*range(5, 28))
    speeds = {trial.setting.name: 0.5 + (k * 7 % 24) / 20 for k, trial in enumerate(trials)}
    best = KnownSpeeds(speeds).search(200, trials).run()[0]
    assert best.setting.name == max(speeds, key=speeds.__getitem__)
    assert best.over_plain == pytest.approx(max(speeds.values()))


def test_everyone_decodes_once_when_there_is_no_time() -> None:
    trials = _chains(2, 3, 6, 8)
    race = KnownSpeeds({trial.setting.name: 1.0 for trial in trials})
    race.search(1, trials).run()
    assert all(trial.gains for trial in trials)


def test_the_best_values_of_two_knobs_are_tried_together() -> None:
    single = [{"gamma": 2}, {"gamma": 8}, {"epsilon": 0.1}, {"epsilon": 0.7}]
    trials = [KnobTrial(KnobSetting("specbranch")), *(KnobTrial(KnobSetting("specbranch", knobs)) for knobs in single)]
    speeds = dict(zip([trial.setting.name for trial in trials], [1.0, 0.8, 1.2, 1.3, 0.7], strict=True))
    together = KnobSetting("specbranch", {"epsilon": 0.1, "gamma": 8})
    race = KnownSpeeds(
        {**speeds, together.name: 1.5, KnobSetting("specbranch", {"gamma": 8, "epsilon": 0.1}).name: 1.5}
    )
    assert race.search(60, trials).run()[0].setting == together
