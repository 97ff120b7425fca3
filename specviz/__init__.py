"""specviz: see speculative decoding.

Public names are resolved when they are first used (PEP 562), so that importing `specviz`, or any module above the torch
line, stays quick and imports no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specviz.commands import Start as Start
    from specviz.engine.run.local import LocalRun as LocalRun
    from specviz.engine.run.local import load_pair as load_pair
    from specviz.errors import SpecvizError as SpecvizError
    from specviz.events import Event as Event
    from specviz.knobs import Knobs as Knobs
    from specviz.knobs import KnobSpec as KnobSpec
    from specviz.methods import all_methods as all_methods
    from specviz.methods import get_method as get_method
    from specviz.metrics import Tally as Tally
    from specviz.probability.draft import Draft as Draft
    from specviz.probability.plan import Plan as Plan
    from specviz.trace import Recorder as Recorder
    from specviz.trace import Trace as Trace
    from specviz.verifiers import all_verifiers as all_verifiers
    from specviz.verifiers import get_verifier as get_verifier
    from specviz.view.stage.notebook import show as show

    __version__: str

_HOME = {
    "Draft": "specviz.probability.draft",
    "Event": "specviz.events",
    "KnobSpec": "specviz.knobs",
    "Knobs": "specviz.knobs",
    "LocalRun": "specviz.engine.run.local",
    "Plan": "specviz.probability.plan",
    "Recorder": "specviz.trace",
    "SpecvizError": "specviz.errors",
    "Start": "specviz.commands",
    "Tally": "specviz.metrics",
    "Trace": "specviz.trace",
    "all_methods": "specviz.methods",
    "all_verifiers": "specviz.verifiers",
    "get_method": "specviz.methods",
    "get_verifier": "specviz.verifiers",
    "load_pair": "specviz.engine.run.local",
    "show": "specviz.view.stage.notebook",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    """A public name, imported from its home now; kept in the module afterwards."""
    if name == "__version__":
        value: Any = _version()
    elif name in _HOME:
        from specviz.lean import as_found

        with as_found():
            value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'specviz' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})


def _version() -> str:
    """The version of the installed distribution; a checkout that was never installed says so."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("specviz-llm")
    except PackageNotFoundError:
        return "0+uninstalled"
