"""The whole of `specviz train skip-set`: prompts, what sublayers cost and harm, the search, the set, its card.

A set is judged by decoding sample prompts with it: the rounds it takes, priced by what passes and drafts of every kind
were measured to cost. So trials can be compared while the machine is busy, and a search can be gone on with.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.self_skip.model import SkipSetConfig
from specviz.methods.self_skip.spec import SkipSet
from specviz.methods.trained.parts import fingerprint
from specviz.train import recipe
from specviz.train.common.console import Console
from specviz.train.common.files import keep, kept
from specviz.train.common.optim import Budget
from specviz.train.common.tokens import WindowFeed, beginnings
from specviz.train.recipe import TimedRequest
from specviz.train.self_skip import card
from specviz.train.self_skip.costs import SkipSetPricer, SublayerCosts, harm, measure
from specviz.train.self_skip.search import Trials, ranked, search

N_PROMPTS, PROMPT, N_NEW, FINALISTS = 2, 48, 32, 4  # prompts of each domain


@dataclass(frozen=True, slots=True)
class SkipSetRequest(TimedRequest):
    """What the command line asks for."""

    command_name: ClassVar[str] = "skip-set"

    @property
    def budget(self) -> Budget:
        """The time for trials."""
        return self.share(1)


def train_skip_set(request: SkipSetRequest, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write set and card; return the card's numbers."""
    begun = recipe.begin(request, console)
    target, source = begun.target, begun.source
    costs = _costs(request.work / "costs.json", target)
    prompts = beginnings(source.train, 2 * N_PROMPTS, PROMPT)
    near = SkipSetPricer(target, costs, [ids for own in prompts.values() for ids in own[::2]])
    windows = WindowFeed(source.train).draw((16, 127), (request.seed, 0, 2))
    order = ranked(harm(target, windows), costs.saves)
    trials = Trials.at(request.work / "trials.json")
    _search(request, near, order, trials, console)
    fresh = SkipSetPricer(target, costs, [ids for own in prompts.values() for ids in own[1::2]])
    sets = {name: SkipSet.parse([name]) or SkipSet() for name in trials.best(FINALISTS)}
    named = {name: (trials.cost[name] + fresh.ns_per_token(skips, N_NEW)) / 2 for name, skips in sets.items()}
    best = sets[min(named, key=lambda name: (named[name], name))]
    attention, mlp = tuple(sorted(best.attention)), tuple(sorted(best.mlp))
    config = SkipSetConfig(fingerprint(target), target.name, target.n_layers, attention, mlp)
    console.say(f"leaving out {best or 'nothing'}; measuring")
    held_out = beginnings(source.held_out, 3, PROMPT)
    pricers = {domain: SkipSetPricer(target, costs, own) for domain, own in held_out.items()}
    share = costs.step(best) / costs.whole
    return card.write(request.out, config, pricers, share, request.command, len(trials.cost), request.minutes)


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
            if name not in trials.cost:
                began = time.monotonic()
                trials.cost[name] = pricer.ns_per_token(skips, N_NEW)
                trials.seconds += (took := time.monotonic() - began)
                trials.save()
                best = trials.cost[trials.best()[0]]
                report(request.budget.progress(trials.seconds, len(trials.cost)), best / 1e6, 1 / took)
            return trials.cost[name]

        search(order, cost, lambda: request.budget.progress(trials.seconds, len(trials.cost)) < 1.0, request.seed)
