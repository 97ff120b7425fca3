"""15: nothing is drafted. Healthy: a lookup where the text is copied."""

from specviz_lab.clinic.plant import QUOTES, Bench, chat, small, texts

FAULT = 15
PLANT = "a threshold that nothing reaches, or a lookup that finds no match"
NOVEL = "Write a list of rare words, each one once."


def ill(bench: Bench) -> None:
    if bench.seed % 3 == 1:
        bench.run(chat(), [NOVEL], "ngram", temperature=1.0, tokens=64, ngram_min=3)
    else:
        bench.run(small(), texts(bench.seed, 2), "dflash", confidence=1.0, tokens=48)


def well(bench: Bench) -> None:
    prompts = [f"Copy this text: {QUOTES[(bench.seed + k) % len(QUOTES)]}" for k in range(2)]
    bench.run(chat(), prompts, "ngram", temperature=0.0, tokens=64)
