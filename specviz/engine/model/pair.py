"""A loaded pair: the target and, for methods that need one, a draft model of the same tokenizer."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from specviz import lean
from specviz.engine.model.compiled.build import NotCompiled, find_compiler
from specviz.engine.model.compiled.passes import kernel_backend
from specviz.engine.model.compiled.surplus import surplus_kernel
from specviz.engine.model.drafts.shared_ends import ends_of
from specviz.engine.model.dtype_speed import DtypeSpeed, dtype_speed
from specviz.engine.model.exact.proof import BITWISE, exact_here
from specviz.engine.model.files.device_map import AUTO, load_mapped
from specviz.engine.model.files.dtypes import SMALL_PARAMS, pick_dtype
from specviz.engine.model.files.kinship import made_for
from specviz.engine.model.files.loading import Loaded, compare_tokenizers, embedded, load, locate, pick_device
from specviz.engine.model.graphs.passes import GraphBackend, graph_backend
from specviz.engine.model.layers.direct_layer import direct_backend, direct_layers
from specviz.engine.runtime import Runtime
from specviz.errors import ModelError
from specviz.events import Models as ModelsInfo
from specviz.local_models.shipped import usual_draft
from specviz.probability.surplus import SURPLUS
from specviz.self_drafts import NEEDS_ONE, is_self


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and, when one was loaded, a draft model of the same tokenizer.

    `runtime`: what they decode with; a process of our own begins it, a run in any other has it for itself.
    `speed`: of the target in its dtype and in another, where there was a choice; `asked`: the dtype was asked for.
    """

    target: Loaded
    draft: Loaded | None
    runtime: Runtime = field(default_factory=Runtime)
    speed: DtypeSpeed | None = None
    asked: bool = False

    @property
    def infos(self) -> ModelsInfo:
        """What a trace says of them."""
        return ModelsInfo(target=self.target.info, draft=self.draft.info if self.draft else None)

    @property
    def context(self) -> int:
        """Most positions both models can hold."""
        own = self.target.adapter.context
        return min(own, self.draft.adapter.context) if self.draft else own


def load_pair(
    target: str | None = None,
    draft: str | None = None,
    needs_draft: bool = True,
    device: str | None = None,
    dtype: str | None = None,
    threads: int | None = None,
    draft_device: str | None = None,
    *,
    on_loaded: Callable[[str], None] = lambda step: None,
) -> Pair:
    """Load target and draft model. Raises ModelError in one line for whatever is wrong with them.

    `threads` of torch are those of runs of this pair; None takes one for a small target and leaves torch's choice
    otherwise. Nothing of the process is different afterwards: `Pair.runtime` says what a run of them is to have.
    A draft model named `self:int4` is made out of the target; where none is named a known target has one
    that is usual for it.
    `draft_device`: where the draft model goes when that is another place than the target's. `on_loaded`: hears when
    the target is there, and the draft.
    """
    before = torch.get_num_threads()
    try:
        with lean.as_found():
            pair = _loaded(target, draft, needs_draft, device, dtype, threads, draft_device, on_loaded)
            speed = _speed(pair.target, target)
            if speed is not None and speed.loses and dtype is None:
                pair = _loaded(target, draft, needs_draft, device, speed.other, threads, draft_device, on_loaded)
                speed = replace(speed, dtype=speed.other)
            return replace(pair, speed=speed, asked=dtype is not None)
    finally:
        torch.set_num_threads(before)


def _loaded(
    target: str | None,
    draft: str | None,
    needs_draft: bool,
    device: str | None,
    dtype: str | None,
    threads: int | None,
    draft_device: str | None,
    on_loaded: Callable[[str], None],
) -> Pair:
    """`load_pair`; afterwards torch has the threads that the pair's rows were tried with."""
    first = load_mapped(target, dtype) if device == AUTO else load(target, "target", device, dtype)
    on_loaded("target")
    if device == AUTO:  # a draft model is small: it lies whole where the target's rows begin and end
        device = str(first.adapter.device)
    second = None
    if needs_draft:
        draft = draft or usual_draft(target)
        if target is not None and draft is None:
            raise ModelError(NEEDS_ONE)
        second = _drafting(first, draft, draft_device, device, dtype)
        compare_tokenizers(first.tokenizer, second.tokenizer)
        if first.adapter.vocab != second.adapter.vocab:  # padded beyond the tokenizer is fine: both are cut to it
            raise ModelError(
                f"the target has {first.adapter.vocab} of the tokenizer's ids, the draft model {second.adapter.vocab}: "
                "use a draft model of the same family"
            )
        on_loaded("draft")
    if threads is not None or small(first):
        torch.set_num_threads(max(1, threads or 1))
    SURPLUS.kernel = surplus_kernel()
    return _with_backends(Pair(first, second))


