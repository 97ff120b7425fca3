"""What the terminal adds to a `ChatRun`: options of the screen, bookmarks kept beside a recording, seconds counted
while nothing comes, and a recording (`prelude`) that plays while the models load. It stays for as long as a person
looks at a moment of it, since a paced core waits."""

from dataclasses import replace
from pathlib import Path

from specviz.commands import Start
from specviz.events import At, Note
from specviz.numerals import percent
from specviz.sources.base import Source
from specviz.sources.live_run import IdleWords
from specviz.sources.model_names import ModelNames
from specviz.sources.talking_run import ChatRun, proposed
from specviz.text import running
from specviz.view import WATCHED, Feed, Frame, Options, Player, Run
from specviz.view.frame.judgement import CountedRun
from specviz_tui.common.bookmarks import keep_bookmark, kept_bookmarks

WORDS = IdleWords("nothing is open: press o", "press p to enter a prompt")
TALKING = IdleWords("nothing is open: press o", "press m to say something, p for another model or method")
PRELUDE = "meanwhile the recording"
READY = "of a recording · the models are ready: End shows the live run"
SEEN_FIRST = 3  # rounds of the first answer that wait for the eye, before it comes at full speed
EVERY_ROUND = "every round"
FILLING = "its first rounds; indexing"
PATIENCE_S = 0.02  # of a frame for rounds of a long recording that a screen must read first
QUIET_S = 3  # seconds without a record of a run that goes on after which the screen counts them


