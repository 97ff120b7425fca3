"""The panels, a folder each: `model` (what is shown), `build` (its `Panel`), and the words and numbers of it."""

from specviz.view.panel import Panel, Remark, Scene, all_panels, register

__all__ = ["Panel", "Remark", "Scene", "all_panels", "register"]
