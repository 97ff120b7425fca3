#!/bin/sh
# The measurements of this folder, some eight minutes on two cores. Usage: benchmarks/run.sh FOLDER_WITH_JSONL
# Each result is one JSON object; `specviz bench` prints the card of the same numbers when --json is left out.
set -eu
data=$1
here=$(dirname "$0")
methods=ar,hf-generate,chain,hf-assisted,ngram,hf-lookup
bench() {
    name=$1
    shift
    specviz bench --json --quiet --max-new-tokens 48 "$@" | python -m json.tool --indent 1 >"$here/$name.json"
}
bench greedy-bundled --methods $methods,tree --repeats 7 --minutes 2
bench greedy-gsm8k --methods $methods --prompts "$data/gsm8k_train.jsonl" --limit 12 --repeats 5 --minutes 1.5 --no-memory
bench sampled-humaneval --methods $methods --prompts "$data/humaneval_prompts.jsonl" --limit 12 --repeats 5 \
    --temperature 0.8 --minutes 1.5 --no-memory
bench recording-bundled --methods chain,chain+none,chain+summary,chain+full --repeats 20 --minutes 1.5 --no-memory
