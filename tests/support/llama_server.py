"""llama.cpp's own server in a process of its own: `python llama_server.py TARGET DRAFT [MODE]`.

Prints its address and serves until its input closes. Everything it logs goes to standard error. MODE `plain` drafts
nothing, `sampled` draws drafted tokens from q, `coin` keeps them by a coin, `uncounted` shows no counters.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OVER = "stop processing: n_tokens"


@dataclass(frozen=True)
class LlamaServer:
    """Its address, its log, and the target it serves, for the library."""

    url: str
    log: Path
    target: object

    def settled(self) -> str:
        """The log, once the first request is told there to its end."""
        for _ in range(3000):
            text = self.log.read_text("utf-8", "replace")
            if OVER in text:
                return text
            time.sleep(0.02)
        raise AssertionError("the server is still busy")


def settings(target: str, draft: str, mode: str) -> Any:
    import xllamacpp as xl

    params = xl.CommonParams()
    params.model.path = target
    params.n_ctx, params.n_predict, params.n_parallel = 512, 64, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup, params.endpoint_metrics, params.no_mmproj = False, mode != "uncounted", True
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.verbosity = 10
    params.speculative.draft.probabilistic = mode == "sampled"
    if mode != "plain":
        params.speculative.types = [xl.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        params.speculative.draft.mparams.path = draft
        params.speculative.draft.n_max, params.speculative.draft.p_min = 4, 0.0
        params.speculative.draft.cpuparams.n_threads = 1
        params.speculative.synth_len = 3.0 if mode == "coin" else -1.0
    return params


def main() -> None:
    import xllamacpp as xl

    target, draft, mode = (*sys.argv[1:], "draft")[:3]
    server = xl.Server(settings(target, draft, mode))
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
