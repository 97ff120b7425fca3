"""The parts of a frame: counts, text strip, knobs, header, numbers, marks. Each is what the records say, no more."""

import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.style import Style

from specviz import events as ev
from specviz import numerals
from specviz.cli.printing import setting
from specviz.metrics import measure
from specviz.runlog.fold import fold
from specviz.trace import Writer, read_events
from specviz.view import Cursor, Feed, Options, Player
from specviz.view.frame.frame import Frame
from specviz.view.frame.parts import KnobItem
from specviz.view.frame.run_header import badge, sampling
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.document import facts, head, promised
from specviz.view.words import numbers, palette
from specviz.view.words.palette import Phase
from support.traces import make_events, make_header, plain_round, plain_run
from view.small_rounds import a_round, closing, drawn, judged, node, untested


def frames(player: Player) -> list[Frame]:
    player.first()
    out = [player.frame()]
    while player.next_step():
        out.append(player.frame())
    return out


# Counts and tree ----------------------------------------------------------------------------------------------------


def test_the_counts_of_the_mock() -> None:
    run = a_round(
        node(0, " the"),
        node(1, " a"),
        node(2, " old", 0, 2),
        node(3, " mat", 2, 3),
        node(4, " sofa", 2, 3),
        node(5, " was", 3, 4),
        node(6, " zoo", kept=False),
        judged(0, 0.9, 0.1, 0.9, 0),
        untested(1, "sibling_kept"),
        judged(2, 0.9, 0.1, 0.9, 1),
        judged(3, 0.1, 0.9, 0.1, 2),
        judged(4, 0.1, 0.9, 0.1, 3),
        untested(5, "parent_rejected"),
        closing("recovered", " rug", 2),
    )
    counts = Player(run).frame().counts
    assert counts.text == "6 drafted · tested 4: ✓2 ✗2 · never tested 2 · pruned 1 · recovered ↻1"
    assert counts.closing == "recovered"
    plain = Player(run).frame(Options(ascii=True)).counts
    assert plain.text == "6 drafted · tested 4: +2 x2 · never tested 2 · pruned 1 · recovered r1"


def test_counts_agree_with_the_rounds_own_totals() -> None:
    for shape in ("chain", "tree"):
        player = Player(fold(make_events(shape=shape, temperature=0.8, seed=3)))
        for record in player.run.rounds:
            player.seek_index(record.index)
            counts, end = player.frame().counts, record.end
            assert end is not None
            assert counts.text.startswith(f"{end.n_drafted} drafted ") or not end.n_drafted
            tested = f"tested {end.n_tested}: ✓{end.n_accepted} ✗{end.n_tested - end.n_accepted}"
            assert tested in counts.text or not end.n_drafted


def test_totals_at_level_none() -> None:
    counts = Player(fold(plain_run([plain_round(1, 6, 5, 2)]))).frame().counts
    assert counts.text == "5 drafted · tested 3: ✓2 ✗1 · recovered ↻1"


def test_marks_come_one_test_at_a_time() -> None:
    player = Player(fold(make_events(shape="tree", temperature=0.8, seed=2)))
    for frame in frames(player):
        round_tree = player.builder.round_tree(frame.cursor.index)
        decided = {n.id for n in frame.tree.nodes if n.mark in ("accepted", "rejected")}
        if frame.phase == Phase.ACCEPT:
            assert decided == {v.node for v in round_tree.tests[: frame.step]}
            testing = [n.id for n in frame.tree.nodes if n.mark == "testing"]
            assert testing == [v.node for v in round_tree.tests[frame.step : frame.step + 1]]
        elif frame.phase < Phase.ACCEPT:
            assert not decided


def test_the_target_pass_is_one_moment() -> None:
    player = Player(fold(make_events(shape="tree", temperature=0.8, seed=2)))
    verified = [f.phase for f in frames(player)].count(Phase.VERIFY)
    assert verified == sum(bool(record.verdicts) for record in player.run.rounds)


