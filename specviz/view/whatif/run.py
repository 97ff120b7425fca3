"""`what_if_run(run, found, change)`: a whole run again, in words."""

from dataclasses import dataclass

from specviz.numerals import number, plural
from specviz.view.whatif.round import changed_words
from specviz.view.words.numbers import MINUS, uncertainty
from specviz.whatif import Change, RunAgain

DECISION_ONLY = "decision only: every round on the recorded text before it; the rounds do not add up to another run"


@dataclass(frozen=True, slots=True)
class WhatIfRun:
    """`sentence`: what can be said; `rows`: names and values below it; `note`: how it is to be read."""

    change: str
    sentence: str
    rows: tuple[tuple[str, str], ...]
    note: str = DECISION_ONLY


def what_if_run(replayed: RunAgain, change: Change) -> WhatIfRun:
    """The paired difference and what it rests on."""
    assert replayed.was is not None
    words = changed_words(change)
    rows = [
        ("rounds with a draft", f"{len(replayed.rounds)}, told {replayed.n_told}"),
        ("drafted tokens kept a draft", f"{number(replayed.was.value)} as recorded"),
        ("difference", _difference(replayed)),
    ]
    if replayed.unfit:
        rows.append(("left out", f"{plural(replayed.unfit, 'round')} whose draft {replayed.verifier} does not take"))
    if replayed.carried:
        rows.append(
            (
                "besides",
                f"{plural(replayed.carried, 'carried round')} behind their stops, a target call for one token each",
            )
        )
    if replayed.moved is not None:
        off = f"{_law(replayed)} off the target's a token (total variation)" if replayed.moved.value else "the target's"
        rows.append(("law", off))
    elif replayed.unmoved:
        rows.append(("law", f"not the target's; by how much cannot be told: {replayed.unmoved}"))
    rows += [("not told", f"{plural(n, 'round')}: {why}") for why, n in replayed.reasons]
    return WhatIfRun(words, f"{words} {_said(replayed)}{_moved(replayed)}{_parts(replayed)}", tuple(rows))


def _said(replayed: RunAgain) -> str:
    n = plural(len(replayed.rounds), "round")
    if replayed.verdict == "same":
        return f"every one of {n} keeps what it kept"
    if replayed.verdict == "cannot tell yet":
        return f"it cannot be told yet from {n} whether more or fewer tokens are kept"
    return f"{replayed.verdict} tokens are kept a round: {_difference(replayed)} over {n}"


def _difference(replayed: RunAgain) -> str:
    """`+.43 ±.2`; where some rounds cannot be told, of how many it is."""
    if replayed.difference is None:
        return "cannot be told of any round"
    scope = f" over the {plural(replayed.n_told, 'round')} told" if replayed.n_told < len(replayed.rounds) else ""
    return f"{signed(replayed.difference.value)} {uncertainty(replayed.difference, signed)}".strip() + scope


def signed(value: float) -> str:
    """`+.43`, `−.2`, `0`."""
    text = number(abs(value))
    return text if text == "0" else f"{'+' if value > 0 else MINUS}{text}"


def _law(replayed: RunAgain) -> str:
    assert replayed.moved is not None
    return f"{number(replayed.moved.value)} {uncertainty(replayed.moved)}".strip()


def _moved(replayed: RunAgain) -> str:
    if replayed.moved is not None and not replayed.moved.value:
        return "; no token's law is off the target's"
    return "" if replayed.moved is None else f"; a token's law is {_law(replayed)} off the target's"


def _parts(replayed: RunAgain) -> str:
    first = replayed.parts
    if first is None:
        return ""
    before = replayed.rounds[: replayed.rounds.index(first)]
    would = "would" if first.sure and all(gain.kept is not None for gain in before) else "may"
    return f"; the text {would} part in round {first.r}, at position {first.pos}"
