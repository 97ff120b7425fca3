"""Early exit replayed for a whole grid of settings at once: what instant sliders and heat maps over four knobs ask.

The same numbers as `specviz.cost.exit_replay.total`, setting by setting, from array arithmetic: a text of 500 tokens
under 10,000 settings takes about a tenth of a second. Rounds tile the text, so a sum over rounds is the sum over all
tokens less what the last row of a round was not asked, which is so when the round ended by its width.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from specviz.cost.exit_replay import ExitKnobs, HeadTable, Text, Total, grid_step
from specviz.probability.arrays import np

Array: TypeAlias = "np.ndarray[Any, Any]"
AXES = ("alpha", "tau", "d_max", "w_max")


@dataclass(frozen=True, slots=True)
class Grid:
    """Sums over the texts, each `[alpha, tau, d_max, w_max]`. Layer calls lie within `[calls, calls + calls_more]`."""

    axes: dict[str, tuple[float, ...]]
    layers: tuple[int, ...] | None
    n_layers: int
    n_new: int
    n_rounds: Array
    kept: Array
    exits: Array
    calls: Array
    calls_more: Array
    tests: Array

    def at(self, *place: int) -> Total:
        """The totals of one setting, by the indices of its four values."""
        alpha, tau, d_max, w_max = (self.axes[name][k] for name, k in zip(AXES, place, strict=True))
        setting = ExitKnobs(alpha, tau, int(d_max), int(w_max), self.layers)
        sums = {name: int(getattr(self, name)[place]) for name in _SUMS}
        return Total(setting=setting, n_layers=self.n_layers, n_new=self.n_new, **sums)

    def totals(self) -> list[Total]:
        """All settings, the last knob fastest."""
        return [self.at(*place) for place in np.ndindex(self.calls.shape)]


_SUMS = ("n_rounds", "kept", "exits", "calls", "calls_more", "tests")


def grid(
    texts: Sequence[Text],
    alpha: Sequence[float],
    tau: Sequence[float],
    d_max: Sequence[int],
    w_max: Sequence[int],
    layers: tuple[int, ...] | None = None,
) -> Grid:
    """Every combination of the values over all texts. Raises SpecvizError for an alpha off the grid of 0.1."""
    axes = {"alpha": tuple(alpha), "tau": tuple(tau), "d_max": tuple(d_max), "w_max": tuple(w_max)}
    parts = [_one(text, axes, layers) for text in texts]
    sums = {name: sum(getattr(part, name) for part in parts[1:]) + getattr(parts[0], name) for name in _SUMS}
    return replace(parts[0], n_new=sum(part.n_new for part in parts), **sums)


@dataclass(frozen=True, slots=True)
class _Walks:
    """What every row does, `[tokens, settings but for the width]`."""

    tests: Array  # made, when the row is asked at all
    depth: Array  # where it stops and feeds a draft; 0: it does not
    run: Array  # right drafts in a row from here on
    wrong: Array  # whether the row behind them feeds a wrong one
    deepest: Array  # [settings]

    @classmethod
    def of(cls, text: Text, axes: dict[str, tuple[float, ...]], layers: tuple[int, ...] | None) -> "_Walks":
        table = text.table
        columns = [k for k, layer in enumerate(table.layers) if layers is None or layer in layers]
        levels = np.asarray([table.layers[k] for k in columns], dtype=np.int64)
        first = _first_passed(table, axes, columns)[:, :, None]  # [n, alpha tau, 1]
        open_ = np.asarray([(levels <= min(d, table.n_layers - 1)).sum() for d in axes["d_max"]])  # [d]
        stop = first < open_
        fed, right = _drafts(text, columns)
        at = np.minimum(first, max(0, len(columns) - 1))
        where = np.arange(len(table.tokens))[:, None, None]
        depth = np.where(stop & fed[where, at], np.append(levels, 0)[at], 0)
        tests = np.where(stop, first + 1, open_)
        deepest = np.broadcast_to(np.append(0, levels)[open_], stop.shape[1:])
        shape = (len(table.tokens), -1)
        depth, good = depth.reshape(shape), ((depth > 0) & right[where, at]).reshape(shape)
        run = _runs(good)
        behind = np.arange(len(good))[:, None] + run
        padded = np.vstack([depth > 0, np.zeros_like(depth[:1], dtype=bool)])
        return cls(tests.reshape(shape), depth, run, np.take_along_axis(padded, behind, 0), deepest.reshape(-1))


def _first_passed(table: HeadTable, axes: dict[str, tuple[float, ...]], columns: list[int]) -> Array:
    """`[n, alpha tau]`: which of the columns passes first; past the last when none does."""
    conf = table.conf[[grid_step(a) for a in axes["alpha"]]][:, :, columns]  # [alpha, n, layers]
    taus = np.asarray(axes["tau"])[None, :, None, None]
    passed = conf[:, None] >= taus
    first = np.where(passed.any(-1), passed.argmax(-1), len(columns)) if columns else np.zeros(passed.shape[:3], int)
    return first.reshape(-1, len(table.tokens)).T


def _drafts(text: Text, columns: list[int]) -> tuple[Array, Array]:
    """`[n, columns]`: whether a head's token would be fed, and whether it is what the target chose."""
    if not columns:
        none = np.zeros((len(text.table.tokens), 1), dtype=bool)
        return none, none
    top1 = text.table.top1[:, columns]
    return ~np.isin(top1, list(text.eos)), top1 == text.table.tokens[:, None]


