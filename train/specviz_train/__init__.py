"""Training, from nothing, of the small target and draft model that specviz ships."""
