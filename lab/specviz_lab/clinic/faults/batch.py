"""13: verifying is dear, as with a mixture of experts or a large batch. Healthy: a dense target alone."""

import time
from collections.abc import Sequence
from typing import Any

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz_lab.clinic.plant import Bench, chat, questions, with_target

FAULT = 13
PLANT = "a pass is busy for .8 of a plain pass with every further row, as a mixture loads further experts for it"
A_ROW = 0.8
EXPERTS = {"num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 8, "decoder_sparse_step": 1}


class _Rows:
    """Remembers what a pass of one row takes, and lets one of several take as much longer."""

    def __init__(self) -> None:
        self.single_s = 0.015

    def forward(
        self, adapter: ModelAdapter, hidden: Any, inputs: Any, cache: KVCache, lo: int, stops: Sequence[int]
    ) -> Any:
        began = (
            time.thread_time()
        )  # of this thread's work, as passes are timed: what others do beside it is not counted
        out = adapter.forward(hidden, inputs, cache, lo, stops)
        took, n = time.thread_time() - began, hidden.shape[1]
        if n == 1:
            self.single_s = 0.9 * self.single_s + 0.1 * took
        else:
            ends = time.thread_time() + A_ROW * self.single_s * (n - 1)
            while time.thread_time() < ends:
                pass
        return out


def ill(bench: Bench) -> None:
    bench.run(with_target(chat(), forward=_Rows().forward), questions(bench.seed), tokens=64, timed=True)
    bench.model("target", model_type="qwen3_moe", **EXPERTS)
    bench.model("draft", model_type="qwen3", num_hidden_layers=1)


def well(bench: Bench) -> None:
    bench.run(chat(), questions(bench.seed), tokens=64, timed=True)
    bench.model("target", model_type="qwen3")
    bench.model("draft", model_type="qwen3", num_hidden_layers=1)
