"""Words that drafts, events and screens share; imports nothing, so that reading a trace stays quick."""

from typing import Literal

Mode = Literal["argmax", "sampled", "shared"]
DraftEnd = Literal[
    "full",
    "low_conf",
    "depth",
    "width",
    "stop_token",
    "length",
    "no_exit_layer",
    "signal",
    "no_match",
    "budget",
    "pausing",
]
LANES = ("auto", "serial", "threads", "streams", "two_device")  # where target and draft model run, as asked for
COMPILE = "SPECVIZ_COMPILE"  # the variable that is "off" where passes are not to be compiled
GRAPHS = "SPECVIZ_CUDA_GRAPHS"  # the variable that is "on" where passes on a CUDA device are to be recorded as graphs
