"""The cards of block drafters, EAGLE-3 drafters and Medusa heads: what they know, what decoding gains."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import ModelError
from specviz.methods import get_method
from specviz.methods.eagle3 import drafter as eagle_files
from specviz.methods.eagle3.drafter import Eagle
from specviz.methods.medusa import drafter as medusa_files
from specviz.methods.medusa.drafter import Medusa
from specviz.methods.specblock import network as block_files
from specviz.methods.specblock.drafter import SpecBlock
from specviz.methods.specblock.losses import LossConfig, SlotCounts
from specviz.methods.trained.parts import DrafterKind, Trained, fingerprint, read_config
from specviz.methods.trained.ranks import N_BUCKETS
from specviz_train.cards import page as cards
from specviz_train.common.console import Console
from specviz_train.common.decoding import Decoded, Prompts, decode, n_texts
from specviz_train.common.own_text import OwnWindows
from specviz_train.common.training_text import TrainingText
from specviz_train.trees.losses import losses_of
from specviz_train.trees.objective import read_target

N_PROMPTS, PROMPT, N_NEW = 8, 48, 64
MINUTES_A_PROMPT = 5  # short trainings are measured on fewer texts: measuring should not outlast them by far


@dataclass(frozen=True, slots=True)
class HeldOutWindows:
    """What is measured on: windows the target wrote behind held-out beginnings, and held-out text."""

    windows: OwnWindows
    source: TrainingText


@dataclass(frozen=True, slots=True)
class TreeCard:
    """What differs from kind to kind. `known`: what is counted on held-out windows; `page_facts`: of those counts, what
    the page of the card shows.

    `arms`: knobs that `method` is decoded with; `places`: what the first and the last place ahead are called.
    """

    template: str
    method: str
    drafter: Callable[[Any, ModelAdapter], Drafter]
    arms: tuple[Mapping[str, Any], ...]
    known: Callable[[ModelAdapter, Any, HeldOutWindows], dict[str, Any]]
    page_facts: Callable[[Mapping[str, Any]], dict[str, Any]]
    places: tuple[str, str]

    def write(
        self,
        folder: Path,
        adapter: ModelAdapter,
        trained: Trained[Any, Any],
        held: HeldOutWindows,
        training: Mapping[str, Any],
        console: Console,
    ) -> dict[str, Any]:
        """Measure the saved drafter and write its card. `training`: command, settings and training."""
        known = self.known(adapter, trained, held)
        minutes = training["training"]["minutes"]
        tried = minutes < MINUTES_A_PROMPT  # a recipe tried out: what it gains at its defaults is all that is measured
        own = arms(self.method, partial(self.drafter, trained, adapter), self.arms[:1] if tried else self.arms)
        prompts = held.source.prompts("held_out", n_texts(minutes, N_PROMPTS, MINUTES_A_PROMPT), PROMPT)
        beside = [] if tried else side_by_side(adapter, folder)
        total = sum(map(len, prompts.values())) * (len(own) + len(beside))
        with console.ticks("decoding", total, "texts") as tick:
            decoding, others = ([*compared(adapter, some, prompts, N_NEW, tick)] for some in (own, beside))
        numbers = {
            "n_params": sum(parameter.numel() for parameter in trained.network.parameters()),
            **known,
            "decoding": decoding,
            "side_by_side": others,
            "config": asdict(trained.config),
            **training,
            "versions": cards.versions(),
            "threads": torch.get_num_threads(),
        }
        self.draw(folder, numbers)
        return numbers

    def draw(self, folder: Path, numbers: dict[str, Any]) -> None:
        """Numbers, page and, where there is one, the curve."""
        picture = curve(numbers["training"]["curve"], self.places)
        cards.write(folder, self.template, numbers, self.words(numbers), **({"curve": picture} if picture else {}))

    def words(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """What the page says besides its numbers."""
        return {**page_facts(numbers), **self.page_facts(numbers)}


def curve(points: Sequence[Sequence[float]], places: tuple[str, str]) -> str:
    """Loss of the first place, and how often the first and the last are right, over steps; empty without a curve."""
    if not points:
        return ""
    steps, loss, *right = zip(*points, strict=True)
    losses = cards.loss_plot(
        f"Loss of {places[0]} while training",
        [cards.Line(places[0], [*zip(steps, loss, strict=True)])],
        cards.Axes("steps; cross-entropy with the target's law in nats", 0.5, 10.0),
    )
    shares = cards.loss_plot(
        "Share right",
        [cards.Line(name, [*zip(steps, y, strict=True)]) for name, y in zip(places, right, strict=True)],
        cards.Axes("steps; share of places whose best token is the target's", 0.1, 1.0),
    )
    return cards.column([losses, shares])


def page_facts(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What all kinds say of decoding and of how they were made."""
    spent, how = numbers["training"], numbers["settings"]
    rates = (
        f"Muon for the matrices between states, AdamW for the rest, peak rates {how['muon_rate']:g}, {how['rate']:g}"
    )
    return {
        "gains": [{**row, "words": ", ".join(_knobs(row["knobs"])) or "defaults"} for row in numbers["decoding"]],
        "beside": beside(numbers["side_by_side"]),
        "windows": how["batch"] * how["accumulate"] * how["processes"],
        "crew": f" of {how['processes']} processes" if how["processes"] > 1 else "",
        "law": "the target's law" if how["draft_loss"] == "full" else "its 50 likeliest tokens, not renormalised",
        "rates": f"AdamW, peak rate {how['rate']:g}" if how["optimizer"] == "adamw" else rates,
        "pictured": bool(spent["curve"]),
        "earlier": numbers.get("begun", []),
    }


