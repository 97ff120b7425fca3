"""For widgets that change with every step: a title that paints nothing but its own edge, a style asked for once."""

from typing import Any, Self

from rich.style import Style
from rich.text import Text
from textual.geometry import Region
from textual.widget import Widget


class Titled(Widget):
    """Titles are set with `entitle`: setting `border_title` itself would paint the box and all that is in it."""

    _titling = False
    _titles_said: tuple[str, str | None] = ("", None)

    def entitle(self, title: str, below: str | None = None) -> None:
        """The title, and the words in the lower edge where they are given."""
        titles = (title, below)
        if titles == self._titles_said:
            return
        self._titles_said = titles
        self._titling = True
        try:
            self.border_title = Text(title)
            if below is not None:
                self.border_subtitle = below
        finally:
            self._titling = False
        width, height = self.outer_size
        super().refresh(Region(-1, -1, width, 1), Region(-1, height - 2, width, 1))

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """As ever, but for what a title asks for."""
        if self._titling:
            return self
        options: dict[str, Any] = {"repaint": repaint, "layout": layout, "recompose": recompose}
        return super().refresh(*regions, **options)


class OneStyle(Widget):
    """Lines are painted on one style. Textual works it out anew at every asking, from all that a widget stands in."""

    auto_links = False  # nothing painted has any
    _base: Style | None = None

    @property
    def base_style(self) -> Style:
        """The widget's own, until `forget_style`."""
        if self._base is None:
            self._base = self.rich_style
        return self._base

    def forget_style(self) -> None:
        """It may be another now."""
        self._base = None
