"""Guided lessons over recordings: steps that say what to press, and go on when it was done."""
