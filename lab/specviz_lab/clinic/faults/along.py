"""4: acceptance decays with the length of the text. Healthy: the same answers by a drafter that counts on."""

from typing import Any

from specviz.engine.model.adapter import ModelAdapter
from specviz_lab.clinic.plant import Bench, small, texts, with_draft

FAULT = 4
PLANT = "the draft model has 128 positions: those of rows further on are clamped to the last one"
POSITIONS = 128


def _clamped(adapter: ModelAdapter, hidden: Any, positions: list[int], visible: Any, kv: Any) -> Any:
    return adapter.inputs(hidden, [min(position, POSITIONS - 1) for position in positions], visible, kv)


def ill(bench: Bench) -> None:
    bench.run(with_draft(small(), inputs=_clamped), texts(bench.seed, 2), tokens=192)


def well(bench: Bench) -> None:
    bench.run(small(), texts(bench.seed, 2), tokens=192)
