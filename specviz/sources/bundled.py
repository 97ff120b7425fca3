"""Recorded traces and prompts that come with the package, in the order in which they are offered."""

from functools import cache

from specviz.trace.bundled import FIRST, SUFFIXES, assets, bundled_traces, trace_name, traces_in

__all__ = ["FIRST", "SUFFIXES", "bundled_prompts", "bundled_traces", "trace_name", "traces_in"]


@cache
def bundled_prompts() -> dict[str, str]:
    """The prompts that come with the package."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(assets("prompts").glob("*.txt"))}
