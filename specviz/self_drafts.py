"""Names of draft models that are made out of the target: `self:int4`, `self:int8`. Imports nothing heavy."""

from specviz.errors import ModelError, suggestion

PREFIX = "self:"
BITS = {"self:int4": 4, "self:int8": 8}


def is_self(name: str | None) -> bool:
    """Whether a draft model of that name is the target itself in fewer bits. Raises ModelError for an unknown one."""
    if name is None or not name.startswith(PREFIX):
        return False
    if name not in BITS:
        raise ModelError(f"--draft {name[:40]}: no such form of the target{suggestion(name, BITS)}")
    return True
