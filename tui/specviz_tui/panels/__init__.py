"""The panes, a module each, found here; what a pane paints lies in its `_views`, its style sheet beside it."""
