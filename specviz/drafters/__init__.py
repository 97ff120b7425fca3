"""Drafters: one file each with a `make(models, knobs)`. A method names its drafter by path."""
