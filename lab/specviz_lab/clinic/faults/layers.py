"""1: the drafter reads the wrong layers. Healthy: those it was trained on.

To read layers two further on, as public threads report it, changes next to nothing with these small drafters (.25 and
.22 of first tokens kept): the plants read layers of another depth.
"""

from typing import Any

from specviz_lab.clinic.plant import CHAIN, Bench, Part, chat, questions

FAULT = 1
PLANT = "EAGLE-3 reads layers of its target at another depth than those it was trained on"
TRAINED, WRONG = [2, 15, 27], ([1, 2, 3], [5, 10, 20], [1, 2, 3])
_SET: dict[str, Any] = {"temperature": 0.0, "tokens": 64, **CHAIN}


def ill(bench: Bench) -> None:
    layers = WRONG[bench.seed % len(WRONG)]

    def deeper(part: Part) -> None:
        part.config["taps"] = layers

    bench.run(chat(), questions(bench.seed), "eagle3", drafter=bench.part("eagle3", deeper, chat=True), **_SET)
    _folders(bench, None if bench.seed == 0 else layers)


def well(bench: Bench) -> None:
    bench.run(chat(), questions(bench.seed), "eagle3", **_SET)
    _folders(bench, TRAINED)


def _folders(bench: Bench, layers: list[int] | None) -> None:
    """Target and head; `layers` None: its config names none, and the engine takes what it likes."""
    bench.model("target", num_hidden_layers=30)
    bench.head(layers)
