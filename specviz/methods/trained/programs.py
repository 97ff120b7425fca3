"""Networks that read pairs, and their calls, norms and heads as programs of the C kernel: one call into C each.

A program is valid only while the weights are those it was compiled from and gradients are off; else, and for modules
that the kernel does not support, torch runs the modules themselves.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.compiled.layer import row_paths
from specviz.engine.model.compiled.products import KeptWeights, Matrix, matrix_of
from specviz.engine.model.compiled.products import linear as product
from specviz.engine.model.compiled.program import GraphBuilder, Program, RowPositions
from specviz.methods.trained.layers import Layer, RMSNorm, Rope, RowCache, kernel_made
from specviz.methods.trained.vocabulary import Vocabulary

Tensor = torch.Tensor


@runtime_checkable
class Sketching(Protocol):
    """A module that runs by programs."""

    def programs(self) -> Any:
        """They, made of the module as it is. Raises ValueError for one that the kernel does not know, OSError where
        there is none."""


_KNOWN: "WeakKeyDictionary[nn.Module, tuple[KeptWeights, Any]]" = WeakKeyDictionary()


def compile_programs(network: nn.Module) -> None:
    """Let a network that was compiled (`compile_network`), and its parts, run by programs where they have some."""
    for module in network.modules():
        if isinstance(module, Sketching):
            with suppress(ValueError, OSError):
                _KNOWN[module] = KeptWeights(module), module.programs()


def programs_of(module: nn.Module) -> Any:
    """Of a module that `compile_programs` knows, while its weights are what they were and nobody learns; or None."""
    known = _KNOWN.get(module)
    return None if known is None or torch.is_grad_enabled() or not known[0].same else known[1]


class ModuleSketch(GraphBuilder):
    """A sketch for modules that were compiled: their weights are in four bits where they are in bfloat16."""

    def matrix(self, weight: nn.Linear | Tensor) -> Matrix:
        """That of a map without bias."""
        return matrix_of(weight, self.dtype == torch.bfloat16)

    def through(self, x: int, y: int, weight: nn.Linear | Tensor) -> None:
        """Table y: rows of x by a map without bias."""
        self.product(x, y, self.matrix(weight))

    def normed(self, x: int, y: int, norm: RMSNorm, column: int = 0) -> None:
        """Into table y, from a column on: norms of x."""
        self.norm(x, y, norm.weight.detach(), norm.eps or 0.0, column)

    def decoded(self, x: int, layer: Layer, place: int, last: int, read: int | None = None) -> None:
        """Table x through a layer (`GraphBuilder.layer`)."""
        kernel = kernel_made(layer)
        if kernel is None:
            raise ValueError("a layer that the kernel does not know")
        self.layer(x, kernel, place, last, read)


@dataclass(frozen=True, slots=True)
class CallTables:
    """Of a sketched call. `inputs`: features of pairs, or the conditions of later starts, a row each, as the embeddings
    in `embedded`; `out`: states of the last pair's rows, or of all rows."""

    inputs: int
    embedded: int
    out: int


class Calls:
    """`sketch(call, later)` says what a call of pairs does, or one of `later` starts. `slots`: rows of each."""

    def __init__(
        self, dtype: torch.dtype, slots: int, rope: Rope, sketch: Callable[[ModuleSketch, bool], CallTables]
    ) -> None:
        self._slots, self._rope = slots, rope
        self._made: list[tuple[Program, CallTables, int]] = []
        for later in (False, True):
            call = ModuleSketch(dtype)
            tables = sketch(call, later)
            self._made.append((call.build(), tables, call.width(tables.out)))

    def pairs(self, features: Tensor, embedded: Tensor, positions: Tensor, cache: RowCache) -> Tensor:
        """h `[slots, width]` of the last of pairs `[m]`; the rows of all are filed."""
        return self._run(False, self._slots, features, embedded, positions, None, cache)

    def starts(self, conditions: Tensor, embedded: Tensor, positions: Tensor, mask: Any, cache: RowCache) -> Tensor:
        """h `[m, slots, width]` of starts with these conditions `[m, width]`. `mask`: numpy `[rows, all]`."""
        n = len(conditions) * self._slots
        h = self._run(True, n, conditions, embedded, positions, mask, cache)
        return h.view(len(conditions), self._slots, -1)

    def _run(
        self,
        later: bool,
        n: int,
        states: Tensor,
        embedded: Tensor,
        positions: Tensor,
        mask: Any,
        cache: RowCache,
    ) -> Tensor:
        program, tables, width = self._made[later]
        states, embedded, positions = states.contiguous(), embedded.contiguous(), positions.contiguous()
        out, rows = states.new_empty(n, width), len(states) * self._slots
        filed = cache.filing(rows, program.filed, states)
        seen = row_paths(rows, cache.filled, mask)
        standing = RowPositions(positions, self._rope.known(positions, states.dtype), seen)
        program.run(
            len(states),
            {tables.inputs: states, tables.embedded: embedded, tables.out: out},
            filed,
            standing,
        )
        cache.filled += rows
        return out


