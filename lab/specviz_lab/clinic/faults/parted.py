"""9: the text differs at temperature 0. Healthy: nothing parts but for a rounding."""

from specviz_lab.clinic.plant import Bench, small, stale, texts, with_target

FAULT = 9
PLANT = "one crop of the target's cache is one slot short"


def ill(bench: Bench) -> None:
    pair = with_target(small(), new_cache=stale(3, 1))
    bench.run(pair, texts(bench.seed), temperature=0.0, tokens=64)
    bench.plain(small(), texts(bench.seed), tokens=64)


def well(bench: Bench) -> None:
    bench.run(small(), texts(bench.seed), temperature=0.0, tokens=64)
    bench.plain(small(), texts(bench.seed), tokens=64)
