"""SpecBound (Findings of ACL 2026): exits by their law, and recorded exits replayed under other settings."""

from collections.abc import Sequence
from dataclasses import replace

from specviz.cost.exit_replay import ExitKnobs, Text, Total, added, annealed, one_rival
from specviz.cost.ledger import RoundCost, head_cost
from specviz.runlog.fold import fold
from specviz.trace import read_events
from specviz.trace.bundled import all_bundled
from specviz.whatif import replay_texts
from specviz_lab.papers.kept import clocked
from specviz_lab.papers.table import ComputedTable, Paper, decimal, rows_of

_RECORDING = "code-specbound"
_HEADS = (17, 19, 21, 23, 25, 27)  # layers of SmolLM2 that have one
_ALL = ExitKnobs(alpha=1.0, tau=0.75, d_max=27, w_max=6, layers=_HEADS)
_COST, _FINAL = 1.4, 8.0  # weights that a test and the final head read, in layers: as the card of the heads says
# L, e, rho (a row stops), beta (its draft is right), w
_SETTINGS = (
    (32, 6, 0.8, 0.9, 6),
    (32, 10, 0.6, 0.8, 8),
    (32, 4, 1.0, 0.85, 5),
    (32, 4, 1.0, 0.85, 12),
    (32, 4, 1.0, 0.85, 40),
    (30, 21, 0.5, 0.75, 6),
)
# Model, layers, width, intermediate width, vocabulary; speed-up and CR of the paper's table.
_PUBLISHED = """
Vicuna-7B     | 32 | 4096 | 11008 | 32000 | 2.15 | 3.78
Vicuna-13B    | 40 | 5120 | 13824 | 32000 | 2.16 | 4.09
CodeLlama-7B  | 32 | 4096 | 11008 | 32016 | 1.93 | 3.63
CodeLlama-13B | 40 | 5120 | 13824 | 32016 | 2.33 | 3.49
"""


def expected(rho: float, beta: float, most: int) -> tuple[float, float]:
    """Tokens a round and drafts fed a round: a row stops with chance rho, and what it drafts is right with beta."""
    right = rho * beta
    return sum(right**k for k in range(most + 1)), sum(rho**k for k in range(1, most + 1))


def _gate() -> ComputedTable:
    layers = (1, 8, 16, 24, 32)
    lines = [
        (
            decimal(alpha, 1),
            *(
                f"{decimal(t, 2)}, {decimal(one_rival(0.75, t))}"
                for t in (annealed(alpha, layer, 32) for layer in layers)
            ),
        )
        for alpha in (0.0, 0.5, 1.0, 2.0)
    ]
    return ComputedTable(("α", *(f"l = {layer}" for layer in layers)), rows_of(lines))


def _law() -> ComputedTable:
    lines = []
    for n_layers, depth, rho, beta, most in _SETTINGS:
        tokens, drafts = expected(rho, beta, most)
        calls = n_layers + depth * drafts
        place = f"L = {n_layers}, e = {depth}, ρ = {decimal(rho, 2)}, β = {decimal(beta, 2)}, w = {most}"
        lines.append((place, decimal(tokens, 2), decimal(calls, 1), decimal(tokens * n_layers / calls, 2)))
    return ComputedTable(("setting", "tokens a round", "layer calls a round", "of plain, by calls"), rows_of(lines))


def _published() -> ComputedTable:
    lines = []
    for line in _PUBLISHED.strip().splitlines():
        model, *numbers = (part.strip() for part in line.split("|"))
        n_layers, width, inner, vocab = (int(number) for number in numbers[:4])
        speed, tokens = float(numbers[4]), float(numbers[5])
        head = head_cost(vocab, width, 4 * width * width + 3 * width * inner)
        taken = tokens / speed * (n_layers + head)
        left = taken - n_layers - head
        lines.append(
            (
                model,
                decimal(speed, 2),
                decimal(tokens, 2),
                decimal(taken, 1),
                decimal(left, 1),
                decimal(left / (tokens - 1), 1),
            )
        )
    names = ("speed-up", "CR", "a round, in layers", "left for drafting", "for a kept draft")
    return ComputedTable(("model", *names), rows_of(lines))


def texts() -> list[Text]:
    """The recorded texts with what every head says of them."""
    return [text for _, text in replay_texts(fold(read_events(all_bundled()[_RECORDING]))).values()]


def replayed(setting: ExitKnobs, over: Sequence[Text]) -> Total:
    """All texts under one setting."""
    return added([text.total(setting) for text in over])


def _ablation() -> ComputedTable:
    over = texts()
    settings = (
        ("all: α 1, τ .75, d_max 27, w_max 6, six heads", _ALL),
        ("without ACT: α 0", replace(_ALL, alpha=0.0)),
        ("tighter bound: d_max 21", replace(_ALL, d_max=21)),
        ("width bound away: w_max 16", replace(_ALL, w_max=16)),
        ("w_max 2", replace(_ALL, w_max=2)),
        ("surer: τ .9", replace(_ALL, tau=0.9)),
        ("the advised head alone, τ .9", replace(_ALL, layers=(21,), d_max=21, tau=0.9)),
        ("plain decoding: w_max 0", replace(_ALL, w_max=0)),
    )
    lines = []
    for words, setting in settings:
        total = replayed(setting, over)
        heads = (_COST * total.tests + _FINAL * total.n_rounds) / total.n_new
        best, worst = ((total.n_layers + _FINAL) / (calls + heads) for calls in total.calls_per_token)
        lines.append(
            (
                words,
                decimal(total.tokens_per_round, 2),
                "—" if total.precision is None else decimal(total.precision, 2),
                " .. ".join(decimal(calls, 1) for calls in total.calls_per_token),
                decimal(total.tests / total.n_new, 1),
                f"{decimal(worst, 2)} .. {decimal(best, 2)}",
            )
        )
    names = ("tokens a round", "drafts kept", "layer calls a token", "tests a token", "of plain, heads counted")
    return ComputedTable(("setting", *names), rows_of(lines))


def _ledger() -> ComputedTable:
    rounds = (
        ((2, 3, 2), 3, 6),
        ((2, 3, 2), 1, 6),
        ((1, 1, 1), 3, 6),
        ((4, 2, 3), 2, 6),
        ((3, 5, 2, 2), 4, 8),
        ((), 0, 6),
    )
    lines = []
    for exits, kept, n_layers in rounds:
        cost = RoundCost(n_layers, exits, kept)
        stops = ", ".join(map(str, exits)) or "none"
        plain = (kept + 1) * n_layers
        lines.append(
            (stops, str(n_layers), str(kept), str(cost.layer_calls), str(plain), str(cost.cells), str(cost.saved_calls))
        )
    names = ("L", "kept", "layer calls", "plain", "cells", "calls saved")
    return ComputedTable(("stops", *names), rows_of(lines))


PAPER = Paper(
    "specbound",
    "SpecBound",
    {
        "ledger": _ledger,
        "law": _law,
        "gate": _gate,
        "published": _published,
        "ablation": _ablation,
        "time": lambda: clocked("specbound", "time"),
    },
)
