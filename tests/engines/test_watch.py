"""Counters of a server: read from three engines' own words, followed over restarts, and refused where they are none."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.cli import main
from specviz.engines.watch import Counted, ServerWatcher, WatchPicture, picture_of, read_history
from specviz.engines.watch.beside import beside
from specviz.engines.watch.changes import change_points
from specviz.engines.watch.counters import read_counters
from specviz.engines.watch.exposition import read_samples
from specviz.engines.watch.fetch import metrics_address
from specviz.engines.watch.history import packed_history
from specviz.engines.watch.picture import ill_engines
from specviz.engines.watch.watcher import thinned
from specviz.errors import SpecvizError
from specviz.events import EngineCounts
from specviz.judge import Evidence, judge
from specviz.metrics import wilson_interval

LABELS = '{engine="0",model_name="a \\"b\\"\\\\c"}'


def vllm(rounds: int, kept: list[int], generated: int) -> str:
    first = "vllm:spec_decode_num_"
    lines = [f'{first}accepted_tokens_per_pos_total{{engine="0",position="{k}"}} {n}.0' for k, n in enumerate(kept)]
    return "\n".join(
        [
            f"# TYPE {first}drafts counter",
            f"{first}drafts_total{LABELS} {rounds}.0",
            f"{first}drafts_created{LABELS} 1.75e+09",
            f"{first}draft_tokens_total{LABELS} {rounds * len(kept)}.0",
            f"{first}accepted_tokens_total{LABELS} {sum(kept)}.0",
            *lines,
            f"vllm:generation_tokens_total{LABELS} {generated}.0",
            "vllm:e2e_latency_seconds_sum NaN",
            "",
        ]
    )


def counted(rounds: int, kept: list[int], wall: float = 0.0) -> Counted:
    return Counted(
        engine="vLLM",
        wall=wall,
        n_rounds=rounds,
        n_drafted=rounds * len(kept),
        n_accepted=sum(kept),
        n_generated=rounds + sum(kept),
        per_position=kept,
    )


Answer = tuple[int, str]


@pytest.fixture
def served() -> Iterator[Callable[[list[Answer]], str]]:
    """Serves the answers one after another, the last one again and again; gives the address."""
    servers: list[ThreadingHTTPServer] = []

    def serve(answers: list[Answer]) -> str:
        waiting = list(answers)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, body = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                self.send_response(code)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return f"127.0.0.1:{servers[-1].server_port}"

    yield serve
    for one in servers:
        one.shutdown()
        one.server_close()


def test_vllm_counts_are_read_with_their_labels() -> None:
    counters = read_counters(read_samples(vllm(10, [8, 5, 1], 24), "x"), 0.0, "x")
    assert (counters.engine, counters.models) == ("vLLM", ['a "b"\\c'])
    assert (counters.n_rounds, counters.n_drafted, counters.n_accepted, counters.per_position) == (
        10,
        30,
        14,
        [8, 5, 1],
    )


def of_requests(n: int, single: int, allowed_one: int, aborted: int) -> str:
    """So many answers that are over: of one token, allowed no more than one, broken off."""
    return (
        f'vllm:request_generation_tokens_bucket{{le="1.0"}} {single}\n'
        f'vllm:request_generation_tokens_bucket{{le="2.0"}} {n}\n'
        f'vllm:request_generation_tokens_count {n}\nvllm:request_params_max_tokens_bucket{{le="1.0"}} {allowed_one}\n'
        f'vllm:request_success_total{{finished_reason="abort"}} {aborted}\n'
        f'vllm:request_success_total{{finished_reason="stop"}} {n - aborted}\n'
    )


def test_answers_that_end_with_their_first_token_are_those_that_were_allowed_more() -> None:
    counts = vllm(10, [8, 5, 1], 24)
    looks = [
        read_counters(read_samples(counts + of_requests(*answers), "x"), 10.0 * k, "x")
        for k, answers in enumerate([(10, 4, 1, 1), (14, 4, 1, 4), (30, 9, 3, 4)])
    ]
    assert [(look.n_answers, look.n_empty) for look in looks] == [(10, 2), (14, 0), (30, 2)]
    assert picture_of(looks[2:]).answers == (30, 2)
    assert picture_of([looks[1], looks[2]]).answers == (30, 2), "no round between them: since the server began"
    counted_later = read_counters(read_samples(vllm(30, [8, 5, 1], 70) + of_requests(40, 12, 3, 4), "x"), 30.0, "x")
    assert picture_of([looks[2], counted_later]).answers == (10, 3)
    assert picture_of([read_counters(read_samples(counts, "x"), 0.0, "x")]).answers is None


def test_llama_cpp_counts_under_vllms_names() -> None:
    text = vllm(10, [8, 5, 1], 24).replace("vllm:generation_tokens_total", "llamacpp:tokens_predicted_total")
    counters = read_counters(read_samples(text.replace("vllm:", "llamacpp:"), "x"), 0.0, "x")
    assert (counters.engine, counters.n_rounds, counters.n_generated) == ("llama.cpp", 10, 24)


def test_sglang_tells_means_and_the_picture_says_that_nothing_else_is_known() -> None:
    text = 'sglang:spec_accept_length{tp_rank="0"} 2.5\nsglang:spec_accept_rate{tp_rank="0"} 0.5\n'
    picture = picture_of([read_counters(read_samples(text, "x"), 0.0, "x")])
    assert (picture.length, picture.acceptance, picture.length_ends, picture.positions) == (2.5, 0.5, None, ())
    assert any("means without counts" in note for note in picture.notes)


def test_totals_are_what_was_counted_between_looks_and_over_a_restart() -> None:
    looks = [counted(100, [80, 40], 0.0), counted(110, [85, 42], 1.0), counted(5, [4, 1], 2.0), counted(9, [7, 2], 3.0)]
    picture = picture_of(looks)
    assert (picture.n_rounds, picture.n_accepted) == (19, 5 + 2 + 7 + 2)
    assert picture.restarts == (2.0,)
    first = picture.positions[0]
    assert (first.low, first.high) == wilson_interval(12, 19)
    assert picture_of(looks[:1]).over == "since the server began"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 30), min_size=12, max_size=60))
def test_looks_that_go_out_of_memory_take_no_counts_with_them(steps: list[int]) -> None:
    """Also where the server began again between two of them (a step below 0), and grew beyond what it had since."""
    looks, rounds = [], 5
    for wall, step in enumerate(steps):
        rounds = rounds + step if step >= 0 else -step
        looks.append(counted(rounds, [rounds // 2, rounds // 3], float(wall)))
    whole, few = picture_of(looks), picture_of(thinned(looks))
    if len(whole.restarts) < len(looks) // 4:  # else it cannot keep both sides of each
        assert (few.n_rounds, few.n_drafted, few.n_accepted) == (whole.n_rounds, whole.n_drafted, whole.n_accepted)
        assert few.restarts == whole.restarts
    assert len(thinned(looks)) < len(looks)


def test_stats_of_a_history_says_what_its_counters_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    looks = [counted(10 * k, [8 * k, 4 * k], float(k)) for k in range(1, 6)]
    (tmp_path / "kept.sv.jsonl.gz").write_bytes(packed_history(looks))
    assert [look.n_rounds for look in read_history(tmp_path / "kept")] == [look.n_rounds for look in looks]
    assert main(["stats", str(tmp_path / "kept"), "--check"]) == 0
    output = capsys.readouterr()
    assert "position 2:  40.0%" in output.out
    assert "2.200 [" in output.out
    assert "level none" not in output.err
    assert main(["stats", str(tmp_path / "kept"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counters"]["n_rounds"] == 40


def test_the_interval_of_the_mean_is_that_of_the_rounds_themselves() -> None:
    accepted = np.array([0, 0, 1, 3, 3, 2, 0, 1])
    kept = [int((accepted > k).sum()) for k in range(3)]
    ends = picture_of([counted(8, kept)]).length_ends
    half = 1.959964 * accepted.std(ddof=1) / np.sqrt(8)
    assert ends == pytest.approx((1 + accepted.mean() - half, 1 + accepted.mean() + half))


def test_a_change_is_found_where_it_was_and_chance_is_none() -> None:
    draw = np.random.default_rng(7)
    steady = [(50, [int(draw.binomial(50, 0.7)), 10]) for _ in range(120)]
    assert change_points(steady) == []
    fallen = [(50, [int(draw.binomial(50, 0.7 if k < 60 else 0.3))]) for k in range(120)]
    (change,) = change_points(fallen)
    assert abs(change.at - 60) <= 1
    assert change.before > 0.6 > 0.4 > change.after


def test_changes_are_told_as_rarely_by_chance_and_as_soon_as_was_calibrated() -> None:
    """Somebody looks on: of 100 histories without a change at most one shows one at any moment, where a threshold of 16
    would show several; a fall from .7 to .6 is seen within 1,000 rounds in nine of ten."""
    draw, n_false = np.random.default_rng(3), 0
    for _ in range(100):
        looks = [(20, [int(kept)]) for kept in draw.binomial(20, 0.7, 100)]
        n_false += any(change_points(looks[:t]) for t in range(8, 101, 2))
    assert n_false <= 1
    fallen = ([*draw.binomial(50, 0.7, 200), *draw.binomial(50, 0.6, 20)] for _ in range(100))
    assert sum(bool(change_points([(50, [int(kept)]) for kept in looks])) for looks in fallen) >= 90


def test_sums_that_do_not_add_up_are_said() -> None:
    seen = counted(10, [8, 5])
    seen.n_accepted = 20
    assert any("13" in note and "20" in note for note in picture_of([seen]).notes)


def test_a_share_above_all_is_no_share() -> None:
    """Neither of what was drafted nor of the position before."""
    first, last = counted(10, [8, 5]), counted(20, [8, 9], 1.0)
    first.n_drafted, last.n_drafted, last.n_accepted = 1, 2, 20
    picture = picture_of([first, last])
    assert picture.acceptance is picture.points[0].acceptance is None
    assert [at.conditional for at in picture_of([counted(10, [2, 5])]).positions] == [0.2, None]
    assert any("accepted of" in note for note in picture_of([last]).notes)


@pytest.mark.parametrize("line", ["vllm:x{%s} 1\n" % ("a" * 1_000_000), 'vllm:x{a="%s"} 1\n' % ("v" * 1_000_000)])
def test_a_line_longer_than_any_sample_is_none(line: str) -> None:
    with pytest.raises(SpecvizError, match=r"line 1: .* is no Prometheus sample"):
        read_samples(line, "it")


def test_labels_hold_quotes_commas_and_braces() -> None:
    (sample,) = read_samples('x{a="1,b=\\"2\\"}", c="\\\\"} 3\n', "it")
    assert sample.labels == {"a": '1,b="2"}', "c": "\\"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((401, ""), "--key-env"),
        ((404, ""), "--metrics"),
        ((302, ""), "points to"),
        ((200, "<!doctype html>\n"), "web page"),
        ((200, '{"object": "list"}\n'), "JSON"),
        ((200, "go_threads 7\n"), "no vLLM, llama.cpp or SGLang"),
        ((200, "vllm:spec_decode_num_drafts_total 1"), "broke off"),
        ((200, "vllm:spec_decode_num_drafts_total 1\nvllm:spec_de"), "broke off behind line 1"),
        ((200, "vllm:spec_decode_num_dr\n"), "no Prometheus sample"),
    ],
)
def test_what_is_no_engine_is_told_in_one_line(
    answer: Answer, words: str, served: Callable[[list[Answer]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", served([answer]), "--looks", "1"]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_a_key_is_sent_from_a_variable_that_must_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "127.0.0.1:1", "--key-env", "NO_SUCH_KEY_HERE"]) == 2
    assert "NO_SUCH_KEY_HERE is not set" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["h:8000", "http://h:8000", "http://h:8000/v1", "http://h:8000/metrics/"])
def test_an_address_is_taken_as_it_is_at_hand(address: str) -> None:
    assert metrics_address(address) == "http://h:8000/metrics"


def test_a_history_opens_again_and_says_the_same(
    served: Callable[[list[Answer]], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = served([(200, vllm(10, [8, 5], 23)), (200, vllm(30, [20, 9], 59))])
    file = tmp_path / "history.sv.jsonl"
    assert main(["watch", address, "--every", "0.1", "--looks", "2", "--json", "-o", str(file)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [report["n_rounds"] for report in lines] == [10, 20]
    (kept,) = tmp_path.iterdir()
    assert [look.n_rounds for look in read_history(kept)] == [10, 30]
    assert main(["watch", str(kept), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == lines[-1]


def slot(task: int, n_decoded: int, busy: bool = True, **more: object) -> dict[str, object]:
    return {"id": 0, "id_task": task, "is_processing": busy, "next_token": [{"n_decoded": n_decoded}], **more}


def test_llama_cpps_slots_are_read_where_its_counters_are_off(
    served: Callable[[list[Answer]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers that ended stay in the sum; what slots do not tell is nowhere a number, and is said."""
    kinds = {"params": {"speculative.types": "draft-simple"}, "speculative": True}
    looks = [[slot(3, 6, **kinds)], [slot(3, 10, **kinds)], [slot(3, 0, busy=False, **kinds)], [slot(7, 4, **kinds)]]
    watcher = ServerWatcher(served([(501, ""), *((200, json.dumps(look)) for look in looks)]))
    seen = [watcher.look() for _ in looks]
    assert [look.n_generated for look in seen] == [6, 10, 10, 14]
    assert [look.gauges["running"] for look in seen] == [1, 1, 0, 1]
    assert watcher.address.endswith("/slots")
    picture = watcher.picture
    assert picture is not None
    assert (picture.n_rounds, picture.n_drafted, picture.length, picture.acceptance) == (None, None, None, None)
    assert picture.headline.startswith("llama.cpp drafts, but")
    assert any("/slots does not tell" in words for words in picture.notes)
    assert picture.settings == (("drafters", "draft-simple"),)
    plain = served([(404, ""), (200, json.dumps([slot(0, 1, speculative=False)]))])
    assert main(["watch", plain, "--looks", "1"]) == 0
    assert "shows no speculation: start it with --spec-type" in capsys.readouterr().out


