"""How often the host waits for a device in a round: once for the verdict, and for what a drafter must read to go on.

No device is needed: the models compute on tensors that refuse every read but the counted one (`support.apart`). The
same runs in main memory are the reference: same text, same records.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from methods.trained.test_published import medusa_folder
from specviz.commands import Start
from specviz.engine.decode.round import RoundResult, StageClock
from specviz.engine.decode.sampling import Warper, nucleus
from specviz.engine.model.host import PinnedDeviceCopies, to_device
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.errors import SpecvizError
from specviz.events import Chain, Closing, Commit, Event, Level, Node, Verify
from specviz.methods import all_methods
from specviz.probability.draws import Keys
from specviz.probability.host import READS, fetch, to_host
from support.apart import Apart, CountedDeviceCopies, HostRead, apart
from support.models import build, save

ROOT = Path(__file__).parents[2]
PROMPT = "def add(a, b):\n    return"
SAMPLED = {"draft_mode": "sampled"}
# Of these a draft row is read more than once, or a token that was drawn is looked at again; a bound by what they count.
MORE = ("adaedl", "pearl", "specbranch")
CASES: list[tuple[str, dict[str, Any], str | None]] = [
    *((name, {}, None) for name in all_methods()),
    ("draft", SAMPLED, "tokenwise"),
    ("draft", SAMPLED, "blockwise"),
    ("draft", {"shape": "tree"}, None),
    ("draft", {"shape": "chains", **SAMPLED}, "multi_hsd"),
    ("draft", {"shape": "drawn_tree", **SAMPLED}, "multi_traversal"),
    ("draft", {"shape": "caterpillar", "replacement": False, **SAMPLED}, "multi_tokenwise"),
    ("draft", {"top_p": 0.9, "top_k": 40, "repetition_penalty": 1.2}, None),
    ("draft", {"draw": "race"}, None),
]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    before = torch.get_num_threads()
    yield load_pair(threads=1)
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def headed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, str]:
    """A small pair with Medusa heads, which the embedded one lacks."""
    folder = tmp_path_factory.mktemp("pair")
    model = save(build("llama", seed=1), folder / "target")
    small = load_pair(model, model, threads=1)
    return small, str(medusa_folder(small.target.adapter, tmp_path_factory.mktemp("medusa")))


def run(pair: Pair, start: Start) -> tuple[str, list[RoundResult], list[Event]]:
    events: list[Event] = []
    own_run = LocalRun(pair, start, events.append)
    rounds = list(own_run.rounds())
    kept = [text for text in events if isinstance(text, Node | Verify | Chain | Closing | Commit)]
    return own_run.text, rounds, [msgspec.structs.replace(text, i=0, t=0) for text in kept]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize(("name", "knobs", "verifier"), CASES)
def test_a_verdict_waits_once(
    name: str,
    knobs: dict[str, Any],
    verifier: str | None,
    temperature: float,
    pair: Pair,
    headed: tuple[Pair, str],
) -> None:
    """Whatever the method and the rule; and a round waits for nothing but that and what its drafter counts."""
    more = {}
    if name == "medusa":
        pair, more["drafter"] = headed
    settings = {"max_new_tokens": 10, "temperature": temperature, "seed": 3, **more, **knobs}
    levels: tuple[Level, ...] = ("none", "full")
    for level in levels:
        start = Start(prompt=PROMPT, method=name, verifier=verifier, knobs=settings, level=level)
        text, here, waits = run(pair, start)
        waited = READS.n_waits
        with pytest.MonkeyPatch.context() as patch, apart(patch):
            same, there, also = run(pair, start)
        assert (same, also) == (text, waits)
        assert READS.n_waits > waited
        if level == "none":
            for mine, its in zip(here, there, strict=True):
                assert mine.outcome is not None
                of_drafter = mine.n_syncs - mine.outcome.n_host_reads
                most = 2 * of_drafter + 3 if name in MORE else of_drafter + (name == "lookahead")
                most += 2 * of_drafter if knobs.get("replacement") is False else 0  # what is left of a law is looked at
                assert 1 <= its.n_syncs <= 1 + most, (mine.number, its.n_syncs, of_drafter)
                if name in ("ar", "ngram", "suffix"):
                    assert its.n_syncs == 1


def test_nothing_is_counted_in_main_memory(pair: Pair) -> None:
    waited = READS.n_waits
    run(pair, Start(prompt=PROMPT, method="draft", knobs={"max_new_tokens": 8}))
    assert READS.n_waits == waited


@pytest.mark.parametrize("read", [float, bool, int, torch.Tensor.tolist, torch.Tensor.cpu, lambda x: x.item()])
def test_a_read_past_the_helper_is_caught(read: Any) -> None:
    with pytest.raises(HostRead):
        read((torch.ones(1).as_subclass(Apart) * 3).sum())


def test_a_size_that_hangs_on_numbers_is_a_read() -> None:
    row = torch.ones(4).as_subclass(Apart)
    with pytest.raises(HostRead):
        row[row > 0]
    with pytest.raises(HostRead):
        row.nonzero()


def test_many_tensors_come_in_one_buffer() -> None:
    """Of any dtype and shape, also empty, strided and without dimensions, bit for bit."""
    noise = torch.Generator().manual_seed(4)
    wanted = [
        torch.randn(3, 5, generator=noise),
        torch.arange(7),
        torch.tensor([True, False]),
        torch.randn(4, 6, dtype=torch.float64, generator=noise).t(),
        torch.randn(3, generator=noise).bfloat16(),
        torch.empty(0, 2),
        torch.tensor(1.5),
    ]
    buffers: list[int] = []
    waits: list[Any] = []

    def memory(n: int) -> torch.Tensor:
        buffers.append(n)
        return torch.empty(n, dtype=torch.uint8)

    brought = PinnedDeviceCopies(memory, waits.append, "cpu").bring(wanted)
    assert len(buffers) == len(waits) == 1
    for mine, its in zip(wanted, brought, strict=True):
        assert torch.equal(mine, its)
        assert mine.dtype == its.dtype
        assert its.untyped_storage().data_ptr() == brought[0].untyped_storage().data_ptr()


def test_what_lies_here_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(READS, "transport", transport := CountedDeviceCopies())
    here, there = torch.ones(3), torch.ones(2).as_subclass(Apart)
    waited = READS.n_waits
    assert to_host(here)[0] is here
    assert (READS.n_waits, transport.calls) == (waited, [])
    assert fetch(here, there, there + 1) == [[1, 1, 1], [1, 1], [2, 2]]
    assert (READS.n_waits, transport.calls) == (waited + 1, [2])


@pytest.mark.parametrize("u", [0.0, 0.3, 0.999999999, 1.0])
@pytest.mark.parametrize("way", ["cdf", "race"])
def test_a_draw_is_the_same_there(way: Any, u: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Token and interval, for rows with zeros at both ends too; `u` = 1: rounded up to the whole mass."""
    monkeypatch.setattr(READS, "transport", CountedDeviceCopies())
    monkeypatch.setattr(Keys, "uniform", lambda *_: u)
    for seed in range(20):
        row = torch.rand(50, generator=torch.Generator().manual_seed(seed))
        row[:seed] = 0
        row[45:] = 0
        keys, waited = Keys(seed, 1, way), READS.n_waits
        assert keys.draw("draft", 4, row.as_subclass(Apart)) == keys.draw("draft", 4, row)
        assert READS.n_waits == waited + 1
    for bad in (torch.zeros(5), torch.full((5,), torch.nan)):
        with pytest.raises(SpecvizError, match="not finite"):
            Keys(0, 1, way).draw("draft", 4, bad.as_subclass(Apart))


