"""The whole of `specviz train skip-set`: prompts, what sublayers cost and harm, the search, the set, its card.

A set is judged by decoding sample prompts with it: the rounds it takes, priced by what passes and drafts of every kind
were measured to cost. So trials can be compared while the machine is busy, and a search can be gone on with.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.self_skip.model import KIND, SkipSetConfig
from specviz.methods.self_skip.spec import SkipSet
from specviz.methods.trained.parts import fingerprint
from specviz_train import recipe
from specviz_train.cards import page as cards
from specviz_train.common.console import Console
from specviz_train.common.decoding import Decoded, Prompts, decode, gain
from specviz_train.common.files import keep, kept
from specviz_train.common.optim import Budget
from specviz_train.common.own_text import OwnTextConfig
from specviz_train.recipe import TimedRequest
from specviz_train.self_skip.search import SkipSetPricer, SublayerCosts, Trials, harm, measure, ranked, search

N_PROMPTS, PROMPT, N_NEW, FINALISTS = 2, 48, 32, 4  # prompts of each domain
HARMED = OwnTextConfig(16, 32, 128)  # what harm is judged on


@dataclass(frozen=True, slots=True)
class SkipSetRequest(TimedRequest):
    """What the command line asks for. `least`: so many sublayers are left out, even where that is not the cheapest;
    `yields`: tokens a round, even where fewer are cheaper.
    """

    command_name: ClassVar[str] = "skip-set"

    least: int = 0
    yields: float = 0.0

    @property
    def budget(self) -> Budget:
        return self.share(1)


def train_skip_set(request: SkipSetRequest, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write set and card; return the card's numbers."""
    begun = recipe.begin(request, console)
    target, source = begun.target, begun.source
    if request.least > target.n_layers:
        raise SpecvizError(f"--least {request.least}: more than half of the target's {2 * target.n_layers} sublayers")
    costs = _costs(request.work / "costs.json", target)
    prompts = [ids for own in source.prompts("train", 2 * N_PROMPTS, PROMPT).values() for ids in own]
    near = SkipSetPricer(target, costs, prompts[::2], request.yields)
    windows = torch.from_numpy(begun.writer().batch((request.seed, 0), HARMED).ids).long()
    order = ranked(harm(target, windows), costs.saves)
    trials = Trials.at(request.work / "trials.json")
    _search(request, near, order, trials, console)
    fresh = SkipSetPricer(target, costs, prompts[1::2], request.yields)
    sets = {name: SkipSet.parse([name]) or SkipSet() for name in trials.best(FINALISTS)}
    named = {name: (trials.cost[name] + fresh.ns_per_token(skips, N_NEW)) / 2 for name, skips in sets.items()}
    best = sets[min(named, key=lambda name: (named[name], name))]
    attention, mlp = tuple(sorted(best.attention)), tuple(sorted(best.mlp))
    config = SkipSetConfig(fingerprint(target), target.name, target.n_layers, attention, mlp)
    console.say(f"leaving out {best or 'nothing'}; measuring")
    held_out = source.prompts("held_out", 3, PROMPT)
    pricers = {domain: SkipSetPricer(target, costs, own) for domain, own in held_out.items()}
    share = costs.step(best) / costs.whole
    return write_card(request.out, config, pricers, share, request.command, len(trials.cost), request.minutes)


def _costs(path: Path, target: ModelAdapter) -> SublayerCosts:
    """Costs are measured once: a search that goes on must price as it did."""
    try:
        if not path.exists():
            keep(path, measure(target).as_dict())
        return SublayerCosts.of(kept(path))
    except msgspec.MsgspecError as error:
        raise SpecvizError(f"{path} holds no measured costs; remove it, or give another --work folder") from error


def _search(request: SkipSetRequest, pricer: SkipSetPricer, order: list[Any], trials: Trials, console: Console) -> None:
    with console.bar("trials", request.budget) as report, torch.inference_mode():

        def cost(skips: SkipSet) -> float:
            name = str(skips)
            if len(skips.attention) + len(skips.mlp) < request.least:
                return math.inf
            if name not in trials.cost:
                began = time.monotonic()
                trials.cost[name] = pricer.ns_per_token(skips, N_NEW)
                trials.seconds += (took := time.monotonic() - began)
                trials.save()
                best = trials.cost[trials.best()[0]]
                report(request.budget.progress(trials.seconds, len(trials.cost)), best / 1e6, 1 / took)
            return trials.cost[name]

        search(order, cost, lambda: request.budget.progress(trials.seconds, len(trials.cost)) < 1.0, request.seed)


MEASURED_NEW = 64


def write_card(
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
    cards.write(folder, "skip-set", numbers, page_facts(numbers))
    return numbers


def page_facts(numbers: dict[str, Any]) -> dict[str, Any]:
    """What the page says besides its numbers."""
    return {"sublayers": numbers["left_out"] or "none"}


def _decoding(judge: SkipSetPricer, skips: SkipSet, usual: SkipSet) -> dict[str, Any]:
    own, ruled = (judge.decoded(skip_set, MEASURED_NEW) for skip_set in (skips, usual))

    def in_plain(prompts: Prompts) -> Decoded:
        return decode(judge.target, lambda models: None, "ar", prompts, MEASURED_NEW, judge.clock(skips))

    plain = in_plain(judge.prompts)

    def priced(decoded: Decoded) -> float:
        return round(plain.predicted_ns / plain.tokens / (decoded.predicted_ns / decoded.tokens), 3)

    return {
        "tokens_per_round": round(own.tokens_per_round, 3),
        "drafts_per_round": round(own.drafted / own.rounds, 3),
        "drafts_kept": round(own.accepted / max(1, own.drafted), 4),
        "speed": round(gain(in_plain, lambda some: judge.decoded(skips, MEASURED_NEW, some), judge.prompts), 3),
        "speed_predicted": priced(own),
        "speed_predicted_by_rule": priced(ruled),
        "tokens_per_round_by_rule": round(ruled.tokens_per_round, 3),
    }
