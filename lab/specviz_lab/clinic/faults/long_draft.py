"""14: the draft length is wrong. Healthy: 4 tokens a round."""

from specviz_lab.clinic.plant import Bench, small, texts

FAULT = 14
PLANT = "12 tokens are drafted where 4 would do"


def ill(bench: Bench) -> None:
    bench.run(small(), texts(bench.seed), gamma=12, temperature=1.0, tokens=128)


def well(bench: Bench) -> None:
    bench.run(small(), texts(bench.seed), gamma=4, temperature=1.0, tokens=80)
