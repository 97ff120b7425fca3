"""A recorder inside serving engines: what was drafted, tested and kept, as a trace that specviz reads.

Engines load it as a plugin. `SPECVIZ_RECORD=FILE` switches it on; without the variable nothing is hooked. It returns
the engine's own results, draws nothing, and turns itself off with one line where anything is not as expected.
"""
