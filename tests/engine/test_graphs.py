"""Passes that are recorded once and done again: the bits of ordinary passes, at every size, for every method, where a
machine has exact rows; elsewhere numbers that are near.

On a CPU a trace of the tensor operations stands for CUDA's graphs, or the same work run again (`support.fx_capture`).
"""

import random
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from engine.test_exact import METHODS, PROMPT, as_promised, exact
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.backend import TorchBackend
from specviz.engine.model.cache import KVCache
from specviz.engine.model.exact.backend import ExactBackend
from specviz.engine.model.exact.plan import LONG, BatchWidths
from specviz.engine.model.graphs import passes
from specviz.engine.model.graphs.capture import Capture
from specviz.engine.model.graphs.passes import GraphBackend, graph_backend
from specviz.engine.model.graphs.rows import PassSizes, RowInputs
from specviz.engine.model.rows import ForwardBatch
from specviz.names import COMPILE, GRAPHS
from support.backends import in_direct_form
from support.driver import session
from support.fx_capture import FailingCapture, FxCapture, RunAgain
from support.models import VOCAB, blurred, build

Tensor = torch.Tensor
TEXT = [(7 * k * k + 5) % 250 for k in range(620)]


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def whatever_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings are asked for here, whatever the tests run under."""
    monkeypatch.delenv("SPECVIZ_COMPILE", raising=False)


def rounded(arch: str = "llama") -> ModelAdapter:
    """An adapter whose rows may round as they stand."""
    return in_direct_form(ModelAdapter(build(arch, seed=1, max_position_embeddings=640)))


def graphed(adapter: ModelAdapter, capture: Capture | None = None) -> tuple[ModelAdapter, GraphBackend]:
    """The model, its layers recorded, and the recordings."""
    backend = graph_backend(adapter, capture or RunAgain())
    assert isinstance(backend, GraphBackend), backend
    return adapter.with_backend(backend), backend


@torch.inference_mode()
def fed(adapter: ModelAdapter, widths: list[int], taps: tuple[int, ...] = ()) -> tuple[Tensor, KVCache, list[Tensor]]:
    """Logits `[n, V]` of the text fed in passes of some widths, the cache, and tapped states."""
    cache, out, states, done = adapter.new_cache(640), [], [], 0
    for n in widths:
        rows = ForwardBatch(adapter, cache, taps)
        rows.add_line(TEXT[done : done + n])
        out.append(rows.take())
        states += [rows.states(tap, range(n)) for tap in taps]
        done += n
        assert cache.filled == [done] * adapter.n_layers
        cache.follow(TEXT[:done])
    return torch.cat(out), cache, states


@torch.inference_mode()
def on_trees(adapter: ModelAdapter, n_nodes: int, upto: int) -> Tensor:
    """Logits of the text behind its first 61 tokens, each computed in a tree of other branches; its path is kept."""
    rng, cache, outputs = random.Random(n_nodes), adapter.new_cache(720), []
    rows = ForwardBatch(adapter, cache)
    rows.add_line(TEXT[:61])
    rows.take()
    cache.follow(TEXT[:61])
    while cache.length < upto:
        first = cache.length
        rows = ForwardBatch(adapter, cache)
        path = [rows.add(TEXT[first], -1)]
        while len(rows) < n_nodes:
            if rng.random() < 0.3 and first + len(path) < len(TEXT):
                path.append(rows.add(TEXT[first + len(path)], path[-1]))
            else:
                rows.add(rng.randrange(VOCAB), rng.randrange(max(0, len(rows) - 30), len(rows)))
        outputs.append(rows.take()[path])
        cache.follow(TEXT[: first + len(path)])
    return torch.cat(outputs)[: upto - 61]


@pytest.mark.parametrize("arch", ["llama", "qwen3", "gemma2", "gemma3", "mistral", "gpt2", "gpt_neox", "phi3"])
def test_a_recorded_row_has_the_bits_of_an_ordinary_one(arch: str) -> None:
    """At all widths, in lines and in trees; the cache too. Windows, soft caps and learned positions among them."""
    changes: dict[str, Any] = {"n_positions": 640} if arch == "gpt2" else {}
    _as_ordinary(exact(arch, **changes), RunAgain())


def test_so_has_one_in_sixteen_bits() -> None:
    _as_ordinary(exact(dtype=torch.bfloat16), RunAgain())


def test_nothing_of_the_python_that_was_recorded_is_needed() -> None:
    """The same by a trace, behind a window: what differs from pass to pass stands in the buffers."""
    adapter = exact("mistral")
    wanted, trees = fed(adapter, [1] * 40)[0], on_trees(adapter, 9, 72)
    below = adapter.backend
    assert isinstance(below, TorchBackend | ExactBackend)
    graphs = GraphBackend(adapter, below, capture := FxCapture())
    adapter = adapter.with_backend(graphs)
    for widths in ([1] * 40, [7, 8, 5, 20]):
        assert as_promised(adapter, fed(adapter, widths)[0], wanted)
    assert as_promised(adapter, on_trees(adapter, 9, 72), trees)
    assert graphs.failed == ""
    assert capture.n_replayed > 2 * capture.n_recorded


def _as_ordinary(adapter: ModelAdapter, capture: RunAgain) -> None:
    wanted, held, _ = fed(adapter, [1] * 110)
    trees = on_trees(adapter, 23, 110)
    adapter, graphs = graphed(adapter, capture)
    for widths in ([3, 5, 2, 40, 60], [7] * 15 + [5], [1] * 110):
        logits, cache, _ = fed(adapter, widths)
        assert as_promised(adapter, logits, wanted)
        for mine, its in zip(cache.buffers, held.buffers, strict=True):
            assert as_promised(adapter, mine[..., :110, :], its[..., :110, :])
    assert as_promised(adapter, on_trees(adapter, 23, 110), trees)
    assert graphs.failed == ""
    assert capture.n_replayed > 110


def test_long_texts_and_wide_trees() -> None:
    """Over the borders of pieces, at all lengths; what is too wide for a recording goes the ordinary way."""
    plain = exact()
    for n_nodes in (6, 40, 90):
        wanted = on_trees(plain, n_nodes, 600)
        adapter, graphs = graphed(plain)
        assert as_promised(adapter, on_trees(adapter, n_nodes, 600), wanted), n_nodes
        assert graphs.failed == ""


def test_without_exact_rows_they_are_near() -> None:
    for arch in ("llama", "mistral"):
        adapter = rounded(arch)
        wanted, trees = fed(adapter, [5] * 12)[0], on_trees(adapter, 12, 90)
        adapter, _ = graphed(adapter)
        assert (fed(adapter, [5] * 12)[0] - wanted).abs().max() < 1e-3 * wanted.std()
        assert (on_trees(adapter, 12, 90) - trees).abs().max() < 1e-3 * trees.std()


def test_a_size_is_recorded_once() -> None:
    """Text grows by single rows: a recording for each length of context and number of long pieces, not for each row."""
    adapter = exact()
    long = LONG * adapter.backend.widths.piece if adapter.backend.widths is not None else 640
    adapter, _ = graphed(adapter, capture := RunAgain())
    for n in (100, 600):
        before = capture.n_recorded
        fed(adapter, [1] * n)
        sizes = {PassSizes.of(1, kv, kv, kv - 1, adapter.backend.widths) for kv in range(1, n + 1)}
        assert capture.n_recorded - before <= len(sizes) <= 4 + n // long
    assert capture.n_replayed >= 700


def test_recordings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go; they are made again, with the same bits. How many there are, the widths of exact passes say."""
    adapter = exact()
    wanted = fed(adapter, [1, 2, 3, 5, 9, 17, 33] * 4)[0]
    other, all_sizes = graphed(exact())
    fed(other, [1, 2, 3, 5, 9, 17, 33] * 4)
    most = min(3, len(all_sizes) - 1)
    monkeypatch.setattr(passes, "MOST", most)
    adapter, graphs = graphed(adapter)
    assert as_promised(adapter, fed(adapter, [1, 2, 3, 5, 9, 17, 33] * 4)[0], wanted)
    assert len(graphs) == most


