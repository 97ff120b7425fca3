"""Signatures that the hooks rely on, by engine: names of parameters, as facts in `signatures.json`.

`tools/engine_signatures.py` reads them from an engine's wheel.
"""

import importlib
import inspect
from collections.abc import Callable
from functools import cache, reduce
from importlib.resources import files
from typing import Any

import msgspec


class Signatures(msgspec.Struct, frozen=True):
    """`functions`: names of parameters by `module:name`, as they are in `version` of the wheel `package`; `later`:
    those that have others in versions behind it."""

    package: str
    version: str
    functions: dict[str, list[str]]
    later: dict[str, dict[str, list[str]]] = {}

    @property
    def newest(self) -> str:
        """The newest version whose signatures are known."""
        return next(reversed(self.later), self.version)

    def takes(self, place: str) -> list[list[str]]:
        """What the function there takes, in any of the versions."""
        return [self.functions[place], *(functions[place] for functions in self.later.values() if place in functions)]


@cache
def known_signatures(engine: str) -> Signatures:
    """The facts about `engine`, "vllm" or "sglang"."""
    text = files("specviz_recorder").joinpath("signatures.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, Signatures])[engine]


def found_at(place: str) -> Any:
    """The object at `module:name`. Raises ImportError or AttributeError."""
    module, _, name = place.partition(":")
    return reduce(getattr, name.split("."), importlib.import_module(module))


def differing(engine: str, places: list[str]) -> str | None:
    """The first signature that is not as known, in one line; None where all are."""
    known = known_signatures(engine)
    for place in places:
        wanted = known.takes(place)
        try:
            names = parameters(found_at(place))
        except (ImportError, AttributeError) as error:
            return f"{place} is not there ({error}); known is {known.package} {known.newest}"
        if names not in wanted:
            newest = f"{known.package} {known.newest}"
            return f"{place} takes ({', '.join(names)}), not ({', '.join(wanted[-1])}) as in {newest}"
    return None


def parameters(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters of a function, in order; of a class method with its class."""
    return list(inspect.signature(getattr(function, "__func__", function)).parameters)
