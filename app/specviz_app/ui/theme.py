"""Light and dark, in the colours of `specviz.view.words.palette`."""

from typing import Any, Literal

from specviz.runlog.run import Mark
from specviz.view.words.palette import colour

Ground = Literal["dark", "light"]
_ORDER: tuple[Mark, ...] = ("accepted", "rejected", "recovered", "bonus", "exit", "drafted", "untested")
GROUNDS: dict[Ground, dict[str, str]] = {
    "light": {
        "backgroundColor": "#FFFFFF",
        "secondaryBackgroundColor": "#F3F5F7",
        "textColor": "#1A1A1A",
        "borderColor": "#D5DADF",
    },
    "dark": {
        "backgroundColor": "#10141A",
        "secondaryBackgroundColor": "#1A212A",
        "textColor": "#E6E6E6",
        "borderColor": "#2E3843",
    },
}


def theme() -> dict[str, Any]:
    """Streamlit's theme options; both grounds are given, so that the person may switch."""
    options: dict[str, Any] = {
        "theme.baseRadius": "6px",
        "theme.showWidgetBorder": True,
        "theme.metricValueFontSize": "1.35rem",
        "theme.headingFontSizes": ["1.7rem", "1.4rem", "1.15rem", "1.05rem", "1rem", "1rem"],
        "theme.paddingTop": "1.5rem",
    }
    for ground, plain in GROUNDS.items():
        colours = [colour(mark, ground == "dark") for mark in _ORDER]
        values = {**plain, "primaryColor": colours[0], "linkColor": colours[0], "chartCategoricalColors": colours}
        options |= {f"theme.{ground}.{name}": value for name, value in values.items()}
    return options
