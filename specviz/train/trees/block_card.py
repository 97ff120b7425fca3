"""The card of a block drafter: what it knows slot by slot, how well it foresees ranks, what decoding gains."""

from typing import Any

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.specblock.drafter import SpecBlock
from specviz.methods.specblock.files import Trained
from specviz.train.common.job import Console
from specviz.train.trees import card, measure
from specviz.train.trees.card import beside, gains, share
from specviz.train.trees.loop import Held, Made
from specviz.train.trees.measure import arms
from specviz.train.trees.train import Request

ARMS: tuple[dict[str, Any], ...] = (
    {"blocks": 1}, {"blocks": 2}, {"blocks": 3}, {"blocks": 2, "merge": False}, {"blocks": 2, "width_mode": "fixed"},
    {"blocks": 1, "temperature": 1.0}, {"blocks": 2, "temperature": 1.0},
)  # fmt: skip
BUCKETS = ("1", "2-4", "5-10", "lower")
_ABLATIONS = {
    "shift": "no shift between slots", "broadcast": "condition and token for the first slot alone",
    "valid_prefix": "no mask behind a wrong slot",
}  # fmt: skip


def write(
    request: Request, adapter: ModelAdapter, trained: Trained, held: Held, made: Made, console: Console
) -> dict[str, Any]:  # fmt: skip
    """Measure the saved drafter and write its card."""
    known = measure.slots(adapter, trained, held.windows, held.answer_from)
    own = arms("specblock", lambda: SpecBlock(trained, adapter), ARMS)
    found = card.numbers(request.out, adapter, trained, held, made, own, console, {
        "accuracy": [[round(x, 4) for x in row] for row in known.accuracy],
        "confusion": known.confusion,
        "recall": [None if x is None else round(x, 4) for x in known.recall],
        "precision": [None if x is None else round(x, 4) for x in known.precision],
    })  # fmt: skip
    return card.write(request.out, found, page(found), ("the first slot", "the last slot"))


def page(numbers: dict[str, Any]) -> list[str]:
    """The card as lines of a page, as far as it is a block drafter's own."""
    config = numbers["config"]
    slots = range(config["slots"])
    lines = [
        f"# Block drafter for {config['target_name']}", "",
        f"{numbers['n_params']:,} weights: {config['n_layers']} layers of width {config['width']}, {config['slots']} "
        f"slots a block, {config['draft_vocab']:,} of {config['vocab']:,} tokens. It reads the target after layers "
        f"{', '.join(map(str, config['taps']))}. Whatever it says, the text stays the target's own.", "",
        *_ablated(numbers["settings"]),
        "## How often each slot is right", "",
        "The slot's best token is the target's, where all earlier slots of the block were right too; on text the "
        "target wrote after held-out beginnings.", "",
        "| block |" + "".join(f" slot {k} |" for k in slots), "|---|" + "---|" * len(slots),
    ]  # fmt: skip
    lines += [f"| {b} |" + "".join(f" {x:.0%} |" for x in row) for b, row in enumerate(numbers["accuracy"], 1)]
    return [
        *lines, *_buckets(numbers),
        "", "## What decoding gains", "",
        "Method `specblock`, 60 nodes, other knobs at their defaults unless named; mean acceptance length counts the "
        f"closing token. {card.BUSY}", "",
        *gains(numbers["decoding"]), *beside(numbers["side_by_side"]), *_recipe(numbers["settings"]),
    ]  # fmt: skip


def _buckets(numbers: dict[str, Any]) -> list[str]:
    lines = [
        "", "## How well ranks are foreseen", "",
        "Rows: predicted bucket of the target's token; columns: the true one (rank 1, 2 to 4, 5 to 10, lower).", "",
        "| predicted | 1 | 2-4 | 5-10 | lower | precision |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for b, name in enumerate(BUCKETS):
        cells = "".join(f" {row[b]:,} |" for row in numbers["confusion"])
        lines.append(f"| {name} |{cells} {share(numbers['precision'][b])} |")
    return [*lines, "| *recall* |" + "".join(f" {share(x)} |" for x in numbers["recall"]) + " |"]


def _recipe(settings: dict[str, Any]) -> list[str]:
    """Where the training is not the paper's."""
    told = [f"block 1 learnt alone for {settings['alone']:,} steps, or half of the time"] * bool(settings["alone"])
    floor = f"a slot reached by less than {settings['floor']:.0%} of the places that slot 0 has weighs accordingly less"
    told += [floor] * bool(settings["floor"])
    return ["", f"Beyond the paper: {'; '.join(told)}."] if told else []


def _ablated(settings: dict[str, Any]) -> list[str]:
    """What was left out, in one line; nothing of a drafter that has everything."""
    out = [words for name, words in _ABLATIONS.items() if not settings[name]]
    out += ["later blocks at the root's rotary positions"] * (settings["rope_mode"] == "repeat")
    out += [f"rank loss {settings['rank_loss']}"] * (settings["rank_loss"] != "invsqrt")
    return [f"Trained for comparison: {'; '.join(out)}.", ""] if out else []
