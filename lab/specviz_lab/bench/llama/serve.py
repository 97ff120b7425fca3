"""The server's process: `python -m specviz_lab.bench.llama.serve`.

Reads one line of JSON, prints the address, and serves until its input closes: when the process that measures ends, in
whatever way, this one ends too.
"""

import json
import sys
from typing import Any


def _params(order: dict[str, Any]) -> Any:
    import xllamacpp as xl

    kinds = xl.common_speculative_type
    params = xl.CommonParams()
    params.model.path = order["target"]
    params.n_ctx, params.n_parallel = order["context"], 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order["threads"]
    params.n_gpu_layers = 0
    params.no_mmproj = True
    params.hostnames, params.port = ["127.0.0.1"], 0
    drafting = params.speculative
    if order["draft"] is not None:
        drafting.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        drafting.draft.mparams.path = order["draft"]
        drafting.draft.n_gpu_layers = 0
        drafting.draft.n_max, drafting.draft.n_min, drafting.draft.p_min = order["gamma"], 0, 0.0
        drafting.draft.cpuparams.n_threads = drafting.draft.cpuparams_batch.n_threads = order["threads"]
    elif order["matched"] is not None:
        drafting.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        drafting.ngram_simple.size_n, drafting.ngram_simple.size_m = order["matched"], order["gamma"]
    return params


def _main() -> None:
    import xllamacpp as xl

    server = xl.Server(_params(json.loads(sys.stdin.readline())))
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _main()
