"""`Viewer`: one tab's look at one source: its own fold of the events, its own cursor."""

from dataclasses import dataclass, replace

from specviz.errors import SpecvizError
from specviz.sources import Source
from specviz.view import Cursor, Feed, Frame, Options, Player
from specviz.view.frame.frame import Folding, TreeNode
from specviz.view.panels.exits.build import ExitsPanel
from specviz_app.server.core import NODE_NAMES, place_name
from specviz_app.ui.library import AT_A_TIME


@dataclass
class Viewer:
    """`name` is the source's; `player` holds the run and where in it we look."""

    name: str
    source: Source
    player: Player
    options: Options
    finished: bool = False  # everything was read, and the file let go of
    _behind: bool = False

    @classmethod
    def of(cls, name: str, source: Source) -> "Viewer":
        """A viewer at the end of the first round; of a run that goes on, at its newest."""
        viewer = cls(name, source, Player(animate=False), Options())
        try:
            viewer.refresh()
        except SpecvizError:
            source.close()
            raise
        viewer.player.seek_index(viewer.newest if source.live else 0)
        return viewer

    @property
    def newest(self) -> int:
        """The last round that has ended, else the first."""
        rounds = self.player.run.rounds
        return next((index for index in reversed(range(len(rounds))) if rounds[index].complete), 0)

    @property
    def reading(self) -> bool:
        """Whether more of a file is there than was read: a long one is read a part at a time (`refresh`)."""
        return self._behind and not self.finished

    def read_on(self) -> bool:
        """Read a part more of a long file; whether there was one. Raises TraceError for a damaged file."""
        return self.reading and self.refresh()

    def refresh(self) -> bool:
        """Take what is new; whether there was anything. Raises TraceError for a damaged file.

        Whoever looks at the newest round of a live run, and chose nothing in it, goes on with the run.
        """
        if self.finished:
            return False
        first, follows = not self.player.run.rounds, self.follows
        events = self.source.poll()
        self.player.extend(events)
        self._behind = len(events) == AT_A_TIME
        if self.source.ended:
            self.finished = True
            self.source.close()
        if first and self.player.run.rounds:
            self.player.seek_index(0)
        if follows and events:
            self.player.seek_index(self.newest)
        return bool(events)

    @property
    def follows(self) -> bool:
        """Whether it goes on with a live run."""
        chose = self.options.selected is not None or self.options.on_seek() != self.options
        return self.source.live and not chose and self.player.cursor.index >= self.newest

    # Where we are, as it stands in the address -----------------------------------------------------------------------

    @property
    def place(self) -> str:
        """`r37`, `r37/n14`, `q1/r3/closing`."""
        run = self.player.run
        if not run.rounds:
            return ""
        return place_name(run, self.player.cursor.index, self.options.selected)

    def go(self, place: str) -> None:
        """To a place of the address; a long file is read as far as that. Raises SpecvizError for what is none, or is
        not in this run."""
        while True:
            try:
                return self._go(place)
            except SpecvizError:
                if not self.read_on():
                    raise

    def _go(self, place: str) -> None:
        head, _, tail = place.rpartition("/")
        special = NODE_NAMES.get(tail)
        node = self.player.seek(head if special is not None else place)
        self.choose(special if special is not None else node)

    @property
    def layer(self) -> int | None:
        """The layer under the cursor of Early exit, where one was chosen."""
        return ExitsPanel.chosen(self.options).layer

    def look_at_layer(self, word: str | None) -> None:
        """Choose a layer as the address has it; None lets go of it. Raises SpecvizError for what is none of the target.

        Whoever lets go, or names one that is not there, looks where the row stopped.
        """
        self.options = ExitsPanel.choose(self.options, layer=None)
        if word is None:
            return
        header = self.player.run.header
        target = header.models.target if header is not None else None
        last = (target.n_layers if target is not None else None) or 0
        if not (word.isdecimal() and word.isascii()) or len(word) > 6 or not 1 <= int(word) <= last:
            raise SpecvizError(
                f"no layer '{word[:20]}' here; " + (f"there are 1 to {last}" if last else "none is known")
            )
        self.options = ExitsPanel.choose(self.options, layer=int(word))

    def choose(self, node: int | None) -> None:
        """Look at a node of the round; None follows the action. A node that is not there is refused."""
        if node is not None and self.player.run.rounds and node not in {n.id for n in self._all_nodes()}:
            raise SpecvizError(f"round {self.frame.round} has no node {node}")
        self.options = replace(self.options, selected=node)

    def _all_nodes(self) -> tuple[TreeNode, ...]:
        plain = replace(self.options, selected=None, folding="none")
        last = self._moments(self.player.cursor.index)[-1]
        return self.player.builder.frame(last, plain, self._feed).tree.nodes

    def seek(self, index: int) -> None:
        """To the end of a round, counted over the run."""
        self.player.seek_index(index)
        self.options = replace(self.options.on_seek(), selected=None)

    def asks(self, *panels: str, folding: Folding = "pruned") -> None:
        """What this page wants worked out and shown, and nothing that another page wanted."""
        self.options = replace(self.options, shown=panels, folding=folding)

    # What is painted -------------------------------------------------------------------------------------------------

    def end_of(self, index: int, options: Options) -> Frame:
        """A round as it ended, with what `options` ask for."""
        return self.player.builder.frame(self._moments(index)[-1], options, self._feed)

    @property
    def _feed(self) -> Feed:
        return Feed("open" if self.player.run.header is not None else "idle")

    @property
    def frame(self) -> Frame:
        """The round under the cursor, as it ended."""
        index = self.player.cursor.index
        return self._at(self._moments(index)[-1]) if self.player.run.rounds else self.player.frame(self.options)

    def moments(self) -> list[Frame]:
        """Every moment of the round, in order."""
        return (
            [self._at(cursor) for cursor in self._moments(self.player.cursor.index)] if self.player.run.rounds else []
        )

    def _moments(self, index: int) -> list[Cursor]:
        at = self.player.builder.steps(index)
        return [at.cursor(index, k) for k in range(len(at.moments))]

    def _at(self, cursor: Cursor) -> Frame:
        return self.player.builder.frame(cursor, self.options, self._feed)
