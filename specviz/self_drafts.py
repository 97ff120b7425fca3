"""The name of the draft model that is made out of the target: `self:int4`. Imports nothing heavy."""

from specviz.errors import ModelError, suggestion

PREFIX = "self:"
INT4 = "self:int4"
NEEDS_ONE = (
    "a target of your own needs its draft model: name it with --draft (self:int4 is the target itself in fewer bits), "
    "or use --method ngram"
)


def is_self(name: str | None) -> bool:
    """Whether a draft model of that name is the target itself in fewer bits. Raises ModelError for an unknown one."""
    if name is None or not name.startswith(PREFIX):
        return False
    if name != INT4:
        raise ModelError(f"--draft {name[:40]}: no such form of the target{suggestion(name, [INT4])}")
    return True
