"""The whole of `specviz train skip-set`: prompts, what sublayers cost and harm, the search, the set, its card.

A set is judged by decoding sample prompts with it: the rounds it takes, priced by what passes and drafts of every kind
were measured to cost. So trials can be compared while the machine is busy, and a search can be gone on with.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import torch

from specviz.cost.ledger import Clock
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.self_skip import drafter
from specviz.methods.self_skip.files import Config
from specviz.methods.self_skip.model import SkippedModel
from specviz.methods.self_skip.spec import SkipSet
from specviz.methods.trained.parts import fingerprint
from specviz.train import recipe
from specviz.train.common import head_text
from specviz.train.common.job import Console
from specviz.train.common.optim import Budget
from specviz.train.common.own_text import Decoded, Prompts, decode
from specviz.train.exits import card as head_card
from specviz.train.recipe import Timed
from specviz.train.self_skip import card as skip_card
from specviz.train.self_skip.costs import Costs, harm, measure
from specviz.train.self_skip.search import Trials, ranked, search

N_PROMPTS, PROMPT, N_NEW, FINALISTS = 2, 48, 32, 4  # prompts of each domain


@dataclass(frozen=True, slots=True)
class Request(Timed):
    """What the command line asks for."""

    command_name: ClassVar[str] = "skip-set"

    @property
    def budget(self) -> Budget:
        """The time for trials."""
        return self.share(1)


@dataclass(slots=True)
class Judge:
    """Prices a set by decoding prompts with it."""

    target: ModelAdapter
    costs: Costs
    prompts: list[list[int]]

    def decoded(self, skips: SkipSet, n_new: int, prompts: Prompts | None = None) -> Decoded:
        """What decoding takes with a set; default knobs."""
        model, some = SkippedModel(self.target, skips), prompts or self.prompts
        return decode(
            self.target, lambda m: drafter.over(m, model, "argmax"), "draft_and_verify", some, n_new, self.clock(skips)
        )  # fmt: skip

    def clock(self, skips: SkipSet) -> Clock:
        """Prices of the target's passes, and of a draft with a set where a head test stands."""
        return replace(self.costs.clock, test_ns=self.costs.step(skips))

    def __call__(self, skips: SkipSet) -> float:
        """Nanoseconds a token."""
        found = self.decoded(skips, N_NEW)
        return found.predicted_ns / found.tokens


def train_skip_set(request: Request, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write set and card; return the card's numbers."""
    begun = recipe.begin(request, console)
    target, source = begun.target, begun.source
    costs = _once(request.work / "costs.json", lambda: measure(target))
    prompts = head_card.prompts(source.train, 2 * N_PROMPTS, PROMPT)
    near = Judge(target, costs, [ids for own in prompts.values() for ids in own[::2]])
    windows = head_text.beginnings(source.train).draw((16, 127), (request.seed, 0, 2))
    order = ranked(harm(target, windows), costs.saves)
    trials = Trials.at(request.work / "trials.json")
    _search(request, near, order, trials, console)
    fresh = Judge(target, costs, [ids for own in prompts.values() for ids in own[1::2]])
    named = {name: (trials.cost[name] + fresh(_parsed(name))) / 2 for name in trials.best(FINALISTS)}
    best = _parsed(min(named, key=lambda name: (named[name], name)))
    config = Config(fingerprint(target), target.name, target.n_layers, tuple(sorted(best.attention)),
                    tuple(sorted(best.mlp)))  # fmt: skip
    console.say(f"leaving out {best or 'nothing'}; measuring")
    held_out = head_card.prompts(source.held_out, 3, PROMPT)
    made = skip_card.Made(config, request.command, len(trials.cost), trials.seconds, request.minutes, costs)
    judges = {domain: Judge(target, costs, own) for domain, own in held_out.items()}
    return skip_card.write(request.out, made, judges)


def _parsed(name: str) -> SkipSet:
    return SkipSet.parse([name]) or SkipSet()


def _once(path: Path, make: Any) -> Costs:
    """Costs are measured once: a search that goes on must price as it did."""
    if not path.exists():
        recipe.keep(path, make().as_dict())
    try:
        return Costs.of(recipe.kept(path))
    except msgspec.MsgspecError as error:
        raise SpecvizError(f"{path} holds no measured costs; remove it, or give another --work folder") from error


def _search(request: Request, judge: Judge, order: list[Any], trials: Trials, console: Console) -> None:
    with console.bar("trials", request.budget) as report, torch.inference_mode():

        def cost(skips: SkipSet) -> float:
            name = str(skips)
            if name not in trials.cost:
                began = time.monotonic()
                trials.cost[name] = judge(skips)
                trials.seconds += (took := time.monotonic() - began)
                trials.save()
                best = trials.cost[trials.best()[0]]
                report(request.budget.progress(trials.seconds, len(trials.cost)), best / 1e6, 1 / took)
            return trials.cost[name]

        search(order, cost, lambda: request.budget.progress(trials.seconds, len(trials.cost)) < 1.0, request.seed)
