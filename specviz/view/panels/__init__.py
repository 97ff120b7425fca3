"""`Panel`: something to see of a round beside its tree. Panels are found here, a folder each: `model` (what is shown),
`build` (the panel's class, named by nothing else), and the words and numbers of it; others are handed to `register`.

A panel's model is plain values under `Frame.panels[id]`; what a person chose in it is under `Options.panels[id]`.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.traits import MethodTraits
from specviz.view.frame.frame import Frame, Options, PanelOptions, TreeFrame
from specviz.view.frame.judgement import NO_JUDGEMENT, RunJudgement
from specviz.view.frame.parts import Remark
from specviz.view.frame.steps import Moment

if TYPE_CHECKING:
    from specviz.metrics import Metrics


__all__ = [
    "AnyPanel",
    "CachedValue",
    "Panel",
    "PanelContext",
    "Remark",
    "all_panels",
    "register",
    "remarks",
    "unregister",
]

OptionsT = TypeVar("OptionsT", bound=PanelOptions)


class PanelModel(Protocol):
    """Plain values that front-ends paint. `missing`: why there are none; None or empty where there are."""

    @property
    def missing(self) -> str | None: ...


ModelT = TypeVar("ModelT", bound=PanelModel)
AnyPanel = type["Panel[Any, Any]"]


@dataclass(frozen=True, slots=True)
class PanelContext:
    """A moment of a round as every panel is given it. `metrics`, `judgement`: over all rounds so far."""

    round_tree: RoundTree
    now: Moment
    tree: TreeFrame  # what the canvas shows at this moment
    selected: int | None
    metrics: "Metrics | None"
    ascii: bool = False
    judgement: RunJudgement = NO_JUDGEMENT

    @property
    def record(self) -> RoundRecord:
        return self.round_tree.record


class Panel(Generic[OptionsT, ModelT]):
    """One panel over one run; it may keep what it worked out for rounds that have ended."""

    id: ClassVar[str]  # the name of its folder
    title: ClassVar[str]
    options: ClassVar[type[PanelOptions]] = PanelOptions

    def __init__(self, run: Run) -> None:
        self.run = run

    @classmethod
    def needs(cls, traits: MethodTraits) -> bool:
        """Whether runs of a method with these traits have what the panel shows."""
        return True

    @classmethod
    def relevance(cls, run: Run) -> int:
        """How well the panel suits the run: 0 it stays empty, 1 it shows something, 2 it explains this method."""
        return int(cls.needs(run.method_traits))

    def build(self, scene: PanelContext, options: OptionsT) -> ModelT:
        """The model of a moment; with its reason where there is nothing to show."""
        raise NotImplementedError

    def empty(self, reason: str) -> ModelT:
        """The model before the first round."""
        raise NotImplementedError

    def on_evict(self, record: RoundRecord) -> None:
        """A round is about to go out of memory: what is counted over a whole run is counted now, and not read again.

        Told of every round in order, where the run has what the panel `needs`.
        """

    def n_unread(self) -> int:
        """How many rounds remain to be counted before the panel's numbers over the whole run are complete."""
        return 0

    def advance(self, n_rounds: int) -> None:
        """Look at so many of them."""

    def kept(self) -> bytes:
        """What it counted over all rounds of a finished run, to be kept with a recording; empty: nothing."""
        return b""

    def from_cache(self, data: bytes) -> None:
        """Take what was `kept` of this run in place of counting it. Raises ValueError for something else."""

    def window(self, index: int) -> range:
        """Rounds it looks at for the one with this index."""
        return range(0)

    def follows(self, tree: RoundTree, now: Moment) -> int | None:
        """The node shown when the user selected none; None: the node whose state changed last."""
        return None

    @classmethod
    def explain(cls, run: Run, tree: RoundTree, node: int) -> Remark | None:
        """What the panel knows about a node, the root or the closing token."""
        return None

    # For front-ends: its model in a frame, and its options among those of a frame

    @classmethod
    def of(cls, frame: Frame | None) -> ModelT | None:
        """The panel's model, where the frame has it."""
        return cast("ModelT | None", frame.panels.get(cls.id)) if frame is not None else None

    @classmethod
    def chosen(cls, options: Options) -> OptionsT:
        """What was chosen in this panel."""
        return cast(OptionsT, options.panels.get(cls.id) or cls.options())

    @classmethod
    def choose(cls, options: Options, **changes: Any) -> Options:
        """The options with something else chosen in this panel."""
        return replace(options, panels={**options.panels, cls.id: replace(cls.chosen(options), **changes)})


_brought: dict[str, AnyPanel] = {}


def register(panel: AnyPanel) -> AnyPanel:
    """Add a panel that does not lie in `view/panels`, or put another in place of one. To be used as a decorator."""
    _brought[panel.id] = panel
    return panel


def unregister(id: str) -> None:
    """Forget a panel that was brought."""
    _brought.pop(id, None)


def all_panels() -> tuple[AnyPanel, ...]:
    """Every panel, those of `view/panels` first, by their folders."""
    return tuple({**_found(), **_brought}.values())


@cache
def _found() -> dict[str, AnyPanel]:
    panels = {}
    for folder in pkgutil.iter_modules(__path__):
        home = f"{__name__}.{folder.name}.build"
        if folder.ispkg and find_spec(home):
            for panel in vars(importlib.import_module(home)).values():
                if isinstance(panel, type) and issubclass(panel, Panel) and panel.__module__ == home:
                    panels[panel.id] = panel
    return panels


def remarks(run: Run, tree: RoundTree, node: int) -> Remark:
    """What all panels have to say about a node, put together."""
    panel_remarks = [remark for panel in all_panels() if (remark := panel.explain(run, tree, node)) is not None]
    rows = tuple(row for remark in panel_remarks for row in remark.rows)
    return Remark(rows, " ".join(remark.words for remark in panel_remarks if remark.words))


T = TypeVar("T")


class CachedValue(Generic[T]):
    """One value and its key; keys are compared by equality."""

    def __init__(self) -> None:
        self._held: tuple[Any, T] | None = None

    def of(self, key: Any, make: Callable[[], T]) -> T:
        """The value of a key: the held one, or a new one."""
        if self._held is None or self._held[0] != key:
            self._held = (key, make())
        return self._held[1]
