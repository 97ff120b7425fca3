"""Plots as pure functions: a frozen view-model in, a `plotly` figure out. No Streamlit here: they are tested as JSON.

Plotly rather than the page framework's own charts: a figure is data, can be compared as JSON and shown in a notebook,
and its frames play a round without a word to the server. What must follow a run live is not Plotly (`live.py`): a chart
is replaced whole at every change.

Fonts, axes and grids take the page's theme; colours of marks come from the palette for the ground that is named.
"""
