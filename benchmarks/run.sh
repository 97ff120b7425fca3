#!/bin/sh
# The measurements of this folder, some twenty-five minutes on two cores. Usage: benchmarks/run.sh FOLDER_WITH_JSONL
# Each result is one JSON object; `specviz lab bench` prints the card of the same numbers when --json is left out.
set -eu
data=$1
here=$(dirname "$0")
methods=ar,hf-generate,chain,hf-assisted,ngram,hf-lookup
bench() {
    name=$1
    shift
    specviz lab bench --json --quiet --max-new-tokens 48 "$@" | python -m json.tool --indent 1 >"$here/$name.json"
}
bench greedy-bundled --methods $methods,tree --repeats 7 --minutes 2
bench greedy-gsm8k --methods $methods --prompts "$data/gsm8k_train.jsonl" --limit 12 --repeats 5 --minutes 1.5
bench sampled-humaneval --methods $methods --prompts "$data/humaneval_prompts.jsonl" --limit 12 --repeats 5 \
    --temperature 0.8 --minutes 1.5
bench recording-bundled --methods chain,chain+none,chain+summary,chain+full --repeats 20 --minutes 1.5
bench early-exit --methods ar,specbound,adadecode,layerskip,kangaroo,draft_and_verify,hf-early-exit,hf-generate \
    --knob layerskip.exit_layers=6 --knob layerskip.w_max=4 --exit-layer 6 --repeats 5 --minutes 2.5 --threads 1
bench pipelines --methods ar,sps,adaedl,lookahead,pearl,specbranch,hf-assisted --repeats 5 --minutes 1.5 --threads 1
bench trees --methods ar,chain,specblock,eagle3,static_tree,ngram,hf-generate,hf-assisted --repeats 3 --minutes 2 --threads 1
# On SmolLM2 (`specviz models get smollm2`), an hour and a quarter.
smollm2() {
    name=$1
    shift
    bench "$name" --target smollm2 --prompts "$data/spec_bench_prompts.jsonl" --limit 6 --repeats 1 \
        --max-new-tokens 128 --threads 1 --lanes serial "$@"
}
smollm2 smollm2-spec-bench \
    --methods ar,hf-generate,chain,eagle3,specblock,medusa,ngram,specbound,adadecode,draft_and_verify,kangaroo
smollm2 smollm2-draft-spec-bench --draft smollm2-draft --methods ar,hf-generate,chain,pearl,specbranch,hf-assisted
quick() {
    name=$1
    file=$2
    shift 2
    bench "$name" --target smollm2 --prompts "$data/$file" --repeats 1 --threads 1 "$@"
}
quick smollm2-trees spec_bench_prompts.jsonl --dtype bfloat16 --methods ar,eagle3,specblock,medusa,mtp --limit 12 --max-new-tokens 128
quick smollm2-lookahead humaneval_prompts.jsonl --dtype bfloat16 --methods ar,lookahead,ngram --limit 6 --max-new-tokens 96 --repeats 2
quick smollm2-int4 spec_bench_prompts.jsonl --dtype bfloat16 --draft self:int4 --gamma 6 --methods ar,chain,hf-generate \
    --limit 6 --max-new-tokens 256
quick smollm2-fp32 spec_bench_prompts.jsonl --dtype float32 --methods ar,hf-generate --limit 3
quick smollm2-recording spec_bench_prompts.jsonl --dtype bfloat16 --draft self:int4 --limit 4 --max-new-tokens 64 --repeats 7 \
    --methods chain,chain+none,chain+summary,chain+full
quick smollm2-two-threads spec_bench_prompts.jsonl --dtype bfloat16 --draft self:int4 --methods ar,chain --limit 3 \
    --max-new-tokens 64 --threads 2
ablate() {
    name=$1
    shift
    specviz lab ablate --json --quiet --max-new-tokens 64 --threads 1 --ratio 8 --ratio 15 "$@" |
        python -m json.tool --indent 1 >"$here/$name.json"
}
ablate ablation-greedy --minutes 2
ablate ablation-greedy-tuned --minutes 2 --knob specbranch.epsilon=0.2 --knob specbranch.k_max=10
