"""What one recorded run says of other settings, without decoding them: those that it rules out need no time.

Two kinds of method can be asked. Under `walk` the text of an early-exit run does not depend on its knobs, so every
combination of four of them is replayed exactly (`specviz.cost.exit_grid`); a chain's shorter drafts are beginnings of
the ones that were drafted, so acceptance by position and the measured cost of a pass tell the speed at every length
(`specviz.cost.payoff`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.cost.exit_grid import AXES, grid
from specviz.cost.exit_replay import Total, queries
from specviz.cost.exit_setting import head_costs, replay_events
from specviz.engine.model.files.loading import stop_tokens
from specviz.engine.run.local import Pair
from specviz.errors import SpecvizError
from specviz.methods import Method
from specviz.methods.early_exit import spec as early
from specviz.methods.early_exit.heads import pick
from specviz.methods.early_exit.recorder import exit_table
from specviz.metrics import Tally
from specviz.runlog.fold import Run
from specviz.tuning.space import KnobSetting, ladder
from specviz.view.panels.lanes.payoff import pay_panel

MOST = 6  # settings that a replay hands on
_ALPHA = (0.0, 0.2, 0.5, 1.0)
_TAU = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
_WIDTHS = (1, 2, 3, 4, 6, 8)
_DEPTHS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.75)  # shares of the layers


def shortlist(pair: Pair, method: Method, base: KnobSetting, run: Run) -> tuple[list[KnobSetting], str] | None:
    """The settings worth decoding and a sentence on the others; None where this run cannot be asked."""
    if method.traits.replay_depth is not None:
        return _exits(pair, method, base, run)
    return _lengths(method, base, run)


def _exits(pair: Pair, method: Method, base: KnobSetting, run: Run) -> tuple[list[KnobSetting], str] | None:
    adapter = pair.target.adapter
    knobs = method.table.knobs(base.knobs)
    named = knobs.get("heads") or ()
    try:
        texts = queries(replay_events(run))[1]
        heads = pick(adapter, next(iter(named), None))
    except SpecvizError:
        return None
    depth, n_layers = method.traits.replay_depth or 1.0, adapter.n_layers
    limits = early.read(knobs.values, n_layers, depth, heads.advised)
    for text in texts:
        text.records = list(exit_table(adapter, heads, text.prompt + text.tokens, len(text.prompt)))
        text.stops = frozenset(stop_tokens(pair.target))
    own = {spec.name for spec in method.table.specs}
    axes: dict[str, Sequence[Any]] = {
        "alpha": sorted({*(_ALPHA if "alpha" in own else ()), limits.alpha}),
        "tau": sorted({*_TAU, limits.tau}),
        "d_max": sorted({*(round(share * n_layers) for share in _DEPTHS if "d_max" in own), limits.d_max}),
        "w_max": sorted({*_WIDTHS, limits.w_max}),
    }
    totals = grid([text.text(n_layers) for text in texts], **axes, layers=limits.asked).totals()
    costs = head_costs(run) or (0.0, 0.0)
    best = sorted(totals, key=lambda total: _layers(total, costs))[:MOST]
    words = f"{method.name}: {len(totals):,} settings replayed exactly; with its heads the best takes "
    words += f"{_layers(best[0], costs):.1f} layers a token, plain decoding {n_layers + costs[1]:.1f}"
    specs = [spec for spec in method.table.specs if spec.name in AXES and spec.name in own]
    values = [{spec.name: getattr(total.setting, spec.name) for spec in specs} for total in best]
    settings = [_set(method, base, setting_values) for setting_values in values]
    return settings, words


def _layers(total: Total, costs: tuple[float, float]) -> float:
    """Layers a token, heads counted, by the middle of the bounds."""
    return total.layers_per_token(*costs) - total.calls_more / max(1, total.n_new) / 2


def _lengths(method: Method, base: KnobSetting, run: Run) -> tuple[list[KnobSetting], str] | None:
    spec = next((spec for spec in method.table.specs if spec.cuts == "depth" and spec.name == "gamma"), None)
    if spec is None or run.header is None:
        return None
    tally = Tally()
    tally.follow(run)
    curve = pay_panel(run.header, run.calibration, tally.summary(), run.knobs).curve
    if curve is None:
        return None
    values = [value for value in ladder(spec) if value in curve.gammas]
    bound = max(curve.low)  # a length whose upper end lies below the lower end of another cannot win
    best = [value for value in values if curve.high[curve.gammas.index(value)] >= bound]
    left = [str(value) for value in values if value not in best]
    words = f"{method.name}: {spec.name} {', '.join(left)} ruled out by acceptance by position and the cost of rows"
    return [_set(method, base, {spec.name: value}) for value in best], words if left else ""


def _set(method: Method, base: KnobSetting, values: Mapping[str, Any]) -> KnobSetting:
    """With these values, those that are the defaults left out."""
    return base.with_(**{name: value for name, value in values.items() if value != method.table.spec(name).default})
