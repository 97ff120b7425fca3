"""What a header says of rows: no row's bits depend on what else is in the pass, and so no text on how it was drafted.

Whole methods are held against plain decoding by `specviz lab bench --identity`; here every shape of pass is, on small
models, with controls that must be caught. Whether a model's rows are exact is the machine's: where it is promised bits
are compared, and elsewhere rows must be near.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.exact import attention, plan, proof, trials
from specviz.engine.model.exact.plan import BatchWidths
from specviz.engine.model.exact.proof import BITWISE, make_exact
from specviz.engine.model.exact.trials import Attention, Products
from specviz.engine.model.layers import attention as packed
from specviz.engine.model.layers.direct_layer import direct_layers
from specviz.engine.model.rows import ForwardBatch
from specviz.engine.model.selftest import tolerance
from specviz.methods import get_method
from specviz.methods.medusa.drafter import Medusa
from specviz.methods.medusa.drafter import Trained as Heads
from specviz.verifiers import get_verifier
from specviz_lab.bench.identity import Decided, MethodIdentity, _steered
from specviz_train.common.own_text import OwnWindows
from specviz_train.trees import medusa as training
from support.backends import in_direct_form
from support.driver import session
from support.models import VOCAB, blurred, build

DTYPES = [torch.float32, torch.bfloat16]
PROMPT = [(11 * k + 5) % 250 for k in range(70)]
METHODS: dict[str, dict[str, Any]] = {
    "chain": {"method": "draft", "gamma": 5},
    "sampled chain": {"method": "draft", "gamma": 4, "draft_mode": "shared"},
    "chains": {"method": "draft", "shape": "chains", "gamma": 4, "candidates": 3},
    "caterpillar": {"method": "draft", "shape": "caterpillar", "gamma": 4, "candidates": 3},
    "drawn tree": {"method": "draft", "shape": "drawn_tree", "d_max": 3},
    "tree": {"method": "draft", "shape": "tree", "d_max": 4, "w_max": 4, "k_max": 3, "node_budget": 30},
    "ngram": {"method": "ngram", "gamma": 4},
    "suffix": {"method": "suffix"},
    "suffix tree": {"method": "suffix", "tree": True, "max_spec_factor": 3.0},
    "lookahead": {"method": "lookahead"},
    "pearl": {"method": "pearl"},
    "specbranch": {"method": "specbranch"},
    "sps": {"method": "sps", "draft_mode": "shared"},
    "adaedl": {"method": "adaedl"},
    "lookahead window": {"method": "lookahead", "node_budget": 200, "window": 12, "guesses": 9, "text_ngrams": False},
    "specbound": {"method": "specbound", "heads": ["lens"], "exit_layers": ["L/2"]},
    "adadecode": {"method": "adadecode", "heads": ["lens"], "exit_layers": ["L/2"]},
    "layerskip": {"method": "layerskip"},
    "draft_and_verify": {"method": "draft_and_verify"},
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def exact(arch: str = "llama", dtype: torch.dtype = torch.float32, device: str = "cpu", **changes: Any) -> ModelAdapter:
    model = build(arch, seed=1, dtype=dtype, **{"max_position_embeddings": 640, **changes}).to(device)
    adapter = in_direct_form(ModelAdapter(model))
    backend, reason = make_exact(adapter)
    assert (reason == BITWISE) == (backend.widths is not None)
    assert reason == BITWISE or reason in {f"up to rounding ({why})" for why in proof._WHY}
    return adapter.with_backend(backend)


def padded(adapter: ModelAdapter) -> ModelAdapter:
    """In padded passes, also where this machine's rows are not exact in them."""
    return adapter.with_backend(adapter.backend.exact(adapter.backend.widths or BatchWidths(16)))


