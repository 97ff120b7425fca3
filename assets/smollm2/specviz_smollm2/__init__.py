"""Drafters, heads and a draft model trained for SmolLM2-135M-Instruct, which specviz finds where this is installed."""
