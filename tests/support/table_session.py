"""A table behind the engine's model interface, and the production Session run over all its random decisions.

The cache stores token ids: keys are tokens, values are positions, and a row's logits are looked up with whatever text
the cache and the mask show it. A stale slot, a wrong parent, a shifted position changes the output or trips a check.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from itertools import compress
from typing import Any

import numpy as np
import torch

from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.model.backend import in_steps
from specviz.engine.model.cache import KVCache
from specviz.engine.run.local import make_drafter
from specviz.methods import get_method
from specviz.probability.table_models import Problem, Table, exact_row
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import EnumeratedPath, Known, Law, paths

PROMPT = (0,)


class TableModel:
    """One layer; its hidden state is the number of the text a row sees."""

    n_layers = 1
    device = torch.device("cpu")

    def __init__(self, table: Table, prompt: Sequence[int] = PROMPT, context: int = 64) -> None:
        self.table, self.prompt, self.context = table, tuple(prompt), context
        self.vocab = table.vocab
        self.numbers: dict[tuple[int, ...], int] = {}  # number of a text, in the order they were first seen
        self._rows: list[torch.Tensor] = []  # logits `[V]` by number

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(1, capacity)

    def embed(self, tokens: list[int], positions: list[int]) -> torch.Tensor:
        return torch.tensor([list(zip(tokens, positions, strict=True))], dtype=torch.float64)

    def inputs(self, hidden: torch.Tensor, positions: list[int], visible: Any, kv_positions: Any) -> Any:
        return visible

    def run(self, hidden: torch.Tensor, block: Any, cache: KVCache, lo: int, hi: int) -> torch.Tensor:
        keys, values = cache.update(hidden[None, :, :, :1], hidden[None, :, :, 1:], 0)
        tokens, places = keys.flatten().tolist(), values.flatten().tolist()
        every = range(len(tokens))
        seen = [every] * hidden.shape[1] if block is None else [[*compress(every, row)] for row in block.tolist()]
        texts = [self._text(tokens, places, slots) for slots in seen]
        ends = [(text[-1], len(text) - 1) for text in texts]
        assert ends == [tuple(h) for h in hidden[0].tolist()], "a row does not see itself last"
        return torch.tensor([[[self._number(text)] for text in texts]], dtype=torch.float64)

    def forward(self, hidden: torch.Tensor, inputs: Any, cache: KVCache, lo: int, stops: Sequence[int]) -> Any:
        return in_steps(lambda rows, first, last: self.run(rows, inputs, cache, first, last), hidden, lo, stops)

    def _text(self, tokens: list[float], places: list[float], slots: Any) -> tuple[int, ...]:
        order = sorted(slots, key=places.__getitem__)
        assert [places[s] for s in order] == list(range(len(order))), "positions with holes or twice"
        return tuple(int(tokens[s]) for s in order)

    def _number(self, text: tuple[int, ...]) -> int:
        if text not in self.numbers:
            n = len(self.prompt)
            assert text[:n] == self.prompt[: len(text)], f"{text} does not begin with the prompt"
            self.numbers[text] = len(self.numbers)
            self._rows.append(torch.tensor(self.table.row(text[n:]).astype(np.float64)).log())
        return self.numbers[text]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.stack([self._rows[int(i)] for i in hidden.flatten().tolist()])


@dataclass(frozen=True)
class History:
    """Two tokens; every row depends on the whole prefix and its order, so that a stale cache cannot hide."""

    salt: int

    vocab = 2

    def row(self, prefix: Sequence[int]) -> Any:
        mixed = self.salt
        for token in prefix:
            mixed = (mixed * 5 + 3 * token + 1) % 11
        return exact_row([Fraction(mixed + 1, 13), Fraction(12 - mixed, 13)])

    def in_floats(self) -> Table:
        raise NotImplementedError


HISTORY = Problem(vocab=2, gamma=2, p=History(1), q=History(6))


class Letters:
    """Text of tokens: 0 is "a", 1 is "b". Stands in for `specviz.engine.decode.text_output.Texts`."""

    def stream(self, prompt: Sequence[int]) -> "Letters":
        return self

    def push(self, token: int) -> str:
        return chr(ord("a") + token)

    def piece(self, token: int) -> tuple[str, str | None]:
        return self.push(token), None


Steer = Callable[[Session, RoundResult | None], None]


def table_models(problem: Problem, prompt: Sequence[int] = PROMPT) -> FactoryModels:
    """The two tables as models."""
    return FactoryModels(TableModel(problem.p, prompt), TableModel(problem.q, prompt), 64)


def session(models: FactoryModels, draws: Any, method: str, verifier: str, **options: Any) -> Session:
    """A production session over two tables. `options`: eos, texts, sink, and knobs."""
    eos, texts, sink = options.pop("eos", ()), options.pop("texts", None), options.pop("sink", None)
    chosen = get_method(method)
    knobs = chosen.table.knobs({"temperature": 1.0, **options})
    parts = SessionConfig(models, make_drafter(chosen, models, knobs), get_verifier(verifier))
    prompt = models.target.prompt  # type: ignore[attr-defined]
    return Session(parts, prompt, chosen.table, knobs, eos=frozenset(eos), texts=texts, sink=sink, draws=draws)


def session_law(problem: Problem, method: str, verifier: str, *, steer: Steer | None = None, **options: Any) -> Law:
    """The exact law of the new tokens of a whole generation. `steer(session, last round)` runs before every round."""
    start = session(table_models(problem, options.pop("prompt", PROMPT)), None, method, verifier, **options)
    return law_by_rounds(start, steer)


def law_by_rounds(start: Session, steer: Steer | None = None, stateless: Sequence[Any] = ()) -> Law:
    """The law of the new tokens of a session that has not begun. Every round is run once for each way to it.

    The ways a round can go begin with copies of the session as the round before left it: models, verifier and texts
    have no state of a run and are shared, as is what a drafter has `stateless`.
    """
    models, parts, out = start.parts.models, start.parts, Law()
    shared = [models, models.target, models.draft, start.table, start.warper, parts.verifier, parts.lanes, start.texts]
    shared += stateless
    start._draws = None  # type: ignore[assignment]
    if steer:
        steer(start, None)
    begun: list[tuple[Session, Known, Any]] = [(start, frozenset(), 1)]
    while begun:
        before, known, prob = begun.pop()

        def once(branch: EnumeratedPath, before: Session = before) -> Session:
            running = deepcopy(before, {id(key): key for key in shared})
            running._draws = branch.keys
            done = next(running.rounds())
            if steer:
                steer(running, done)
            running._draws = None  # type: ignore[assignment]
            return running

        for running, branch in paths(once, known):
            if running.finish is None:
                begun.append((running, frozenset(branch.known.items()), prob * branch.prob))
            else:
                text = tuple(running.new_tokens)
                out[text] = out.get(text, 0) + prob * branch.prob
    return out