@torch.no_grad()
def as_promised(adapter: ModelAdapter, ours: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether two results `[n, ..]` for the same rows are as the header says: of equal bits, or near."""
    if adapter.backend.widths is not None:
        return torch.equal(ours, wanted)
    spread = tolerance(adapter.dtype) * float(wanted.float().std())
    return ours.shape == wanted.shape and float((ours - wanted).float().abs().max()) <= spread


def assert_decided(adapter: ModelAdapter, mine: Decided, theirs: Decided) -> None:
    """Two runs decide the same; where bits are not promised, by near logits as long as their texts are the same."""
    tokens = list(zip(mine.tokens, theirs.tokens, strict=False))
    n = next((k + 1 for k, (ours, its) in enumerate(tokens) if ours != its), len(tokens))
    if adapter.backend.widths is not None:
        assert mine.tokens == theirs.tokens
        assert len(mine.rows) == len(theirs.rows) == n
        assert all(all(map(torch.equal, ours, its)) for ours, its in zip(mine.rows, theirs.rows, strict=True))
    assert all(as_promised(adapter, ours[0], its[0]) for ours, its in zip(mine.rows[:n], theirs.rows[:n], strict=True))


@cache
def draft(dtype: torch.dtype) -> ModelAdapter:
    return ModelAdapter(blurred(build("llama", seed=1, dtype=dtype, max_position_embeddings=640), 0.3))


@cache
def tried(dtype: torch.dtype) -> ModelAdapter:
    """For all methods the same: what one leaves behind in it, the next would meet."""
    return exact(dtype=dtype)


@cache
def plain(dtype: torch.dtype, temperature: float) -> Decided:
    """What plain decoding decides."""
    return Decided.of(session(tried(dtype), None, PROMPT, method="ar", **_common(temperature)).rounds())


def _common(temperature: float) -> dict[str, Any]:
    return {"temperature": temperature, "max_new_tokens": 60, "seed": 7, "top_p": 0.95}


@torch.inference_mode()
def fed(adapter: ModelAdapter, text: list[int], widths: list[int]) -> tuple[torch.Tensor, KVCache]:
    """Logits `[n, V]` of a text fed in passes of some widths, and the cache."""
    cache, out, done = adapter.new_cache(len(text) + 300), [], 0
    for n in widths:
        rows = ForwardBatch(adapter, cache)
        rows.add_line(text[done : done + n])
        out.append(rows.take())
        done += n
        cache.follow(text[:done])
    return torch.cat(out), cache


@torch.inference_mode()
def on_tree(adapter: ModelAdapter, cache: KVCache, text: list[int], n_nodes: int, rng: random.Random) -> torch.Tensor:
    """Logits of the tokens that follow what the cache holds, computed as a path among other branches, and kept."""
    first = cache.length
    rows = ForwardBatch(adapter, cache)
    path = [rows.add(text[first], -1)]
    while len(rows) < n_nodes:
        if rng.random() < 0.2 and first + len(path) < len(text):
            path.append(rows.add(text[first + len(path)], path[-1]))
        else:
            rows.add(rng.randrange(VOCAB), rng.randrange(max(0, len(rows) - 30), len(rows)))
    logits = rows.take()[path]
    cache.follow(text[: first + len(path)])
    return logits


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ["llama", "qwen3", "gemma2", "gemma3", "mistral", "gpt2", "gpt_neox", "phi3"])
def test_a_row_has_the_same_bits_in_every_pass(arch: str, dtype: torch.dtype) -> None:
    """Alone, among others, in a prefill; the cache too. Windows, soft caps and learned positions among them."""
    changes = {"n_positions": 640} if arch == "gpt2" else {}
    adapter = exact(arch, dtype, **changes)
    text = [(7 * k * k + 5) % 250 for k in range(150)]
    alone, kept = fed(adapter, text, [1] * len(text))
    for widths in ([150], [90, 1, 59], [3, 5, 2, 40, 100], [7] * 21 + [3]):
        logits, cache = fed(adapter, text, widths)
        assert as_promised(adapter, logits, alone)
        assert cache._buffer is not None
        assert kept._buffer is not None
        assert as_promised(adapter, cache._buffer[..., :150, :], kept._buffer[..., :150, :])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_path_in_a_tree_has_the_bits_of_the_line(dtype: torch.dtype) -> None:
    """Trees of all sizes at all lengths, over the borders of pieces; what is kept serves the next round."""
    adapter = exact(dtype=dtype, intermediate_size=64)
    assert direct_layers(adapter.backend.plain)
    text = [(7 * k * k + 5) % 250 for k in range(560)]
    line, _ = fed(adapter, text, [560])
    for n_nodes in (6, 40, 90, 257):
        rng = random.Random(n_nodes)
        out, cache = fed(adapter, text, [61])
        rows = [out]
        while cache.length < len(text) - 1:
            rows.append(on_tree(adapter, cache, text, n_nodes, rng))
        logits = torch.cat(rows)
        assert as_promised(adapter, logits, line[: len(logits)]), n_nodes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("name", METHODS)
def test_tokens_and_laws_are_those_of_plain_decoding(name: str, temperature: float, dtype: torch.dtype) -> None:
    """Bit for bit where that is promised, with knobs redrawn before every round."""
    want = plain(dtype, temperature)
    run = session(tried(dtype), draft(dtype), PROMPT, **_common(temperature), **METHODS[name])
    other = Decided.of(_steered(run, random.Random(name)))
    assert_decided(tried(dtype), other, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_heads_on_the_last_state_leave_no_trace(temperature: float, dtype: torch.dtype) -> None:
    """Medusa's trees, by heads as a training begins them: the embedded pair, which has the parts of all others, has
    none (`tests/bench/test_identity.py`)."""
    adapter, want = tried(dtype), plain(dtype, temperature)
    windows, nowhere = OwnWindows.behind(np.zeros((1, 8), dtype=np.int32), 2), Path()
    begun = training._begin(training.MedusaRequest(None, nowhere, nowhere, 1), adapter, windows)
    begun.network.to(dtype).requires_grad_(False)
    config = replace(begun.config, right=((0.5, 0.2), (0.4, 0.3), (0.3, 0.2), (0.2, 0.1)))
    drafter = Medusa(Heads(config, begun.network, begun.vocabulary), adapter)
    table = get_method("medusa").table
    models = SessionConfig(FactoryModels(adapter, None, 900), drafter, get_verifier("walk"))
    run = Session(models, PROMPT, table, table.knobs({"node_budget": 60, **_common(temperature)}))
    counted = MethodIdentity(name="medusa")
    other = Decided.of(_steered(run, random.Random("medusa")), counted)
    assert counted.n_widest > 8
    assert_decided(adapter, other, want)


def parts(adapter: ModelAdapter) -> int:
    """How many rows of trees are not those of the line."""
    text = [(7 * k * k + 5) % 250 for k in range(300)]
    line, _ = fed(adapter, text, [300])
    out, cache = fed(adapter, text, [61])
    rows, rng = [out], random.Random(3)
    while cache.length < len(text) - 1:
        rows.append(on_tree(adapter, cache, text, 40, rng))
    logits = torch.cat(rows)
    return int((logits != line[: len(logits)]).any(1).sum())


def test_a_cache_of_16_bits_adds_up_what_one_of_32_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Widening keeps every bit, in one go or by pieces; the control holds fewer digits than the rows were given."""
    adapter, seen = padded(tried(torch.bfloat16)), []
    real = attention.exact_attention

    def both(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any) -> torch.Tensor:
        assert key.dtype == value.dtype == torch.bfloat16
        attended = real(query, key, value, *rest)
        wide, fewer = (
            real(query, key.to(way).float(), value.to(way).float(), *rest) for way in (key.dtype, torch.float8_e4m3fn)
        )
        seen.append((torch.equal(attended, wide), torch.equal(attended, fewer)))
        return attended

    monkeypatch.setattr(packed, "exact_attention", both)
    for short in (0, 1024):
        monkeypatch.setattr(attention, "_SHORT", short)
        session(adapter, None, PROMPT, method="ngram", **_common(0.9)).generate()
    assert set(seen) == {(True, False)}


def test_the_bits_of_a_line_are_no_accident(monkeypatch: pytest.MonkeyPatch) -> None:
    """Controls: the passes there were before, and a softmax that goes by slots, give trees other bits."""
    adapter, way = padded(exact()), plan._ways
    assert parts(adapter.with_backend(adapter.backend.plain)) > 0

    def in_slot_order(visible: Any, at: Any, padding: int, width: int) -> tuple[Any, Any]:
        places, slots = way(visible, at, padding, width)
        for k, row in enumerate(visible):
            places[k], slots[k] = width - 1, width - 1
            seen = row.nonzero()[0]
            places[k, seen] = slots[k, seen] = seen
        return places, slots

    monkeypatch.setattr(plan, "_ways", in_slot_order)
    assert parts(adapter) > 0


CALLS = itertools.count()
WRONG: dict[str, Callable[[int, int], bool]] = {  # which rounds otherwise, by the rows of a pass and the slots it reads
    "by rows": lambda rows, wide: rows % 8 > 0,
    "lone rows": lambda rows, wide: rows < 2,
    "wide passes": lambda rows, wide: rows > 100,
    "wide passes, deep": lambda rows, wide: rows > 20 and wide > 1100,
    "wide passes of a short text": lambda rows, wide: rows > 30 and wide < 100,
    "now and then": lambda rows, wide: next(CALLS) % 7 < 3,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WRONG)
def test_attention_that_rounds_otherwise_is_found_out(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any depth and in any number of rows, though 16 bits round most of it away; a plan that mends it is one."""
    right, rounds_otherwise = attention.exact_attention, WRONG[name]

    def wrong(query: Any, key: Any, *rest: Any) -> Any:
        out = right(query, key, *rest)
        return out * (1 + 2.0**-23) if rounds_otherwise(query.shape[2], key.shape[2]) else out

    for module in (packed, trials):
        monkeypatch.setattr(module, "exact_attention", wrong)
    adapter = exact(dtype=dtype, max_position_embeddings=2500)
    if (widths := adapter.backend.widths) is not None:
        rows = {n + widths.padding(n) for n in range(1, widths.most + 1)}
        assert len({rounds_otherwise(n, wide) for n in rows for wide in (64, 640, 2000)}) == 1
        assert parts(adapter) == 0


def test_sums_over_keys_in_blocks_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As MKL's compatible products are: from some rows on, what lies behind 64 slots is added up by itself."""
    widths, sums = BatchWidths(8, most=64, piece=64, longest=128), torch.bmm

    def in_blocks(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        if left.shape[1] < 48:
            return sums(left, right)
        return sums(left[..., :64], right[:, :64]) + sums(left[..., 64:], right[:, 64:])

    tried = Attention(exact(), widths)
    monkeypatch.setattr(torch, "bmm", in_blocks)
    assert not tried.paths_hold()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_that_rounds_otherwise_is_found_out(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where 33 rows are multiplied at once or more, in one number of the last place: passes are kept shorter."""
    right = torch.nn.functional.linear

    def wrong(rows: torch.Tensor, *rest: Any) -> torch.Tensor:
        out = right(rows, *rest)
        if rows.shape[-2] > 32:
            out[..., -1, 0] = out[..., -1, 0].nextafter(out.new_tensor(torch.inf))
        return out

    monkeypatch.setattr(torch.nn.functional, "linear", wrong)
    if (widths := exact(dtype=dtype).backend.widths) is not None:
        assert max(n + widths.padding(n) for n in range(1, widths.most + 1)) <= 32


@pytest.mark.parametrize("failing", range(4))
def test_the_proof_names_why_rows_are_not_exact(failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed in the best of plans; the adapter is left as it was without."""
    owners = [(Products, "hold"), (Attention, "lines_hold"), (Attention, "paths_hold"), (proof, "rows_hold")]
    for k, (owner, name) in enumerate(owners):
        monkeypatch.setattr(owner, name, lambda *args, holds=k != failing: holds)
    adapter = exact()
    assert adapter.backend.widths is None
    words = ("products", "attention", "sums over keys", "whole rows")[failing]
    assert make_exact(adapter)[1].startswith(f"up to rounding ({words}")


def test_what_no_plan_is_tried_for_is_named() -> None:
    dynamic = ModelAdapter(build("llama dynamic"))
    why = "up to rounding (its rotary angles depend on the longest position of a pass)"
    assert make_exact(dynamic) == (dynamic.backend, why)


def test_a_padded_row_leaves_nothing_behind(tmp_path: Path) -> None:
    """Rows that are added to a short pass are no tokens: lengths and text of the cache are those of the rows."""
    adapter = exact()
    _, cache = fed(adapter, PROMPT, [1] * 5)
    assert cache.filled == [5] * adapter.n_layers
    assert cache.tokens == PROMPT[:5]
    assert (cache.padding, cache.reach) == (0, None)