class CompiledLmHead:
    """Final norm and head as one compiled program: states to normed states and logits."""

    def __init__(self, norm: RMSNorm, head: nn.Linear | Tensor) -> None:
        call, n = ModuleSketch(norm.weight.dtype), len(head if isinstance(head, Tensor) else head.weight)
        states, normed = call.table(len(norm.weight)), call.table(len(norm.weight))
        logits, wide = call.table(n), call.table(n)
        call.normed(states, normed, norm)
        call.through(normed, logits, head)
        call.widen(logits, wide)
        self._program, self._tables, self._n = call.build(), (states, normed, wide), n

    def __call__(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Normed states `[.., width]` of states `[.., width]`, and logits `[.., V_d]` in float32."""
        states = states.contiguous()
        normed = torch.empty_like(states)
        logits = states.new_empty(*states.shape[:-1], self._n, dtype=torch.float32)
        outputs = dict(zip(self._tables, (states, normed, logits), strict=True))
        self._program.run(states.numel() // states.shape[-1], outputs)
        return normed, logits


@dataclass(frozen=True, slots=True)
class NetworkPrograms:
    """Of a network that reads pairs."""

    calls: Calls
    speech: CompiledLmHead


class PairReader(nn.Module):
    """What networks that read pairs are alike in: a norm and a head behind their layers, and, where they have one row a
    pair, where it stands. `head` `[V_d, width]`: a map of its own, or the target's matrix."""

    norm_out: RMSNorm
    head: nn.Linear | Tensor

    def places(self, inputs: Tensor, depths: Tensor | int = 0) -> Tensor:
        """Rotary positions `[.., n]`: a row stands where its token does."""
        return inputs

    def head_logits(self, states: Tensor) -> Tensor:
        """Draft logits `[.., V_d]` of states `[.., width]`."""
        return self.norm_and_head(states)[1]

    def norm_and_head(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Normed states `[.., width]` of states, and draft logits `[.., V_d]` of them."""
        normed = self.norm_out(states)
        return normed, self.head(normed) if isinstance(self.head, nn.Module) else product(normed, self.head)


class SketchedReader(PairReader):
    """One whose calls the kernel runs: `_sketched` says what they do."""

    slots: int
    rope: Rope

    @property
    def dtype(self) -> torch.dtype:
        """Of its weights."""
        return next(self.parameters()).dtype

    def programs(self) -> NetworkPrograms:
        """The same by the kernel. Raises ValueError for what it does not know."""
        calls = Calls(self.dtype, self.slots, self.rope, self._sketched)
        return NetworkPrograms(calls, CompiledLmHead(self.norm_out, self.head))

    def _sketched(self, call: ModuleSketch, later: bool) -> CallTables:
        """What a call of pairs does, or one of `later` starts."""
        raise NotImplementedError


class BorrowsHead(PairReader):
    """One that speaks by its target's head: no weights of its own, and not in its file."""

    head: Tensor

    def join(self, adapter: ModelAdapter, vocabulary: Vocabulary) -> None:
        """Use the target's lm_head for the draft logits."""
        self.head = vocabulary.head(adapter.head.weight.detach())

    def _headless(self) -> None:
        """Until it is joined to its target."""
        self.register_buffer("head", torch.empty(0), persistent=False)
