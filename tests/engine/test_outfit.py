"""What a drafter brings to a run: parts and fitted knobs in the header, costs after it, times that are not its own."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.commands import Start
from specviz.engine.model.exact.plan import BatchWidths
from specviz.engine.run import local, prepare
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.errors import KnobError
from specviz.events import Calibration, Event, Header, Prefill, RoundEnd, RoundStart, Warn, decode, encode
from specviz.knobs import KnobTable
from specviz.methods import get_method
from support.cards import PLACES
from support.models import blurred, build, save, tokenizer


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder, tokens = tmp_path_factory.mktemp("pair"), tokenizer()
    model = build("llama", seed=1, num_hidden_layers=6)
    target = save(model, folder / "target", tokens)
    draft = save(blurred(build("llama", seed=1, num_hidden_layers=6), 0.05), folder / "draft", tokens)
    return load_pair(target, draft, dtype="float64", threads=1)


def run_of(pair: Pair, method: str, knobs: dict[str, Any] | None = None, **start: Any) -> tuple[LocalRun, list[Event]]:
    """A short run to its end, and its records as a reader sees them."""
    lines: list[bytes] = []
    settings = {"max_new_tokens": 8, **(knobs or {})}
    run = LocalRun(
        pair, Start(prompt="ab ab ab", method=method, knobs=settings, **start), lambda e: lines.append(encode(e))
    )
    for _ in run.rounds():
        pass
    return run, [event for line in lines if (event := decode(line)) is not None]


def header_of(events: list[Event]) -> Header:
    assert isinstance(events[0], Header)
    return events[0]


def test_knobs_say_what_they_are_on_the_loaded_model(pair: Pair) -> None:
    """Real ranges and defaults, not those that stand for any model; what was asked for stays."""
    _, events = run_of(pair, "specbound")
    header = header_of(events)
    assert (header.knobs["d_max"], header.knobs["exit_layers"]) == (3, ["1, 2, 3"])
    specs = {spec.name: spec for spec in header.knob_specs}
    assert (specs["d_max"].lo, specs["d_max"].hi, specs["d_max"].default) == (0, 5, 3)
    _, asked = run_of(pair, "specbound", {"d_max": 5, "exit_layers": ["2, 4"]})
    assert (header_of(asked).knobs["d_max"], header_of(asked).knobs["exit_layers"]) == (5, ["2, 4"])


def test_the_defaults_of_the_catalogue_leave_the_choice_to_the_model(pair: Pair) -> None:
    """A front-end that sends every knob back as the catalogue had it gets the same run as one that sends none."""
    every = {spec.name: spec.default for spec in get_method("specbound").knobs}
    first, events = run_of(pair, "specbound", every)
    second, plain = run_of(pair, "specbound")
    assert first.tokens == second.tokens
    assert header_of(events).knobs == header_of(plain).knobs


def test_a_knob_beyond_the_model_is_refused_live(pair: Pair) -> None:
    """The range is the model's; the method's own would have taken it."""
    run = LocalRun(pair, Start(prompt="ab", method="specbound"), lambda e: None)
    assert get_method("specbound").table.spec("d_max").check(6) == 6
    with pytest.raises(KnobError, match=r"0\.\.5"):
        run.set_knob("d_max", 6)


def test_a_method_without_such_knobs_keeps_its_table(pair: Pair) -> None:
    """`fitted` is optional."""
    table = get_method("draft").table
    own, knobs = prepare.fitted(table, None, {"gamma": 2})
    assert isinstance(own, KnobTable)
    assert own is table
    assert knobs["gamma"] == 2


def test_parts_and_weights_are_named(pair: Pair) -> None:
    """What the heads are and what a test costs; a digest of both models."""
    _, events = run_of(pair, "specbound")
    models = header_of(events).models
    assert "logit lens" in models.parts["heads"]
    assert "; c_h " in models.parts["heads"]
    assert models.target is not None
    assert models.target.hash
    assert models.draft is None, "one was at hand, this method has no use for it"
    _, drafted = run_of(pair, "draft")
    assert header_of(drafted).models.draft.hash not in ("", None, models.target.hash)
    _, plain = run_of(pair, "ar")
    assert header_of(plain).models.parts == {}
    assert header_of(plain).models.target.hash == models.target.hash


@pytest.mark.parametrize(
    ("method", "level", "measures"),
    [
        ("specbranch", "summary", True),
        ("specbound", "full", True),
        ("specbranch", "none", False),
        ("ar", "full", False),
    ],
)
def test_costs_stand_between_header_and_prompt(pair: Pair, method: str, level: Any, measures: bool) -> None:
    """Once, for methods whose views ask for them, and once more with what was timed behind the text; never where
    nothing is recorded."""
    _, events = run_of(pair, method, level=level)
    costs = {k: event for k, event in enumerate(events) if isinstance(event, Calibration)}
    prefill = next(k for k, event in enumerate(events) if isinstance(event, Prefill))
    last = max(k for k, event in enumerate(events) if isinstance(event, RoundEnd))
    assert [(0 < place < prefill, place > last) for place in costs] == [(True, False), (False, True)][: 2 * measures]
    assert [bool(event.behind_ns) for event in costs.values()] == [False, True][: 2 * measures]


def test_costs_come_behind_the_text_of_other_chains_but_not_for_who_stops_them(pair: Pair) -> None:
    for stopped in (False, True):
        events: list[Event] = []
        start = Start(prompt="def add(a, b):", method="draft", level="summary", knobs={"max_new_tokens": 24})
        run = LocalRun(pair, start, events.append)
        for _ in run.rounds():
            if stopped:
                run.stop()
        places = [k for k, event in enumerate(events) if isinstance(event, Calibration)]
        assert places == ([] if stopped else [len(events) - 2])


def test_where_exact_rows_are_padded_their_price_is_known_before_the_text(pair: Pair) -> None:
    """Of every method that drafts: its speed-up is over plain decoding without the padding."""
    adapter = pair.target.adapter
    padded = adapter.with_backend(adapter.backend.exact(BatchWidths(16)))
    pair = replace(pair, target=replace(pair.target, adapter=padded))
    for method, measures in (("ngram", True), ("ar", False)):
        _, events = run_of(pair, method)
        costs = [event for event in events[:3] if isinstance(event, Calibration)]
        assert len(costs) == measures
        assert all(cost.plain_ns and cost.plain_ns <= cost.target_ns[0] for cost in costs)


def test_the_lanes_of_a_run_are_in_its_header(pair: Pair) -> None:
    """Chosen by name or probed; asked for in vain: a warning before the prompt."""
    for asked in ("serial", "threads"):
        _, events = run_of(pair, "specbranch", lanes=asked)
        assert header_of(events).lanes == asked
        assert "lanes_ms" not in header_of(events).env
    _, events = run_of(pair, "specbranch")
    header = header_of(events)
    assert set(header.env["lanes_ms"]) == {"serial", "threads"}
    assert header.lanes in header.env["lanes_ms"]
    _, events = run_of(pair, "draft", lanes="threads")
    assert header_of(events).lanes == "serial"
    assert [event.code for event in events if isinstance(event, Warn)] == ["lanes"]
    _, events = run_of(pair, "draft")
    assert not [event for event in events if isinstance(event, Warn)]


def test_lanes_keep_the_text_and_the_threads_of_torch(pair: Pair) -> None:
    """Through the whole of a run, at a temperature; what torch was set to is restored."""
    before = torch.get_num_threads()
    texts = {
        tuple(run_of(pair, "specbranch", {"temperature": 0.8, "max_new_tokens": 20}, lanes=lanes)[0].tokens)
        for lanes in ("serial", "threads", "auto")
    }
    assert len(texts) == 1
    assert torch.get_num_threads() == before


def test_writing_down_records_is_no_part_of_the_round(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drafter that takes its time to observe: it stands in `probe_ns`, in no stage."""
    slow = 30_000_000
    inner = prepare.make_drafter

    def made(*args: Any) -> Any:
        drafter = inner(*args)
        observe = drafter.observe
        drafter.observe = lambda seen: (time.sleep(slow / 1e9), observe(seen))
        return drafter

    monkeypatch.setattr(local, "make_drafter", made)
    _, events = run_of(pair, "specbound", {"max_new_tokens": 4})
    for end in (event for event in events if isinstance(event, RoundEnd)):
        assert end.probe_ns >= slow
        start = next(e for e in events if isinstance(e, RoundStart) and e.r == end.r)
        assert sum(end.stage_ns.values()) <= end.t - start.t - slow


def test_a_wide_window_has_its_slots(pair: Pair) -> None:
    """Rows in flight of the widest draft fit behind the text."""
    draft, lookahead = get_method("draft"), get_method("lookahead")
    assert prepare.in_flight(draft, draft.table.knobs()) >= 2 * 256
    wide = lookahead.table.knobs({"ngram_size": 8, "window": 60, "guesses": 60})
    assert prepare.in_flight(lookahead, wide) >= 7 * 120
    assert prepare.in_flight(draft, draft.table.knobs()) < 7 * 120, "only the method that has a window pays for it"


@pytest.mark.parametrize("place", PLACES)
def test_the_draft_model_may_stand_elsewhere(place: str, tmp_path: Path) -> None:
    """`draft_device` is its own; the default is the target's."""
    folder, tokens = tmp_path, tokenizer()
    target = save(build("llama", seed=1), folder / "target", tokens)
    loaded = load_pair(target, target, draft_device=place, threads=1)
    assert loaded.draft is not None
    assert (loaded.target.adapter.device.type, loaded.draft.adapter.device.type) == ("cpu", place)
