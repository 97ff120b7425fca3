"""16: too good to be true. Healthy: a quotation, of which nearly all is accepted."""

from dataclasses import replace

from specviz_lab.clinic.plant import Bench, chat, small, texts

FAULT = 16
SYMPTOM = "3.93 tokens a round, and the boss is happy."
PLANT = "the target drafts for itself, or the text is a loop"
LOOP = "one two one two one two one two one two one two one two one two one two one two"
QUOTES = (
    "The harbour was quiet that morning, and the boats lay still between the stones. Nobody had seen the pilot since "
    "the storm, and his lamp still burned above the door.",
    "Every window of the old school looked out on the same three apple trees. In the autumn the smallest children were "
    "sent to count the fruit, and no two of them ever agreed.",
    "A train that leaves at seven reaches the coast before the shops have opened. The guard knows his passengers by "
    "name, and asks after their dogs, their roofs and their knees.",
    "The library keeps its maps in a room without a lock. Whoever wants to see them signs the book, washes both hands, "
    "and promises to leave the north side of the table free.",
)


def ill(bench: Bench) -> None:
    if bench.seed == 1:
        bench.run(small(), [LOOP, "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"], "ngram", temperature=0.0, tokens=128)
    else:
        pair = replace(small(), draft=small().target)
        bench.run(pair, texts(bench.seed), temperature=0.7 if bench.seed else 0.0, tokens=96)


def well(bench: Bench) -> None:
    prompts = [f"Copy this text: {QUOTES[(bench.seed + k) % len(QUOTES)]}" for k in range(2)]
    bench.run(chat(), prompts, "ngram" if bench.seed == 1 else "draft", temperature=0.0, tokens=64)
