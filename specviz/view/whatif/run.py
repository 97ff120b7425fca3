"""`what_if_run(run, found, change)`: a whole run again, in words."""

from dataclasses import dataclass

from specviz.view.whatif.round import changed_words
from specviz.view.words.numbers import MINUS, number, plural, uncertainty
from specviz.whatif import Change, RunAgain

DECISION_ONLY = "decision only: every round on the recorded text before it; the rounds do not add up to another run"


@dataclass(frozen=True, slots=True)
class WhatIfRun:
    """`sentence`: what can be said; `rows`: names and values below it; `note`: how it is to be read."""

    change: str
    sentence: str
    rows: tuple[tuple[str, str], ...]
    note: str = DECISION_ONLY


def what_if_run(found: RunAgain, change: Change) -> WhatIfRun:
    """The paired difference and what it rests on."""
    assert found.was is not None
    words = changed_words(change)
    rows = [
        ("rounds with a draft", f"{len(found.rounds)}, told {found.n_told}"),
        ("drafted tokens kept a round", f"{number(found.was.value)} as recorded"),
        ("difference", _difference(found)),
    ]
    if found.unfit:
        rows.append(("left out", f"{plural(found.unfit, 'round')} whose draft {found.verifier} does not take"))
    if found.carried:
        rows.append(
            (
                "besides",
                f"{plural(found.carried, 'carried round')} behind their stops, a target call for one token each",
            )
        )
    if found.moved is not None:
        off = f"{_law(found)} off the target's a token (total variation)" if found.moved.value else "the target's"
        rows.append(("law", off))
    elif found.unmoved:
        rows.append(("law", f"not the target's; by how much cannot be told: {found.unmoved}"))
    rows += [("not told", f"{plural(n, 'round')}: {why}") for why, n in found.reasons]
    return WhatIfRun(words, f"{words} {_said(found)}{_moved(found)}{_parts(found)}", tuple(rows))


def _said(found: RunAgain) -> str:
    n = plural(len(found.rounds), "round")
    if found.verdict == "same":
        return f"every one of {n} keeps what it kept"
    if found.verdict == "cannot tell yet":
        return f"it cannot be told yet from {n} whether more or fewer tokens are kept"
    return f"{found.verdict} tokens are kept a round: {_difference(found)} over {n}"


def _difference(found: RunAgain) -> str:
    """`+.43 ±.2`; where some rounds cannot be told, of how many it is."""
    if found.difference is None:
        return "cannot be told of any round"
    told = f" over the {plural(found.n_told, 'round')} told" if found.n_told < len(found.rounds) else ""
    return f"{signed(found.difference.value)} {uncertainty(found.difference, signed)}".strip() + told


def signed(value: float) -> str:
    """`+.43`, `−.2`, `0`."""
    text = number(abs(value))
    return text if text == "0" else f"{'+' if value > 0 else MINUS}{text}"


def _law(found: RunAgain) -> str:
    assert found.moved is not None
    return f"{number(found.moved.value)} {uncertainty(found.moved)}".strip()


def _moved(found: RunAgain) -> str:
    if found.moved is not None and not found.moved.value:
        return "; no token's law is off the target's"
    return "" if found.moved is None else f"; a token's law is {_law(found)} off the target's"


def _parts(found: RunAgain) -> str:
    first = found.parts
    if first is None:
        return ""
    before = found.rounds[: found.rounds.index(first)]
    would = "would" if first.sure and all(gain.kept is not None for gain in before) else "may"
    return f"; the text {would} part in round {first.r}, at position {first.pos}"
