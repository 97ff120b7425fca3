"""Five papers recomputed: what can be worked out exactly, by the modelled clock, or by replay of recorded rounds.

`recomputed` holds a module a paper with its tables, `table` what a table is and how a page of the documents takes it,
`chains` and `pipelines` what recorded rounds tell. Nothing here is timed: the same numbers come out on any machine.
"""
