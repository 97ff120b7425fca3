"""The card of a skip set: what is left out, how the search went, what decoding gains on held-out prompts."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from specviz.methods.self_skip.model import KIND, SkipSetConfig
from specviz.methods.self_skip.spec import SkipSet
from specviz.train.cards import page as cards
from specviz.train.common.decoding import Decoded, Prompts, decode, gain
from specviz.train.self_skip.costs import SkipSetPricer

N_NEW = 64


def write(
    folder: Path,
    config: SkipSetConfig,
    decoders: Mapping[str, SkipSetPricer],
    draft_cost: float,
    command: str,
    n_tried: int,
    minutes: float,
) -> dict[str, Any]:
    """Measure the set beside the one chosen by rule and plain decoding; write it, its card and its numbers.

    `draft_cost`: of a draft with the set, a share of a whole step.
    """
    skips, usual = config.skips, SkipSet.usual(config.n_layers)
    numbers = {
        "target": config.target_name,
        "n_layers": config.n_layers,
        "left_out": str(skips),
        "by_rule": str(usual),
        "tried": n_tried,
        "decoding": {domain: _decoding(decoder, skips, usual) for domain, decoder in decoders.items()},
        "draft_cost": round(draft_cost, 3),
        "command": command,
        "minutes": minutes,
        "versions": cards.versions(),
        "threads": torch.get_num_threads(),
    }
    KIND.save(folder, replace(config, measured={"tried": n_tried, "decoding": numbers["decoding"]}))
    cards.write(folder, "skip-set", numbers, said(numbers))
    return numbers


def said(numbers: dict[str, Any]) -> dict[str, Any]:
    """What the page says besides its numbers."""
    return {"sublayers": numbers["left_out"] or "none"}


def _decoding(judge: SkipSetPricer, skips: SkipSet, usual: SkipSet) -> dict[str, Any]:
    own, ruled = (judge.decoded(each, N_NEW) for each in (skips, usual))

    def in_plain(prompts: Prompts) -> Decoded:
        return decode(judge.target, lambda models: None, "ar", prompts, N_NEW, judge.clock(skips))

    plain = in_plain(judge.prompts)

    def priced(found: Decoded) -> float:
        return round(plain.predicted_ns / plain.tokens / (found.predicted_ns / found.tokens), 3)

    return {
        "tokens_per_round": round(own.tokens_per_round, 3),
        "drafts_per_round": round(own.drafted / own.rounds, 3),
        "drafts_kept": round(own.accepted / max(1, own.drafted), 4),
        "speed": round(gain(in_plain, lambda some: judge.decoded(skips, N_NEW, some), judge.prompts), 3),
        "speed_predicted": priced(own),
        "speed_predicted_by_rule": priced(ruled),
        "tokens_per_round_by_rule": round(ruled.tokens_per_round, 3),
    }
