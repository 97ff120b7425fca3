"""Looking for rounds, nodes and texts."""
