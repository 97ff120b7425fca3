"""A `Frame` as JSON for the live component: its parts as they are; what the component does not paint is left out."""

import msgspec

from specviz.events import Knob
from specviz.view import Frame
from specviz.view.words.numbers import knob
from specviz.view.words.palette import STYLES, Phase

_TAIL = 160  # tokens of the text that are sent with every frame
_CHANGES = 6
_BARS = 80  # rounds


def payload(frame: Frame, changes: list[Knob], refusals: list[str], sequence: int) -> bytes:
    """One frame, ready for the wire. Token texts in it are escaped already, and are to be set as text only."""
    tokens, why = frame.strip.tokens, frame.why
    body = {
        "seq": sequence,
        "state": frame.state,
        "title": frame.run.title,
        "badge": frame.run.badge,
        "lossy": not frame.run.lossless,
        "place": {"q": frame.query, "r": frame.round, "label": frame.timeline.label},
        "still": frame.phase == Phase.COMMIT,  # for whoever wants no motion
        "phase": frame.phase_text if frame.n_rounds else "",
        "counts": frame.counts.text,
        "metrics": frame.metrics,
        "strip": {"tokens": tokens[-_TAIL:], "cut": len(tokens) > _TAIL},
        "tree": frame.tree,
        "why": why and {"title": why.title, "headline": why.headline, "words": why.words, "mark": why.mark},
        "queue": frame.queue.text,
        "pending": frame.knobs.pending,
        "last": frame.knobs.last,
        "changes": [
            (c.name, knob(c.old), knob(c.new), f"r{c.requested_r}", f"r{c.applied_r}") for c in changes[-_CHANGES:]
        ],
        "refusals": refusals,
        "notices": frame.notices,
        "failed": frame.state.name in ("error", "core_lost"),  # then the last notice says how
        "spark": frame.timeline.bars[-_BARS:],
    }
    return msgspec.json.encode(body)


def palette() -> dict[str, dict[str, str]]:
    """The colours of marks on both grounds, for the component: sent once."""
    return {mark: {"dark": style.dark, "light": style.light} for mark, style in STYLES.items()}
