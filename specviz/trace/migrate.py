"""One line of a trace to one record, with an error that says the line and the reason; and migrations on the way.

A migration leads over a major version, from a line of that version to a line of the next. A reader of version N opens
every file from the oldest major in `MIGRATIONS` on; a newer minor needs nothing, because unknown records and fields are
ignored. An older minor may lack what is not to be guessed record by record: before version 1.2 a header named its
method and its verifier and did not say what kind they are, so the tables here do. They are the only place above methods
and verifiers where a name decides anything, and they do not grow: a method that comes later writes its traits itself.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from specviz.errors import TraceError
from specviz.events import SCHEMA, VERSION, Event, Header, decode
from specviz.trace.files import foreign
from specviz.traits import CAPPED, NAIVE, TOKENWISE, MethodTraits, VerifierTraits

T = TypeVar("T", MethodTraits, VerifierTraits)
Migration = Callable[[bytes], bytes]
MIGRATIONS: dict[int, Migration] = {}  # {1: lines of 1.x -> lines of 2.x}; none yet


def missing(major: int, current: int) -> int | None:
    """The first major version on the way to `current` that has no migration, or None."""
    return next((v for v in range(major, current) if v not in MIGRATIONS), None)


def migrated(line: bytes, major: int, current: int) -> bytes:
    """The line as version `current` would have written it."""
    for version in range(major, current):
        line = MIGRATIONS[version](line)
    return line


_SAMPLING, _HSD = "docs/papers/speculative-sampling.md", "docs/papers/hsd.md"
_BOUND, _BRANCH, _BLOCK = (f"docs/papers/{name}.md" for name in ("specbound", "specbranch", "specblock"))
# Headers of 1.0 and 1.1: what the methods and verifiers of then were. A name that is not here was the plainest kind.
METHODS: dict[str, MethodTraits] = {
    "adadecode": MethodTraits(exits="tested", replay_depth=1.0, page=_BOUND),
    "adaedl": MethodTraits(threshold_symbol="λ"),
    "ar": MethodTraits(plain=True),
    "draft": MethodTraits(page=_SAMPLING),
    "draft_and_verify": MethodTraits(exits="skipped", threshold_symbol="τ (γ)"),
    "eagle3": MethodTraits(tree="levels", page=_BLOCK),
    "kangaroo": MethodTraits(exits="fixed", threshold_symbol="τ (η)"),
    "layerskip": MethodTraits(exits="tested", replay_depth=1.0, page=_BOUND),
    "medusa": MethodTraits(tree="heads"),
    "pearl": MethodTraits(pipelined=True, page=_BRANCH),
    "specblock": MethodTraits(tree="blocks", learns=True, page=_BLOCK),
    "specbound": MethodTraits(exits="tested", replay_depth=0.5, page=_BOUND),
    "specbranch": MethodTraits(pipelined=True, threshold_symbol="ε", page=_BRANCH),
    "sps": MethodTraits(page=_SAMPLING),
    "static_tree": MethodTraits(tree="fixed", page=_BLOCK),
}
VERIFIERS: dict[str, VerifierTraits] = {
    "blockwise": VerifierTraits(direction="backward", letter="w", same_rule_as="hsd", replays_as=CAPPED, page=_HSD),
    "hsd": VerifierTraits(direction="backward", same_rule_as="blockwise", replays_as=CAPPED, page=_HSD),
    "hsd_naive": VerifierTraits(
        direction="backward", letter="r", capped=False, last_capped=False, replays_as=NAIVE, page=_HSD
    ),
    "hsd_ref": VerifierTraits(direction="backward", last_capped=False, page=_HSD),
    "multi_hsd": VerifierTraits(direction="backward", order="candidates", page=_HSD),
    "multi_tokenwise": VerifierTraits(same_rule_as="tokenwise"),
    "multi_traversal": VerifierTraits(direction="backward", order="leaves"),
    "slack": VerifierTraits(adds_slack=True),
    "tokenwise": VerifierTraits(replays_as=TOKENWISE, page=_SAMPLING),
    "tree_hsd": VerifierTraits(draws=True, same_rule_as="walk"),
    "tree_tokenwise": VerifierTraits(draws=True, same_rule_as="walk"),
    "walk": VerifierTraits(draws=True),
}


class _Given(msgspec.Struct):
    """Which traits a header line has."""

    method_traits: msgspec.Raw = msgspec.Raw()
    verifier_traits: msgspec.Raw = msgspec.Raw()


_given = msgspec.json.Decoder(_Given)


def by_name(header: Header, method: bool = True, verifier: bool = True) -> Header:
    """The header with the traits that its names stood for."""
    changes: dict[str, MethodTraits | VerifierTraits] = {}
    if method:
        changes["method_traits"] = METHODS.get(header.method, MethodTraits())
    if verifier:
        changes["verifier_traits"] = VERIFIERS.get(header.verifier, VerifierTraits())
    return msgspec.structs.replace(header, **changes)


def completed(header: Header, line: bytes) -> Header:
    """The header of a line, with the traits that an older version left out."""
    present = _given.decode(line)
    whole = by_name(header, not bytes(present.method_traits), not bytes(present.verifier_traits))
    known, rule = METHODS.get(header.method, MethodTraits()), VERIFIERS.get(header.verifier, VerifierTraits())
    return msgspec.structs.replace(
        whole,
        method_traits=_with_page(whole.method_traits, known),
        verifier_traits=_with_page(whole.verifier_traits, rule),
    )


def _with_page(traits: T, known: T) -> T:
    """The traits with the page of the part that has the same ones by that name: headers named none at first."""
    return known if not traits.page and msgspec.structs.replace(traits, page=known.page) == known else traits


_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Head(msgspec.Struct):
    """What is read of a first line before its version is known."""

    ev: str = ""
    schema: str = ""
    v: tuple[int, int] = (0, 0)


_head_decoder = msgspec.json.Decoder(_Head)


def major_of(first: bytes, path: Path) -> int:
    """The schema's major version. Raises TraceError for a foreign file and for one of a version that cannot be read."""
    try:
        head = _head_decoder.decode(first)
    except _BAD:
        raise foreign(path, "its first line is not a JSON object of a trace") from None
    if head.ev != "header" or head.schema != SCHEMA:
        seen = f"a '{head.ev}' record" if head.ev else "a JSON object without 'ev'"
        raise foreign(path, f"its first line is {seen}, not a header of {SCHEMA}")
    major, current = head.v[0], VERSION[0]
    if major > current:
        raise TraceError(
            f"{path} was written by trace version {major}.{head.v[1]}, this specviz reads up to {current}.x: "
            "pip install -U specviz-llm"
        )
    if (gap := missing(major, current)) is not None:
        raise TraceError(f"{path} has trace version {major}.{head.v[1]}; there is no migration from version {gap}")
    return major


def record_of(line: bytes, number: int, path: Path, major: int) -> Event | None:
    """The record of a line; None when this version does not know its kind. Raises TraceError with line and reason."""
    try:
        if major < VERSION[0]:
            line = migrated(line, major, VERSION[0])
        event = decode(line)
    except _BAD as error:
        raise TraceError(f"{path} line {number}: {error}{_seen(line, str(error))}") from None
    return completed(event, line) if isinstance(event, Header) else event


def _seen(line: bytes, message: str) -> str:
    """The value that an error of ours names by its path (`$.top[..][1]`), where the path leads to one."""
    _, separator, path = message.rpartition("at `$.")
    if not separator:
        return ""
    try:
        value: Any = msgspec.json.decode(line)
        for part in path.rstrip("`").split("."):
            value = value[part]
    except (*_BAD, LookupError, TypeError):
        return ""
    return f", which is {ascii(value)[:40]}" if isinstance(value, int | float) else ""
