"""Words that drafts, events and screens share; imports nothing, so that reading a trace stays quick."""

from typing import Literal

Mode = Literal["argmax", "sampled", "shared"]
DraftEnd = Literal[
    "full", "low_conf", "depth", "width", "stop_token", "length", "no_exit_layer", "signal", "no_match", "budget"
]
LANES = ("auto", "serial", "threads", "streams", "two_device")  # where target and draft model run, as asked for

# Verifiers that test a draft from its end: the longest prefix that passes is kept, and shorter ones with it. The rate
# "accepted / tested" means nothing for them (verification.md 8); survival does.
BACKWARD = frozenset({"blockwise", "hsd", "hsd_naive", "hsd_ref", "multi_hsd", "multi_traversal"})
