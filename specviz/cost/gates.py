"""The annealed confidence test in numbers (specbound.md 7): its temperature, and what it asks of the raw confidence."""

import math
from collections.abc import Sequence


def annealed(alpha: float, layer: int, n_layers: int) -> float:
    """`T_l = 1 + alpha (1 - l/L)`: highest after the first layer, 1 after the last. Layers count from 1."""
    return 1.0 + alpha * (1.0 - layer / n_layers)


def raw_threshold(raw: float, conf: float, temp: float, tau: float) -> float:
    """The raw confidence that would just pass `conf >= tau`, if the top logit moved and all the others stayed.

    With the others worth S_1 = (1 - raw)/raw at temperature 1 and S_T = (1 - conf)/conf at `temp`, measured from the
    top logit, moving that by g divides them by e^g and e^(g/T). Against one rival it is sigmoid(T logit(tau)); a flat
    tail asks for more. `raw >= raw_threshold(..)` says the same as `conf >= tau`.
    """
    if tau <= 0.0 or tau >= 1.0 or not 0.0 < conf < 1.0 or not 0.0 < raw < 1.0:
        return max(0.0, tau)
    others, tempered = (1.0 - raw) / raw, (1.0 - conf) / conf
    log_gain = temp * (math.log1p(-tau) - math.log(tau) - math.log(tempered))
    return 1.0 / (1.0 + math.exp(min(700.0, math.log(others) + log_gain)))


def one_rival(tau: float, temp: float) -> float:
    """What the test asks of the raw confidence when a single other token competes: sigmoid(T logit(tau))."""
    if tau <= 0.0 or tau >= 1.0:
        return max(0.0, tau)
    return 1.0 / (1.0 + math.exp(temp * (math.log1p(-tau) - math.log(tau))))


def shares(fractions: Sequence[float], n_layers: int) -> list[int]:
    """Layers at these fractions of a model, rounded half up, each once, between 1 and the last but one."""
    found = {math.floor(share * n_layers + 0.5) for share in fractions}
    return sorted(layer for layer in found if 1 <= layer < n_layers)