def _speed(target: Loaded, name: str | None) -> DtypeSpeed | None:
    """What was measured of dtypes, where the weights leave a choice of one."""
    where = str(embedded("target")) if name is None else locate(name, "--target")
    device = target.adapter.device
    return dtype_speed(target.adapter) if pick_dtype(None, device, where) == torch.bfloat16 else None


def with_threads(pair: Pair) -> Pair:
    """The pair with backends chosen anew for as many threads as are in force now."""
    return replace(_with_backends(pair), runtime=Runtime())


def _with_backends(pair: Pair) -> Pair:
    """Each model behind the one backend that serves it best here; what the target's rows are, once that was tried."""
    return replace(pair, target=_with_backend(pair.target, True), draft=pair.draft and _with_backend(pair.draft, False))


def _with_backend(loaded: Loaded, exactly: bool) -> Loaded:
    """`exactly`: its rows are to be exact, where that can be had; a kernel whose rows are not is not used then."""
    plain = loaded.adapter.backend.plain
    if not plain.note and not direct_layers(plain):
        plain = direct_backend(loaded.adapter) or plain
    adapter, exact = loaded.adapter.with_backend(plain), None
    kernel = kernel_backend(adapter)
    if not isinstance(kernel, NotCompiled):
        adapter = adapter.with_backend(kernel)
    if exactly:
        backend, exact = exact_here(adapter)
        if exact != BITWISE and backend is kernel:
            backend, exact = exact_here(adapter.with_backend(plain))
        adapter = adapter.with_backend(backend)
    recorded = graph_backend(adapter)
    if isinstance(recorded, GraphBackend):
        adapter = adapter.with_backend(recorded)
    return replace(loaded, adapter=adapter, exact=exact, no_kernel=kernel if isinstance(kernel, NotCompiled) else None)


def dtype_warning(pair: Pair) -> str | None:
    """What is to be said of a dtype that was asked for: that the other is clearly faster here."""
    return f"--dtype {pair.speed.words}" if pair.asked and pair.speed and pair.speed.loses else None


def kernel_warning(pair: Pair) -> str | None:
    """What is to be said of the kernel: why there is none where there could be one, or what is wrong with `$CC`."""
    lacking, adapter = pair.target.no_kernel, pair.target.adapter
    if lacking is None:
        return find_compiler().remark or None if adapter.products == "compiled" else None
    if not lacking.warns:
        return None
    return (
        f"{lacking.why}: passes are torch's, two to five times as slow as those of a kernel that gcc or "
        "clang builds once"
    )


def _drafting(
    target: Loaded, name: str | None, draft_device: str | None, device: str | None, dtype: str | None
) -> Loaded:
    """The draft model of a name beside its target: the target in fewer bits, or one loaded. Raises ModelError."""
    if is_self(name):
        _stays(target, str(name), draft_device)
        from specviz.engine.model.drafts.self_draft import self_draft

        return self_draft(target)
    ends = None if name is None else ends_of(locate(name, "--draft"))
    if ends is not None:
        _stays(target, str(name), draft_device)
        if not made_for(ends.target, target.adapter):
            raise ModelError(f"--draft {name} was made for {ends.target_name} and speaks through its embedding")
    return load(name, "draft", draft_device or device, dtype, target)


def _stays(target: Loaded, name: str, device: str | None) -> None:
    """Raises ModelError for a device of its own: what shares weights with the target lies where they do."""
    if device is not None and pick_device(device) != target.adapter.device:
        raise ModelError(f"--draft {name} shares weights with the target: leave out --draft-device")


def small(target: Loaded) -> bool:
    """Whether one thread serves the target best: the work of a layer is less than what threads cost to wake.

    A rule of size and not a probe, so that the same request rounds alike every time it is run on a machine.
    """
    return target.adapter.device.type == "cpu" and (target.info.n_params or 0) < SMALL_PARAMS
