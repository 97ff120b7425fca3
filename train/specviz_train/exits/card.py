"""The card of exit heads: what they were made from, what they measure per layer, how to make them again."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specviz.cost.exit_replay import ExitKnobs, HeadTable, added, advised, total
from specviz.engine.model.adapter import ModelAdapter
from specviz.methods import get_method
from specviz.methods.early_exit import spec
from specviz.methods.early_exit.heads import ExitHeadConfig, Heads, cost_in_layers
from specviz.methods.early_exit.recorder import exit_table
from specviz_train.cards import page as cards
from specviz_train.exits.objective import LayerStates

DEPTH = 0.5  # the share of the layers that specbound's d_max stands for where nothing is advised
TablesByText = dict[str, list[HeadTable]]  # what heads say of greedy texts, by domain


def write(
    folder: Path,
    config: ExitHeadConfig,
    adapter: ModelAdapter,
    by_name: dict[str, tuple[Heads, TablesByText]],
    windows: torch.Tensor,
    command: str,
    spent: dict[str, Any],
) -> dict[str, Any]:
    """Measure on `windows` `[n, length]` and write the card. `by_name`: the `heads` as loaded again, and the `lens`."""
    heads = {
        (name, layer): partial(head_set.logits, layer)
        for name, (head_set, _) in by_name.items()
        for layer in config.layers
    }
    measured = reliabilities(adapter, heads, windows)
    setting = default_setting(config)
    numbers = {
        "target": config.target_name,
        "kind": config.kind,
        "rank": config.rank,
        "shortlist": config.shortlist,
        "labels": config.labels,
        "c_h": round(cost_in_layers(adapter, by_name["heads"][0]), 3),
        "c_h_lens": round(cost_in_layers(adapter, by_name["lens"][0]), 3),
        "layers": {
            str(layer): {name: measured[name, layer].as_dict() for name in ("heads", "lens")} for layer in config.layers
        },
        "replay": {
            domain: {name: replayed(tables[domain], setting) for name, (_, tables) in by_name.items()}
            for domain in by_name["heads"][1]
        },
        "advised": list(config.advised),
        "n_layers": adapter.n_layers,
        "command": command,
        "training": spent,
        "versions": cards.versions(),
    }
    panels = [
        (title, [cards.ReliabilityCurve(f"layer {layer}", measured[name, layer].points()) for layer in config.layers])
        for title, name in (("trained heads", "heads"), ("logit lens", "lens"))
    ]
    cards.write(folder, "exit-heads", numbers, page_facts(numbers), reliability=cards.reliability_plot(panels))
    return numbers


def default_setting(config: ExitHeadConfig) -> ExitKnobs:
    """Method `specbound` as it stands without any knob."""
    knobs = get_method("specbound").table.knobs().values
    limits = spec.read(knobs, config.n_layers, DEPTH, config.advised)
    return ExitKnobs(limits.alpha, limits.tau, limits.d_max, limits.w_max, limits.asked)


def advice(config: ExitHeadConfig, costs: tuple[float, float], tables_by_text: TablesByText) -> tuple[int, ...]:
    """The layers worth testing at the default threshold: those that make a token of these texts cheapest.

    `costs`: of a test and of the final head, in layers.

    One at least, even where plain decoding is cheaper: without advice a method tests layers by their depth alone, and
    those may have no head.
    """
    tables = [table for own in tables_by_text.values() for table in own]
    return advised(tables, default_setting(config), costs, least=1)


def page_facts(numbers: dict[str, Any]) -> dict[str, Any]:
    """What the page says besides its numbers."""
    shape = numbers["kind"] + (f", rank {numbers['rank']}" if numbers["rank"] else "")
    shape += f", shortlist of {numbers['shortlist']}" if numbers["shortlist"] else ""
    layers = ", ".join(map(str, numbers["advised"]))
    return {"shape": shape, "sure": SURE, "tested": f"layers {layers}" if layers else "its usual layers"}


N_BINS = 15
SURE = 0.75  # the default threshold, at which shares and precisions are stated
_ROWS = 8


@dataclass(frozen=True, slots=True)
class Reliability:
    """How sure a head is against how often it is right: sums by bin of confidence."""

    count: NDArray[np.float64]
    sure: NDArray[np.float64]
    right: NDArray[np.float64]
    n_sure: int
    n_sure_right: int

    @property
    def agreement(self) -> float:
        """Share of positions where the head's best token is the target's."""
        return float(self.right.sum() / self.count.sum())

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of confidence from agreement, by bin."""
        return float(np.abs(self.sure - self.right).sum() / self.count.sum())

    @property
    def share_sure(self) -> float:
        """Share of positions at least `SURE`."""
        return self.n_sure / float(self.count.sum())

    @property
    def precision(self) -> float | None:
        """Of those, the share that is right."""
        return self.n_sure_right / self.n_sure if self.n_sure else None

    def as_dict(self) -> dict[str, float | None]:
        return {
            "agreement": round(self.agreement, 4),
            "share_sure": round(self.share_sure, 4),
            "precision": None if self.precision is None else round(self.precision, 4),
            "calibration_error": round(self.error, 4),
        }

    def points(self, least: int = 20) -> list[tuple[float, float]]:
        """(mean confidence, agreement) of bins with at least so many positions."""
        full = self.count >= least
        return list(zip(self.sure[full] / self.count[full], self.right[full] / self.count[full], strict=True))


