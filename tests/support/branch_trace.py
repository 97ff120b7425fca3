"""A worked trace of SpecBranch as records: P = 10, gamma = L = 4, k_max = 6; two branch stages and a rollback.

Round 1 drafts two tokens and stops at the third look; four branches of four; branch 1 is hit and its other three tokens
stay pending. Round 2 judges them beside one branch of four: rejected at the second. Round 3 drafts nothing (s = 0) and
forks one branch at once, which is missed.
"""

from collections.abc import Sequence
from typing import Any

from specviz import events as ev
from specviz.events import Event

Fates = list[tuple[int, Any]]


def node(
    r: int, number: int, parent: int, pos: int, branch: int | None = None, n: int = 11, fed: bool = True
) -> ev.Node:
    return ev.Node(
        r=r, node=number, parent=parent, depth=pos - n + 1, pos=pos, token=1, text="a", branch=branch, fed=fed
    )


def verdict(r: int, number: int, status: str, order: int | None) -> ev.Verify:
    why: dict[str, Any] = {"accepted": "kept", "rejected": "u_above", "untested": "prefix_rejected"}
    return ev.Verify(
        r=r,
        node=number,
        order=order,
        kind="test",
        logp=None,
        logq=None,
        thr=None,
        u=None,
        status=status,  # type: ignore[arg-type]
        why=why[status],
    )


def frame(
    r: int, n: int, inside: Sequence[Event], kinds: list[Any], n_drafted: int, n_accepted: int, n_tested: int
) -> list[Event]:
    """Start, what is inside, commit and end of one round of a millisecond."""
    t, texts = r * 1_000_000, ["a"] * len(kinds)
    return [
        ev.RoundStart(r=r, t=t, n=n, root=1, knob_version=0),
        *inside,
        ev.Commit(r=r, t=t + 1_000_000, tokens=[1] * len(kinds), texts=texts, kinds=kinds, n=n + len(kinds)),
        ev.RoundEnd(
            r=r,
            t=t + 1_000_000,
            n_drafted=n_drafted,
            n_tested=n_tested,
            n_accepted=n_accepted,
            n_emitted=len(kinds),
            n_draft_calls=4,
            n_syncs=1,
            stage_ns={"target": 1_000_000},
            probe_ns=0,
            draft_end="full",
            walk_end="rejected" if "recovered" in kinds else "open",
            cut=False,
        ),
    ]


def branches(r: int, first: int, k: int, length: int, pos: int, parent: int, n: int) -> list[Event]:
    """`k` branches of `length`, position by position, as they are drafted."""
    return [
        node(r, first + j * k + b, parent if j == 0 else first + (j - 1) * k + b, pos + j, b, n, fed=False)
        for j in range(length)
        for b in range(k)
    ]


def fork(r: int, pos: int, k: int, conf: float, known: bool, reason: Any) -> ev.Fork:
    return ev.Fork(
        r=r, pos=pos, conf=conf, k_raw=6 * (1 - conf), k=k, k_max=6, known=known, reason=reason, branch_len=4
    )


def step(r: int, pos: int, number: int | None, conf: float) -> ev.DraftStep:
    return ev.DraftStep(r=r, pos=pos, node=number, conf=conf, bound=0.3, stopped=number is None)


def round_one() -> list[Event]:
    lost: Fates = [(2 + j * 4 + b, "branch_lost") for j in range(4) for b in (0, 2, 3)]
    return frame(
        1,
        11,
        [
            node(1, 0, -1, 11),
            node(1, 1, 0, 12),
            *branches(1, 2, 4, 4, 13, 1, 11),
            verdict(1, 0, "accepted", 0),
            verdict(1, 1, "accepted", 1),
            verdict(1, 3, "accepted", 2),
            ev.Signal(r=1, stage="draft", s=1, probs=[0.1, 0.8, 0.1], source="hrad"),
            step(1, 11, 0, 0.8),
            step(1, 12, 1, 0.6),
            step(1, 13, None, 0.2),
            fork(1, 13, 4, 0.2, True, "low_conf"),
            ev.Match(r=1, rule="topk", branch=1, token=1, mass=0.75),
            ev.Settle(r=1, fates=[(0, "accepted"), (1, "accepted"), (3, "accepted"), *lost]),
        ],
        ["accepted", "accepted", "branch"],
        18,
        3,
        3,
    )


def round_two() -> list[Event]:
    void: Fates = [(18 + j, "branch_void") for j in range(4)]
    return frame(
        2,
        14,
        [
            *branches(2, 18, 1, 4, 17, 15, 14),
            verdict(2, 7, "accepted", 0),
            verdict(2, 11, "rejected", 1),
            verdict(2, 15, "untested", None),
            ev.Signal(r=2, stage="posterior", s=2, probs=[0.04, 0.21, 0.75], source="hrad"),
            ev.Posterior(r=2, s=2, n_kept=3, n_trimmed=0, pos=17, known=False),
            fork(2, 17, 1, 0.9, False, "after_last"),
            ev.Settle(r=2, fates=[(7, "accepted"), (11, "rejected"), (15, "orphaned"), *void]),
            ev.Rollback(r=2, cause="reject", node=11, void={"rejected": 1, "orphaned": 1, "branch_void": 4}),
        ],
        ["accepted", "recovered"],
        4,
        1,
        2,
    )


def round_three() -> list[Event]:
    void: Fates = [(22 + j, "branch_void") for j in range(4)]
    return frame(
        3,
        16,
        [
            *branches(3, 22, 1, 4, 16, -1, 16),
            verdict(3, 22, "rejected", 0),
            ev.Signal(r=3, stage="draft", s=0, probs=[0.9, 0.05, 0.05], source="hrad"),
            fork(3, 16, 1, 0.9, False, "s0"),
            ev.Match(r=3, rule="topk", branch=None, token=9, mass=0.25),
            ev.Settle(r=3, fates=void),
            ev.Rollback(r=3, cause="miss", node=22, void={"branch_void": 4}),
        ],
        ["recovered"],
        4,
        0,
        1,
    )


def worked() -> list[list[Event]]:
    """The three rounds."""
    return [round_one(), round_two(), round_three()]
