"""What a pass over some rows takes, in passes over one: a rule of thumb by kind of device, which no clock disturbs.

Drafts are sized by it, and a seed must give the same rounds on a busy machine as on a quiet one. On a processor a few
rows wait for the weights and are nearly free, and from then on arithmetic counts: the compiled kernel took 1, 1.04,
1.05, 1.12, 1.4, 2.0 and 7 times as long for 1, 2, 3, 5, 9, 17 and 64 rows of SmolLM2 in bfloat16 (benchmarks/log.json).
Inside a run, where a drafter's weights come between, a row was measured to add .05 to .065 of a pass up to five, and
.11 to .13 from then on. Elsewhere rows are taken as free as far as any draft goes.
"""

from functools import cache

FREE, STEP = 5, 0.06  # rows that wait for weights, and what each of them adds
LINE, MORE, MOST = 10, 0.12, 0.1  # rows whose weights are read in one line; what each adds up to there, and beyond

RECENT = 128  # tokens of a prompt, the last ones, that a drafter reads where each takes time


def recent(device: str) -> int | None:
    """How many of a prompt's last tokens a drafter reads; None: all. On a processor a token costs a block drafter a
    hundredth of the target's pass and more, a thousand of them as much as ten rounds bring; and drafters that learnt
    on windows of 320 tokens guess no worse for the last 128 than for all (benchmarks/log.json)."""
    return RECENT if device == "cpu" else None


@cache  # a tree asks for a hundred of them
def row_cost(device: str, rows: int) -> float:
    """Passes over one row that a pass over `rows` takes on a device of that type ("cpu", "cuda", ..)."""
    if device != "cpu":
        return 1.0
    return 1 + STEP * (min(rows, FREE) - 1) + MORE * max(0, min(rows, LINE) - FREE) + MOST * max(0, rows - LINE)


def call_cost(device: str, share: float, rows: int) -> float:
    """Passes over one row that a drafter's call takes, which reads `share` of the target's weights for `rows` rows a
    node. On a processor what a call does besides reading counts as well: .07 was measured for one row and a share of
    .073, .18 for four rows and .109. Elsewhere it is its share."""
    return share * (1 + rows / 6) if device == "cpu" else share
