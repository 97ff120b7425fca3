"""What a process of our own leaves out when it starts: most of what the libraries import serves nothing in a run.

With any model transformers brings torch's compiler, tensors that lie on several hosts, and scipy: some 1,300 modules
for a few decorators, for checks of types that a model on one device never has, and for losses of image models. A
process that only decodes says that there are no such hosts and no scipy here, which the library is made for, and lets
the compiler wait until somebody compiles. No number of a model is computed otherwise.

Nothing here is for a process that others share with us: `own_process` is said by
who begins a process, and is asked by who is about to import the engine. In another's, `as_found` sets back what the
libraries set.
"""

import gc
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any

from specviz.collecting import SELDOM

own_process = False
_is_lean = False  # whether the library was imported so

_LIBRARY = "transformers"
_WITHOUT = ("is_scipy_available", "is_torch_distributed_available")  # packages it must not look for
_ITS_MODELS = ("modeling_layers", "masking_utils", "models.auto.modeling_auto")  # all that models have in common
_COMPILER, _INDEXING = "torch._dynamo", "torch._dynamo._trace_wrapped_higher_order_op"
_MARKS = ("disable", "allow_in_graph", "assume_constant_result")  # decorators that only a compiler looks at


def begin_process(own: bool) -> None:
    """Say whether this process is one of our own; before torch is loaded.

    Then torch's idle threads (GNU's library) soon sleep. After every small operation they would look for more work for
    milliseconds, on the cores that the compiled passes' own threads want: on two cores that took a pass all that its
    second thread brought. This many looks are tens of microseconds.
    """
    global own_process
    own_process = own
    if own and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")


@contextmanager
def as_found() -> Iterator[None]:
    """Around imports and loading in a process that is not ours: warnings are filtered afterwards as before, and no
    variable of the environment is new, which torch's compiler, scipy and sympy see to when they are imported."""
    if own_process:
        yield
        return
    before = {*os.environ}
    try:
        with warnings.catch_warnings():
            yield
    finally:
        for name in {*os.environ} - before:
            del os.environ[name]


@contextmanager
def lean_start(device: str | None = None) -> Iterator[None]:
    """Around imports and loading of a process of our own; in any other nothing is different.

    `device`: as asked for; where models are to lie on several, the library is imported whole.
    """
    if not own_process:
        yield
        return
    gc.disable()  # a search for garbage goes through all that was made, and nearly all of it stays
    try:
        with nullcontext() if device == "auto" else lean_imports():
            yield
    finally:
        gc.freeze()
        gc.set_threshold(*SELDOM)
        gc.enable()


@contextmanager
def lean_imports() -> Iterator[None]:
    """Import the library without what a run needs not, unless it was imported before; until the end of this the
    compiler waits, since the library's models are made by functions that would import it.

    A version of it that cannot be had so is imported whole.
    """
    global _is_lean
    if _COMPILER in sys.modules or (_LIBRARY in sys.modules and not _is_lean):
        yield
        return
    importlib.import_module("torch")
    sys.modules |= {_COMPILER: _Compiler(_COMPILER), _INDEXING: _Indexing(_INDEXING)}
    try:
        try:
            _import_without()
            _is_lean = True
        except Exception:  # whatever another version makes of it: none of it may stay
            _bring_compiler()
            for name in [name for name in sys.modules if name.partition(".")[0] == _LIBRARY]:
                del sys.modules[name]
        yield
    finally:
        _bring_compiler()


def _import_without() -> None:
    for name in ("utils", "utils.import_utils"):
        library_module = importlib.import_module(f"{_LIBRARY}.{name}")
        for question in _WITHOUT:
            setattr(library_module, question, _no)
    for name in _ITS_MODELS:
        importlib.import_module(f"{_LIBRARY}.{name}")


def _no() -> bool:
    return False


def _bring_compiler() -> None:
    """Take the stand-ins away: who imports torch's compiler now gets it."""
    for name in (_COMPILER, _INDEXING):
        if isinstance(sys.modules.get(name), _Compiler | _Indexing):
            del sys.modules[name]


class _Compiler(ModuleType):
    """Stands in for torch's compiler: its marks are left out, and anything else that is asked of it brings it."""

    def __getattr__(self, name: str) -> Any:
        if name in _MARKS:
            return _unmarked
        if name.startswith("__"):
            raise AttributeError(name)
        _bring_compiler()
        return getattr(importlib.import_module(_COMPILER), name)


class _Indexing(ModuleType):
    """Stands in for the one part of it that models import by name."""

    class TransformGetItemToIndex:
        """Makes one of the compiler's."""

        def __new__(cls) -> Any:
            _bring_compiler()
            return importlib.import_module(_INDEXING).TransformGetItemToIndex()


def _unmarked(function: Callable[..., Any] | None = None, *_: Any, **__: Any) -> Any:
    """The function itself, also where the decorator is given arguments first."""
    return _unmarked if function is None else function
