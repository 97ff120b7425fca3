"""llama.cpp's own server in a process of its own: `python -m support.llama_server TARGET DRAFT [MODE]`.

Prints its address and serves until its input closes. Everything it logs goes to standard error. MODE `plain` drafts
nothing, `sampled` draws drafted tokens from q.
"""

import sys

import xllamacpp as xl


def settings(target: str, draft: str, mode: str) -> xl.CommonParams:
    params = xl.CommonParams()
    params.model.path = target
    params.n_ctx, params.n_predict, params.n_parallel = 512, 64, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup, params.endpoint_metrics, params.no_mmproj = False, True, True
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.verbosity = 10
    if mode != "plain":
        params.speculative.types = [xl.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        params.speculative.draft.mparams.path = draft
        params.speculative.draft.n_max, params.speculative.draft.p_min = 4, 0.0
        params.speculative.draft.cpuparams.n_threads = 1
    return params


def main() -> None:
    target, draft, mode = (*sys.argv[1:], "draft")[:3]
    server = xl.Server(settings(target, draft, mode))
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
