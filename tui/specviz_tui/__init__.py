"""The terminal front-end: it places, binds, styles and chooses the frame. What is shown comes from `specviz.view`."""
