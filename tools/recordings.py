"""What a recording that ships must be: its drafting quicker than its target, its text no loop, its speed measured.

A busy machine shows in the first: work that waits is timed as work that is slow, and a draft model, a sixth of its
target, then seems the slower of the two. By what was recorded, never by a method's name:

* a second model drafts, in turn: a round's drafting takes less than its target pass, also in the first round, which is
  the one that people see first, and in three rounds of four;
* it drafts beside the target (lanes), or is the target itself in fewer bits: one forward of it takes less than a target
  pass;
* a small network drafts, or the target with parts left out: one such call takes less than a target pass;
* the target's own first layers draft (`climb` records): the layers are the same ones, there is nothing to compare.

Times are medians over the rounds that drafted.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from specviz.events import Commit, Header, LayerTrace, RoundEnd, Span
from specviz.sources.gallery import gallery_card
from specviz.trace import read_events

FEWEST = 5  # rounds below which a median says nothing
GRAM, MOST_REPEATED = 6, 0.4


def fault(path: Path) -> str | None:
    """What is wrong with a recording that is to ship; None: nothing."""
    return slow(path) or loops(path)


def untold(path: Path) -> str | None:
    """Why its speed beside plain decoding is not a measured one; None: it is, or it is plain decoding."""
    card = gallery_card(path)
    if card is None or not card.pays.endswith(("(measured)", "(baseline)")):
        return f"its speed is not told by measuring: {card.pays if card else 'no card'}"
    return None


def slow(path: Path) -> str | None:
    """Why its drafting is slower than its target; None: it is not, or nothing drafts in it."""
    events = list(read_events(path))
    (header,) = [event for event in events if isinstance(event, Header)]
    ends = [event for event in events if isinstance(event, RoundEnd) and event.n_draft_calls]
    beside = [s.dur_ns for s in events if isinstance(s, Span) and s.lane == "draft" and s.name.startswith("branch")]
    if len(ends) < FEWEST or any(isinstance(event, LayerTrace) for event in events):
        return None
    target = median(end.stage_ns.get("target", 0) for end in ends)
    if beside:
        what, took = "a forward of the draft model", median(beside)
    elif header.models.draft is None or _as_large(header):
        what, took = "a call that drafts", median(end.stage_ns.get("draft", 0) / end.n_draft_calls for end in ends)
    else:
        what, took = "a round's drafting", median(end.stage_ns.get("draft", 0) for end in ends)
        late = [end.r for end in ends if end.stage_ns.get("draft", 0) >= end.stage_ns.get("target", 0)]
        if ends[0].r in late or len(late) > len(ends) / 4:
            return (
                f"in {len(late)} of {len(ends)} rounds drafting takes longer than the target pass, first in r{late[0]}"
            )
    return None if took < target else f"{what} takes {took / 1e6:.1f} ms, a target pass {target / 1e6:.1f} ms"


def _as_large(header: Header) -> bool:
    """Whether the draft model has as many weights as the target: several of its forwards may well take longer."""
    target, draft = header.models.target, header.models.draft
    return draft is not None and draft.n_params is not None and draft.n_params == target.n_params


def loops(path: Path) -> str | None:
    """Why its text is hardly worth a look; None: it says something new as it goes on."""
    queries: dict[int, list[int]] = {}
    for event in read_events(path):
        if isinstance(event, Commit):
            queries.setdefault(event.q, []).extend(event.tokens)
    share = sum(repeated(tokens) * len(tokens) for tokens in queries.values()) / max(1, sum(map(len, queries.values())))
    return None if share <= MOST_REPEATED else f"{share:.0%} of its text repeats itself"


def repeated(tokens: Sequence[int]) -> float:
    """The share of its runs of six tokens that stood there before."""
    grams = [tuple(tokens[at : at + GRAM]) for at in range(len(tokens) - GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
