"""`payload`: a frame of the live run on the wire, ready to be painted; `palette`: the colours, sent once."""

from dataclasses import replace
from typing import Any

import msgspec

from specviz.runlog.fold import Run
from specviz.runlog.run import TextToken
from specviz.text import NEWLINE
from specviz.view import Frame
from specviz.view.words.numbers import knob
from specviz.view.words.palette import STYLES, Phase
from specviz_app.server.core import ServedRun

_TAIL = 160  # tokens of the text that are sent with every frame
_ANSWER = 600  # of an answer
_CHANGES = 6
_BARS = 80  # rounds


def payload(frame: Frame, core: ServedRun) -> bytes:
    """One frame, ready for the wire. Token texts in it are escaped already, and are to be set as text only."""
    why, dialogue = frame.why, core.dialogue()
    body = {
        "seq": core.version,
        "page": dialogue.key,
        "talk": dialogue.shown,
        "blank": dialogue.blank,
        "state": frame.state,
        "title": frame.run.title,
        "badge": frame.run.badge,
        "lossy": not frame.run.lossless,
        "place": {"q": frame.query, "r": frame.round, "label": frame.timeline.label},
        "still": frame.phase == Phase.COMMIT,  # for whoever wants no motion
        "phase": frame.phase_text if frame.n_rounds else "",
        "counts": frame.counts.text,
        "metrics": frame.metrics,
        "strip": _answer(frame, core.run) if dialogue.shown else _text(frame),
        "tree": frame.tree,
        "why": why and {"title": why.title, "headline": why.headline, "words": why.words, "mark": why.mark},
        "queue": frame.queue.text,
        "pending": frame.knobs.pending,
        "last": frame.knobs.last,
        "changes": [
            (c.name, knob(c.old), knob(c.new), f"r{c.requested_r}", f"r{c.applied_r}")
            for c in core.run.changes[-_CHANGES:]
        ],
        "refusals": core.refusals,
        "notices": frame.notices,
        "failed": frame.state.name in ("error", "core_lost"),  # then the last notice says how
        "spark": frame.timeline.bars[-_BARS:],
    }
    return msgspec.json.encode(body)


def _text(frame: Frame) -> dict[str, Any]:
    """Prompt and text, with the line ends marked."""
    tokens = frame.strip.tokens
    return {"tokens": tokens[-_TAIL:], "cut": len(tokens) > _TAIL, "prompt": ""}


def _answer(frame: Frame, run: Run) -> dict[str, Any]:
    """What the model was given apart, and the answer as it is read: in lines, without the mark that ends it."""
    given = [token for token in frame.strip.tokens if token.mark == "prompt"]
    said = [token for token in frame.strip.tokens if token.mark != "prompt"]
    last = run.queries[-1].tokens[-1] if run.queries and run.queries[-1].tokens else None
    record = run.rounds.last
    if said and last and said[-1].pos == last.pos and record and record.commit and record.commit.finish == "eos":
        said = said[:-1]
    return {
        "tokens": [_in_lines(token) for token in said[-_ANSWER:]],
        "cut": len(said) > _ANSWER,
        "prompt": "".join(token.running.replace(NEWLINE, f"{NEWLINE}\n") for token in given),
    }


def _in_lines(token: TextToken) -> TextToken:
    return replace(token, running=token.running.replace(NEWLINE, "\n")) if NEWLINE in token.running else token


def palette() -> dict[str, dict[str, str]]:
    """The colours of marks on both grounds, for the component: sent once."""
    return {mark: {"dark": style.dark, "light": style.light} for mark, style in STYLES.items()}
