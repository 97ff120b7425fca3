"""A server's counters, live."""
