"""Knobs of learning while serving (specblock.md 8.3, 13), shared by methods whose drafter can.

All take effect between two prompts. None changes the text: the verifier never reads what the drafter thinks.
"""

from specviz.knobs import KnobSpec

_ON = {"adapt": ["on"]}

ADAPT: tuple[KnobSpec, ...] = (
    KnobSpec(
        name="adapt",
        kind="choice",
        choices=("off", "on"),
        default="off",
        applies="Q",
        help="learn between prompts: after each one a bandit weighs what an update of the drafter costs and saves",
    ),
    KnobSpec(
        name="adapt_actions",
        kind="choice",
        choices=("all", "head", "full"),
        default="all",
        applies="Q",
        needs=_ON,
        help="updates the bandit may choose besides skipping: of the output heads, of the whole drafter",
    ),
    KnobSpec(
        name="adapt_do",
        kind="choice",
        choices=("learn", "freeze", "reset_to_anchor", "reset_to_base"),
        default="learn",
        applies="Q",
        needs=_ON,
        help="freeze: decide and show, update nothing; reset: once, to the running average of accepted weights or to "
        "those from disk, then learn on",
    ),
    KnobSpec(
        name="adapt_steps",
        symbol="u",
        kind="int",
        lo=1,
        hi=32,
        default=4,
        applies="Q",
        needs=_ON,
        help="optimiser steps an update",
    ),
    KnobSpec(
        name="adapt_lr_head",
        kind="float",
        lo=0,
        lo_open=True,
        hi=1,
        default=1e-3,
        applies="Q",
        needs=_ON,
        help="learning rate of a head update",
    ),
    KnobSpec(
        name="adapt_lr_full",
        kind="float",
        lo=0,
        lo_open=True,
        hi=1,
        default=5e-4,
        applies="Q",
        needs=_ON,
        help="learning rate of a full update; large drafters want 2e-5",
    ),
    KnobSpec(
        name="adapt_caution",
        symbol="c",
        kind="float",
        lo=0,
        hi=1000,
        default=1.0,
        applies="Q",
        needs=_ON,
        help="standard errors that a sure gain must clear",
    ),
    KnobSpec(
        name="adapt_horizon",
        symbol="Hq",
        kind="float",
        lo=0,
        hi=1e6,
        default=20.0,
        applies="Q",
        needs=_ON,
        help="prompts that an update may pay off in",
    ),
    KnobSpec(
        name="adapt_budget",
        symbol="φ",
        kind="float",
        lo=0,
        hi=1,
        default=0.02,
        applies="Q",
        needs=_ON,
        help="share of the serving time that exploring may take",
    ),
    KnobSpec(
        name="adapt_cost_scale",
        kind="float",
        lo=0,
        hi=1e9,
        default=1.0,
        applies="Q",
        needs=_ON,
        help="weighs costs in decisions only: large ones make the bandit skip",
    ),
    KnobSpec(
        name="adapt_regret",
        kind="choice",
        choices=("live", "replay"),
        default="live",
        applies="Q",
        needs=_ON,
        help="live: by the bandit's own estimates; replay: try all actions on copies and decode the next prompt with "
        "each, which takes three times as long",
    ),
)