@pytest.mark.parametrize("top_p", [0.5, 0.999])
def test_a_nucleus_is_the_same_there(top_p: float) -> None:
    scores = torch.randn(4, 3000, generator=torch.Generator().manual_seed(1)) * torch.tensor([[9.0], [0.1], [1.0], [0]])
    assert torch.equal(nucleus(scores.as_subclass(Apart), top_p).as_subclass(torch.Tensor), nucleus(scores, top_p))


@pytest.mark.parametrize("knobs", [{}, {"temperature": 0.7}, {"temperature": 0.7, "top_p": 0.5}])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_rows_that_are_none_are_refused_where_they_are_read(
    knobs: dict[str, Any], bad: float, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One number of a row, in whatever place: no text is made of it."""
    right = type(pair.target.adapter).logits
    for place in (0, 5, -1):

        def logits(hidden: torch.Tensor, place: int = place) -> torch.Tensor:
            out: torch.Tensor = right(pair.target.adapter, hidden).clone()
            out[-1, place] = bad
            return out

        with pytest.MonkeyPatch.context() as patch, apart(patch):
            patch.setattr(pair.target.adapter, "logits", logits)
            with pytest.raises(SpecvizError, match="not finite"):
                run(pair, Start(prompt=PROMPT, method="ar", knobs={"max_new_tokens": 4, **knobs}))


def test_laws_of_sound_rows_are_the_same_there() -> None:
    logits = torch.randn(3, 40, generator=torch.Generator().manual_seed(2))
    warper = Warper(temperature=0.7, top_p=0.8, top_k=20, min_p=0.01, repetition_penalty=1.1, banned=(3,))
    prefixes = [[1, 2], [2], [5, 5]]
    laws = warper.laws(logits.as_subclass(Apart), prefixes).as_subclass(torch.Tensor)
    assert torch.equal(laws, warper.laws(logits, prefixes))


def test_numbers_go_down_in_any_form() -> None:
    cpu = torch.device("cpu")
    assert torch.equal(to_device([[1, 2]], cpu), torch.tensor([[1, 2]]))
    assert to_device(torch.arange(3).numpy(), cpu, torch.float32).dtype == torch.float32


class _Marks:
    """A device that does what it is given 1000 ns after it was given, one after another."""

    def __init__(self) -> None:
        self.now, self.looked, self.settled = 0, 0, 0

    def mark(self) -> int:
        self.now += 1000
        return self.now

    def between(self, first: int, last: int) -> int:
        self.looked += 1
        return last - first

    def settle(self) -> None:
        self.settled += 1


def test_a_stage_on_a_device_ends_without_a_wait() -> None:
    clock = StageClock(marks := _Marks())
    with clock.stage("draft"):
        pass
    with clock.stage("target"):
        pass
    assert (clock.ns, marks.looked) == ({}, 0)
    clock.read()
    with clock.stage("verdict", on_host=True):
        pass
    assert (clock.ns["draft"], clock.ns["target"], marks.settled) == (1000, 1000, 0)
    assert clock.by_device == {"draft", "target"}
    assert [name for name, *_ in clock.spans] == ["draft", "target", "verdict"]


READERS = {"item", "tolist", "cpu", "numpy", "nonzero", "synchronize"}
_REDUCED = {"sum", "max", "min", "argmax", "argmin", "all", "any", "mean", "norm", "amax"}
PLACES = ("engine", "methods", "probability", "verifiers")
# Reads that are no waits of a round, each with why.
ALLOWED = {
    "the helper itself": "probability/host.py engine/model/host.py",
    "the verdict's rows and what rules make of them lie in main memory": (
        "probability/plan.py probability/rows.py verifiers/_candidates.py verifiers/_joint.py verifiers/tokenwise.py "
        "verifiers/multi_traversal.py engine/record/verify_records.py engine/decode/session.py"
    ),
    "another way is taken for rows on a device": (
        "probability/draws.py engine/decode/sampling.py engine/row_stats.py methods/trained/layers.py"
    ),
    "arrays of the host": (
        "engine/model/exact/plan.py engine/model/compiled/passes.py "
        "engine/model/compiled/layer.py engine/model/compiled/surplus.py "
        "methods/lookahead/drafter.py engine/model/graphs/rows.py"
    ),
    "lanes that overlap end together; marks that were passed": "engine/decode/overlap.py engine/decode/round.py",
    "measures a machine before the run": "engine/decode/overlap_choice.py engine/measure.py",
    "loads, makes or proves a model or a part": (
        "engine/model/drafts/corrected.py engine/model/few_bits/grids.py engine/model/few_bits/weight_only.py "
        "engine/model/files/loading.py engine/model/layers/direct_layer.py engine/model/selftest.py "
        "methods/early_exit/heads.py methods/kangaroo/adapter.py methods/trained/part_kind.py methods/trained/parts.py"
    ),
    "learns between queries": "methods/online/trainer.py methods/online/update.py methods/specblock/losses.py",
}


def reads(source: str) -> Iterator[int]:
    """Lines that take numbers off a tensor, or may."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in READERS:
            yield node.lineno
        elif isinstance(node.func, ast.Name) and node.func.id in ("bool", "float", "int") and node.args:
            inner = (call.func for call in ast.walk(node.args[0]) if isinstance(call, ast.Call))
            if any(isinstance(call, ast.Attribute) and call.attr in _REDUCED for call in inner):
                yield node.lineno


def test_what_a_round_runs_reads_through_the_helper() -> None:
    allowed = {f"specviz/{place}" for places in ALLOWED.values() for place in places.split()}
    readers: set[str] = set()
    for folder in PLACES:
        for path in sorted((ROOT / "specviz" / folder).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            for line in reads(path.read_text("utf-8")):
                readers.add(place)
                assert place in allowed, f"{place}:{line}: the host reads a tensor: use specviz.probability.host.fetch"
    assert readers == allowed, "an exception that nothing needs"


@pytest.mark.parametrize(
    "line", ["x.tolist()", "float(x.sum())", "bool(x.isfinite().all())", "torch.cuda.synchronize()"]
)
def test_the_search_finds(line: str) -> None:
    assert list(reads(line))
    assert not list(reads("fetch(x)[0]; float(y); int(z[3])"))
