"""A `Frame` as plain JSON for the live component: names shortened, nothing worked out."""

from typing import Any

import msgspec

from specviz.events import Knob
from specviz.view import Frame
from specviz.view.frame.frame import Strip, Tree
from specviz.view.words.numbers import knob
from specviz.view.words.palette import STYLES, Phase

_TAIL = 160  # tokens of the text that are sent with every frame


def payload(frame: Frame, changes: list[Knob], refusals: list[str], sequence: int) -> bytes:
    """One frame, ready for the wire. Token texts in it are escaped already, and are to be set as text only."""
    body = {
        "seq": sequence,
        "state": {"name": frame.state.name, "glyph": frame.state.glyph, "text": frame.state.text,
                  "detail": frame.state.detail},
        "title": title(frame),
        "badge": frame.run.badge,
        "lossy": not frame.run.lossless,
        "place": {"q": frame.query, "r": frame.round, "label": frame.timeline.label},
        "still": frame.phase == Phase.COMMIT,  # for whoever wants no motion
        "phase": frame.phase_text if frame.n_rounds else "",
        "counts": frame.counts.text,
        "metrics": [{"label": m.label, "text": m.text, "help": m.help} for m in frame.metrics],
        "strip": _strip(frame.strip),
        "tree": _tree(frame.tree),
        "why": _why(frame),
        "queue": frame.queue.text,
        "pending": frame.knobs.pending,
        "last": frame.knobs.last,
        "changes": [change(c) for c in changes[-6:]],
        "refusals": refusals,
        "notices": list(frame.notices),
        "failed": frame.state.name in ("error", "core_lost"),  # then the last notice says how
        "spark": frame.timeline.bars[-80:],
    }  # fmt: skip
    return msgspec.json.encode(body)


def title(frame: Frame) -> str:
    """What runs, in one line."""
    run = frame.run
    models = f"{run.target} ⇐ {run.draft}" if run.draft else run.target
    parts = (models, run.method, run.shape, run.verifier, run.sampling)
    return " · ".join(part for part in parts if part and part != "—")


def change(event: Knob) -> dict[str, Any]:
    """An acknowledged knob change: asked for in one round, in force from another on."""
    return {"name": event.name, "old": knob(event.old), "new": knob(event.new), "requested": event.requested_r,
            "applied": event.applied_r}  # fmt: skip


def palette() -> dict[str, dict[str, str]]:
    """How marks look, for the component: sent once."""
    return {m: {"glyph": s.glyph, "word": s.word, "dark": s.dark, "light": s.light} for m, s in STYLES.items()}


def _strip(strip: Strip) -> dict[str, Any]:
    tokens = strip.tokens[-_TAIL:]
    return {
        "cut": len(strip.tokens) > len(tokens),
        "summary": strip.summary,
        "tokens": [
            {"t": t.running, "m": t.mark, "p": t.provisional, "f": t.fresh, "r": t.round, "n": t.node} for t in tokens
        ],
    }


def _tree(tree: Tree) -> dict[str, Any]:
    nodes = [
        {
            "id": n.id, "parent": n.parent, "c": n.column, "r": n.row, "t": n.shown, "m": n.mark, "g": n.glyph,
            "w": n.word, "v": n.value, "bar": n.bar, "note": n.note, "win": n.winning, "fresh": n.fresh,
        }
        for n in tree.nodes
    ]  # fmt: skip
    cells = list(tree.column_cells)
    return {"nodes": nodes, "rows": tree.n_rows, "cells": cells, "flash": tree.flash, "missing": tree.missing,
            "folds": [{"c": f.column, "r": f.row, "t": f.text} for f in tree.folds]}  # fmt: skip


def _why(frame: Frame) -> dict[str, str] | None:
    why = frame.why
    return None if why is None else {"title": why.title, "headline": why.headline, "words": why.words, "m": why.mark}
