"""What a pass over some rows takes, in passes over one: a rule of thumb by kind of device, which no clock disturbs.

Drafts are sized by it, and a seed must give the same rounds on a busy machine as on a quiet one. On a processor a few
rows wait for the weights and are nearly free, and from then on arithmetic counts: the compiled kernel took 1, 1.02,
1.07, 1.03, 1.16, 1.38, 1.6, 2.3, 4.1 and 8.1 times as long for 1, 2, 3, 4, 5, 6, 8, 16, 32 and 64 rows of SmolLM2 in
bfloat16 (docs/lab-log.md). Elsewhere rows are taken as free as far as any draft goes.
"""

FREE, STEP, MORE = 5, 0.03, 0.11  # rows that wait for weights; what each of them adds, and each beyond them


def row_cost(device: str, rows: int) -> float:
    """Passes over one row that a pass over `rows` takes on a device of that type ("cpu", "cuda", ..)."""
    if device != "cpu":
        return 1.0
    return 1 + STEP * (min(rows, FREE) - 1) + MORE * max(0, rows - FREE)
