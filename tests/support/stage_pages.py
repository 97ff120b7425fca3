"""The stage in a page that asks nobody: a recording with its what if, or a run that goes on with knobs that were moved.

Rows of the dashboard stand above it and its panels below, as in the dashboard; what a server would answer lies in it.
"""

import base64
from pathlib import Path
from typing import Any

import msgspec

from specviz.trace import read_events
from specviz.view import Frame, Player
from specviz.view.frame.parts import KnobItem
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.document import head, one_round
from specviz.view.stage.now import stage_now
from specviz.view.stage.page import LIVE, painter, style
from specviz.view.stage.parts import LiveUpdate
from specviz.view.stage.what_if import what_if_round
from specviz.whatif import Change

STATES = ("rest", "test", "what if", "live")
ABOVE = {False: 0, True: 0}
_MOVED = 4  # knobs of a run that goes on
_PANELS = ("Overview", "Verification", "Early exit", "Lanes", "Compare", "Ranks", "Learning", "Trace")
_AB = "A/B: the same prompt with γ 4, ε .30, k 6, L 0, soft_min_keep 0 and with γ 6, ε .32, k 8, L 2, soft_min_keep 1"
_SCRIPT = Path(__file__).with_name("stage_page.js").read_text("utf-8")
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>stage</title><style>
html, body, main {{ margin: 0; height: 100%; }} main {{ overflow: auto; }}
#page {{ padding: 4rem 1.4rem 2rem; font: 16px sans-serif; }} #rows {{ height: {above}px; }}
{css}</style></head><body><main><div id="page"><div id="rows"></div><div id="at"></div></div></main>
<script id="told" type="text/plain">{told}</script>
<script type="module">
{painter}
{script}</script></body></html>
"""


def stage_page(trace: Path, folder: Path, live: bool) -> Path:
    """The page, as a file: a recording at its fullest round, or the same run going on at that round."""
    player = Player(animate=False)
    player.extend(read_events(trace))
    builder, rounds = player.builder, player.run.rounds
    fullest = max(range(len(rounds)), key=lambda index: rounds.point(index).n_drafted or 0)
    player.seek_index(fullest)
    document: dict[str, Any] = {
        "live": live,
        "head": head(builder, trace.name),
        "rounds": {fullest: one_round(builder, fullest)},
        "at": head(builder, "").points[fullest].place,
        "panels": [(name.lower(), name, "") for name in _PANELS],
    }
    document |= {"frame": _frame(player)} if live else _what_if(builder, fullest)
    document["rounds"] |= {0: one_round(builder, 0)}
    path = folder / f"{trace.name}-{live}.html"
    packed = base64.b64encode(msgspec.json.encode(document)).decode()
    css = style("live", "below", "room")
    path.write_text(
        _PAGE.format(above=ABOVE[live], css=css, told=packed, painter=painter(*LIVE), script=_SCRIPT), encoding="utf-8"
    )
    return path


def _what_if(builder: FrameBuilder, index: int) -> dict[str, Any]:
    own = what_if_round(builder, index, Change())
    other = next((name for name in own.verifiers if name != own.own), None)
    movable = (spec.knob for spec in own.knobs)
    knob = next((knob for knob in movable if isinstance(knob.value, int) and knob.value > 1), None)
    change = Change(other, {} if other or knob is None else {knob.name: 1})
    return {"own": own, "answer": what_if_round(builder, index, change), "changed": msgspec.to_builtins(change)}


def _frame(player: Player) -> dict[str, Any]:
    frame: Frame = player.frame()
    now: LiveUpdate = stage_now(player, frame, "live1")
    moved = [k for k, knob in enumerate(now.knobs) if knob.moves][:_MOVED]
    knobs = tuple(_moved(knob) if k in moved else knob for k, knob in enumerate(now.knobs))
    last = "last r11: soft_min_keep 0→1, branch_len 0→2, epsilon .30→.32, tok/round 4→2 (n 3, ±3.9: cannot tell yet)"
    return {
        "now": msgspec.structs.replace(now, knobs=knobs, last=last),
        "state": {"name": "live", "glyph": "●", "text": "LIVE", "detail": ""},
        "queue": "",
        "ab": _AB,
        "said": "1",
        "answers": True,
        "blank": False,
        "refusals": [],
        "notices": frame.notices,
        "failed": False,
        "core": "c",
        "page": "",
    }


def _moved(knob: KnobItem) -> KnobItem:
    return msgspec.structs.replace(knob, since="r11", disabled=None, idle=False)
