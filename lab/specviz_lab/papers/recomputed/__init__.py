"""A module a paper: its tables."""
