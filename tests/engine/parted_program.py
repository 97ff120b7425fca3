"""A process of two that share a target: the first decodes with every method, parted and whole, and prints them."""

import json
import sys
from dataclasses import replace

import torch

from specviz.cli.options import lacking
from specviz.commands import Start
from specviz.engine.model.files import loading
from specviz.engine.model.files.loading import Loaded, load
from specviz.engine.model.pair import Pair
from specviz.engine.model.parted.loading import follow, leading, load_parted, ranks
from specviz.engine.run.local import LocalRun
from specviz.methods import all_methods

DTYPE = "float64"  # sums over two processes round otherwise than sums in one: not so much that a draw falls elsewhere


def tokens(target: Loaded, draft: Loaded, method: str) -> list[int]:
    """What a method decodes."""
    start = Start(prompt="def add(a, b):", method=method, knobs={"max_new_tokens": 5, "temperature": 0.8})
    run = LocalRun(Pair(target, draft), start, sink=lambda event: None)
    for _ in run.rounds():
        pass
    return run.tokens


torch.set_num_threads(1)
mine = ranks(2)
part = load_parted(sys.argv[1], None, DTYPE, mine)
if not mine.leads:
    follow(part)
    raise SystemExit
whole = load(None, "target", None, DTYPE)
# Parts that were trained for the embedded target fit it as well: it is the same function.
loading._fingerprints[part.adapter.model] = loading.fingerprint(whole.adapter)
with leading(replace(part, info=whole.info)) as target:
    draft = load(None, "draft", None, DTYPE)
    able = [name for name in all_methods() if name not in lacking()]
    print(json.dumps({name: [tokens(each, draft, name) for each in (whole, target)] for name in able}))
