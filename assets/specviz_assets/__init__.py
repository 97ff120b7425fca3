"""Bundled files: the embedded pair, traces, prompts. Found with `importlib.resources`."""
