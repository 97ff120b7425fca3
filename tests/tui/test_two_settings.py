"""A/B in the terminal: what is tried, both texts by position while they come, what is said of them."""

import pytest
from textual.pilot import Pilot

from specviz import events as ev
from specviz.commands import Start, Stop
from specviz.events.outside import Outside
from specviz.runlog.fold import Run, fold
from specviz.view.compare import comparison
from specviz.view.compare.aligned import aligned
from specviz_tui.actions.knobs import KnobActions
from specviz_tui.app import SpecvizApp
from specviz_tui.common.paint import painter_of
from specviz_tui.compare.columns import columns, differ
from specviz_tui.compare.two import TwoScreen, example, verdict
from specviz_tui.screens.settings import parse_settings
from support.live import NARROW, WIDE, Script, catalogue, lines, live_app, main_of, shown
from support.traces import make_events, plain_round, plain_run

TOKENS = 24


def run(**recipe: object) -> list[ev.Event]:
    return list(make_events(new_tokens=TOKENS, **recipe))


async def look(pilot: Pilot[int]) -> None:
    """One tick of the clock of both screens, without waiting for it."""
    app = pilot.app
    assert isinstance(app, SpecvizApp)
    main_of(app).tick()
    if isinstance(app.screen, TwoScreen):
        app.screen.look()
    await pilot.pause()


async def asked(pilot: Pilot[int], script: Script, typed: str = "gamma=2") -> TwoScreen:
    """A run that ended, then A/B of it."""
    app = pilot.app
    assert isinstance(app, SpecvizApp)
    script.play([catalogue()])
    main_of(app).feed.start(Start(prompt="def f(x):"))
    script.play(run())
    await look(pilot)
    await pilot.press("A", *typed, "enter")
    await pilot.pause()
    assert isinstance(app.screen, TwoScreen)
    return app.screen


def starts(script: Script) -> list[Start]:
    return [command for command in script.commands if isinstance(command, Start)]


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_same_prompt_is_decoded_twice_and_told_to_be_the_same_text(size: tuple[int, int]) -> None:
    script = Script()
    app = live_app(script)
    async with app.run_test(size=size) as pilot:
        await asked(pilot, script)
        assert len(starts(script)) == 2, "the first of them is begun at once"
        first = run()
        script.play(first[: len(first) // 2])
        await look(pilot)
        assert "decoding A, 1 of 2" in shown(app)
        script.play(first[len(first) // 2 :])
        await look(pilot)
        assert [start.prompt for start in starts(script)] == ["def f(x):"] * 3
        assert starts(script)[1].knobs.get("gamma") != starts(script)[2].knobs["gamma"] == 2
        second = run(gamma=2)
        script.play(second[: len(second) // 2])
        await look(pilot)
        assert "the same so far" in shown(app)
        script.play(second[len(second) // 2 :])
        await look(pilot)
        n = len([t for t in fold(second).queries[0].tokens if t.mark != "prompt"])
        text = shown(app)
        assert f"same text: {n} of {n} tokens equal" in text
        assert "Δ to A" in text
        assert "≠" not in text
        assert all(len(line) <= size[0] for line in lines(app))
        assert "settings are the same" in text or size == NARROW
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen_stack == [main_of(app)]


async def test_where_they_part_is_marked_and_leaving_ends_it() -> None:
    script = Script()
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await asked(pilot, script, "temperature=0.9")
        script.play(run(temperature=0.9))
        await look(pilot)
        second = run(temperature=0.9, seed=5)
        script.play(second[:-1])
        await look(pilot)
        text = aligned([("a", fold(run(temperature=0.9))), ("b", fold(second))], (0, 0))
        assert text.parted
        assert f"they part at token {text.n_same + 1}" in shown(app)
        assert "≠" in shown(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is main_of(app)
        assert isinstance(script.commands[-1], Stop)


async def test_what_is_staged_is_tried_and_a_refusal_is_told() -> None:
    script = Script()
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        script.play([catalogue()])
        main = main_of(app)
        main.feed.start(Start(prompt="x"))
        script.play(run()[:-1])
        await look(pilot)
        main.controller.group(KnobActions).stage("gamma", 7)
        await pilot.press("A")
        await pilot.pause()
        assert isinstance(app.screen, TwoScreen)
        assert "B γ 7" in shown(app)
        script.play([ev.End(reason="stopped"), ev.State(state="idle")])
        await look(pilot)
        assert starts(script)[-1].knobs.get("gamma") != 7
        script.play([ev.Refused(id=starts(script)[-1].id, message="the cache is full")])
        await look(pilot)
        screen = app.screen_stack[1]
        assert isinstance(screen, TwoScreen)
        screen.look()
        await pilot.press("escape")  # what the core says of a start stands in a panel above
        await pilot.pause()
        assert "A/B: the cache is full" in shown(app)


@pytest.mark.parametrize("typed", ["", "gama=2", "gamma"])
async def test_what_cannot_be_tried_is_refused_in_the_line(typed: str) -> None:
    script = Script()
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("A")
        await look(pilot)
        assert starts(script) == [], "nothing was decoded yet"
        script.play([catalogue()])
        main_of(app).feed.start(Start(prompt="x"))
        script.play(run())
        await look(pilot)
        await pilot.press("A", *typed, "enter")
        await pilot.pause()
        assert len(starts(script)) == 1
        assert any(words in shown(app) for words in ("did you mean 'gamma'", "name=value", "name a knob"))


@pytest.mark.parametrize("cells", [60, 78, 118, 200])
def test_every_token_stands_in_a_line_that_fits(cells: int) -> None:
    text = aligned([("a", fold(run())), ("b", fold(run(temperature=0.9, seed=5)))], (0, 0))
    painter = painter_of(live_app(Script()))
    out = columns(text, cells, painter)
    assert all(line.cell_len <= cells for line in out)
    written = "".join(line.plain for line in out)
    assert text.parted
    assert "≠" in written
    for lane in text.lanes:
        for token in lane.tokens:
            assert token.shown in written


def test_texts_that_nobody_knows_are_neither_the_same_nor_do_they_part() -> None:
    """A run of which an engine told the counts alone."""

    def counted(accepted: int) -> Run:
        events = plain_run([plain_round(1, 5, 3, accepted)], outside=Outside(engine="vLLM", chains=True))
        for event in events:
            if isinstance(event, ev.Commit):
                event.tokens, event.texts = [-1] * len(event.tokens), [""] * len(event.tokens)
        return Run().extend(events)

    compared = comparison([("one", counted(3)), ("other", counted(1))])
    assert verdict(compared.text) == "texts are not on record"
    assert not any(differ(compared.text, at) for at in range(compared.text.n_positions))
    assert "not on record" in compared.text.words


@pytest.mark.parametrize("method", ["draft", "layerskip"])
def test_what_is_proposed_is_a_knob_of_this_method(method: str) -> None:
    specs = next(info.knobs for info in catalogue().methods if info.name == method)
    header = next(event for event in run() if isinstance(event, ev.Header))
    header.knob_specs, header.knobs = specs, {spec.name: spec.default for spec in specs}
    named = parse_settings(example(fold([header])), specs)
    assert named
    assert all(value != header.knobs[name] for name, value in named.items())
