"""The calibration: what it measures, how it gives up, and the arithmetic of its lines. No time is asserted."""

from types import SimpleNamespace
from typing import Any

import pytest

from specviz.cost.ledger import Clock
from specviz.engine import measure as cal
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.model.exact.plan import BatchWidths
from support.models import build


def pair() -> FactoryModels:
    target = ModelAdapter(build("llama"), name="target")
    return FactoryModels(target, ModelAdapter(build("llama", num_hidden_layers=1), name="draft"), 200)


def test_both_models_are_timed_at_every_width() -> None:
    calibration = cal.calibrate(pair(), None, patience_s=0)
    assert calibration is not None
    assert calibration.widths == list(cal.WIDTHS)
    assert len(calibration.target_ns) == len(calibration.draft_ns) == len(cal.WIDTHS)
    assert min(calibration.target_ns + calibration.draft_ns) > 0
    assert calibration.t_ns == calibration.draft_ns[0]
    assert calibration.c == calibration.target_ns[0] / calibration.draft_ns[0]
    assert calibration.repeats == cal.LEAST, "no time: the fewest, and the record says so"


def test_without_a_draft_model_there_is_no_ratio() -> None:
    models = pair()
    calibration = cal.calibrate(FactoryModels(models.target, None, 200), None, patience_s=0)
    assert calibration is not None
    assert (calibration.t_ns, calibration.c, calibration.kappa_q, calibration.draft_ns) == (None, None, None, [])
    assert calibration.kappa_p is not None


def test_it_measures_a_pair_once(monkeypatch: pytest.MonkeyPatch) -> None:
    models, count = pair(), list[Any]()
    measure = cal._measure
    monkeypatch.setattr(cal, "_measure", lambda *args: count.append(args) or measure(*args))
    first, second = (cal.calibrate(models, None, patience_s=0) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.target_ns == second.target_ns
    assert first is not second, "records are stamped, so each caller gets its own"
    cal.calibrate(FactoryModels(models.target, None, 200), None, patience_s=0)
    assert len(count) == 2, "the target alone is another measurement"


def test_a_climbing_drafter_brings_its_own_clock() -> None:
    clock = Clock((1, 4), (10.4, 20.0), (5.0, 6.0), 3.2, 1.0)
    models = pair()
    calibration = cal.calibrate(models, SimpleNamespace(clock=clock), patience_s=0)  # type: ignore[arg-type]
    assert calibration is not None
    assert (calibration.exit_widths, calibration.layer_ns, calibration.final_ns) == ([1, 4], [10, 20], [5, 6])
    assert (calibration.test_ns, calibration.pass_ns) == (3, 1)
    again = cal.calibrate(models, None, patience_s=0)
    assert again is not None
    assert again.layer_ns == [], "the remembered record is not written into"


def test_what_is_no_library_model_or_too_short_is_not_timed() -> None:
    assert cal.calibrate(FactoryModels(SimpleNamespace(n_layers=2), None, 10), None) is None  # type: ignore[arg-type]
    short = ModelAdapter(build("llama", max_position_embeddings=70), name="short")
    assert cal.calibrate(FactoryModels(short, None, 10), None) is None


def test_the_slope_is_that_of_a_line_and_of_the_least_squares() -> None:
    widths = (1, 2, 5, 9)
    assert cal.slope(widths, [round(1000 * (1 + 0.25 * (w - 1))) for w in widths]) == pytest.approx(0.25)
    assert cal.slope((1, 2, 3), [100, 130, 140]) == pytest.approx((1 * 0.3 + 2 * 0.4) / (1 + 4))


def test_every_width_is_timed_equally_often_and_the_warm_up_is_left_out() -> None:
    calls = {"a": [900, 5, 7, 6], "b": [900, 1, 1, 4]}
    taken = {name: iter(values) for name, values in calls.items()}
    times, repeats = cal._timed([lambda: next(taken["a"]), lambda: next(taken["b"])], 0, least=3)
    assert (times, repeats) == ([6, 1], 3)


def test_a_slow_target_is_timed_once_at_few_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cal, "SLOW_NS", 0)
    calibration = cal.calibrate(pair(), None)
    assert calibration is not None
    assert calibration.widths == list(cal.FEW)
    assert (calibration.repeats, len(calibration.target_ns), len(calibration.draft_ns)) == (1, 2, 2)
    assert calibration.kappa_p is not None


def test_where_exact_rows_are_padded_a_pass_without_padding_is_timed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, rows = pair(), list[tuple[int, int]]()
    assert isinstance(plain.target, ModelAdapter)
    target = plain.target.with_backend(plain.target.backend.exact(BatchWidths(16)))
    once = cal._once

    def noted(model: Any, cache: Any, token: int, width: int, siblings: bool) -> int:
        rows.append((width, 0 if model.backend.widths is None else model.backend.widths.padding(width)))
        return once(model, cache, token, width, siblings)

    monkeypatch.setattr(cal, "_once", noted)
    calibration = cal.calibrate(FactoryModels(target, None, 200), None, 0.0, cal.ENDS)
    assert calibration is not None
    assert calibration.widths == list(cal.ENDS)
    assert calibration.plain_ns is not None
    assert calibration.plain_ns <= calibration.target_ns[0]
    assert set(rows) == {(1, 15), (17, 0), (1, 0)}
    assert target.backend.widths == BatchWidths(16), "the model itself stays exact"


def test_without_padding_there_is_no_other_plain_pass() -> None:
    calibration = cal.calibrate(pair(), None, patience_s=0)
    assert calibration is not None
    assert calibration.plain_ns is None


def test_a_remembered_measurement_tells_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    models, now = pair(), [100.0]
    monkeypatch.setattr(cal.time, "perf_counter", lambda: now[0])
    first = cal.calibrate(models, None, patience_s=0)
    now[0] += 720
    again = cal.calibrate(models, None, patience_s=0)
    assert first is not None
    assert again is not None
    assert (first.age_s, again.age_s) == (0.0, 720.0)
    assert first.target_ns == again.target_ns
