"""16: too good to be true. Healthy: a quotation, of which nearly all is accepted."""

from dataclasses import replace

from specviz_lab.clinic.plant import QUOTES, Bench, chat, small, texts

FAULT = 16
PLANT = "the target drafts for itself, or the text is a loop"
LOOP = "one two one two one two one two one two one two one two one two one two one two"


def ill(bench: Bench) -> None:
    if bench.seed % 3 == 1:
        bench.run(small(), [LOOP, "x = x + 1\n" * 8], "ngram", temperature=0.0, tokens=128)
    else:
        pair = replace(small(), draft=small().target)
        bench.run(pair, texts(bench.seed), temperature=0.7 if bench.seed else 0.0, tokens=96)


def well(bench: Bench) -> None:
    prompts = [f"Copy this text: {QUOTES[(bench.seed + k) % len(QUOTES)]}" for k in range(2)]
    bench.run(chat(), prompts, "ngram" if bench.seed % 3 == 1 else "draft", temperature=0.0, tokens=64)
