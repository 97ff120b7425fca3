"""Which setting of which method is fastest with this pair on these prompts: `specviz tune`.

`space` says what is tried, `search` who goes on (successive halving), `replays` leaves out what a recorded run already
decides, `measured` decodes and reports.
"""
