"""12: accepted, yet slower. Healthy: a draft model that costs a sixth of its target."""

from specviz_lab.clinic.plant import Bench, chat_of_twenty_layers, questions, small, texts

FAULT = 12
SYMPTOM = "72 % are accepted, and it is slower: .87x."
PLANT = "the draft model is made of the target's first twenty layers of thirty"


def ill(bench: Bench) -> None:
    bench.run(chat_of_twenty_layers(), questions(bench.seed), temperature=0.0, tokens=64)


def well(bench: Bench) -> None:
    bench.run(small(), texts(bench.seed), tokens=80)
