"""`Player`: where in the run we are, and how that moves. A growing stream and a finished file are played alike.

Time is handed in (`tick(now)`), never read. When the core is faster than the view whole rounds are passed over, and the
queue says so; with `every` nothing is, for a core that is held to the view (`Pace`). A bare root is not gone to.
"""

from collections.abc import Iterable

from specviz.events import Event, Header
from specviz.runlog.fold import Run
from specviz.view.frame.frame import Cursor, Feed, Frame, Options, Queue
from specviz.view.frame.judgement import CountedRun
from specviz.view.play.build import FrameBuilder
from specviz.view.play.seek import Seek
from specviz.view.words.palette import Phase

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
STEP_S = 0.45  # one step at 1x
ROUND_S = 1.2  # one round at 1x when only end states are shown
LONGEST_S = 10.0  # longest wait when playing as recorded
LATE_S = 0.1  # with `every`: a look that comes later than this takes no more steps for it


class Player(Seek):
    """A cursor over a run. `animate` False shows end states only."""

    def __init__(self, run: Run | None = None, animate: bool = True) -> None:
        self.run = run or Run()
        self.builder = FrameBuilder(self.run)
        self.animate = animate
        self.playing, self.following = False, True
        self.speed = 1.0  # 0: as recorded
        self.every = False  # pass over nothing
        self.place = Cursor()
        self._since: float | None = None  # when the moment on screen came up
        self._skipped = 0
        if self.run.rounds:
            self.live()

    def extend(self, events: Iterable[Event]) -> None:
        """Take new events; a new header begins a new run.

        A cursor that follows moves at the next tick, or at once when nothing was shown yet.
        """
        first = not self.run.rounds
        for event in events:
            if isinstance(event, Header) and self.run.header is not None:
                self._begin()
                first = True
            self.run.apply(event)
        if not self.run.rounds or not self.following:
            return
        if first and self.every:
            self.place = Cursor(0, Phase.ROOT) if self.animate else self._end_of(0)
        elif first or not (self.animate or self.every):
            self.live()

    def adopt(self, run: Run, counted: CountedRun | None) -> None:
        """All rounds of a finished run of which the first ones were shown so far. The cursor stays where it is.

        One that nobody has moved goes to the first round: nothing more comes to be followed.
        """
        self.run, self.builder = run, FrameBuilder(run, counted)
        self._since = None
        if self.following and run.rounds:
            self.seek_index(0)

    def _begin(self) -> None:
        """Another run on the same stream: a worker decodes one prompt after the other."""
        self.run = Run()
        self.builder = FrameBuilder(self.run)
        self.place, self.playing, self.following = Cursor(), False, True
        self._since, self._skipped = None, 0

    def frame(self, options: Options | None = None, feed: Feed | None = None) -> Frame:
        return self.builder.frame(
            self.cursor,
            options or Options(),
            feed or Feed(),
            playing=self.playing,
            following=self.following,
            speed=self.speed,
            queue=self.queue,
            at_end=self.at_end,
        )

    @property
    def queue(self) -> Queue:
        """How far the screen is behind."""
        waiting = self.waiting
        if self.following and self.every:
            return Queue(waiting)
        if self.following and self._skipped:
            return Queue(waiting, f"showing 1 of {self._skipped + 1} rounds")
        return Queue(waiting, f"+{waiting} waiting" if waiting else "")

    @property
    def waiting(self) -> int:
        """Rounds of a growing run that are not shown yet."""
        return 0 if self.run.end is not None else max(0, len(self.run.rounds) - 1 - self.place.index)

    # Playing --------------------------------------------------------------------------------------------------------

    def toggle(self) -> None:
        """Play or pause. Pausing never stops the recording."""
        if self.playing or (self.following and self.run.end is None):
            self.pause()
        else:
            self.play()

    def play(self) -> None:
        """Go on from here; from the start when the end is on screen."""
        if self.at_end and self.run.end is not None:
            self.first()
        self.playing, self.following, self._since = True, False, None

    def pause(self) -> None:
        """Hold the screen where it is."""
        self.playing, self.following, self._since = False, False, None

    def faster(self, by: int = 1) -> None:
        """The next higher (or, with -1, lower) speed."""
        at = SPEEDS.index(self.speed) if self.speed in SPEEDS else SPEEDS.index(1.0)
        self.speed = SPEEDS[max(0, min(len(SPEEDS) - 1, at + by))]

    def slower(self) -> None:
        self.faster(-1)

    def as_recorded(self) -> None:
        """The pace of the recording, round by round."""
        self.speed = 0.0

    def tick(self, now: float) -> bool:
        """Move on if it is time. Returns whether the cursor moved."""
        if not self.run.rounds or not (self.playing or self.following):
            return False
        before = self.cursor
        if self.following:
            self._follow(now)
        else:
            self._advance(now)
            if self._must_wait():
                self.playing, self.following = False, True
        return self.cursor != before

    def _follow(self, now: float) -> None:
        """Show the newest round step by step while the view keeps up; else its end, counting what was passed over."""
        behind = len(self.run.rounds) - 1 - self.place.index
        if not self.every and (not self.animate or behind > 1):
            self.live()
            self._skipped, self._since = max(0, behind - 1), now
        else:
            self._advance(now)

    def _advance(self, now: float) -> None:
        """As many steps as are due."""
        if self._since is None:
            self._since = now
        if self._must_wait():  # what comes next does not make up for the time that passed meanwhile
            self._since = max(self._since, now - self._delay())
        elif self.every and self.speed:
            self._since = max(self._since, now - max(LATE_S, 1.5 * self._delay()))  # one step, or what fits into LATE_S
        while not self._must_wait() and now - self._since >= (delay := self._delay()):
            self._since += delay
            if self.animate and self.speed:
                self.next_step(hold=False)
            else:
                self.next_round(hold=False)
            self._skipped = 0

    def _must_wait(self) -> bool:
        """Whether there is nothing to go on to: the newest moment is on screen, or what follows is a bare root."""
        here, last = self.cursor, len(self.run.rounds) - 1
        if here.index + 1 != last:
            return self.at_end
        if not self.animate:
            return self.run.end is None and not self.run.rounds[last].complete
        return self.bare(last) and here == self._end_of(here.index)

    def _delay(self) -> float:
        if not self.speed:
            return self._recorded_gap()
        return (STEP_S if self.animate else ROUND_S) / self.speed

    def _recorded_gap(self) -> float:
        """Seconds between the end of this round and the next one's, as recorded."""
        index = self.cursor.index
        if index + 1 >= len(self.run.rounds):
            return 0.0
        here, there = (r.end.t if r.end else r.start.t for r in self.run.rounds[index : index + 2])
        return min(LONGEST_S, max(0, there - here) / 1e9)


WATCHED = 2.0  # speed of a run that waits for the eye


class Pace:
    """For one run; another run needs another one."""

    def __init__(self) -> None:
        self._asked = -1  # rounds already complete when the next one was requested

    def due(self, player: Player) -> bool:
        """Whether to ask for a round now; True once for every round. The run has begun and not ended."""
        rounds = player.run.rounds
        done = len(rounds) if not rounds or rounds[-1].complete else len(rounds) - 1
        if not player.at_end or done <= self._asked:
            return False
        self._asked = done
        return True
