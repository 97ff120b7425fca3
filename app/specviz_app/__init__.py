"""The dashboard: the same run in a browser. Places, binds and styles; every number comes from `specviz.view`."""
