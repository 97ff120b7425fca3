"""The card of Medusa heads: where the target's token stands in each, the tree that follows, what decoding gains."""

from typing import Any

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.medusa.drafter import Medusa
from specviz.methods.medusa.network import Trained
from specviz.methods.trained.rank_shapes import best_paths, expected
from specviz.train.common.job import Console
from specviz.train.trees import card
from specviz.train.trees.card import beside, gains, share
from specviz.train.trees.loop import Held, Made
from specviz.train.trees.measure import arms
from specviz.train.trees.train import Request

TREE = 63
ARMS: tuple[dict[str, Any], ...] = ({}, {"node_budget": 24}, {"temperature": 1.0})
_NAMED = (1, 2, 3, 5, 10)


def write(
    request: Request, adapter: ModelAdapter, trained: Trained, held: Held, made: Made, console: Console
) -> dict[str, Any]:  # fmt: skip
    """Measure the saved heads and write their card."""
    right = trained.config.right
    tree = best_paths(right, TREE)
    own = arms("medusa", lambda: Medusa(trained, adapter), ARMS)
    known = {"right": right, "tree": tree, "expected": round(expected(right, tree), 3)}
    found = card.numbers(request.out, adapter, trained, held, made, own, console, known)
    return card.write(request.out, found, page(found), ("the first head", "the last head"))


def page(numbers: dict[str, Any]) -> list[str]:
    """The card as lines of a page, as far as it is Medusa's own."""
    config = numbers["config"]
    lines = [
        f"# Medusa heads for {config['target_name']}", "",
        f"{numbers['n_params']:,} weights in {config['heads']} heads on the target's last state, "
        f"{config['draft_vocab']:,} of {config['vocab']:,} tokens. Whatever they say, the text stays the target's own.",
        "", "## Where the target's token stands in each head", "",
        "Share of places where it was among the first n, on held-out text the target wrote greedily.", "",
        "| head |" + "".join(f" {n} |" for n in _NAMED), "|---|" + "---|" * len(_NAMED),
    ]  # fmt: skip
    lines += [
        f"| {j} |" + "".join(f" {share(sum(row[:n]))} |" for n in _NAMED) for j, row in enumerate(numbers["right"], 1)
    ]
    return [
        *lines,
        "", f"The {TREE} best paths of ranks are expected to bring {numbers['expected']:.2f} tokens a round besides "
        "the target's own, if heads were independent.", "",
        "## What decoding gains", "",
        "Method `medusa`, knobs at their defaults unless named; mean acceptance length counts the closing token. "
        f"{card.BUSY}", "",
        *gains(numbers["decoding"]), *beside(numbers["side_by_side"]),
    ]  # fmt: skip
