"""`KVCache`: slots of one model, and the one call that commits, rolls back, chooses a branch and cleans up.

Slots are apart from positions: slot s holds the token `tokens[s]` whose predecessor stands in slot `parents[s]`.
Slots below `length` are the committed line, in order; later ones are rows in flight, a tree. Every layer has a filled
length of its own, because early exit leaves layers at different depths. Writing is a copy into a preallocated buffer,
dropping moves a length, keeping is one gather.
"""

from collections.abc import Sequence
from typing import Any

import torch

from specviz.engine.model.host import to_device


class KVCache:
    """Keys and values of one sequence, `[2, L, 1, heads, capacity, head_dim]`, allocated at the first write.

    Where keys are wider than values, or narrower (DeepSeek's latents), both have the room of the wider. They are held
    in the dtype of the first key. `spare`: slots to read beyond its capacity; the buffer then begins as zeros, since
    what is read beyond the rows meets weights of zero. `places`: the device of each layer, a buffer for each device;
    empty: all lie where the first key does.
    """

    def __init__(self, n_layers: int, capacity: int, spare: int = 0, places: tuple[torch.device, ...] = ()) -> None:
        self.n_layers = n_layers
        self.capacity = capacity
        self.spare = spare
        self.places = places
        self.padding = 0  # how many of the rows that come next are no tokens: written, and not counted
        self.reach: int | None = None  # slots that are read; None: all that are filled
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.filled = [0] * n_layers
        self.length = 0
        self.lent = 0  # of the line, how many slots hold what another cache does (`borrow`)
        self._buffer: torch.Tensor | None = None  # the first device's
        self._further: list[torch.Tensor] = []  # those of other devices
        self._layers: list[tuple[torch.Tensor, torch.Tensor]] = []  # views of them, by layer

    def widened(self, capacity: int) -> "KVCache":
        """A cache of at least so many slots that holds what this one does; this one where it has them."""
        if capacity <= self.capacity:
            return self
        wide = KVCache(self.n_layers, capacity, self.spare, self.places)
        wide.tokens, wide.parents = list(self.tokens), list(self.parents)
        wide.filled, wide.length = list(self.filled), self.length
        if self._buffer is not None:
            wide._allocate(self._layers[0][0])
            for held, wider in zip(self.buffers, wide.buffers, strict=True):
                wider.narrow(4, 0, self.capacity).copy_(held.narrow(4, 0, self.capacity))
        return wide

    def add(self, token: int, parent: int) -> int:
        """Reserve the next slot for a token that follows slot `parent` (-1: begins the text). Returns the slot."""
        assert len(self.tokens) < self.capacity, f"cache full: {self.capacity} slots"
        self.tokens.append(token)
        self.parents.append(parent)
        return len(self.tokens) - 1

    def update(self, key: Any, value: Any, layer_idx: int, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Append rows `[1, heads, n, head_dim]` to a layer; returns all it holds. Called by the library's layers."""
        start, n = self.filled[layer_idx], key.shape[2]
        if key.shape[3] == value.shape[3]:
            self.memory(key)
            keys, values = self._layers[layer_idx]
        else:
            self.memory(max(key, value, key=lambda rows: rows.shape[3]))
            keys, values = (
                held.narrow(3, 0, rows.shape[3])
                for held, rows in zip(self._layers[layer_idx], (key, value), strict=True)
            )
        # Narrow views cost half of what subscripts do, and this runs in every layer of every pass.
        keys.narrow(2, start, n).copy_(key)
        values.narrow(2, start, n).copy_(value)
        self.filled[layer_idx] = end = start + n - self.padding
        end = self.reach or end
        return keys.narrow(2, 0, end), values.narrow(2, 0, end)

    def memory(self, key: torch.Tensor) -> torch.Tensor:
        """Where it holds keys and values of heads like these, `[2, L, 1, heads, slots, head_dim]`."""
        if self._buffer is None:
            self._allocate(key)
        assert self._buffer is not None
        return self._buffer

    def _allocate(self, key: torch.Tensor) -> None:
        # The first key tells heads and head_dim: sharded or unusual heads are not in the config.
        allocate = torch.zeros if self.spare else torch.empty
        places = self.places or (key.device,) * self.n_layers
        buffers: list[torch.Tensor] = []
        views: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for place in dict.fromkeys(places):
            mine = [layer for layer, its in enumerate(places) if its == place]
            shape = (2, len(mine), 1, key.shape[1], self.capacity + self.spare, key.shape[3])
            buffer = allocate(shape, dtype=key.dtype, device=place)
            buffers.append(buffer)
            views |= {layer: (buffer[0, k], buffer[1, k]) for k, layer in enumerate(mine)}
        self._buffer, *self._further = buffers
        self._layers = [views[layer] for layer in range(self.n_layers)]

    @property
    def buffers(self) -> list[torch.Tensor]:
        """The key/value buffers, one for each device; empty before the first write."""
        return [] if self._buffer is None else [self._buffer, *self._further]

    @property
    def slot_bytes(self) -> int:
        """Memory that one token's keys and values take; 0 before the first write."""
        return sum(buffer.numel() // buffer.shape[4] * buffer.element_size() for buffer in self.buffers)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Filled length of a layer (the library's name for it)."""
        return self.filled[layer_idx]

    def follow(self, tokens: Sequence[int]) -> list[int]:
        """Keep the longest path that spells the beginning of `tokens`, drop all else; returns what must be fed.

        A slot counts when every layer has filled it. Commit, rollback, branch choice, abort and method change are
        this call.
        """
        path = self._longest_path(tokens)
        self._gather(path)
        kept = len(path)
        self.tokens = list(tokens[:kept])
        self.parents = list(range(-1, kept - 1))
        self.filled = [kept] * self.n_layers
        self.length = kept
        self.lent = min(self.lent, kept)
        return list(tokens[kept:])

    def borrow(self, other: "KVCache", tokens: Sequence[int], dtype: torch.dtype) -> None:
        """Commit `tokens` like `follow`, but copy the keys and values from another model's cache as far as it has them.
        That model must have the same number of layers and heads; what was copied before is not copied again.
        """
        self.follow(tokens)
        held = other._buffer
        n = 0 if held is None else _common(other.tokens[: other.length], tokens)
        if held is not None and n > self.lent:
            mine = self.memory(held.new_empty(1, held.shape[3], 0, held.shape[5], dtype=dtype))
            mine.narrow(4, self.lent, n - self.lent).copy_(held.narrow(4, self.lent, n - self.lent))
            self.lent = n
            if n > self.length:
                self.tokens, self.parents = list(tokens[:n]), list(range(-1, n - 1))
                self.filled, self.length = [n] * self.n_layers, n

    def holds(self, tokens: Sequence[int]) -> int:
        """How many leading tokens `follow` would keep; changes nothing."""
        return len(self._longest_path(tokens))

    def _longest_path(self, tokens: Sequence[int]) -> list[int]:
        filled = min(self.filled, default=0)
        line = _common(self.tokens[: min(self.length, filled)], tokens)
        if line == self.length and self.parents[line:filled] == list(range(line - 1, filled - 1)):
            return list(range(_common(self.tokens[:filled], tokens)))  # no branch: a long text is fed as one line
        # `reach[k]` = slots that end a path spelling tokens[:line + k]; several nodes may spell the same text.
        reach = [[line - 1]]
        if line == self.length:
            for token in tokens[line:]:
                ends = set(reach[-1])
                step = [s for s in range(self.length, filled) if self.parents[s] in ends and self.tokens[s] == token]
                if not step:
                    break
                reach.append(step)
        tail, slot = [], reach[-1][0]
        for _ in range(len(reach) - 1):
            tail.append(slot)
            slot = self.parents[slot]
        return [*range(line), *reversed(tail)]

    def _gather(self, path: list[int]) -> None:
        moved = next((i for i, slot in enumerate(path) if i != slot), None)
        if moved is not None:
            self.move(path[moved:], moved)

    def move(self, slots: Sequence[int], to: int) -> None:
        """Copy what some slots hold to those from `to` on, in one gather."""
        for buffer in self.buffers:
            index = to_device(list(slots), buffer.device)
            buffer[..., to : to + len(slots), :] = buffer[..., index, :]


def _common(mine: Sequence[int], theirs: Sequence[int]) -> int:
    """How many leading tokens are the same."""
    n = min(len(mine), len(theirs))
    if list(mine[:n]) == list(theirs[:n]):
        return n
    return next(k for k in range(n) if mine[k] != theirs[k])