def test_value_modes() -> None:
    run = a_round(
        node(0, " mat", q=0.41),
        judged(0, 0.12, 0.713, 0.12 / 0.41, 0, q=0.41, rank_p=4),
        closing("recovered", " rug", logp=-0.5),
    )
    values = {}
    for mode in ("q", "p", "p/q", "u", "rank"):
        shown = Player(run).frame(Options(value=mode)).tree.node(0)  # type: ignore[arg-type]
        assert shown is not None
        values[mode] = shown.value
    assert values == {"q": ".41", "p": ".12", "p/q": ".293", "u": ".71", "rank": "#4"}


def test_a_point_mass_shows_the_drafts_own_odds() -> None:
    run = a_round(
        node(0, " mat", conf=0.33), drawn(0, 0.5, (0.1, 0.2), 0), closing("recovered", " rug"), verifier="walk"
    )
    shown = Player(run).frame().tree.node(0)
    assert shown is not None
    assert (shown.value, shown.values.q, shown.values.ratio) == (".33", None, None)


# Text ---------------------------------------------------------------------------------------------------------------


def test_the_strip_ends_as_the_text() -> None:
    events = make_events(temperature=0.8, seed=3)
    player = Player(fold(events))
    texts = [t for e in events if isinstance(e, ev.Commit) for t in e.texts]
    strip = player.frame().strip
    assert len([t for t in strip.tokens if t.round]) == len(texts)
    assert strip.summary == f"{len(texts)} tok"
    assert not any(t.provisional for t in strip.tokens)


def test_nothing_is_shown_as_text_before_it_is_committed() -> None:
    player = Player(fold(make_events(shape="tree", temperature=0.8, seed=2)))
    for frame in frames(player):
        this = [t for t in frame.strip.tokens if t.round == frame.round]
        assert all(t.provisional == (frame.phase < Phase.COMMIT) for t in this)
        assert all(t.fresh == (frame.phase == Phase.COMMIT) for t in this)
        if frame.phase == Phase.ROOT:
            assert not this
        if frame.phase == Phase.CLOSE:
            record = player.run.rounds[frame.cursor.index]
            assert record.commit is not None
            assert [t.token for t in this] == record.commit.tokens


def test_positions_on_the_strip_have_no_gap() -> None:
    player = Player(fold(make_events(shape="tree", temperature=0.8, seed=2)))
    for frame in frames(player):
        new = [t.pos for t in frame.strip.tokens if t.round]
        assert new == list(range(frame.strip.n_prompt, frame.strip.n_prompt + len(new)))


# Knobs --------------------------------------------------------------------------------------------------------------


def items(player: Player, options: Options | None = None, feed: Feed | None = None) -> dict[str, KnobItem]:
    return {i.name: i for i in player.frame(options, feed).knobs.items}


def test_every_knob_of_the_header_has_its_value_and_place() -> None:
    player = Player(fold(make_events(temperature=0.8, seed=1)))
    assert player.run.header is not None
    shown = items(player)
    assert list(shown) == [s.name for s in player.run.header.knob_specs]
    assert (shown["gamma"].text, shown["gamma"].label, shown["gamma"].fill) == ("4", "γ", 4 / 64)
    assert shown["temperature"].text == ".80"
    assert shown["temperature"].fill is None  # no upper end
    assert shown["temperature"].changes_text
    assert not shown["gamma"].changes_text


def test_a_knob_without_effect_says_why() -> None:
    chain = items(Player(fold(make_events(temperature=0.8, seed=1)[:-1])), feed=Feed(steerable=True))
    assert chain["d_max"].disabled == "no effect with shape chain: needs shape tree or drawn_tree"
    assert chain["gamma"].disabled is None
    assert chain["seed"].disabled == "fixed while a run lasts, applies at the next prompt"
    assert chain["shape"].disabled == "fixed while a run lasts, applies at the next run"
    recording = items(Player(fold(make_events(temperature=0.8, seed=1))))
    assert recording["gamma"].disabled == "a recording: knobs are as they were"


