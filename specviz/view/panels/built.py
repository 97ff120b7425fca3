"""`BlockPanel`: a panel that is nothing but blocks. Every front-end shows it, and knows nothing of it."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from specviz.view.blocks import Block
from specviz.view.panels import OptionsT, Panel, all_panels


class Toggle(NamedTuple):
    """An option that is on or off: its name, its key in the terminal, a word and a sentence for it."""

    name: str
    key: str
    word: str
    help: str


@dataclass(frozen=True, slots=True)
class BlockModel:
    """The blocks of a panel, from top to bottom. `missing`: why there are none."""

    missing: str | None
    blocks: tuple[Block, ...] = ()


class BlockPanel(Panel[OptionsT, BlockModel]):
    """`build` gives its blocks. `key` opens it in the terminal, `about` explains it in the guide, `order` is its place
    in the browser's row of panels; `in_stats`: `specviz stats` prints it as well."""

    key: ClassVar[str]
    about: ClassVar[str]
    order: ClassVar[int] = 80
    in_stats: ClassVar[bool] = True
    toggles: ClassVar[tuple[Toggle, ...]] = ()

    def empty(self, reason: str) -> BlockModel:
        return BlockModel(reason)


def block_panels() -> list[type[BlockPanel[Any]]]:
    """Every panel that is nothing but blocks."""
    return [panel for panel in all_panels() if issubclass(panel, BlockPanel)]