@pytest.mark.parametrize("exactly", [True, False])
def test_what_a_caller_keeps_stays(exactly: bool) -> None:
    """States of a pass are the caller's: the next pass of the same recording writes elsewhere."""
    adapter, _ = graphed(exact() if exactly else rounded())
    with torch.inference_mode():
        cache = adapter.new_cache(64)
        kept = []
        for k in range(8):
            rows = ForwardBatch(adapter, cache)
            rows.add_line([TEXT[k]])
            states = rows.climb(adapter.n_layers)
            kept.append((states, states.clone()))
            cache.follow(TEXT[: k + 1])
    assert all(torch.equal(states, before) for states, before in kept)
    assert len({states.data_ptr() for states, _ in kept}) == len(kept)


def test_two_caches_do_not_meet() -> None:
    """Passes over one and the other in turn: each has its own recordings."""
    adapter = exact()
    wanted = fed(adapter, [1] * 40)[0]
    adapter, _ = graphed(adapter)
    with torch.inference_mode():
        caches, out = [adapter.new_cache(64), adapter.new_cache(64)], []
        for k in range(40):
            for offset, cache in enumerate(caches):
                rows = ForwardBatch(adapter, cache)
                rows.add_line([TEXT[k] if offset == 0 else (TEXT[k] + 1) % 250])
                logits = rows.take()
                cache.follow([*cache.tokens])
                out += [logits] if offset == 0 else []
    assert as_promised(adapter, torch.cat(out), wanted)


