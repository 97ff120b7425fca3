"""`LiveRounds`: the newest run of the core as the stage plays it; what one page asked for is kept for the others.

The stream says where the picture stands (`now`), pages fetch the rounds they lack. Called from threads of the server;
the core's lock is held for one round at a time.
"""

import time
from collections import OrderedDict
from typing import Any

import msgspec

from specviz.errors import SpecvizError
from specviz.runlog.fold import Run
from specviz.sources.conversation import ChatMessage
from specviz.sources.two_settings import two_settings
from specviz.text import running
from specviz.view import Frame
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.document import head, one_round, points_from, wire
from specviz.view.stage.now import stage_now
from specviz.view.stage.page import page
from specviz_app.server.core import LiveSource, ServedRun
from specviz_app.server.sharing import Taken, prepared
from specviz_app.server.stages import MOST_ROUNDS, view_of

LIVE_RUN = "live"  # begins the key of the core's newest run
MOST_POINTS = 4000  # of the time line that one request gets
_KEPT = 64  # rounds in finished form
_MOST_TURNS = 200  # of a conversation, the newest


class RunFollowed(SpecvizError):
    """Another run followed the one that is asked about: what a page asked just before it heard of that."""


class LiveRounds:
    """What is asked of the newest run by its key. Raises RunFollowed for a run that another one followed."""

    def __init__(self, core: ServedRun, key: str) -> None:
        self._core, self._key = core, key
        self._made: OrderedDict[tuple[int, int, int, str], bytes] = OrderedDict()

    def head(self) -> bytes:
        """The head as JSON."""
        with self._core.lock:
            builder = self._builder()
            return msgspec.json.encode(head(builder, self._name))

    def rounds(self, first: int, n: int, view: str = "") -> bytes:
        """Some rounds as they are now, as a JSON list. Raises SpecvizError for a round or a view that is not there."""
        upto = first + max(1, min(n, MOST_ROUNDS))
        rounds = [self._round(index, view) for index in range(first, upto) if index == first or self._has(index)]
        return b"[" + b",".join(rounds) + b"]"

    def points(self, first: int) -> bytes:
        """The time line from a round on."""
        with self._core.lock:
            builder = self._builder()
            return msgspec.json.encode(points_from(builder, min(first, len(builder.run.rounds)))[:MOST_POINTS])

    def knobs_of(self, method: str) -> bytes:
        """The knobs of a next run by that method. Raises SpecvizError for one that is not loaded."""
        return msgspec.json.encode(self._core.next_knobs(method))

    def page(self) -> str:
        """The run so far as one HTML file: of its events, so that the core waits for nobody."""
        return page(self._so_far(), self._name)

    def share(self, wanted: Taken) -> bytes:
        """A film or the tables of it, so far. Raises SpecvizError."""
        return prepared(self._so_far(), wanted)()

    def _so_far(self) -> FrameBuilder:
        with self._core.lock:
            self._builder()
        builder = FrameBuilder(Run())
        builder.run.extend(LiveSource(self._core).poll())
        return builder

    @property
    def _name(self) -> str:
        return f"run-{self._core.generation}"

    def _builder(self) -> FrameBuilder:
        """Under the core's lock."""
        if self._key != run_key(self._core):
            raise RunFollowed("another run has begun; this one stands under 'Run to look at'")
        return self._core.live_player.builder

    def _has(self, index: int) -> bool:
        with self._core.lock:
            return 0 <= index < len(self._builder().run.rounds)

    def _round(self, index: int, view: str) -> bytes:
        with self._core.lock:
            builder = self._builder()
            rounds = builder.run.rounds
            if not 0 <= index < len(rounds):
                raise SpecvizError(f"no round {index} here; there are {len(rounds)}, counted from 0")
            record = rounds[index]
            state = (index, record.serial, record.stamp, view)
            if state not in self._made:
                self._made[state] = wire(one_round(builder, index, view_of(view)))
                while len(self._made) > _KEPT:
                    self._made.popitem(last=False)
            return self._made[state]


def run_key(core: ServedRun) -> str:
    """What the core's newest run is called on the wire."""
    return f"{LIVE_RUN}{core.generation}"


def core_key(core: ServedRun) -> str:
    """Another one: what the page around offers has changed (models came or went), and its script is to run."""
    here = core.catalogue is not None, core.failed is not None, core.has_run
    return f"{core.models.target} {core.models.draft} {here}"


def now(frame: Frame, core: ServedRun) -> bytes:
    """The newest frame for the stage. Token texts in it are escaped already, and are to be set as text only."""
    dialogue = core.dialogue()
    body: dict[str, Any] = {
        "seq": core.version,
        "awaits": core.awaited,
        "staged": str(core.edits.staged),  # another one: the knobs of the next run have changed
        "seconds": time.monotonic() - core.waits_since,
        "now": stage_now(core.live_player, frame, run_key(core)),
        "core": core_key(core),
        "state": frame.state,
        "queue": frame.queue.text,
        # Another one: the conversation has changed.
        "ab": _two_settings(core),
        "said": f"{core.generation} {dialogue.key} {core.talk.n_given_back if core.talk.unsent else 0}",
        "answers": dialogue.shown,
        "blank": dialogue.blank,
        "refusals": core.refusals,
        "notices": frame.notices,
        "failed": frame.state.name in ("error", "core_lost"),
    }
    return msgspec.json.encode(body)


def _two_settings(core: ServedRun) -> str:
    """What A/B would decode; "" where no knob was moved, or one goes on."""
    asked = None if core.trial is not None and core.trial.running else two_settings(core)
    return asked.words if asked is not None else ""


def conversation(core: ServedRun) -> bytes:
    """What was said, as escaped texts; the answer in hand is the newest run itself. `unsent` goes back into the box."""
    dialogue = core.dialogue()
    transcript = {
        "above": [_turn(core, turn) for turn in dialogue.above[-_MOST_TURNS:]],
        "below": _in_lines(dialogue.below),
        "shown": dialogue.shown,
        "unsent": core.talk.unsent,
    }
    return msgspec.json.encode(transcript)


def _turn(core: ServedRun, turn: ChatMessage) -> dict[str, Any]:
    return {
        "role": turn.role,
        "text": _in_lines(turn.text),
        "who": running(turn.who),
        "stopped": turn.stopped,
        "run": core.name_of(turn.run) if turn.run else None,
    }


def _in_lines(text: str) -> str:
    return "\n".join(running(line) for line in text.split("\n"))
