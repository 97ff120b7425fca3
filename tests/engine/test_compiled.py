"""Passes in the kernel that is built here: each row the same whatever else is in the call, and near torch's.

A machine without a C compiler has no kernel: there every test holds what is said and done instead.
"""

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import platformdirs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.backend import in_steps
from specviz.engine.model.compiled import library, passes
from specviz.engine.model.compiled.build import NotCompiled
from specviz.engine.model.compiled.passes import kernel_backend
from specviz.engine.model.drafts.corrected import Correction, put
from specviz.engine.model.exact.proof import BITWISE, make_exact
from specviz.engine.model.few_bits.quantised import QuantisedAdapter
from specviz.engine.model.few_bits.sharp_head import SHARP
from specviz.engine.model.layers.direct_layer import DirectLayer, direct_layers
from specviz.engine.model.pair import load_pair
from specviz.engine.model.rows import ForwardBatch
from specviz.engine.model.selftest import tolerance
from specviz.methods.self_skip.model import SkippedModel
from specviz.methods.self_skip.spec import SkipSet
from specviz.names import COMPILE
from support.backends import in_direct_form, in_kernel, kernel_of
from support.driver import greedy, session
from support.models import build, save

DTYPES = (torch.float32, torch.bfloat16)


@pytest.fixture(autouse=True)
def on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(COMPILE, "auto")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    library.functions.cache_clear()
    yield
    torch.set_num_threads(threads)
    library.functions.cache_clear()


def _adapter(dtype: torch.dtype = torch.float32, kind: str = "llama", layers: int = 2) -> ModelAdapter:
    model = build(
        kind,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
    )
    return in_direct_form(ModelAdapter(model.to(dtype).requires_grad_(False)))


