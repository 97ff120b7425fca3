"""Plots as pure functions: a frozen view-model in, a `plotly` figure out. No Streamlit here: they are tested as JSON.

Fonts, axes and grids take the page's theme; colours of marks come from the palette for the ground that is named.
"""