class RunFeed(ChatRun):
    """What is on screen, and how the person wants to see it."""

    def __init__(
        self,
        source: Source,
        name: str,
        animate: bool = True,
        ascii: bool = False,
        *,
        paced: bool = False,
        prelude: Player | None = None,
    ) -> None:
        super().__init__(source, WORDS, animate=animate, paced=paced)
        self.name, self.prelude = name, prelude
        if prelude is not None:
            prelude.every = True
            prelude.first()
            prelude.play()
        self.path: Path | None = None  # of a recording: bookmarks are kept beside it
        self.options = Options(ascii=ascii, patience_s=PATIENCE_S)
        self.template: Start | None = None  # what the dialog proposes before anything has run
        self.names = ModelNames()  # of its core
        self.chosen: Start | None = None  # method and knobs of the message to come, as the dialog has them
        self._again = False  # a recording begins again at its end
        self._eases = False  # the first answer comes: a few rounds for the eye, then at full speed
        self._seen_run = 0  # the run of which a node was chosen
        self._recalled: list[Note] | None = None  # bookmarks of earlier visits that wait for their rounds

    @property
    def asked_chat(self) -> bool | None:
        """Whether prompts are messages, as the command line says; None: it does not."""
        return self.template.chat if self.template is not None else None

    @property
    def speaks(self) -> bool:
        """Whether a message can be typed: to a model that talks, or to one that is named and still being loaded."""
        if not self.live or self.asked_chat is False:
            return False
        return self.talks if self.catalogue is not None else bool(self.names.target)

    @property
    def player(self) -> Player:
        """What is on screen: the run, or the recording that plays while the models load."""
        return self.prelude or self.live_player

    def ready(self) -> None:
        """Answers stream as fast as they come, but for the first rounds; one that was asked for while the models loaded
        is decoded by what can run, unless a method was named."""
        if self.speaks:
            self.words, self._eases = TALKING, self.paced
        waiting = self.talk.waiting
        if waiting is not None and self.template is None and self.catalogue is not None:
            waiting.method = proposed(self.catalogue, waiting.method)

    def read(self) -> int:
        """Apply everything new; another run has nothing selected, and its bookmarks come back with their rounds."""
        n_new = super().read()
        if self.generation > max(1, self._seen_run):
            self.options = replace(self.options, selected=None)
        self._seen_run = self.generation
        self._recall()
        return n_new

    def _adopt(self, run: Run, counted: CountedRun | None) -> None:
        """Bookmarks set among the first rounds are kept beside the recording, so they come back as well."""
        super()._adopt(run, counted)
        self._recalled = None

    def play_again_and_again(self, again: bool = True) -> None:
        """Play a recording from its first round on, and begin again at its end; False: no more of that."""
        self._again = again
        if again:
            self.player.every = True
            self.player.first()
            self.player.play()

    def move(self, now: float) -> bool:
        """Move what is shown; a recording that fills the time begins again at its end and goes when it may."""
        waits = self.catalogue is None or (self.preparing and self.run.header is None)
        left = False
        if self._eases and self._seen_enough:
            self.switch_pace()
            self.live_player.speed = 1.0 if self.live_player.speed == WATCHED else self.live_player.speed
        if self.prelude is not None and (self.prelude.playing or self.prelude.following):
            if left := not waits or self.failed is not None:
                self.to_live()
            elif self.prelude.following:
                self.prelude.play()
        if self._again and self.player.following and self.player.at_end:
            self.player.play()
        return self.player.tick(now) or left

    @property
    def _seen_enough(self) -> bool:
        """Whether the first rounds of the first answer were seen to their end, or there are no more."""
        player = self.live_player
        seen = player.place.index + 1 >= SEEN_FIRST and player.at_end
        return self._began and player.following and (seen or self.run.end is not None)

    def switch_pace(self) -> bool:
        """The pace is a person's own from now on."""
        self._eases = False
        return super().switch_pace()

    def to_live(self) -> None:
        """To the newest moment of the run itself; a recording that filled the time is put away."""
        if self.prelude is None:
            self.live_player.live()
        elif self.catalogue is not None or self.failed:
            self.prelude = None
            self.options = self.options.clear_cursor()

    def frame(self) -> Frame:
        """What to paint now."""
        options = replace(self.options, staged=self.edits.staged, sent=self.edits.sent)
        return self.player.frame(options, self._shown_status())

    def _shown_status(self) -> Feed:
        status = self.status()
        if status.name == "loading":
            clock, name = f"{self.now - (self.opened_at or 0):.0f} s", self._prelude_name
            beside = f"{clock} · {PRELUDE} {name}" if self.prelude else clock
            return replace(status, beside=beside, steerable=self.prelude is None, meanwhile=name)
        if self.filling is not None:
            return replace(status, beside=f"{FILLING} {percent(self.filling)}")
        if status.name != "open" or not self.has_core:
            return status
        if self.prelude is not None:
            return Feed("open", beside=READY, meanwhile=self._prelude_name)
        return replace(status, beside=self._progress())

    @property
    def _prelude_name(self) -> str:
        header = self.prelude.run.header if self.prelude is not None else None
        return running(header.run) if header is not None else ""

    def _progress(self) -> str:
        """How a run that goes on is followed, or how long nothing came of it."""
        if not self.running or self.held or not self.live_player.following:
            return ""
        quiet = self.now - self.heard_at
        if quiet >= QUIET_S and self.live_player.at_end:
            return f"waiting for the core, {quiet:.0f} s"
        return EVERY_ROUND if self.paced else ""

    @property
    def other_pace(self) -> str:
        """What `switch_pace` would bring; nothing where no core listens."""
        return "" if not self.live else "full speed" if self.paced else EVERY_ROUND

    def toggle_hold(self) -> bool:
        """Hold the core before its next round, or let it go on. Returns whether it holds."""
        self.hold(not self.held)
        return self.held

    def step_core(self) -> None:
        """Let a held core run one round, and look at it."""
        self.step()
        self.to_live()

    # Bookmarks -------------------------------------------------------------------------------------------------------

    @property
    def keeps_notes(self) -> bool:
        """Whether bookmarks are kept though no trace takes them: those of a recording, to come back to."""
        return not self.has_core

    def note(self, text: str) -> None:
        """A bookmark at the round on screen, part of the trace that is being recorded. One set in a recording is kept
        beside it. Raises SpecvizError when that cannot be done; it is there until one leaves."""
        run, cursor = self.player.run, self.player.cursor  # perhaps of a recording that fills the time
        record = run.rounds[cursor.index]
        note = Note(text=text, at=At(r=record.r, node=self.options.selected), q=record.q, r=record.r, t=record.start.t)
        if self.prelude is not None:
            self.prelude.extend([note])
            return
        self.add_note(note)
        if self.keeps_notes and run.header is not None:
            keep_bookmark(run.header, note, self.path)

    def _recall(self) -> None:
        """Put the bookmarks of earlier visits at their rounds; those of rounds still to come wait."""
        run = self.player.run
        if self._recalled is None and self.keeps_notes and run.header is not None:
            self._recalled = kept_bookmarks(run.header, self.path)
        if self._recalled:
            here = [note for note in self._recalled if run.find(note.q, note.at.r) is not None]
            self._recalled = [note for note in self._recalled if note not in here]
            self.take([*here])