def test_knobs_of_a_run_whose_core_was_lost_are_not_called_a_recording() -> None:
    lost = make_events(temperature=0.8, seed=1, reason="core_lost")
    for events in (lost, lost[:-1]):
        shown = items(Player(fold(events)), feed=Feed("core_lost", "killed"))
        assert shown["gamma"].disabled == "the core has gone: knobs are as they were"


def test_pending_knobs_go_from_chosen_to_sent_to_in_force() -> None:
    events = make_events(temperature=0.8, seed=1, knob_at=3, gamma=2)
    at = next(k for k, e in enumerate(events) if isinstance(e, ev.Knob))
    player = Player(fold(events[:at]))
    chosen = player.frame(Options(staged={"gamma": 4})).knobs
    assert chosen.pending == "pending γ 2→4"
    sent = Options(sent={"gamma": 4})
    assert player.frame(sent).knobs.pending == "γ 2→4 (sent, next round)"
    player.extend(events[at:])
    player.live()
    assert player.frame(sent).knobs.pending == ""
    assert items(player, sent)["gamma"].value == 4
    player.seek("r2")
    assert items(player)["gamma"].value == 2


def test_what_is_sent_and_what_is_chosen_after_it_are_told_apart() -> None:
    player = Player(fold(make_events(temperature=0.8, seed=1, gamma=2)[:-1]))
    bar = player.frame(Options(sent={"gamma": 4}, staged={"gamma": 2})).knobs
    gamma = next(item for item in bar.items if item.name == "gamma")
    assert (gamma.sent, gamma.staged, gamma.fill) == (4, 2, 2 / 64), "2 is not in force any more once 4 is sent"
    assert bar.pending == "pending γ 4→2  γ 2→4 (sent, next round)"


def test_pending_names_a_knob_by_what_stands_in_the_bar() -> None:
    events = make_events(temperature=0.8, seed=1)
    for events_so_far, words in ((events[:-1], "pending d_max 3→7"), (events, "next run: d_max 3→7")):
        assert Player(fold(events_so_far)).frame(Options(staged={"d_max": 7})).knobs.pending == words


def test_changes_of_one_round_are_all_named() -> None:
    player = changed(1, 1)
    player.run.apply(ev.Knob(name="k_max", old=6, new=8, requested_r=1, applied_r=2))
    assert player.frame().knobs.last == "last r2: γ 2→4, k_max 6→8"


def changed(n_before: int, n_after: int) -> Player:
    """Rounds of one token, then a change, then rounds of three or four."""
    one = [plain_round(r, 6 + r, 4, 0) for r in range(1, n_before + 1)]
    later = range(n_before + 1, n_before + n_after + 1)
    more = [plain_round(r, 20 + 4 * r, 4, 2 if r % 2 else 3) for r in later]
    run = fold(plain_run([*one, *more]))
    run.apply(ev.Knob(name="gamma", old=2, new=4, requested_r=n_before, applied_r=n_before + 1))
    return Player(run)


def test_the_last_change_is_compared_with_what_was_before() -> None:
    player = changed(10, 10)
    assert re.fullmatch(r"last r11: tok/round 1→3\.5 \(n 10, ±[.\d]+\) with γ 2→4", player.frame().knobs.last)
    assert "cannot tell" not in player.frame().knobs.last
    player.seek("r3")
    assert player.frame().knobs.last == ""
    assert changed(10, 9).frame().knobs.last == "last r11: γ 2→4", "no word of so few rounds"
    assert changed(9, 10).frame().knobs.last == "last r10: γ 2→4"


def test_rounds_that_are_all_alike_are_no_certainty() -> None:
    """Twelve rounds of 1 token before, twelve of 1 after: no spread was seen, and nothing is certain."""
    run = fold(plain_run([plain_round(r, 6 + r, 4, 0) for r in range(1, 25)]))
    run.apply(ev.Knob(name="gamma", old=2, new=4, requested_r=12, applied_r=13))
    assert Player(run).frame().knobs.last.endswith(": cannot tell yet) with γ 2→4")


