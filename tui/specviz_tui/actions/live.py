"""Keys of a live core: a prompt, its pace, hold, stop, recording."""

from pathlib import Path

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.trace.private import IDS_ALONE
from specviz.view import Frame
from specviz_tui.common.actions import Actions, asks_core
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.frame_widget import Ready
from specviz_tui.common.keymap import Key
from specviz_tui.screens.start import Begin, Bench, StartScreen
from specviz_tui.widgets.status_line import StatusLine
from specviz_tui.widgets.tree import TreeBox

HELD = "The core waits.\n\n] runs one round, H goes on."


class LiveActions(Actions):
    """What is asked of the core."""

    order = 56
    KEYS = (
        Key("hold", "H", "hold", "H", "live: hold the core before its next round, or let it go on", "Run", "hold", 6),
        Key(
            "pace",
            "F",
            "pace",
            "F",
            "live: every round seen to its end (the core waits for you), or full speed",
            "Run",
            "pace",
            1,
            True,
        ),
        Key("start", "p", "start", "p", "live: another prompt, model, method; models stay loaded", "Run"),
        Key("stop", "S", "stop", "S", "live: end the run", "Run"),
        Key("record", "R", "record", "R", "live: recording on or off", "Run"),
    )

    _greeted = False  # a first prompt was asked for

    def restart(self) -> None:
        self._greeted = False

    def tick(self) -> None:
        """When the core is ready and no prompt was given, ask for one, once; one that talks is talked to."""
        if self._greeted or self.feed.catalogue is None:
            return
        self._greeted = True
        self.controller.post(Ready())
        if self.feed.last_start is None and not self.feed.talk.waiting and not self.feed.speaks:
            self.action_start()

    def paint(self, frame: Frame) -> None:
        """Whether there is a core, whether it waits, and what it records."""
        self.controller.mark(not self.feed.has_core, "-recorded")
        self.controller.widget(TreeBox).waiting = HELD if self.feed.held else ""
        self.controller.widget(StatusLine).recording = recording_text(self.feed.recording)

    @asks_core
    def action_hold(self) -> None:
        """Hold the core, or let it go on."""
        if not self.feed.running:
            raise SpecvizError("nothing is running; p starts a prompt")
        held = self.feed.toggle_hold()
        self.controller.notify(
            "the core holds before its next round; ] runs one, H goes on" if held else "the core goes on"
        )
        self.feed.to_live()

    @asks_core
    def action_pace(self) -> None:
        """A round at a time, each seen to its end, or full speed."""
        paced = self.feed.switch_pace()
        self.controller.notify(
            "the core waits until each round was seen" if paced else "full speed: rounds may be passed over"
        )

    @asks_core
    def action_stop(self) -> None:
        """End the run; the models stay."""
        if not self.feed.running:
            raise SpecvizError("nothing is running")
        self.feed.stop()

    @asks_core
    def action_start(self) -> None:
        """Ask what to decode, with which models and which method."""
        if self.feed.catalogue is None:
            raise SpecvizError("the models are still loading")
        library = self.controller.library
        bench = Bench(self.feed.names, library.look, library.model)
        self.controller.push(
            StartScreen(self.feed.catalogue, self.wanted(), bench),
            lambda begin: self.controller.ask_core(lambda: self._begin(begin)),
        )

    def wanted(self) -> Start:
        """What ran last, with the knobs that were given, moved and chosen for the next run."""
        last = self.feed.last_start
        like = last or self.feed.template or Start()
        knobs = {**like.knobs, **self.feed.standing, **self.feed.edits.sent, **self.feed.edits.staged}
        return Start(
            prompt="" if self.feed.talks and self.feed.talk else like.prompt,
            method=like.method,
            verifier=like.verifier,
            knobs=knobs,
            chat=self.feed.asked_chat,
            lanes=like.lanes,
            auto=like.auto,
        )

    def _begin(self, begin: Begin) -> None:
        """Decode what was chosen in the dialog. In a conversation a prompt is the next message; without one the choices
        are for the message to come."""
        self._adopt(begin.core)
        start = begin.start
        if not self.feed.talks or start.chat is False:
            self.feed.start(start)
            return
        self.feed.edits.take()  # the dialog has shown them, and has what became of them
        if start.prompt:
            self.feed.say(start.prompt, start)
        else:
            self.feed.chosen = start
            self.controller.notify("for the next message; m writes it")

    def _adopt(self, core: RunFeed | None) -> None:
        """Go on with a core that was loaded meanwhile; the one before leaves."""
        if core is not None:
            before, self.feed.names = self.feed.go_on_with(core), core.names
            self.controller.screen.run_worker(lambda: before.close(), thread=True)  # it needs its time

    @asks_core
    def action_record(self) -> None:
        """On or off."""
        path = self.feed.record(Path.cwd())
        what = IDS_ALONE if self.feed.redact else "prompt, text and settings, for your eyes alone"
        message = f"recording from the first round on: {path} ({what})"
        self.controller.notify(message if path else "recording ended")


def recording_text(path: Path | None) -> str:
    """`rec run.sv.jsonl 1.8 MB`, or nothing."""
    if path is None:
        return ""
    try:
        size = path.stat().st_size
    except OSError:
        return f"rec {path.name}"
    return f"rec {path.name} {size / 1e6:.1f} MB" if size >= 100_000 else f"rec {path.name} {size / 1e3:.0f} kB"
