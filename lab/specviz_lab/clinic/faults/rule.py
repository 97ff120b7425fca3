"""8: exact match at a temperature above 0. Healthy: the ratio test at the same temperature."""

from specviz_lab.clinic.plant import Bench, small, texts

FAULT = 8
PLANT = "drafted tokens are kept only where the target's own draw is the same token"


def ill(bench: Bench) -> None:
    bench.run(small(), texts(bench.seed), verifier="walk", temperature=1.0, tokens=64)


def well(bench: Bench) -> None:
    bench.run(small(), texts(bench.seed), temperature=1.0, tokens=80)
