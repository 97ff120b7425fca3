"""10: state is not rolled back. Healthy: every crop is whole."""

from specviz_lab.clinic.plant import Bench, small, stale, texts, with_draft, with_target

FAULT = 10
PLANT = "from the eighth on no crop of a cache is whole: the target's, and for one seed of three the draft model's"


def ill(bench: Bench) -> None:
    plant = with_draft if bench.seed % 3 == 2 else with_target
    bench.run(plant(small(), new_cache=stale(8)), texts(bench.seed, 2), tokens=128)


def well(bench: Bench) -> None:
    bench.run(small(), texts(bench.seed, 2), tokens=128)
