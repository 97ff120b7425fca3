"""Engines that people run elsewhere, and what can be seen of them from here."""
