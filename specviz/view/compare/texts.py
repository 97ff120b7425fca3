"""Which texts can be laid beside each other, and how far they are the same: for runs side by side and for gates.

Tokens are compared by their ids where all targets number their tokens alike, else by how they read. A trace may hold
neither (an engine's counts tell how many tokens came, and no more): then nothing is said of its text.
"""

from collections.abc import Sequence

import msgspec

from specviz.events import Header, Prefill
from specviz.trace.private import ids

Written = Sequence[tuple[int, str]]  # of every token its id, below 0 where nobody knows it, and how it reads
NOT_ON_RECORD = "texts are not on record"
_AROUND = 8  # tokens


class TextParting(msgspec.Struct, frozen=True, kw_only=True):
    """Where two texts of one prompt part: `at` tokens are alike; the last of these, and what follows in each."""

    a_request: str
    b_request: str
    at: int
    before: str
    a_text: str
    b_text: str


class TextsBeside(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a set beside those of the first, prompt by prompt. `n_unknown`: that cannot be told of."""

    n_same: int
    n_unknown: int
    partings: tuple[TextParting, ...]

    @property
    def words(self) -> str:
        """How many are equal, and of how many that cannot be told."""
        n = self.n_same + len(self.partings)
        unknown = f"Of {self.n_unknown} the {NOT_ON_RECORD}, or their prompts." if self.n_unknown else ""
        equal = f"{self.n_same} of {n} texts are equal." if n else "" if unknown else "No prompt in common."
        return f"{equal} {unknown}".strip()


def comparable(texts: Sequence[Written], by_id: bool | None) -> list[list[int | str]] | None:
    """What the tokens of every text are compared by; None where that is not on record for some token.

    `by_id`: whether ids mean the same in all (`numbered_alike`); where nobody says, only if nothing is spelled.
    """
    numbered = all(token >= 0 for text in texts for token, _ in text)
    if by_id and numbered:
        return [[token for token, _ in text] for text in texts]
    spelled = all(any(word for _, word in text) for text in texts if text)
    if spelled and all(token >= 0 or word for text in texts for token, word in text):
        return [[word for _, word in text] for text in texts]
    return [[token for token, _ in text] for text in texts] if by_id is None and numbered else None


def n_alike(one: Sequence[object], other: Sequence[object]) -> int:
    """Tokens that both begin with."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def numbered_alike(headers: Sequence[Header | None]) -> bool | None:
    """Whether all targets have one name and one size of vocabulary; None where no target is told."""
    targets = {target_of(header) for header in headers}
    return None if targets == {None} else len(targets) == 1


def target_of(header: Header | None) -> tuple[str, int | None] | None:
    """Name and size of vocabulary; None where it is not told."""
    target = header.models.target if header is not None else None
    return (target.name, target.vocab) if target is not None else None


def prompt_keys(runs: Sequence[Sequence[Prefill | None]]) -> list[list[str | None]]:
    """Something that is equal for equal prompts, of every query of every run; None where its prompt is not on record.

    By text, which is the same for targets that number their tokens differently, where all have one; else by ids.
    """
    by_text = all(_spelled(prefill) for run in runs for prefill in run if prefill is not None and _told(prefill))
    return [
        [_key(prefill, by_text) if prefill is not None and _told(prefill) else None for prefill in run] for run in runs
    ]


def _told(prefill: Prefill) -> bool:
    return bool(prefill.text) or _has_ids(prefill)


def _has_ids(prefill: Prefill) -> bool:
    return bool(prefill.prompt) and min(prefill.prompt) >= 0


def _spelled(prefill: Prefill) -> bool:
    """Whether its text is there; a redacted one has its ids in its place."""
    return bool(prefill.text) and prefill.text != ids(prefill.prompt)


def _key(prefill: Prefill, by_text: bool) -> str:
    return prefill.text if by_text or not _has_ids(prefill) else ids(prefill.prompt)


def parting(
    names: tuple[str, str], texts: tuple[Written, Written], headers: Sequence[Header | None]
) -> TextParting | bool | None:
    """Where two texts part; True: they are the same; None: nobody knows."""
    keys = comparable(texts, numbered_alike(headers))
    if keys is None:
        return None
    at = n_alike(*keys)
    if at == len(texts[0]) == len(texts[1]):
        return True
    stretches = (texts[0][max(0, at - _AROUND) : at], *(text[at : at + _AROUND] for text in texts))
    before, mine, other = ("".join(word for _, word in stretch) for stretch in stretches)
    return TextParting(a_request=names[0], b_request=names[1], at=at, before=before, a_text=mine, b_text=other)
