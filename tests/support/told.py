"""A table model whose texts have hidden states, so that a drafter can be fed by it."""

from types import SimpleNamespace

import torch

from specviz.probability.table_models import Table
from support.table_session import TableModel


class Told(TableModel):
    """A text's number as a vector of eight; `layers`: none."""

    name, layers = "table", ()

    def __init__(self, table: Table) -> None:
        super().__init__(table, (0, 1, 0))
        rng = torch.Generator().manual_seed(5)
        self._vectors = torch.randn(200, 8, generator=rng, dtype=torch.float64)
        self._tokens = torch.randn(self.vocab, 8, generator=rng, dtype=torch.float64)
        self.head = SimpleNamespace(weight=0.5 * torch.randn(self.vocab, 8, generator=rng, dtype=torch.float64))

    def normed(self, states: torch.Tensor) -> torch.Tensor:
        return self._vectors[states[:, 0].long()]

    def embedding(self, ids: torch.Tensor) -> torch.Tensor:
        return self._tokens[ids]