Says = Callable[[Tensor], Tensor]  # logits `[n, V]` of the states `[n, width]` after a layer, rows in order


@torch.inference_mode()
def reliabilities(
    adapter: ModelAdapter, heads: Mapping[tuple[str, int], Says], windows: Tensor
) -> dict[tuple[str, int], Reliability]:
    """Of heads by name and layer, over all positions of `windows` `[n, length]`."""
    layers = tuple(sorted({layer for _, layer in heads}))
    answers: dict[tuple[str, int], list[tuple[Tensor, Tensor]]] = {head: [] for head in heads}
    for part in torch.split(windows, _ROWS):
        states = LayerStates.of(adapter.model, part, layers, adapter.vocab)
        best = states.final.argmax(-1)
        for head, says in heads.items():
            top = says(states.by_layer[head[1]]).softmax(-1).max(-1)
            answers[head].append((top.values.cpu(), (top.indices == best).cpu()))
    return {head: binned(parts) for head, parts in answers.items()}


def binned(parts: Iterable[tuple[Tensor, Tensor]]) -> Reliability:
    """Of confidences and whether they were right, both `[n]`."""
    sure, right = (torch.cat(column).double().numpy() for column in zip(*parts, strict=True))
    at = np.minimum((sure * N_BINS).astype(int), N_BINS - 1)
    count, sums, hits = (np.bincount(at, weights, N_BINS).astype(float) for weights in (None, sure, right))
    over = sure >= SURE
    return Reliability(count, sums, hits, int(over.sum()), int(right[over].sum()))


@dataclass(frozen=True, slots=True)
class GreedyText:
    """A greedy text of the target: prompt and new tokens."""

    tokens: list[int]
    n_prompt: int


@torch.no_grad()
def greedy_texts(model: Any, prompts: list[list[int]], n_new: int) -> list[GreedyText]:
    """The library's own greedy continuations of prompts, those of one length together.

    An end token does not stop a text, so that all are as long.
    """
    by_length: dict[int, list[list[int]]] = {}
    for prompt in prompts:
        by_length.setdefault(len(prompt), []).append(prompt)
    texts = []
    for n_prompt, same in by_length.items():
        grown, past = [torch.tensor(same, device=model.device)], None
        for _ in range(n_new):
            out = model(input_ids=grown[-1], past_key_values=past, use_cache=True)
            past = out.past_key_values
            grown.append(out.logits[:, -1:].argmax(-1))
        texts += [GreedyText(tokens, n_prompt) for tokens in torch.cat(grown, 1).tolist()]
    return texts


def tables(adapter: ModelAdapter, heads: Heads, texts: dict[str, list[GreedyText]]) -> dict[str, list[HeadTable]]:
    """What the heads say along texts, by domain."""

    def table(text: GreedyText) -> HeadTable:
        records = exit_table(adapter, heads, text.tokens, text.n_prompt)
        return HeadTable.of(records, text.tokens[text.n_prompt :], adapter.n_layers)

    return {domain: [table(text) for text in own] for domain, own in texts.items()}


def replayed(own: Iterable[HeadTable], setting: ExitKnobs) -> dict[str, float | None]:
    """Tokens per round, draft precision (None: nothing drafted) and layer calls a token over some texts."""
    totals = added([total(table, setting) for table in own])
    least, most = totals.calls_per_token
    numbers = {
        "tokens_per_round": totals.tokens_per_round,
        "draft_precision": totals.precision,
        "layer_calls_per_token_least": least,
        "layer_calls_per_token_most": most,
        "head_tests_per_token": totals.tests / totals.n_new,
    }
    return {name: None if value is None else round(value, 3) for name, value in numbers.items()}
