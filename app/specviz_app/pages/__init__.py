"""One function per page. A page binds and places; figures are made in `figures`, numbers in `specviz.view`."""
