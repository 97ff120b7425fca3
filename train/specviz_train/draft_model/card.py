"""The card of a draft model: what it costs beside its target, how much of its drafts is kept, how to make it again."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.model.rows import ForwardBatch, fill
from specviz.engine.run.local import make_drafter
from specviz.methods import get_method
from specviz_train.cards import page as cards
from specviz_train.common.console import Console
from specviz_train.common.decoding import Decoded, decode

METHOD = "sps"
GAMMA = 4
N_PROMPTS, PROMPT, N_NEW = 4, 48, 96
N_TURNS = 5  # of timing both models
MINUTES_A_PROMPT = 10  # measuring should not outlast training by far


def write(
    folder: Path,
    target: ModelAdapter,
    draft: ModelAdapter,
    prompts: Mapping[str, list[list[int]]],
    training: Mapping[str, Any],
    console: Console,
) -> dict[str, Any]:
    """Measure the draft model as loaded again; write its card. `training`: command, settings and training."""
    speed = measure_speed(target, draft)
    decoding = {}
    with console.ticks("decoding", sum(map(len, prompts.values())), "texts") as tick:
        for domain, own in prompts.items():
            decoding[domain] = drafted(target, draft, own)
            tick(len(own))
    numbers = {
        "target": target.name,
        "layers": draft.n_layers,
        "width": int(draft.head.weight.shape[1]),
        "n_params": sum(parameter.numel() for parameter in draft.model.parameters()),
        "target_params": sum(parameter.numel() for parameter in target.model.parameters()),
        "gamma": GAMMA,
        "speed_ratio": round(speed.ratio, 2),
        "target_step_ms": round(speed.target_ms, 2),
        "draft_step_ms": round(speed.draft_ms, 2),
        "decoding": decoding,
        **training,
        "versions": cards.versions(),
        "threads": torch.get_num_threads(),
    }
    picture = curve(numbers["training"]["curve"])
    cards.write(folder, "draft", numbers, page_facts(numbers), **({"curve": picture} if picture else {}))
    return numbers


def page_facts(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page says besides its numbers."""
    settings = numbers["settings"]
    ends = "embedding narrowed with it" if settings["width"] else "between the embedding and the head of the target"
    corrected = settings["rank"] and not settings["width"]
    return {
        "rows": [*numbers["decoding"].items()],
        "ends": ends,
        "learnt": f"a correction of rank {settings['rank']} for every weight" if corrected else "all of their weights",
        "pictured": bool(numbers["training"]["curve"]),
    }


def curve(points: list[list[float]]) -> str:
    """Divergence from the target over steps; empty without a curve."""
    if not points:
        return ""
    line = cards.Line("on what the target wrote", [(steps, loss) for steps, loss, *_ in points])
    return cards.loss_plot("Divergence while training", [line], cards.Axes("steps; nats", 0.5, 10.0))


@torch.inference_mode()
def step_ms(model: ModelAdapter, context: int = 128, n_steps: int = 24) -> float:
    """Median time of one decoding step after `context` tokens, as drafting takes it; the first steps left out."""
    cache, tokens, times = model.new_cache(context + n_steps + 1), [1] * context, []
    fill(model, cache, tokens)
    for _ in range(n_steps):
        tokens.append(1)
        missing = cache.follow(tokens)
        rows = ForwardBatch(model, cache)
        rows.add_line(missing)
        began = time.perf_counter()
        rows.take()
        times.append((time.perf_counter() - began) * 1e3)
    return median(times[n_steps // 6 :])


@dataclass(frozen=True, slots=True)
class PairSpeed:
    """Median milliseconds of a one-token step, one thread."""

    target_ms: float
    draft_ms: float

    @property
    def ratio(self) -> float:
        """The c of the speed formulas: how many draft steps fit in one target step."""
        return self.target_ms / self.draft_ms


def measure_speed(target: ModelAdapter, draft: ModelAdapter) -> PairSpeed:
    """Both models in turns, the best median of each: a busy neighbour should not decide the ratio."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    turns = [(step_ms(target), step_ms(draft)) for _ in range(N_TURNS)]
    torch.set_num_threads(n_threads)
    return PairSpeed(*map(min, zip(*turns, strict=True)))


def drafted(target: ModelAdapter, draft: ModelAdapter, prompts: list[list[int]]) -> dict[str, Any]:
    """What chains of `GAMMA` tokens bring behind prompts at temperature 0: shares kept, and tokens a round."""
    method = get_method(METHOD)
    knobs = method.table.knobs({"gamma": GAMMA, "max_new_tokens": N_NEW})

    def make(models: FactoryModels) -> Any:
        return make_drafter(method, models, knobs)

    decoded: Decoded = decode(target, make, METHOD, prompts, N_NEW, draft=draft, gamma=GAMMA)
    return {
        "kept": round(decoded.accepted / max(1, decoded.drafted), 4),
        "tokens_per_round": round(decoded.tokens_per_round, 3),
        "by_position": [round(share, 4) for share in decoded.by_position()],
    }
