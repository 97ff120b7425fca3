"""numpy, imported when it is first used: who looks at logs, servers and recordings need not have it installed."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _OnUse:
        """Stands for numpy until an attribute is asked for. Raises ModuleNotFoundError where it is not installed."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module("numpy"), name)
            setattr(self, name, value)
            return value

    np = _OnUse()

__all__ = ["np"]
