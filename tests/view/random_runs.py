"""Random runs of the production session over random tables, with every row on record."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz import events as ev
from specviz.engine.record.probe import Probe
from specviz.probability.table_models import Problem
from specviz.runlog.fold import fold
from specviz.view import Run
from support.table_session import Letters, session, table_models
from support.traces import Recipe, make_header

VOCAB = 5
NO_ZEROS, ZEROS = 0.0, 0.25


@dataclass(frozen=True)
class Wild:
    """Rows that depend on the whole text, peaked and flat, some with zeros."""

    salt: str
    zeros: float = NO_ZEROS
    vocab: int = VOCAB

    def row(self, prefix: Sequence[int]) -> Any:
        seed = hashlib.sha256(f"{self.salt}{list(prefix)}".encode()).digest()
        rng = np.random.default_rng(np.frombuffer(seed, dtype=np.uint64))
        row = np.exp(rng.normal(size=self.vocab) * rng.choice([0.5, 2.0]))
        row[1:] *= rng.random(self.vocab - 1) >= self.zeros
        return row / row.sum()

    def in_floats(self) -> "Wild":
        return self


@dataclass(frozen=True)
class Setting:
    """What to run. `peaked`: temperature below 1 moves both laws away from the tables' own rows."""

    verifier: str
    knobs: tuple[tuple[str, Any], ...]
    seed: int
    temperature: float = 1.0
    zeros: float = NO_ZEROS
    method: str = "draft"

    def __str__(self) -> str:
        return "-".join([self.verifier, *(str(v) for _, v in self.knobs), f"T{self.temperature:g}", f"s{self.seed}"])

    def table(self, model: str) -> Wild:
        return Wild(f"{self.seed}{model}", self.zeros)

    def row(self, model: str, text: Sequence[int]) -> Any:
        """The law `[V]` after the prompt and `text` of new tokens."""
        row = self.table(model).row(text) ** (1 / self.temperature)
        return row / row.sum()


PROMPT = (0,)


def events_of(setting: Setting, **rest: Any) -> list[ev.Event]:
    """Header to the last round's end."""
    problem = Problem(vocab=VOCAB, gamma=2, p=setting.table("p"), q=setting.table("q"))
    knobs = {"temperature": setting.temperature, "max_new_tokens": 14, "seed": setting.seed, **dict(setting.knobs)}
    out: list[ev.Event] = []
    probe = Probe(out.append, Letters(), "full", VOCAB)  # type: ignore[arg-type]
    running = session(
        table_models(problem, PROMPT),
        None,
        setting.method,
        setting.verifier,
        sink=probe,
        texts=Letters(),
        **knobs,
        **rest,
    )
    running.generate()
    header = make_header(Recipe(temperature=setting.temperature, seed=setting.seed), verifier=setting.verifier)
    header.knobs = {**header.knobs, **dict(setting.knobs)}
    return [header, *out]


def run_of(setting: Setting) -> Run:
    """The same, folded."""
    return fold(events_of(setting))
