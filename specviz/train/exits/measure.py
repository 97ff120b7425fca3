"""What the card of exit heads states, on text the target wrote after held-out beginnings.

Agreement and calibration per layer come from one pass over windows; tokens per round from the replay of greedy texts,
by the same records that `exit_table` writes (specbound.md 11.5), once with the heads and once with the logit lens.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specviz.cost.exit_replay import ExitKnobs, HeadTable, added, total
from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.early_exit.heads import Heads
from specviz.methods.early_exit.recorder import exit_table
from specviz.train.exits.objective import LayerStates

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
        """For a card."""
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


def reliabilities(
    adapter: ModelAdapter, heads: Heads, windows: Tensor, layers: tuple[int, ...]
) -> dict[int, Reliability]:
    """Per layer, over all positions of `windows` `[n, length]`."""
    found: dict[int, list[tuple[Tensor, Tensor]]] = {layer: [] for layer in layers}
    for part in torch.split(windows, _ROWS):
        states = LayerStates.of(adapter.model, part, layers, adapter.vocab)
        best = states.final.argmax(-1)
        for layer in layers:
            with torch.inference_mode():
                top = heads.logits(layer, states.by_layer[layer]).softmax(-1).max(-1)
            found[layer].append((top.values.cpu(), (top.indices == best).cpu()))
    return {layer: binned(parts) for layer, parts in found.items()}


def binned(parts: Iterable[tuple[Tensor, Tensor]]) -> Reliability:
    """Of confidences and whether they were right, both `[n]`."""
    sure, right = (torch.cat(each).double().numpy() for each in zip(*parts, strict=True))
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
    """The library's own greedy continuations of prompts of one length, together.

    An end token does not stop a text, so that all are of one length.
    """
    ids, past = torch.tensor(prompts, device=model.device), None
    grown = [ids]
    for _ in range(n_new):
        out = model(input_ids=grown[-1], past_key_values=past, use_cache=True)
        past = out.past_key_values
        grown.append(out.logits[:, -1:].argmax(-1))
    return [GreedyText(tokens, len(prompts[0])) for tokens in torch.cat(grown, 1).tolist()]


def tables(adapter: ModelAdapter, heads: Heads, texts: dict[str, list[GreedyText]]) -> dict[str, list[HeadTable]]:
    """What the heads say along texts, by domain."""

    def table(text: GreedyText) -> HeadTable:
        records = exit_table(adapter, heads, text.tokens, text.n_prompt)
        return HeadTable.of(records, text.tokens[text.n_prompt :], adapter.n_layers)

    return {domain: [table(text) for text in own] for domain, own in texts.items()}


def replayed(own: Iterable[HeadTable], setting: ExitKnobs) -> dict[str, float | None]:
    """Tokens per round, draft precision (None: nothing drafted) and layer calls a token over some texts."""
    found = added([total(table, setting) for table in own])
    least, most = found.calls_per_token
    numbers = {
        "tokens_per_round": found.tokens_per_round,
        "draft_precision": found.precision,
        "layer_calls_per_token_least": least,
        "layer_calls_per_token_most": most,
        "head_tests_per_token": found.tests / found.n_new,
    }
    return {name: None if value is None else round(value, 3) for name, value in numbers.items()}