def _kernel(dtype: torch.dtype) -> Callable[..., torch.Tensor] | None:
    adapter = in_kernel(_adapter(dtype))
    return adapter and kernel_of(adapter).product


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(n=st.integers(1, 130), n_in=st.integers(1, 12), n_out=st.integers(1, 40), seed=st.integers(0, 99))
def test_a_row_is_the_same_among_any_others_and_what_torch_says(
    dtype: torch.dtype, n: int, n_in: int, n_out: int, seed: int
) -> None:
    multiply = _kernel(dtype)
    if multiply is None:
        return
    noise = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, 32 * n_in, generator=noise).to(dtype)
    weight = torch.randn(n_out, 32 * n_in, generator=noise).to(dtype)
    bias = torch.randn(n_out, generator=noise).to(dtype)
    whole = multiply(rows, weight, bias)
    for first, last in ((0, 1), (n - 1, n), (n // 3, n)):
        assert torch.equal(multiply(rows[first:last], weight, bias), whole[first:last])
    exact = rows.double() @ weight.double().t() + bias.double()
    gap = (whole.double() - exact).abs().max()
    assert gap <= (1e-5 if dtype == torch.float32 else 2e-2) * exact.abs().max().clamp(min=1)


def test_numbers_that_are_none_stay_so() -> None:
    for dtype in DTYPES:
        multiply = _kernel(dtype)
        if multiply is not None:
            rows = torch.full((2, 32), float("nan"), dtype=dtype)
            assert multiply(rows, torch.ones(5, 32, dtype=dtype)).isnan().all()
            rows = torch.full((2, 32), float("inf"), dtype=dtype)
            assert multiply(rows, torch.ones(5, 32, dtype=dtype)).isposinf().all()


def _fed(adapter: ModelAdapter, text: list[int], widths: list[int]) -> torch.Tensor:
    """Logits `[len(text), V]` of a text that is fed in passes of some widths, again and again."""
    cache, out, fed = adapter.new_cache(len(text)), [], 0
    for width in itertools.cycle(widths):
        if fed == len(text):
            break
        rows = ForwardBatch(adapter, cache)
        rows.add_line(text[fed : fed + width])
        out.append(rows.take())
        fed = min(len(text), fed + width)
        assert not cache.follow(text[:fed])
    return torch.cat(out)


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@torch.inference_mode()
def test_a_long_text_has_the_same_bits_in_passes_of_any_width(dtype: torch.dtype, kind: str) -> None:
    plain = _adapter(dtype, kind)
    wanted = _fed(plain, text := [(7 * k * k + 3 * k + 5) % plain.vocab for k in range(700)], [700])
    adapter = in_kernel(plain)
    if adapter is None:
        return
    whole = _fed(adapter, text, [700])
    assert float((whole - wanted).abs().max() / wanted.std()) < tolerance(dtype)
    for widths in ([1, 5, 2, 40, 7], [99, 13, 6, 4, 3]):
        assert torch.equal(_fed(adapter, text, widths), whole)


@pytest.mark.parametrize("rank", [3, 64])
@torch.inference_mode()
def test_a_packed_layer_is_corrected_by_loras_in_it(rank: int) -> None:
    """Corrections that are most of what a layer does, of some products of some ranks, a fourth without any."""
    plain = _adapter(torch.bfloat16)
    names = ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.down_proj")
    for place, layer in enumerate(plain.model.model.layers):
        for name in names[: 3 + place]:
            linear = layer.get_submodule(name)
            down, up = (
                torch.randn(*of, generator=torch.Generator().manual_seed(rank)).bfloat16() / 9
                for of in ((rank, linear.in_features), (linear.out_features, rank))
            )
            put(layer, {name: Correction(down, up)})
    corrected = QuantisedAdapter(ModelAdapter(plain.model))
    assert all(isinstance(layer, DirectLayer) for layer in corrected.backend.plain.layers)
    adapter = in_kernel(corrected)
    if adapter is None:
        return
    text = [(7 * k * k + 3 * k + 5) % plain.vocab for k in range(60)]
    whole, wanted, bare = (_fed(model, text, [60]) for model in (adapter, corrected, plain))
    assert float((whole - wanted).norm() / wanted.norm()) < 0.05 < float((bare - wanted).norm() / wanted.norm())
    for widths in ([1, 5, 2, 40, 7], [13, 6, 4, 3]):
        assert torch.equal(_fed(adapter, text, widths), whole)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(seed=st.integers(0, 999))
@torch.inference_mode()
def test_a_path_has_the_bits_of_its_text_in_any_tree(dtype: torch.dtype, seed: int) -> None:
    adapter, rng = in_kernel(_adapter(dtype)), Random(seed)
    if adapter is None:
        return
    text = [rng.randrange(adapter.vocab) for _ in range(rng.randrange(30, 90))]
    depth = rng.randrange(1, 20)
    cache = adapter.new_cache(len(text) + 60)
    rows = ForwardBatch(adapter, cache)
    rows.add_line(text[:-depth])
    rows.take()
    assert not cache.follow(text[:-depth])
    rows, path = ForwardBatch(adapter, cache), []
    for token in text[-depth:]:
        for _ in range(rng.randrange(3)):
            rows.add(rng.randrange(adapter.vocab), rng.randrange(-1, len(rows)))
        path.append(rows.add(token, path[-1] if path else -1))
    row = rows.take()[path]
    assert torch.equal(row, _fed(adapter, text, [1])[-depth:])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@torch.inference_mode()
def test_states_that_are_kept_on_the_way_are_those_of_one_stop_after_another(dtype: torch.dtype) -> None:
    adapter = in_kernel(_adapter(dtype, layers=5))
    if adapter is None:
        return
    both = [ForwardBatch(adapter, adapter.new_cache(8), taps) for taps in ((1, 2, 4), ())]
    for rows in both:
        rows.add_line([9, 3, 7])
        rows.add(5, rows.add(11, 1))
    kept, stopped = both
    top = kept.climb(5)
    for layer in (1, 2, 4):
        assert torch.equal(kept.states(layer, range(5)), stopped.climb(layer)[0])
    assert torch.equal(top, stopped.climb(5))


@pytest.mark.parametrize("skips", [SkipSet(frozenset({3}), frozenset()), SkipSet(frozenset({3}), frozenset({2, 3}))])
@torch.inference_mode()
def test_states_are_kept_before_a_layer_of_which_a_part_is_left_out(skips: SkipSet) -> None:
    adapter = in_kernel(_adapter(layers=4))
    if adapter is None:
        return
    model = SkippedModel(adapter, skips)
    hidden = model.embed([9, 3, 7], [0, 1, 2])
    visible = torch.ones(3, 3, dtype=torch.bool).tril().numpy()
    stops, cache = [1, 2, model.n_layers], model.new_cache(4)
    inputs = model.inputs(hidden, [0, 1, 2], visible, [0, 1, 2])
    states = model.forward(hidden, inputs, model.new_cache(4), 0, stops)
    wanted = in_steps(lambda rows, lo, hi: model.forward(rows, inputs, cache, lo, [hi])[0], hidden, 0, stops)
    assert all(torch.equal(a, b) for a, b in zip(states, wanted, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@torch.inference_mode()
def test_a_row_speaks_the_same_among_any_others(dtype: torch.dtype) -> None:
    """Also among more rows than are spoken for at once, and by several threads."""
    noise = torch.Generator().manual_seed(3)
    hidden = torch.randn(1, 300, 64, generator=noise).to(dtype)
    plain = _adapter(dtype).logits(hidden)
    adapter = in_kernel(_adapter(dtype))
    if adapter is None:
        return
    whole = adapter.logits(hidden)
    assert whole.dtype == torch.float32
    assert float((whole - plain).norm() / plain.norm()) < tolerance(dtype)
    for first, last in ((0, 1), (7, 12), (120, 251)):
        assert torch.equal(adapter.logits(hidden[:, first:last]), whole[first:last])
    torch.set_num_threads(3)
    assert torch.equal(adapter.logits(hidden), whole)


@torch.inference_mode()
def test_the_best_tokens_of_a_packed_head_have_the_logits_of_the_head_itself() -> None:
    adapter = _adapter(torch.bfloat16)
    twin, whole = in_kernel(QuantisedAdapter(adapter)), in_kernel(adapter)
    if twin is None or whole is None:
        return
    noise = torch.Generator().manual_seed(5)
    hidden = torch.randn(1, 9, 64, generator=noise).bfloat16()
    logits, exact, rough = twin.logits(hidden), whole.logits(hidden), twin.head.rough(twin.norm(hidden))[0].float()
    best = rough.topk(SHARP, -1).indices
    assert torch.equal(logits.gather(1, best), exact.gather(1, best))
    differ = (logits != rough).sum(1)
    assert bool((differ <= 4 * SHARP).all()), "more than what may be the best is scored again"
    assert bool((logits != exact).any()), "nothing was packed"


@torch.inference_mode()
def test_parts_that_are_left_out_add_nothing() -> None:
    plain = _adapter(layers=4)
    adapter = in_kernel(plain)
    if adapter is None:
        return
    skips = SkipSet(frozenset({2, 4}), frozenset({3, 4}))
    text = [9, 3, 7, 200, 41]
    ours, wanted = (
        ForwardBatch(model, model.new_cache(8)) for model in (SkippedModel(adapter, skips), SkippedModel(plain, skips))
    )
    for rows in (ours, wanted):
        rows.add_line(text)
    assert torch.allclose(ours.take(), wanted.take(), atol=1e-4)


def test_a_model_is_exact_with_it_and_its_own_modules_are_left_as_they_are() -> None:
    adapter = _adapter()
    ids = torch.tensor([[5, 80, 33, 7]])
    before = adapter.model(ids).logits
    assert adapter.products == "torch"
    compiled = in_kernel(adapter)
    assert torch.equal(adapter.model(ids).logits, before), "the library's own pass is what it is compared with"
    if compiled is not None:
        assert compiled.products == "compiled"
        backend, exact = make_exact(compiled)
        assert exact == BITWISE
        assert backend.widths is not None
        assert backend.widths.least == 1


@pytest.mark.parametrize("kind", ["mistral", "gpt2", "gemma2"])
def test_what_it_does_not_know_stays_torchs(kind: str) -> None:
    backend = kernel_backend(in_direct_form(ModelAdapter(build(kind).requires_grad_(False))))
    assert isinstance(backend, NotCompiled)
    assert not backend.warns


def test_without_a_compiler_torch_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    adapter = _adapter()
    assert direct_layers(adapter.backend.plain)
    assert kernel_backend(adapter) == NotCompiled("no C compiler here", warns=True)


def test_a_compiler_that_fails_is_named_and_leaves_no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    assert kernel_backend(_adapter()) == NotCompiled("/bin/false failed: exit code 1", warns=True)
    assert not [*tmp_path.rglob("*.so")]


@pytest.mark.parametrize("error", [AttributeError("no weight"), RuntimeError("sizes"), TypeError("x")])
def test_whatever_it_meets_is_told_and_torch_multiplies(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def meet(*_: object) -> None:
        raise error

    monkeypatch.setattr(passes, "_functions_for", meet)
    backend = kernel_backend(_adapter())
    assert isinstance(backend, NotCompiled)
    assert backend.warns
    assert f"({type(error).__name__}: {error})" in backend.why


def test_norms_without_weights_are_the_librarys(tmp_path: Path) -> None:
    """OLMo has them: `Norm` asks for a weight, and the run went on with a traceback."""
    model = build("olmo", seed=3)
    pair = load_pair(save(model, tmp_path), needs_draft=False, device="cpu", dtype="float32")
    assert pair.target.no_kernel is not None
    prompt = [5, 77, 12, 5, 77, 12, 200, 31, 5]
    assert session(pair.target.adapter, None, prompt, method="ngram").generate() == greedy(model, prompt, 40)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_other_numbers_are_torchs(dtype: torch.dtype) -> None:
    assert isinstance(kernel_backend(_adapter(dtype)), NotCompiled)


def test_it_is_off_where_it_is_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILE, "off")
    assert kernel_backend(_adapter()) == NotCompiled("--compile off", warns=False)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@torch.inference_mode()
def test_threads_share_the_work_and_change_no_bit(dtype: torch.dtype) -> None:
    """Two, three, and more than there are rows or heads; also from two threads of Python at once, one of which works
    alone, and in a process that was forked from one with threads."""
    adapter = in_kernel(_adapter(dtype))
    if adapter is None:
        return
    text = [(7 * k * k + 3 * k + 5) % adapter.vocab for k in range(120)]
    whole = _fed(adapter, text, [1, 40, 7])
    for n in (2, 3, 9):
        torch.set_num_threads(n)
        assert torch.equal(_fed(adapter, text, [1, 40, 7]), whole)

    def beside() -> bool:
        torch.set_num_threads(3)
        with torch.inference_mode():
            return all(torch.equal(_fed(adapter, text, [5, 1, 30]), whole) for _ in range(8))

    with ThreadPoolExecutor(2) as pool:
        assert all(job.result() for job in [pool.submit(beside) for _ in range(2)])
    if hasattr(os, "fork"):
        torch.set_num_threads(2)
        rows, weight = torch.ones(3, 64, dtype=dtype), torch.ones(500, 64, dtype=dtype)
        multiply = kernel_of(adapter).product
        wanted = multiply(rows, weight)
        assert wanted.eq(64).all()
        child = os.fork()
        if not child:
            os._exit(0 if torch.equal(multiply(rows, weight), wanted) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


LITTLE_STACK = """
import torch
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.rows import ForwardBatch
from support.backends import in_direct_form, in_kernel, kernel_of
from support.models import build

sizes = dict(hidden_size=960, intermediate_size=1920, num_attention_heads=15, num_key_value_heads=5, head_dim=64)
adapter = in_direct_form(ModelAdapter(build("llama", num_hidden_layers=1, **sizes).requires_grad_(False)))
torch.set_num_threads(2)
adapter = in_kernel(adapter)
with torch.inference_mode():
    rows = ForwardBatch(adapter, adapter.new_cache(128))
    rows.add_line([7 * k % 250 for k in range(128)])
    rows.take()
    kernel_of(adapter).product(torch.ones(128, 960), torch.ones(999, 960))
print("through")
"""


def test_threads_with_little_stack_are_enough() -> None:
    """Half a megabyte, which is what macOS gives a thread: all large things lie elsewhere."""
    if in_kernel(_adapter()) is None:
        return
    paths = {"PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parents[1])])}
    line = ["sh", "-c", 'ulimit -s 512; exec "$0" -c "$1"', sys.executable, LITTLE_STACK]
    done = subprocess.run(line, env={**os.environ, **paths}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "through\n"), done.stderr