def test_steps_of_one_press_are_one_change() -> None:
    """γ 2→3→4→6 over three rounds; what came before counts up to the first step, what comes after from the last."""
    run = changed(12, 14).run
    run.changes.clear()
    for r, old, new in ((13, 2, 3), (13, 3, 4), (15, 4, 6)):
        run.apply(ev.Knob(name="gamma", old=old, new=new, requested_r=r - 1, applied_r=r))
    assert re.fullmatch(r"last r15: tok/round 1→3\.5 \(n 12, ±[.\d]+\) with γ 2→6", Player(run).frame().knobs.last)
    run.apply(ev.Knob(name="gamma", old=6, new=2, requested_r=15, applied_r=16))
    assert re.fullmatch(r"last r16: tok/round 1→.* with γ 2", Player(run).frame().knobs.last), "there and back"


def test_a_difference_within_its_interval_is_not_called_one() -> None:
    run = fold(plain_run([plain_round(r, 6 + 4 * r, 4, r % 4 if r != 14 else 3) for r in range(1, 26)]))
    run.apply(ev.Knob(name="gamma", old=2, new=4, requested_r=12, applied_r=13))
    assert Player(run).frame().knobs.last.endswith("cannot tell yet) with γ 2→4")


# Header and metrics -------------------------------------------------------------------------------------------------


def test_header_numbers_are_those_of_the_metrics_module() -> None:
    events = make_events(temperature=0.8, seed=3, queries=2)
    frame, wanted = Player(fold(events)).frame(), measure(events)
    shown = {m.name: m.value for m in frame.metrics}
    for name, value in shown.items():
        estimate = getattr(wanted, name)
        assert value == (estimate.value if estimate else None), name
    assert [m.label for m in frame.metrics][:3] == ["tok/round", "kept/drafted", "kept/tested"]


def test_what_is_promised_about_the_text() -> None:
    assert badge(make_header()) == "lossless: same tokens as plain decoding"
    half = ev.Models(target=ev.ModelInfo(name="t", dtype="bfloat16"))
    assert badge(make_header(models=half)) == "lossless up to bf16 rounding: same tokens as plain decoding"
    drawn = make_header(sampling={"temperature": 0.9})
    assert badge(drawn) == "lossless: same tokens as plain decoding with the same random draws"
    assert badge(make_header(keeps_tokens=False)) == "lossless: same law as plain decoding"
    assert badge(make_header(lossless=False, distance=0.148)) == "NOT LOSSLESS · TV .148 on the toy"
    assert badge(make_header(lossless=False, distance=1 / 9)) == "NOT LOSSLESS · TV 1/9 on the toy"
    assert badge(make_header(lossless=False, distance=None)) == "NOT LOSSLESS"
    assert badge(make_header(imported="vLLM")) == "metrics only, from vLLM"


@pytest.mark.parametrize(
    ("dtype", "exact", "promise", "words"),
    [
        ("float32", "bitwise", "lossless", "exact: bitwise"),
        ("bfloat16", "bitwise", "lossless", "exact: bitwise"),
        ("float16", "up to rounding (products)", "lossless up to fp16 rounding", "exact: up to rounding (products)"),
        ("float32", "up to rounding (a\x1b[2J)", "lossless up to fp32 rounding", "exact: up to rounding (a⟨1B⟩[2J)"),
        ("float64", "up to rounding (of float64)", "lossless", "exact: up to rounding (of float64)"),
        ("float32", None, "lossless", ""),
        ("bfloat16", None, "lossless up to bf16 rounding", ""),
    ],
)
def test_whether_rows_are_exact(dtype: str, exact: str | None, promise: str, words: str) -> None:
    """On the command line, and in what terminal, page and stage are made of."""
    models = ev.Models(target=ev.ModelInfo(name="t", dtype=dtype))
    header = make_header(models=models, env={} if exact is None else {"exact": exact})
    frame = Player(fold([header])).frame()
    assert (frame.run.badge.partition(":")[0], frame.run.exact) == (promise, words)
    assert f"({promise})" in setting(header)
    assert words in setting(header)
    assert words in facts(frame, 0)
    assert badge(make_header(), mixed=True).endswith("sampling changed on the way")


