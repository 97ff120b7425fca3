"""Teaching mode: widths from the true ranks, read off the target before the tree is grown (`width_mode oracle`).

What the rank head can be worth at most. It costs a target pass more for every drafter call, over a cache of its own,
so its rounds are no faster for it; and it looks at the target's rows, not at the draws that decide, so even here the
text is that of plain decoding.
"""

from collections.abc import Sequence

from specviz.engine.decode.context import Context
from specviz.engine.model.adapter import Model
from specviz.engine.model.rows import BLOCK, Rows, fill
from specviz.methods.specblock.recorder import best_tokens

Path = tuple[int, ...]


class Oracle:
    """The target's best token behind drafted paths. `room`: most paths a round may ask for."""

    def __init__(self, target: Model, capacity: int, room: int) -> None:
        self.model, self.cache = target, target.new_cache(capacity + room)

    def open(self, ctx: Context) -> None:
        """Begin a round."""
        missing = fill(self.model, self.cache, ctx.tokens[:-1], leave=BLOCK)
        self._ctx, self._rows = ctx, Rows(self.model, self.cache)
        self._row: dict[Path, int] = {(): self._rows.add_line([*missing, ctx.tokens[-1]])}
        self._best: dict[Path, int] = {}

    def best(self, paths: Sequence[Path]) -> list[int]:
        """One target pass for all paths that are new; a path's parent must be among them or known."""
        new = [path for path in sorted({*paths}, key=len) if path not in self._best]
        for path in new:
            if path:
                self._row[path] = self._rows.add(path[-1], self._row[path[:-1]])
        if new:
            logits = self._rows.take(len(new))
            prefixes = [[*self._ctx.tokens, *path] for path in new] if self._ctx.warper.needs_prefix else None
            laws = self._ctx.warper.laws(logits, prefixes)
            self._best |= zip(new, best_tokens(laws, range(len(new))), strict=True)
        return [self._best[path] for path in paths]
