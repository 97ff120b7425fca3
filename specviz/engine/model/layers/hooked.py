"""Modules under hooks of the library's, which bring rows and weights together where a model is spread over devices.

A hook stands in place of a module's own `forward`, bound to that module: a copy that keeps it would run the original.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)
_PARTS = ("forward", "_old_forward", "_hf_hook")  # what the library sets on a module under a hook


def is_hooked(module: nn.Module) -> bool:
    """Whether a hook stands before and behind a module."""
    return "_hf_hook" in module.__dict__


def unhooked(copied: M) -> M:
    """A copy of a module, with the `forward` of its class again. Its parts keep their hooks."""
    for name in _PARTS:
        copied.__dict__.pop(name, None)
    return copied


@contextmanager
def present(module: M) -> Iterator[M]:
    """A module with the weights of all its parts in memory: some may lie on disk, brought for every pass."""
    with ExitStack() as all_parts:
        for part in module.modules():
            if is_hooked(part):
                all_parts.enter_context(_aligned(part))
        yield module


def _aligned(module: Any) -> Any:
    from accelerate.utils import align_module_device

    return align_module_device(module)