@pytest.mark.parametrize(
    "body", ["no", "{}", "[]", "[1]", '[{"is_processing": true}]', '[{"id": 0, "state": 1}]', "[" * 9]
)
def test_what_is_no_list_of_slots_is_a_server_without_counters(
    body: str, served: Callable[[list[Answer]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", served([(501, ""), (200, body)]), "--looks", "1"]) == 2
    assert "has no counters (501)" in capsys.readouterr().err


def test_a_server_that_is_away_keeps_what_was_seen(served: Callable[[list[Answer]], str]) -> None:
    watcher = ServerWatcher(served([(200, vllm(10, [8, 5], 23)), (503, ""), (200, vllm(12, [9, 5], 27))]))
    watcher.look()
    with pytest.raises(SpecvizError, match="503"):
        watcher.look()
    assert watcher.problem
    assert watcher.picture is not None
    watcher.look()
    assert watcher.problem is None
    assert watcher.picture.n_rounds == 2


def several(lengths: list[float], rounds: int = 400) -> str:
    """vLLM's counters of several data parallel engines, each with one drafted token and so many tokens a round."""
    lines = []
    for name, length in enumerate(lengths):
        labels = f'{{engine="{name}",model_name="m"}}'
        lines.append(f"vllm:spec_decode_num_drafts_total{labels} {rounds}")
        lines.append(f"vllm:spec_decode_num_draft_tokens_total{labels} {3 * rounds}")
        lines.append(f"vllm:spec_decode_num_accepted_tokens_total{labels} {round((length - 1) * rounds)}")
    return "\n".join(lines) + "\n"


def test_the_engine_that_is_ill_is_named() -> None:
    """Each of several is told alone; the sums are as before; alike ones, and one of two, are no finding."""

    def picture(*lengths: float) -> WatchPicture:
        return picture_of([read_counters(read_samples(several(list(lengths)), "here"), 0.0, "here")])

    ill = picture(2.9, 2.8, 1.1, 3.0)
    assert [(engine.name, engine.length) for engine in ill.engines] == [("0", 2.9), ("1", 2.8), ("2", 1.1), ("3", 3.0)]
    assert ill.length == pytest.approx((2.9 + 2.8 + 1.1 + 3.0) / 4)
    assert "engine 2 at 1.10, the others at 2.90" in ill.headline
    for fine in (picture(2.9, 2.8, 2.2, 3.0), picture(2.9, 1.1)):
        assert "engine" not in fine.headline
    assert picture(2.0).engines == ()


def models(lengths: dict[tuple[str, str], float], rounds: int = 400) -> str:
    """Counters by engine and model."""
    rows = []
    for (engine, model), length in lengths.items():
        labels = f'{{engine="{engine}",model_name="{model}"}}'
        rows.append(f"vllm:spec_decode_num_drafts_total{labels} {rounds}\n")
        rows.append(f"vllm:spec_decode_num_accepted_tokens_total{labels} {round(rounds * (length - 1))}\n")
    return "".join(rows)


def test_models_behind_one_address_are_told_apart_and_need_not_be_alike() -> None:
    picture = picture_of([read_counters(read_samples(models({("0", "a"): 1.1, ("0", "b"): 2.5}), "-"), 0.0, "-")])
    assert [part.words for part in picture.engines] == [
        "model a: 1.10 tokens a round over 400",
        "model b: 2.50 tokens a round over 400",
    ]
    assert not ill_engines(picture.engines)


def test_an_engine_is_held_against_those_of_its_model() -> None:
    lengths = {(f"{k}", model): 1.1 if model == "b" else 2.5 for model in "ab" for k in range(3)} | {("1", "a"): 1.2}
    picture = picture_of([read_counters(read_samples(models(lengths), "-"), 0.0, "-")])
    assert [part.name for part in ill_engines(picture.engines)] == ["1 of a"]


def test_a_rank_of_sglang_that_keeps_less_is_named() -> None:
    text = "".join(f'sglang:spec_accept_length{{dp_rank="{k}"}} {1.1 if k == 2 else 2.0}\n' for k in range(4))
    picture = picture_of([read_counters(read_samples(text, "-"), 0.0, "-")])
    assert "by data parallel rank, 4 of them: rank 2 at 1.10, the middle one at 2.00" in picture.notes[0]


def test_engines_are_counted_between_looks() -> None:
    """Since we look, not since the server began; from 0 where it began again."""

    def look(*rounds: int) -> Counted:
        named = [EngineCounts(name=str(k), n_rounds=n, n_accepted=n // 2) for k, n in enumerate(rounds)]
        return Counted(engine="vLLM", wall=0.0, n_rounds=sum(rounds), n_accepted=sum(rounds) // 2, engines=named)

    assert [engine.n_rounds for engine in picture_of([look(100, 200), look(110, 260)]).engines] == [10, 60]
    assert [engine.n_rounds for engine in picture_of([look(100, 200), look(4, 6)]).engines] == [4, 6]


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (
            [280, 264, 248, 240, 220, 0, 0, 0],
            "a cliff at position 6: 0.0% of 220 rounds that came so far keep it, after 92%",
        ),
        ([0] * 13, "next to nothing is kept at position 1 (0.0% of 400 rounds)"),
        ([280, 140, 4, 2], "a cliff at position 3"),
    ],
)
def test_a_broken_position_is_no_draft_length(kept: list[int], words: str) -> None:
    """Where acceptance falls to nothing at once, a shorter draft is no advice."""
    (text,) = [finding.text for finding in judge(Evidence.of_looks([counted(400, kept)]))]
    assert words in text
    assert "would lose next to nothing" not in text
    (slowly,) = [finding.text for finding in judge(Evidence.of_looks([counted(400, [280, 190, 120, 60, 20, 3])]))]
    assert "would lose next to nothing" in slowly, "the control: it falls by and by"


def test_drafted_tokens_without_rounds_are_told() -> None:
    """The counters of vLLM 0.5: no rounds, but drafted and accepted tokens."""
    old = Counted(engine="vLLM", wall=0.0, n_generated=2642, n_drafted=42272, n_accepted=0)
    assert picture_of([old]).headline == "0 of 42,272 drafted tokens kept; rounds are not counted there"


def test_a_change_is_told_in_a_pipe_when_it_is_found(
    served: Callable[[list[Answer]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It lies some looks back by then; it is told once, with its time."""
    answers, rounds, kept = [], 0, 0
    for look in range(24):
        rounds, kept = rounds + 400, kept + (320 if look < 12 else 160)
        answers.append((200, vllm(rounds, [kept], rounds + kept)))
    assert main(["watch", served(answers), "--plain", "--every", "0.1", "--looks", "24"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "changed at" in line]
    assert len(lines) == 1
    assert re.search(r"changed at \d{4}-\d\d-\d\d [\d:]{8}: position 1 fell from 80% to \d\d%, by", lines[0])
    low, high = (float(share) for share in re.findall(r"([\d.]+)%", lines[0].partition(", by ")[2]))
    assert low < 40 < high + 2  # it is found before all of it was seen


def test_now_stands_beside_the_mean() -> None:
    looks = [counted(1000 * k, [500 * k], wall=float(k)) for k in (1, 2, 3)] + [counted(4000, [1700], wall=4.0)]
    picture = picture_of(looks)
    assert picture.now == pytest.approx(1 + 200 / 1000)
    assert picture.headline.startswith("1.20 tokens a round now, 1.40 since we look")


def test_what_stands_beside_is_told_where_it_is_served() -> None:
    text = vllm(10, [5], 15) + "".join(
        f'vllm:{name}{{engine="{engine}"}} {value}\n'
        for name, value in (
            ("num_requests_running", 2),
            ("num_requests_waiting", 1),
            ("kv_cache_usage_perc", 0.25),
            ("prefix_cache_hits_total", 30),
            ("prefix_cache_queries_total", 40),
        )
        for engine in (0, 1)
    )
    picture = picture_of([read_counters(read_samples(text, "x"), 0.0, "x")])
    assert dict(picture.gauges) == {"running": "4", "waiting": "2", "cache in use": "25%", "prefix hits": "75%"}


def test_several_servers_are_a_line_each_and_an_ill_one_an_exit_code(
    served: Callable[[list[Answer]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    well, ill = served([(200, several([2.9] * 4))]), served([(200, several([2.9, 2.9, 1.1, 2.9]))])
    assert main(["watch", well, "--once"]) == 0
    capsys.readouterr()
    assert main(["watch", well, ill, "--once"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert "engine" not in first
    assert "engine 2 at 1.10" in second
    assert main(["watch", well, ill, "--once", "--json"]) == 1
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [report["counters"]["n_looks"] for report in objects] == [1, 1]


def test_of_several_servers_one_that_is_away_is_said_and_none_is_an_error(
    served: Callable[[list[Answer]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    well, away = served([(200, several([2.9] * 4))]), "127.0.0.1:9"
    assert main(["watch", well, away, "--once"]) == 1
    assert "nothing answers at" in capsys.readouterr().out.splitlines()[1]
    assert main(["watch", away, "--once"]) == 2
    assert main(["watch", well, away, "-o", "x"]) == 2


@pytest.mark.parametrize("apart", [0, 30])
def test_windows_that_lie_apart_widen_what_is_told_of_a_history(apart: int) -> None:
    """Each keeps 500 +- `apart` of 1,000: the difference of the shares by windows, against that by rounds."""

    def history(shift: int) -> WatchPicture:
        steps = [500 + shift + (apart if k % 2 else -apart) for k in range(20)]
        sums = [sum(steps[:k]) for k in range(21)]
        return picture_of([counted(1000 * k, [n], wall=float(k)) for k, n in enumerate(sums)])

    compared = beside([history(0), history(20)], "AB")
    rows = {row.name: row for row in compared.rows}
    for name in ("position 1", "tokens a round"):
        difference = rows[name].differences[0]
        assert difference is not None
        by, ends = difference
        assert ends is not None
        assert by == pytest.approx(0.02)
        by_rounds = 1.96 * (2 * 0.25 / 20_000) ** 0.5
        by_windows = 1.96 * (2 * (apart / 1000) ** 2 / 19) ** 0.5
        assert (ends[1] - ends[0]) / 2 == pytest.approx(max(by_rounds, by_windows), rel=0.02)