def beside(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Kinds of drafters at the same number of nodes, relative to EAGLE-3; nothing where there is but one."""
    if len({row["method"] for row in rows}) < 2:
        return []
    eagle = {
        row["text"]: row["drafting_ms_per_round"] for row in rows if get_method(row["method"]).traits.tree == "levels"
    }

    def described(row: Mapping[str, Any]) -> dict[str, Any]:
        knobs = _knobs({name: value for name, value in row["knobs"].items() if name != "node_budget"})
        least = eagle.get(row["text"])
        relative = f"{row['drafting_ms_per_round'] / least:.2f}" if least else "-"
        return {**row, "words": "".join(f", {knob}" for knob in knobs), "relative": relative}

    return [described(row) for row in rows]


def _knobs(knobs: Mapping[str, Any]) -> list[str]:
    words = {True: "on", False: "off"}
    return [f"{name} {words[value] if isinstance(value, bool) else value}" for name, value in knobs.items()]


NODES = 60  # of every arm that is compared with another kind
DomainPrompts = Mapping[str, Prompts]


@dataclass(frozen=True, slots=True)
class DecodingArm:
    """One way to decode: a method with a drafter of its own for every prompt; `knobs` on top of its defaults."""

    method: str
    make: Callable[[], Drafter]
    knobs: Mapping[str, Any]


def arms(method: str, make: Callable[[], Drafter], knobs: Iterable[Mapping[str, Any]]) -> list[DecodingArm]:
    """The same drafter with several knobs."""
    return [DecodingArm(method, make, arm_knobs) for arm_knobs in knobs]


@dataclass(frozen=True, slots=True)
class Rival:
    """A kind of drafter that another may be compared with at the same number of nodes."""

    method: str
    kind: DrafterKind[Any, Any]
    make: Callable[[Any, ModelAdapter], Drafter]
    knobs: tuple[Mapping[str, Any], ...] = ({"node_budget": NODES},)


RIVALS = (
    Rival("specblock", block_files.KIND, SpecBlock, tuple({"node_budget": NODES, "blocks": n} for n in (1, 2))),
    Rival("eagle3", eagle_files.KIND, Eagle),
    Rival("medusa", medusa_files.KIND, Medusa),
)


def side_by_side(adapter: ModelAdapter, out: Path) -> list[DecodingArm]:
    """Every kind of drafter there is for the target: that in `out`, those beside it, those that lie with the target."""
    contestants = []
    for rival in RIVALS:
        trained = _one(rival.kind, adapter, out)
        if trained is not None:
            contestants += arms(rival.method, partial(rival.make, trained, adapter), rival.knobs)
    return contestants


def _one(kind: DrafterKind[Any, Any], adapter: ModelAdapter, out: Path) -> Any | None:
    """The drafter of a kind to compare with; None where there is none for this target."""
    for folder in (out, out.parent / kind.beside):
        if (folder / "config.json").is_file():
            config = read_config(folder, "--out", kind.advice)
            if config.get("format") == kind.format and config.get("target") == fingerprint(adapter):
                return kind.load(folder, adapter)
    try:
        return kind.pick(adapter, None)
    except ModelError:
        return None


def compared(
    adapter: ModelAdapter,
    some: Sequence[DecodingArm],
    prompts: DomainPrompts,
    n_new: int,
    done: Callable[[int], None] = lambda n: None,
) -> Iterator[dict[str, Any]]:
    """One row a text and arm, every prompt with every arm in turn; `done` is told of each."""
    for domain, own in prompts.items():
        sums = [Decoded() for _ in some]
        for number, prompt in enumerate(own):
            for k, arm in enumerate(some):
                make = lambda models, arm=arm: arm.make()  # noqa: E731
                sums[k] += decode(adapter, make, arm.method, [prompt], n_new, query=number, **arm.knobs)
                done(1)
        yield from (_row(domain, arm, decoded) for arm, decoded in zip(some, sums, strict=True))


def _row(domain: str, arm: DecodingArm, decoded: Decoded) -> dict[str, Any]:
    rounds = max(1, decoded.rounds)
    return {
        "text": domain,
        "method": arm.method,
        "knobs": dict(arm.knobs),
        "rounds": decoded.rounds,
        "mean_acceptance_length": round(decoded.tokens_per_round, 3),
        "nodes_per_round": round(decoded.drafted / rounds, 1),
        "drafter_calls_per_round": round(decoded.draft_calls / rounds, 2),
        "drafting_ms_per_round": round(decoded.drafting_ns / 1e6 / rounds, 3),
        "drafting_share": round(decoded.drafting_ns / decoded.rounds_ns, 3) if decoded.rounds_ns else None,
    }


_ROWS = 4


@dataclass(frozen=True, slots=True)
class SlotKnowledge:
    """By block: how often each slot was right behind a right prefix; and buckets `[true][predicted]` of all."""

    accuracy: list[list[float]]
    confusion: list[list[int]]

    @property
    def recall(self) -> list[float | None]:
        """Share of each true bucket that was predicted."""
        rows = [(row[b], sum(row)) for b, row in enumerate(self.confusion)]
        return [hit / n if n else None for hit, n in rows]

    @property
    def precision(self) -> list[float | None]:
        """Share of each predicted bucket that was true."""
        sums = [sum(row[b] for row in self.confusion) for b in range(N_BUCKETS)]
        return [self.confusion[b][b] / n if n else None for b, n in enumerate(sums)]


@torch.no_grad()
def slots(adapter: ModelAdapter, trained: Trained[Any, Any], windows: OwnWindows) -> SlotKnowledge:
    """Over `windows`: block 1 at every pair, later blocks behind cuts in the middle of the one before."""
    n_slots = trained.network.shape.slots
    cuts = (max(1, n_slots // 2),) * (trained.config.trained_blocks - 1)
    tallies = [SlotCounts.empty(n_slots) for _ in range(len(cuts) + 1)]
    begun = max(0, int(windows.written.any(0).argmax()) - 2)
    for part in windows.split(_ROWS):
        seen = read_target(adapter.model, trained, trained.config.taps, *part)
        last = seen.features.shape[1] - 1 - sum(cuts)
        anchors = torch.arange(begun, last, 4, device=seen.tokens.device).expand(len(seen.tokens), -1)
        losses = losses_of(trained, adapter.embedding, seen, anchors, cuts, LossConfig())
        for tally, block in zip(tallies, losses, strict=True):
            tally.add(block.tally)
    accuracy = [(tally.right / tally.total.clamp(min=1)).tolist() for tally in tallies]
    whole = torch.stack([tally.confusion for tally in tallies]).sum(0)
    return SlotKnowledge(accuracy, whole.long().tolist())
