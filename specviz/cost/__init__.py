"""Arithmetic of cost and clock, apart from any model: views, benchmarks and sweeps share it (no torch here)."""