def _runs(good: Array) -> Array:
    """`[n, ..]`: how many in a row are true from each place on."""
    n = len(good)
    places = np.arange(n)[:, None]
    stops = np.where(good, n, places)
    return np.minimum.accumulate(stops[::-1])[::-1] - places


def _one(text: Text, axes: dict[str, tuple[float, ...]], layers: tuple[int, ...] | None) -> Grid:
    table, walks = text.table, _Walks.of(text, axes, layers)
    n_rounds, open_ends, more, *skipped = _replayed(text, walks, np.asarray(axes["w_max"], dtype=np.int64))
    asked = (walks.tests, walks.depth, walks.depth > 0)
    tests, depth, exits = (part.sum(0)[:, None] - skip for part, skip in zip(asked, skipped, strict=True))
    n, shape = len(table.tokens), tuple(len(axes[name]) for name in AXES)
    sums = {
        "n_rounds": n_rounds,
        "kept": open_ends + n - n_rounds,
        "exits": exits,
        "tests": tests,
        "calls": n_rounds * table.n_layers + depth,
        "calls_more": more * walks.deepest[:, None],
    }
    return Grid(axes, layers, table.n_layers, n, **{name: part.reshape(shape) for name, part in sums.items()})


def _replayed(text: Text, walks: _Walks, widths: Array) -> Array:
    """`[6, settings, widths]`: rounds, those without a closing token, drafts that may follow a wrong one; and what the
    last rows of rounds were not asked: tests, depths, drafts.

    From the end of the text backwards: what a round that begins here brings is its own and that of the next one.
    """
    n, n_widths, n_walks = len(walks.run), len(widths), walks.run.shape[1]
    limit = n if text.room is None else text.room
    ring = int(widths.max(initial=0)) + 2
    sums = np.zeros((ring * n_widths * n_walks, 6), dtype=np.int32)  # of rounds that begin at place % ring
    lane = np.arange(n_widths * n_walks).reshape(n_widths, n_walks)
    skips = np.stack([walks.tests, walks.depth, walks.depth > 0], 1).astype(np.int32)  # [n, 3, walks]
    for place in range(n - 1, -1, -1):
        wide = np.clip(limit - place - 1, 0, widths)[:, None]
        kept = np.minimum(walks.run[place], wide)  # [widths, walks]
        ended, over = kept == wide, place + kept == n
        here = np.take(sums, (np.minimum(place + kept + 1, n) % ring) * lane.size + lane, axis=0)
        here[..., 0] += 1
        here[..., 1] += over
        here[..., 2] += np.where(walks.wrong[place] & ~ended, wide - kept - 1, 0)
        last = np.minimum(place + wide[:, 0], n - 1)
        here[..., 3:] += np.where((ended & ~over)[..., None], np.moveaxis(skips[last], 1, 2), 0)
        sums[place % ring * lane.size : (place % ring + 1) * lane.size] = here.reshape(-1, 6)
    table: Array = sums[: lane.size].reshape(n_widths, n_walks, 6)
    return table.transpose(2, 1, 0).astype(np.int64)
