"""Rounds of other engines, out of their answers, logs and reports, as traces."""
