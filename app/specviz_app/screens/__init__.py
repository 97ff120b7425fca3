"""One function per page (not named `pages`: Streamlit would take every file in such a folder for a page of its own).

A page binds and places; figures are made in `figures`, numbers in `specviz.view`."""