def test_sampling_in_words() -> None:
    assert sampling({"temperature": 0.0, "top_p": 1.0, "top_k": 0}) == "T 0 greedy"
    assert sampling({"temperature": 0.7, "top_p": 0.9, "top_k": 40}) == "T .70  top-k 40  top-p .90"
    assert sampling({}) == "T —"
    assert sampling({"temperature": 0.8, "top_p": 0.9}, [0.8, 0.6]) == "T .60 .. .80  top-p .90"
    assert sampling({"temperature": 0.8}, [0.8, 0.8]) == "T .80"


def test_a_run_of_several_temperatures_says_all_of_them(tmp_path: Path) -> None:
    """Its header line over all rounds; a moment has that of its round."""
    with Writer(tmp_path / "a", "engine", temperature=0.8) as writer:
        for temperature in (0.8, 0.6):
            writer.request()
            writer.temperature(temperature)
            writer.round()
            writer.committed([3])
    run = fold(read_events(writer.path))
    assert promised(FrameBuilder(run).frame(Cursor(0), Options(), Feed("open")), run).sampling == "T .60 .. .80"
    assert "T .60 .. .80" in head(FrameBuilder(run), "a").title
    assert FrameBuilder(run).frame(Cursor(0), Options(), Feed("open")).run.sampling == "T .80"


def test_the_seed_is_that_of_the_query() -> None:
    player = Player(fold(make_events(temperature=0.8, seed=3, queries=2)))
    assert player.frame().run.seed == 4
    player.first()
    assert player.frame().run.seed == 3


def test_imported_counts_have_no_tree_and_say_so() -> None:
    run = fold(plain_run([plain_round(1, 6, 4, 2)], imported="vLLM"))
    assert Player(run).frame().tree.missing == "vLLM records counts only: there is no tree to show"


def test_timeline() -> None:
    player = Player(
        fold(plain_run([plain_round(1, 6, 4, 4, closing="bonus"), plain_round(2, 11, 4, 0), plain_round(3, 12, 4, 1)]))
    )
    line = player.frame().timeline
    assert line.bars == "█▁▄"  # ▁: nothing of the draft was accepted
    assert [p.rejected for p in line.points] == [False, True, True]
    assert line.label == "r3/3"
    player.run.apply(ev.Note(text="look", at=ev.At(r=2)))
    assert [p.markers for p in player.frame().timeline.points] == ["", "⚑", ""]


def test_the_root_of_a_prompt_is_named_by_its_tail() -> None:
    player = Player(a_round(node(0, " x"), judged(0, 0.5, 0.1, 0.5, 0)))
    assert player.frame(Options(selected=-1)).tree.nodes[0].shown == "a▁prompt"
    assert player.cursor == Cursor(0, Phase.COMMIT)


# Numbers and marks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (0.0, "0"),
        (1.0, "1"),
        (0.93, ".93"),
        (0.999, ">.99"),
        (0.001, "<.01"),
        (0.5, ".50"),
        (0.004, "<.01"),
        (0.006, ".01"),
    ],
)
def test_probabilities(value: float | None, text: str) -> None:
    assert numerals.prob(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "—"), (3.42, "3.42"), (0.293, ".29"), (-0.5, "-.50"), (12.0, "12"), (0.0, "0"), (1234.5, "1,234")],
)
def test_numbers(value: float | None, text: str) -> None:
    assert numerals.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.29, "29 %"),
        (0.004, ".4 %"),
        (0.0001, "<.1 %"),
        (0.9996, ">99.9 %"),
        (1.0, "100 %"),
        (0.0, "0 %"),
        (0.995, "99.5 %"),
    ],
)
def test_percentages(value: float, text: str) -> None:
    assert numerals.percent(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0, "+0 %"),
        (1.021, "+2 %"),
        (0.71, "−29 %"),
        (1.995, "+99.5 %"),
        (2.0, "2×"),
        (2.5, "2.5×"),
        (40.0, "40×"),
    ],
)
def test_growth_is_in_percent_up_to_twofold_then_how_many_times(ratio: float, text: str) -> None:
    assert numbers.growth(ratio) == text


