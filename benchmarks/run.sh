#!/bin/sh
# The measurements of this folder, about ten minutes on two quiet cores. Usage: benchmarks/run.sh FOLDER_WITH_JSONL
# Each result is one JSON object; `specviz bench` prints the card of the same numbers when --json is left out.
set -eu
data=$1
here=$(dirname "$0")
bench() {
    name=$1
    shift
    specviz bench --json "$@" | python -m json.tool --indent 1 >"$here/$name.json"
}
bench greedy-bundled --minutes 2.5 --repeats 7
bench greedy-gsm8k --prompts "$data/gsm8k_train.jsonl" --limit 20 --repeats 5 --minutes 2 --no-memory
bench sampled-humaneval --prompts "$data/humaneval_prompts.jsonl" --limit 20 --repeats 5 --temperature 0.8 --minutes 2 --no-memory
bench recording-bundled --methods chain,chain+none,chain+summary,chain+full --repeats 20 --no-memory --minutes 2
