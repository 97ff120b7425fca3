"""`specviz lab bench`: our methods against the library's own loops, paired, interleaved, with every number's spread.

Settings, prompts, statistics and reports know no torch; `ours`, `peers` and `run` do, and are imported when a
measurement begins. A model object never serves both sides: the peers load their own copy.
"""
