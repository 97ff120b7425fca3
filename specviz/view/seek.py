"""Ways to move a cursor: by step, phase, round and rejection, to a place named by a person, to a text."""

import re

from specviz.errors import SpecvizError
from specviz.view.build import Builder
from specviz.view.fold import Run
from specviz.view.frame import Cursor, Phase

_PLACE = re.compile(r"^(?:q(?P<q>\d+)[/ ])?r?(?P<r>\d+)(?:[/ ]n(?P<n>\d+))?$")


def is_place(words: str) -> bool:
    """Whether a person meant a round or a node, not a piece of the text."""
    return _PLACE.match(words.strip().lower()) is not None


class Seek:
    """The moves of a player. Each returns whether it moved; a move by hand holds the screen."""

    run: Run
    builder: Builder
    place: Cursor
    playing: bool
    following: bool

    @property
    def cursor(self) -> Cursor:
        """The moment on screen, always one that exists."""
        if not self.run.rounds:
            return Cursor()
        index = min(self.place.index, len(self.run.rounds) - 1)
        at = self.builder.steps(index)
        wanted = self.place if index == self.place.index else Cursor(index)
        return at.cursor(index, at.place(wanted))

    @property
    def at_end(self) -> bool:
        """Whether the last recorded moment is on screen."""
        if not self.run.rounds:
            return True
        last = len(self.run.rounds) - 1
        at = self.builder.steps(last)
        return self.cursor.index == last and at.place(self.cursor) == len(at.moments) - 1

    def _go(self, cursor: Cursor, hold: bool = True) -> bool:
        moved = cursor != self.cursor
        self.place = cursor
        if hold:
            self.playing = self.following = False
        return moved

    def _end_of(self, index: int) -> Cursor:
        at = self.builder.steps(index)
        return at.cursor(index, len(at.moments) - 1)

    def next_step(self, hold: bool = True) -> bool:
        """One step on: a level, a test, a phase."""
        return self._step(1, hold)

    def prev_step(self, hold: bool = True) -> bool:
        """One step back."""
        return self._step(-1, hold)

    def _step(self, by: int, hold: bool) -> bool:
        here = self.cursor
        if not self.run.rounds:
            return False
        at = self.builder.steps(here.index)
        place = at.place(here) + by
        if 0 <= place < len(at.moments):
            return self._go(at.cursor(here.index, place), hold)
        index = here.index + by
        if not 0 <= index < len(self.run.rounds):
            return self._go(here, hold)
        return self._go(Cursor(index, Phase.ROOT) if by > 0 else self._end_of(index), hold)

    def next_phase(self) -> bool:
        """To the first step of the next phase (of the next round after the last)."""
        return self._phase(1)

    def prev_phase(self) -> bool:
        """To the first step of the phase before."""
        return self._phase(-1)

    def _phase(self, by: int) -> bool:
        start = self.cursor
        moved = False
        while self._step(by, True):
            moved = True
            here = self.cursor
            if (here.index, here.phase) != (start.index, start.phase):
                break
        return moved

    def next_round(self, hold: bool = True) -> bool:
        """To the end of the next round."""
        return self.seek_index(self.cursor.index + 1, hold)

    def prev_round(self, hold: bool = True) -> bool:
        """To the end of the round before."""
        return self.seek_index(self.cursor.index - 1, hold)

    def seek_index(self, index: int, hold: bool = True) -> bool:
        """To the end of a round by its number over the whole run, from 0; clamped."""
        if not self.run.rounds:
            return False
        return self._go(self._end_of(max(0, min(index, len(self.run.rounds) - 1))), hold)

    def first(self) -> bool:
        """To the very beginning."""
        return bool(self.run.rounds) and self._go(Cursor(0, Phase.ROOT))

    def live(self) -> bool:
        """To the newest moment that shows something, and stay there as the run grows."""
        self.following, self.playing = True, False
        last = len(self.run.rounds) - 1
        return last >= 0 and self._go(self._end_of(last - 1 if last and self.bare(last) else last), hold=False)

    def bare(self, index: int) -> bool:
        """Whether a round of a run that goes on has only begun: there is nothing of it but its root."""
        return (
            self.run.end is None and not self.run.rounds[index].complete and len(self.builder.steps(index).moments) < 2
        )

    def next_rejection(self) -> bool:
        """To the next test that failed."""
        return self._rejection(1)

    def prev_rejection(self) -> bool:
        """To the test before that failed."""
        return self._rejection(-1)

    def _rejection(self, by: int) -> bool:
        here, count = self.cursor, len(self.run.rounds)
        for index in range(here.index, count if by > 0 else -1, by):
            if not self.run.rounds[index].rejected:
                continue
            found = self._failed_tests(index)
            beyond = [c for c in found if (c > here if by > 0 else c < here)]
            if beyond:
                return self._go(beyond[0] if by > 0 else beyond[-1])
        return False

    def _failed_tests(self, index: int) -> list[Cursor]:
        """The moments of a round at which a test failed; its end where single tests are not recorded."""
        tests = self.builder.family(index).tests
        if not tests:
            return [self._end_of(index)]
        return [Cursor(index, Phase.ACCEPT, k + 1) for k, v in enumerate(tests) if v.status == "rejected"]

    def seek_position(self, pos: int, q: int | None = None) -> bool:
        """To the round that committed the token at this position."""
        query = self.run.rounds[self.cursor.index].q if q is None and self.run.rounds else q
        for record in self.run.rounds:
            if record.q == query and record.commit and record.start.n <= pos < record.commit.n:
                return self.seek_index(record.index)
        return False

    def seek_time(self, t: int) -> bool:
        """To the last round that had begun at this time (ns of the trace's clock)."""
        begun = [record.index for record in self.run.rounds if record.start.t <= t]
        return self.seek_index(begun[-1] if begun else 0)

    def seek_text(self, wanted: str) -> bool:
        """To the next round that completes this text, searching on from here and round again."""
        found = [record.index for record in self.run.rounds if _completes(self.run, record.index, wanted)]
        if not found:
            return False
        here = self.cursor.index
        return self.seek_index(next((index for index in found if index > here), found[0]))

    def seek(self, place: str) -> int | None:
        """To a place as people write it: `37`, `r37`, `q1/r3/n14`. Returns the node named, if any.

        Raises SpecvizError for what is no place, or is not in this run.
        """
        match = _PLACE.match(place.strip().lower())
        if match is None:
            raise SpecvizError(f"no place '{place}'; write a round and, if you like, a node: r37, r37/n14, q1/r3/n14")
        here = self.run.rounds[self.cursor.index].q if self.run.rounds else 0
        q, r = int(match["q"] or here), int(match["r"])
        index = self.run.find(q, r)
        if index is None:
            last = max((record.r for record in self.run.rounds if record.q == q), default=0)
            known = f"no round {r} in query {q}; it has rounds 1 to {last}" if last else f"no query {q} here"
            raise SpecvizError(known)
        self.seek_index(index)
        return int(match["n"]) if match["n"] else None


def _completes(run: Run, index: int, wanted: str) -> bool:
    """Whether this round's tokens complete an occurrence of `wanted`."""
    record = run.rounds[index]
    if not wanted or record.commit is None:
        return False
    new = "".join(record.commit.texts)
    before = ""
    for earlier in reversed(record.query.rounds[: record.r - 1]):
        if len(before) >= len(wanted) - 1:
            break
        before = "".join(earlier.commit.texts if earlier.commit else ()) + before
    tail = before[max(0, len(before) - len(wanted) + 1) :] if len(wanted) > 1 else ""
    return wanted in tail + new
