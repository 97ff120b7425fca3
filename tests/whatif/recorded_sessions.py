"""Sessions over small models, recorded and folded: what is decided again, and what a run of its own would have done."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.record.probe import Probe
from specviz.events import Event, Level
from specviz.methods import get_method
from specviz.runlog.fold import Run
from specviz.verifiers import get_verifier
from support.driver import session
from support.models import blurred, build
from support.traces import make_header, of_kind

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
LAYOUTS: dict[str, dict[str, Any]] = {
    "chain": {"gamma": 4},
    "chains": {"shape": "chains", "gamma": 3, "candidates": 3},
    "distinct chains": {"shape": "chains", "gamma": 3, "candidates": 3, "replacement": False},
    "best chains": {"shape": "chains", "gamma": 3, "draft_mode": "argmax"},
    "caterpillar": {"shape": "caterpillar", "gamma": 3, "candidates": 2},
    "distinct caterpillar": {"shape": "caterpillar", "gamma": 3, "candidates": 3, "replacement": False},
    "drawn tree": {"shape": "drawn_tree", "d_max": 3, "node_budget": 11},
    "distinct tree": {"shape": "drawn_tree", "d_max": 3, "candidates": 2, "replacement": False, "k_max": 3},
    "tree": {"shape": "tree", "d_max": 3, "w_max": 2, "k_max": 3},
}


class Numbers:
    """Text of tokens: their numbers."""

    def stream(self, prompt: Sequence[int]) -> "Numbers":
        return self

    def push(self, token: int) -> str:
        return f" {token}"

    def piece(self, token: int) -> tuple[str, str | None]:
        return self.push(token), None


@cache
def models(blur: float = 0.3) -> tuple[ModelAdapter, ModelAdapter]:
    """A target and a noisy copy of it, in float64."""
    target = build("llama", seed=1, dtype=torch.float64)
    return ModelAdapter(target), ModelAdapter(blurred(build("llama", seed=1, dtype=torch.float64), blur))


def run_of(verifier: str, level: Level = "full", topk: int = 8, n: int = 8, blur: float = 0.3, **knobs: Any) -> Run:
    """A recorded run of method draft."""
    events: list[Event] = []
    texts: Any = Numbers()
    sink = Probe(events.append, texts, level, topk)
    chosen = {"temperature": 0.9, "max_new_tokens": n, **knobs}
    started = session(*models(blur), PROMPT, verifier=verifier, sink=sink, texts=texts, **chosen)
    started.generate()
    header = make_header()
    header.verifier, header.level, header.topk = verifier, level, topk
    header.keeps_tokens = get_verifier(verifier).keeps_tokens
    header.knobs = dict(started.knobs.values)
    header.sampling = {"temperature": chosen["temperature"]}
    header.knob_specs = list(get_method("draft").table.specs)
    return Run().extend([of_kind(header, "draft"), *events])
