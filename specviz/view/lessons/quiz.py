"""`make_question(step, player) -> PressQuestion`: what a step asks of a round, with the answer the recording gives."""

from dataclasses import dataclass

from specviz.errors import SpecvizError
from specviz.view.frame.frame import Cursor, Feed, Options
from specviz.view.frame.parts import Why
from specviz.view.lessons.lesson import PressStep
from specviz.view.play.player import Player
from specviz.view.why.closing_text import closing_words
from specviz.view.words.numbers import prob
from specviz.view.words.palette import Phase

_TOKENS = 3  # to choose from
_MOST = 9  # keys 1 to 9


@dataclass(frozen=True, slots=True)
class PressQuestion:
    """`right`: place of the answer in `choices`, from 0; `reason`: why, in the words of the why panel.

    `before` is the moment that shows no verdict yet, `after` the one that shows it; `node` is under the cursor.
    """

    text: str
    choices: tuple[str, ...]
    right: int
    reason: str
    before: Cursor
    after: Cursor
    node: int | None


def make_question(step: PressStep, player: Player) -> PressQuestion:
    """The player goes to the end of the round. Raises SpecvizError where the recording has no answer."""
    node = player.seek(step.of)
    after = player.cursor
    why = player.builder.frame(after, Options(selected=node), Feed()).why
    if step.ask == "n_kept":
        text, choices, right = _count(step, player, after.index)
        reason = f"{choices[right]} of the draft was kept. {why.words if why else ''}".strip()
    else:
        if node is None or why is None or not why.decided or why.node != node:
            raise SpecvizError(f"no node with a verdict at {step.of}")
        text, choices, right = _kept(step, why) if step.ask == "kept" else _replaced(step, why)
        reason = why.words if step.ask == "kept" else closing_words(player.run, player.builder.round_tree(after.index))
    before = Cursor(after.index, Phase.VERIFY)
    if step.ask == "replaced":  # the rejection is known by then
        before = Cursor(after.index, Phase.ACCEPT, len(player.builder.round_tree(after.index).tests))
    return PressQuestion(text, choices, right, reason, before, after, node)


def _kept(step: PressStep, why: Why) -> tuple[str, tuple[str, ...], int]:
    if why.mark not in ("accepted", "rejected"):
        raise SpecvizError(f"the node at {step.of} was not tested")
    numbers = {row.label.split()[0]: row.value for row in why.rows}
    told = ", ".join(f"{name} = {numbers[name]}" for name in ("u", "p/q") if name in numbers)
    return f"Will this token be kept? {told}", ("kept", "rejected"), int(why.mark == "rejected")


def _replaced(step: PressStep, why: Why) -> tuple[str, tuple[str, ...], int]:
    entries = why.residual.entries if why.residual is not None else ()
    drawn = next((entry for entry in entries if entry.drawn), None)
    others = [entry for entry in entries if not entry.drawn][: _TOKENS - 1]
    if drawn is None or not others:
        raise SpecvizError(f"nothing was drawn from a recorded residual at {step.of}")
    offered = sorted([drawn, *others], key=lambda entry: entry.shown)  # the likeliest is not always the first
    choices = tuple(
        entry.shown if entry.p is None or entry.q is None else f"{entry.shown} {prob(entry.p - entry.q, 3)}"
        for entry in offered
    )
    return "It was rejected. Which token replaces it, drawn by p − q?", choices, offered.index(drawn)


def _count(step: PressStep, player: Player, index: int) -> tuple[str, tuple[str, ...], int]:
    end, round_tree = player.run.rounds[index].end, player.builder.round_tree(index)
    if end is None or not round_tree.tests:
        raise SpecvizError(f"nothing was tested at {step.of}")
    most = max(round_tree.depth[node] for node in round_tree.kept_nodes)  # of a tree one path is kept
    if most >= _MOST:
        raise SpecvizError(f"{most} tokens can be kept at {step.of}; at most {_MOST - 1} can be asked for")
    choices = ("none", *(str(k) for k in range(1, most + 1)))
    return f"How many of the {most} drafted tokens in a row are kept?", choices, end.n_accepted