@pytest.mark.parametrize(("probe", "text"), [(21, "+2 %"), (999, "+99.9 %"), (1000, "2×"), (2500, "3.5×")])
def test_recording_that_costs_more_than_the_rest_is_said_in_times(probe: int, text: str) -> None:
    """`probe_ns` of rounds whose rest takes 1,000 ns each; a share above 1 is no percentage that reads."""
    events = make_events(temperature=0.8, seed=1)
    for event in events:
        if isinstance(event, ev.RoundEnd):
            event.probe_ns = probe
    began = 0
    for event in events:
        if isinstance(event, ev.RoundStart):
            began = event.t = event.r * 100_000
        elif isinstance(event, ev.RoundEnd):
            event.t = began + 1_000 + probe
    assert Player(fold(events)).frame().run.overhead == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "on"), (0.3, ".30"), (4, "4"), (1.0, "1"), ([], "none"), (["END"], "END"), ("tree", "tree")],
)
def test_knob_values(value: Any, text: str) -> None:
    assert numbers.knob(value) == text


def test_every_mark_is_one_cell_and_told_apart_without_colour() -> None:
    for style in palette.STYLES.values():
        assert cell_len(style.glyph) == 1
        assert style.ascii.isascii()
        assert len(style.ascii) == 1
        assert not style.emphasis or Style.parse(style.emphasis)
    outcomes = ("accepted", "rejected", "recovered", "bonus", "plain", "untested", "drafted", "exit")
    assert len({palette.glyph(m) for m in outcomes}) == len(outcomes)
    assert len({palette.glyph(m, ascii=True) for m in outcomes}) == len(outcomes)
    assert len({palette.STYLES[m].word for m in palette.STYLES}) == len(palette.STYLES)


def test_verdicts_are_never_green_against_red() -> None:
    """Seen by a red-green blind eye (only lightness and blue left), accepted and rejected differ clearly on "
    "both grounds."""
    for dark in (True, False):
        blues = [int(palette.colour(m, dark)[5:], 16) for m in ("accepted", "rejected")]
        assert abs(blues[0] - blues[1]) > 100


@pytest.mark.parametrize("dark", [True, False])
def test_marks_can_be_read_on_their_ground(dark: bool) -> None:
    """Contrast of at least 3 to 1 (WCAG, large text and symbols) against near-black or white."""
    ground = luminance("#121212" if dark else "#FFFFFF")
    for mark in palette.STYLES:
        tone = luminance(palette.colour(mark, dark))
        contrast = (max(tone, ground) + 0.05) / (min(tone, ground) + 0.05)
        assert contrast >= 3, (mark, contrast)


def luminance(colour: str) -> float:
    """Relative luminance of `#RRGGBB` (WCAG 2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_no_color_leaves_the_emphasis() -> None:
    assert palette.rich_style("accepted", no_color=True) == "bold"
    assert palette.rich_style("rejected") == "underline #D55E00"
    assert palette.no_color({"NO_COLOR": "1"})
    assert not palette.no_color({"NO_COLOR": ""})


def test_no_state_is_written_with_an_emoji() -> None:
    """Terminals that have a picture for a sign paint it two cells wide, and the line moves."""
    pictures = "⏸⏮⏭⏯⏹⏩⏪▶◀✖⛔❌✔⭐⚡"
    for glyph, _, _ in palette.STATES.values():
        assert not set(glyph) & set(pictures)
        assert cell_len(glyph) == 1
    assert not {style.glyph for style in palette.STYLES.values()} & set(pictures)
