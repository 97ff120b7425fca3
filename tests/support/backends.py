"""Models behind one backend or another."""

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.compiled.build import NotCompiled
from specviz.engine.model.compiled.passes import KernelBackend, kernel_backend
from specviz.engine.model.layers.direct_layer import direct_backend


def in_direct_form(adapter: ModelAdapter) -> ModelAdapter:
    """As loaded models are: its layers in their direct form, where they have one."""
    return adapter.with_backend(direct_backend(adapter) or adapter.backend)


def in_kernel(adapter: ModelAdapter) -> ModelAdapter | None:
    """By the compiled kernel; None where no compiler is at hand, every other reason fails."""
    backend = kernel_backend(adapter)
    if isinstance(backend, NotCompiled):
        assert "no C compiler" in backend.why
        return None
    return adapter.with_backend(backend)


def kernel_of(adapter: ModelAdapter) -> KernelBackend:
    """The kernel that an adapter runs in."""
    assert isinstance(adapter.backend, KernelBackend)
    return adapter.backend