def test_states_on_the_way_are_the_same() -> None:
    """A drafter that looks at layers: the pass is recorded in parts."""
    adapter = exact()
    wanted = fed(adapter, [1, 4, 9, 1, 4], (0, 1, 2, 3))
    adapter, _ = graphed(adapter)
    states = fed(adapter, [1, 4, 9, 1, 4], (0, 1, 2, 3))
    assert as_promised(adapter, states[0], wanted[0])
    assert all(as_promised(adapter, mine, its) for mine, its in zip(states[2], wanted[2], strict=True))


@cache
def recorded() -> tuple[list[ModelAdapter], list[ModelAdapter], list[GraphBackend]]:
    """Target and draft model as they are and recorded, and the recordings."""
    plain = [exact(), ModelAdapter(blurred(build("llama", seed=1, max_position_embeddings=640), 0.3))]
    models, recordings = zip(*(graphed(model) for model in plain), strict=True)
    return plain, list(models), list(recordings)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_the_same(name: str, temperature: float) -> None:
    """Target and draft model recorded, beside the same models that are not; texts where bits are promised."""
    plain, models, recordings = recorded()
    knobs = {"temperature": temperature, "max_new_tokens": 24, "seed": 7, **METHODS[name]}
    recordings[0].forget()
    texts = [session(*pair, PROMPT, **knobs).generate() for pair in (plain, models)]
    assert plain[0].backend.widths is None or texts[0] == texts[1]
    assert len(texts[0]) == len(texts[1]) == 24
    assert len(recordings[0])
    assert all(backend.failed == "" for backend in recordings)


def test_where_recording_fails_layers_run_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    """In the middle of a text: nothing is lost, and one line says so."""
    adapter = exact()
    wanted = fed(adapter, [1, 3] * 10)[0]
    adapter, graphs = graphed(adapter)
    graphs._capture = FailingCapture()
    assert as_promised(adapter, fed(adapter, [1, 3] * 10)[0], wanted)
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "passes are not recorded" in err
    assert "operation not permitted" in err


def test_a_cache_without_a_spare_slot_is_not_written_beyond() -> None:
    """Rows of padding would stand where a token does."""
    adapter = rounded()
    wanted = fed(adapter, [3, 1])[0]
    adapter, graphs = graphed(adapter)
    with torch.inference_mode():
        rows = ForwardBatch(adapter, KVCache(adapter.n_layers, 200))
        rows.add_line(TEXT[:3])
        assert (rows.take() - wanted[:3]).abs().max() < 1e-4
    assert len(graphs) == 0


def test_what_is_not_taken() -> None:
    adapter = exact()
    assert graph_backend(adapter) == "it is for CUDA"
    failed = graph_backend(adapter, FailingCapture())
    assert isinstance(failed, str)
    assert "not permitted" in failed
    assert graph_backend(graphed(adapter)[0], RunAgain()) == "its layers go another way"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(COMPILE, "off")
        assert graph_backend(exact(), RunAgain()) == "it is turned off"


def test_what_looks_at_numbers_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a mask made on the host while recording stays what it was, and is caught at once."""
    right = RowInputs.masks

    def masks(self: RowInputs, windows: Any) -> Any:
        self.base = torch.tensor([int(self.base[0])])
        return right(self, windows)

    monkeypatch.setattr(RowInputs, "masks", masks)
    assert isinstance(graph_backend(exact(), FxCapture()), str)


@pytest.mark.parametrize("widths", [None, BatchWidths(4), BatchWidths(16, 16, 64, 32, 96)])
def test_sizes_hold_what_they_are_for(widths: Any) -> None:
    """ForwardBatch, slots and tail; few sizes for all lengths of a text."""
    met = set()
    for kv in range(1, 4000, 7):
        for n in (1, 2, 5, 9, 64):
            if n <= kv:
                sizes = PassSizes.of(n, kv, kv, kv - n, widths)
                assert sizes.rows >= n
                assert sizes.wide > kv + sizes.rows
                assert sizes.wide % 32 == 0
                assert sizes.tail >= 1
                met.add(sizes)
    assert len(met) < 140


def test_a_tree_that_no_recording_holds_is_refused() -> None:
    inputs = RowInputs(PassSizes(256, 960, 256), rounded().sums, BatchWidths(4), 2, 959)
    seen = np.eye(250, 300, 50, dtype=np.bool_)
    seen[:, :50] = True
    with pytest.raises(ValueError, match="too"):
        inputs.fill([50] * 250, seen, np.array([*range(50), *([50] * 250)]), 50)


def test_on_a_card_they_are_for_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """None has run them yet."""
    adapter: Any = SimpleNamespace(device=torch.device("cuda"))
    monkeypatch.delenv(GRAPHS, raising=False)
    why = graph_backend(adapter)
    assert isinstance(why, str)
    assert "SPECVIZ_CUDA_GRAPHS=on" in why
    monkeypatch.setenv(GRAPHS, "on")
    with pytest.raises(AttributeError, match="backend"):  # it is looked at further
        graph_backend(adapter)
