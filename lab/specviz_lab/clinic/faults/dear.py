"""12: accepted, yet slower. Healthy: the target itself in four bits, which is nearly always right."""

from specviz_lab.clinic.plant import Bench, chat, chat_of_twenty_layers, questions

FAULT = 12
PLANT = "the draft model is made of the target's first twenty layers of thirty"


def ill(bench: Bench) -> None:
    bench.run(chat_of_twenty_layers(), questions(bench.seed), temperature=0.0, tokens=64, timed=True)


def well(bench: Bench) -> None:
    bench.run(chat(), questions(bench.seed), temperature=0.0, tokens=64, timed=True)
