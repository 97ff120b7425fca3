"""13: verifying is dear, as with a mixture of experts or a large batch. Healthy: a dense target alone."""

import time
from collections.abc import Sequence
from typing import Any

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz_lab.clinic.plant import Bench, small, texts, with_target

FAULT = 13
SYMPTOM = "1.8x with one request, .9x with 32."
PLANT = "a pass waits for .8 of a plain pass with every further row, as a mixture loads further experts for it"
A_ROW = 0.8

DENSE = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "intermediate_size": 6144,
    "vocab_size": 151936,
}
EXPERTS = {
    **DENSE,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
}


class _Rows:
    """Remembers what a pass of one row takes, and lets one of several take as much longer."""

    def __init__(self) -> None:
        self.single_s = 0.001

    def forward(
        self, adapter: ModelAdapter, hidden: Any, inputs: Any, cache: KVCache, lo: int, stops: Sequence[int]
    ) -> Any:
        began = time.perf_counter()
        out = adapter.forward(hidden, inputs, cache, lo, stops)
        took, n = time.perf_counter() - began, hidden.shape[1]
        if n == 1:
            self.single_s = 0.9 * self.single_s + 0.1 * took
        else:
            time.sleep(min(A_ROW * self.single_s * (n - 1), 0.1))
        return out


def ill(bench: Bench) -> None:
    bench.run(with_target(small(), forward=_Rows().forward), texts(bench.seed), tokens=80)
    bench.files("target", EXPERTS)


def well(bench: Bench) -> None:
    bench.run(small(), texts(bench.seed), tokens=80)
    bench.files("target", DENSE)
