"""`Taps`: the target's hidden states a drafter asked for, one row for every new token.

Layers are numbered as in the library's `output_hidden_states`: 0 the embedding, l after layer l, the last one after the
final norm. The row of a token is the one whose logits produced it: that of the token before it, whether that one was
the root or an accepted draft. States are kept as they pass by, nothing is computed for them but the final norm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specviz.engine.decode.context import Observation
from specviz.engine.model.rows import Rows, Tensor
from specviz.probability.draft import Draft


@dataclass(frozen=True, slots=True)
class Taps:
    """Which layers are wanted. `newest_only`: of the newest token alone, so features are `[1, width]`."""

    layers: tuple[int, ...] = ()
    newest_only: bool = False

    @classmethod
    def of(cls, drafter: Any, n_layers: int) -> "Taps":
        """What a drafter asks for with `taps` and, if it has it, `newest_only`."""
        layers = tuple(sorted(set(getattr(drafter, "taps", ()))))
        assert all(0 <= layer <= n_layers for layer in layers), f"taps {layers} of a target with {n_layers} layers"
        return cls(layers, bool(getattr(drafter, "newest_only", False)))

    def read(self, rows: Rows, wanted: Sequence[int]) -> dict[int, Tensor]:
        """The states `[len(wanted), width]` of some rows; of the last of them only where that is enough."""
        chosen = wanted[-1:] if self.newest_only else wanted
        return {layer: rows.states(layer, chosen) for layer in self.layers} if chosen else {}

    def path(self, rows: Rows, root: int, accepted: Sequence[int], n_new: int) -> dict[int, Tensor]:
        """Features of a round's `n_new` committed tokens: the root's row, then those of the accepted nodes."""
        return self.read(rows, [root, *(root + 1 + node for node in accepted)][:n_new]) if self.layers else {}

    def of_prompt(self, rows: Rows, prompt: Sequence[int]) -> Observation | None:
        """What a block of the prefill shows, in the shape of a round: the tokens after its rows.

        None for the blocks before the last where only the newest row is wanted.
        """
        first, n = rows.first, len(rows)
        if self.newest_only and first + n < len(prompt) - 1:
            return None
        return Observation(tuple(prompt[first + 1 : first + n + 1]), Draft(), None, self.read(rows, range(n)))
