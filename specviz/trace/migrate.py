"""Older traces: one function a major version, from a line of that version to a line of the next.

A reader of version N opens every file from the oldest major in `MIGRATIONS` on; a newer minor needs nothing, because
unknown records and fields are ignored. An older minor may lack what is not to be guessed record by record: before
version 1.2 a header named its method and its verifier and did not say what kind they are, so the tables here do. They
are the only place above methods and verifiers where a name decides anything, and they do not grow: a method that comes
later writes its traits itself.
"""

from collections.abc import Callable

import msgspec

from specviz.events import Header
from specviz.traits import CAPPED, NAIVE, TOKENWISE, MethodTraits, VerifierTraits

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


# Headers of 1.0 and 1.1: what the methods and verifiers of then were. A name that is not here was the plainest kind.
METHODS: dict[str, MethodTraits] = {
    "adadecode": MethodTraits(exits="tested", replay_depth=1.0),
    "adaedl": MethodTraits(threshold_symbol="λ"),
    "ar": MethodTraits(plain=True),
    "draft_and_verify": MethodTraits(exits="skipped", threshold_symbol="τ (γ)"),
    "eagle3": MethodTraits(tree="levels"),
    "kangaroo": MethodTraits(exits="fixed", threshold_symbol="τ (η)"),
    "layerskip": MethodTraits(exits="tested", replay_depth=1.0),
    "medusa": MethodTraits(tree="heads"),
    "pearl": MethodTraits(pipelined=True),
    "specblock": MethodTraits(tree="blocks", learns=True),
    "specbound": MethodTraits(exits="tested", replay_depth=0.5),
    "specbranch": MethodTraits(pipelined=True, threshold_symbol="ε"),
    "static_tree": MethodTraits(tree="fixed"),
}
VERIFIERS: dict[str, VerifierTraits] = {
    "blockwise": VerifierTraits(direction="backward", letter="w", same_rule_as="hsd", replays_as=CAPPED),
    "hsd": VerifierTraits(direction="backward", same_rule_as="blockwise", replays_as=CAPPED),
    "hsd_naive": VerifierTraits(direction="backward", letter="r", capped=False, last_capped=False, replays_as=NAIVE),
    "hsd_ref": VerifierTraits(direction="backward", last_capped=False),
    "multi_hsd": VerifierTraits(direction="backward", order="candidates"),
    "multi_tokenwise": VerifierTraits(same_rule_as="tokenwise"),
    "multi_traversal": VerifierTraits(direction="backward", order="leaves"),
    "slack": VerifierTraits(adds_slack=True),
    "tokenwise": VerifierTraits(replays_as=TOKENWISE),
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
    given = _given.decode(line)
    return by_name(header, not bytes(given.method_traits), not bytes(given.verifier_traits))
