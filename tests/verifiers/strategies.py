"""Random rounds for property tests: a draft tree of any shape with its laws, and the target rows that judge it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from specviz.probability.draft import Draft
from specviz.probability.plan import Verifier
from specviz.probability.rows import Certain
from specviz.verifiers._candidates import candidates

# Powers of ten reach as far as a softmax does; zeros as after top-k.
WEIGHTS = st.sampled_from([0.0, 0.0, 1e-30, 1e-12, 1e-3, 0.2, 1.0, 1.0, 5.0])


@dataclass(frozen=True)
class Case:
    """A draft and its target rows `[n_fed + 1, V]`."""

    draft: Draft
    rows: Any

    @property
    def vocab(self) -> int:
        return self.rows.shape[1]


def row(vocab: int) -> st.SearchStrategy[Any]:
    """A normalised row `[V]`, with zeros, extremes and one-hot rows among them."""
    weights = st.lists(WEIGHTS, min_size=vocab, max_size=vocab).filter(any)
    return weights.map(lambda w: np.array(w) / np.sum(w))


@st.composite
def cases(draw: Any, most: int = 6, drawn: bool | None = None) -> Case:
    """A tree of up to `most` nodes: drawn ones, from rows that hold them, and point masses; a leaf may be unfed."""
    vocab = draw(st.integers(2, 5))
    count = draw(st.integers(0, most))
    tokens, parents, laws = [], [], []
    for node in range(count):
        parents.append(draw(st.integers(-1, node - 1)))
        law = draw(row(vocab)) if draw(st.booleans() if drawn is None else st.just(drawn)) else None
        held = range(vocab) if law is None else np.flatnonzero(law)
        tokens.append(int(draw(st.sampled_from(list(held)))))
        laws.append(law)
    unfed = 1 if count and count - 1 not in parents and draw(st.booleans()) else 0
    fed = count - unfed
    target = np.stack([draw(row(vocab)) for _ in range(fed + 1)])
    by_text: dict[tuple[int, ...], int] = {}
    paths: list[tuple[int, ...]] = []
    for node in range(count):
        paths.append((*(paths[parents[node]] if parents[node] >= 0 else ()), tokens[node]))
        if node < fed:  # the same text has the same target row
            target[node + 1] = target[by_text.setdefault(paths[node], node + 1)]
    return Case(_draft(tokens, parents, laws, draw(st.permutations(range(count))), fed), target)


def _draft(tokens: list[int], parents: list[int], laws: list[Any], ids: Any, fed: int) -> Draft:
    rows = [law for law in laws if law is not None]
    numbers = iter(range(len(rows)))
    row_of = tuple(-1 if law is None else next(numbers) for law in laws)
    return Draft(tuple(tokens), tuple(parents), tuple(ids), fed, fed, np.stack(rows) if rows else None, row_of)


def fitted(verifier: Verifier, case: Case) -> Case:
    """The round as a verifier takes it: whole, else its first path alone, else with nothing drawn."""
    shapes = [case, _along(case), _undrawn(case)]
    return next(shape for shape in shapes if verifier.refuses(shape.draft) is None)


def _along(case: Case) -> Case:
    d = case.draft
    nodes = list(candidates(d)[0].nodes) if len(d) else []
    fed = sum(d.has_row(n) for n in nodes)
    draft = Draft(
        tuple(d.tokens[n] for n in nodes),
        tuple(range(-1, len(nodes) - 1)),
        tuple(range(len(nodes))),
        fed,
        fed,
        d.law_rows,
        tuple(d.row_of[n] for n in nodes),
    )
    return Case(draft, case.rows[[0, *(n + 1 for n in nodes[:fed])]])


def _undrawn(case: Case) -> Case:
    d = case.draft
    return Case(Draft(d.tokens, d.parents, d.ids, d.n_judged, d.n_fed, row_of=(-1,) * len(d)), case.rows)


def relabelled(case: Case, names: list[int]) -> Case:
    """The same round with token t called `names[t]`."""
    back = np.argsort(names)
    d = case.draft
    tokens = tuple(names[t] for t in d.tokens)
    laws = None if d.law_rows is None else d.law_rows[:, back]
    return Case(Draft(tokens, d.parents, d.ids, d.n_judged, d.n_fed, laws, d.row_of), case.rows[:, back])


def padded(case: Case, extra: int) -> Case:
    """The same round with `extra` tokens nobody ever says, in the middle of the vocabulary."""
    middle = case.vocab // 2
    return _placed(case, [t if t < middle else t + extra for t in range(case.vocab)], case.vocab + extra)


def _placed(case: Case, names: list[int], vocab: int) -> Case:
    def wide(rows: Any) -> Any:
        out = np.zeros((len(rows), vocab))
        out[:, names] = rows
        return out

    d = case.draft
    laws = None if d.law_rows is None else wide(d.law_rows)
    tokens = tuple(names[t] for t in d.tokens)
    return Case(Draft(tokens, d.parents, d.ids, d.n_judged, d.n_fed, laws, d.row_of), wide(case.rows))


def certain_as_array(row_: Any) -> Any:
    """A row as plain numbers."""
    return [float(row_[t]) for t in range(len(row_))] if isinstance(row_, Certain) else np.asarray(row_, dtype=float)
