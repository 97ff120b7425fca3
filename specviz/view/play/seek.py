"""Ways to move a cursor: by step, phase, round and rejection, to a place named by a person, to a text."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from specviz.errors import SpecvizError
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.view.frame.frame import Cursor
from specviz.view.play.build import FrameBuilder
from specviz.view.words.palette import Phase

_PLACE = re.compile(r"^(?:q(?P<q>\d+)[/ ])?r?(?P<r>\d+)(?:[/ ]n(?P<n>\d+))?$")


def is_place(words: str) -> bool:
    """Whether a person meant a round or a node, not a piece of the text."""
    return _PLACE.match(words.strip().lower()) is not None


class Seek:
    """The moves of a player. Each returns whether it moved; a move by hand holds the screen."""

    run: Run
    builder: FrameBuilder
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
        if self.place.index < last:
            return False  # the newest round need not be read for that
        at = self.builder.steps(last)
        return at.place(self.cursor) == len(at.moments) - 1

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
            if not self.run.rounds.rejected(index):
                continue
            tests = self._failed_tests(index)
            beyond = [c for c in tests if (c > here if by > 0 else c < here)]
            if beyond:
                return self._go(beyond[0] if by > 0 else beyond[-1])
        return False

    def _failed_tests(self, index: int) -> list[Cursor]:
        """The moments of a round at which a test failed; its end where single tests are not recorded."""
        tests = self.builder.round_tree(index).tests
        if not tests:
            return [self._end_of(index)]
        return [Cursor(index, Phase.ACCEPT, k + 1) for k, v in enumerate(tests) if v.status == "rejected"]

    def seek_position(self, pos: int, q: int | None = None) -> bool:
        """To the round that committed the token at this position."""
        rounds = self.run.rounds
        if not rounds:
            return False
        query = rounds.place(self.cursor.index)[0] if q is None else q
        index_of_position = next((index for index in range(len(rounds)) if rounds.covers(index, query, pos)), None)
        return False if index_of_position is None else self.seek_index(index_of_position)

    def seek_time(self, t: int) -> bool:
        """To the last round that had begun at this time (ns of the trace's clock)."""
        return self.seek_index(bisect_right(range(len(self.run.rounds)), t, key=self.run.rounds.began) - 1)

    def seek_text(self, wanted: str) -> bool:
        """To the next round that completes this text, searching on from here and round again."""
        index_of_text = next((index for index in self.text_places(wanted) if index is not None), None)
        return False if index_of_text is None else self.seek_index(index_of_text)

    def text_places(self, wanted: str) -> Iterator[int | None]:
        """The rounds that complete a text, from the next one on and round again; None after each that does not."""
        here, n = self.cursor.index, len(self.run.rounds)
        yield from _completing(self.run, (*range(here + 1, n), *range(min(here + 1, n))), wanted)

    def seek(self, place: str) -> int | None:
        """To a place as people write it: `37`, `r37`, `q1/r3/n14`. Returns the node named, if any.

        Raises SpecvizError for what is no place, or is not in this run.
        """
        index, node = self.located(place)
        self.seek_index(index)
        return node

    def located(self, place: str) -> tuple[int, int | None]:
        """Number of the round over the whole run, and the node, of a place. Raises SpecvizError as `seek` does."""
        match = _PLACE.match(place.strip().lower())
        if match is None:
            raise SpecvizError(f"no place '{place}'; write a round and, if you like, a node: r37, r37/n14, q1/r3/n14")
        here = self.run.rounds.place(self.cursor.index)[0] if self.run.rounds else 0
        q, r = int(match["q"] or here), int(match["r"])
        index = self.run.find(q, r)
        if index is None:
            places = (self.run.rounds.place(index) for index in range(len(self.run.rounds)))
            last = max((number for query, number in places if query == q), default=0)
            known = f"no round {r} in query {q}; it has rounds 1 to {last}" if last else f"no query {q} here"
            raise SpecvizError(known)
        return index, int(match["n"]) if match["n"] else None


def _completing(run: Run, indexes: Iterable[int], wanted: str) -> Iterator[int | None]:
    """Which of these rounds complete an occurrence of `wanted`; None for each that does not.

    Rounds are read one after another, so of one before only the end of its text is kept.
    """
    if not wanted:
        return
    tail, known = "", (-1, -1)  # what stands before a round, and the round (of its query) it was worked out for
    for index in indexes:
        record = run.rounds[index]
        if known != (record.query.first, index):
            tail = _before(run, record, len(wanted) - 1)
        text = tail + "".join(record.commit.texts if record.commit else ())
        yield index if record.commit is not None and wanted in text else None
        tail, known = (
            text[max(0, len(text) - len(wanted) + 1) :] if len(wanted) > 1 else "",
            (record.query.first, index + 1),
        )


def _before(run: Run, record: RoundRecord, length: int) -> str:
    """So much of the query's new text as stands before a round."""
    before = ""
    for index in range(record.index - 1, record.query.first - 1, -1):
        if len(before) >= length:
            break
        commit = run.rounds[index].commit
        before = "".join(commit.texts if commit else ()) + before
    return before[max(0, len(before) - length) :] if length else ""
