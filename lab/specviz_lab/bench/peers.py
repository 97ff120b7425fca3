"""The library's own loops as they come: `generate`, eager and compiled, assisted generation, prompt lookup, early exit.

They run on model objects of their own, loaded here with the library's own attention. What makes runs differ by
environment is pinned: draft length constant at gamma, no confidence threshold, no end tokens.

Early exit (`assistant_early_exit=E`) sets the layer count in the model's configuration while it drafts, so it works
only for classes whose forward looks there for every pass; others would draft with the whole model and say nothing.
That is tried, not believed.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from transformers import CompileConfig, GenerationConfig, StaticCache

from specviz.engine.model.files.device_map import AUTO, library_map
from specviz.engine.model.files.dtypes import pick_dtype
from specviz.engine.model.files.loading import embedded, locate, pick_device, plain_model
from specviz.errors import SpecvizError
from specviz.local_models.shipped import usual_draft
from specviz.self_drafts import is_self
from specviz_lab.bench.measure import Split, Tokens
from specviz_lab.bench.settings import BenchSettings, Contestant


@dataclass(slots=True)
class Peers:
    """The peers' models, loaded when first asked for."""

    settings: BenchSettings
    context: int = 0  # tokens of the longest prompt and what follows it
    models: dict[str, Any] = field(default_factory=dict)

    def model(self, role: str) -> Any:
        """The peers' target or draft model."""
        if role not in self.models:
            self.models[role] = self._load(role)
        return self.models[role]

    def why_not(self, kind: str) -> str | None:
        """Why an arm of this kind cannot run here, in one line; None when it can."""
        if kind == "hf-compiled" and not any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))):
            return "the library's compiler needs one of C++, and none is here"
        return None

    def _load(self, role: str) -> Any:
        named = self.settings.target if role == "target" else self.settings.draft
        wanted = self.settings.device or "cpu"
        if named is None and role == "draft":
            named = usual_draft(self.settings.target)
        name = str(embedded(role)) if named is None else named
        if is_self(name):
            raise SpecvizError(
                f"hf-assisted: the library cannot draft with {name}; leave it out, or name a draft model"
            )
        where = locate(name, f"--{role}")
        target = self.model("target") if role == "draft" else None  # whose embedding it may speak through
        library: dict[str, Any] = {}
        if wanted != AUTO:
            device = pick_device(wanted)
            dtype = pick_dtype(self.settings.dtype, device, where)
        elif target is None:
            device, dtype, library = library_map(f"--target {name}", where, self.settings.dtype)
        else:  # a draft model lies whole where the target's rows begin
            device = target.device
            dtype = pick_dtype(self.settings.dtype, device, where)
        model = plain_model(name, role, dtype, where, target, library)
        (model if library else model.to(device)).requires_grad_(False).eval()
        model.generation_config = self._config()
        return model

    def _config(self) -> GenerationConfig:
        sampled: dict[str, Any] = {"do_sample": False}
        if self.settings.temperature > 0:
            sampled = {"do_sample": True, "temperature": self.settings.temperature, "top_k": 0, "top_p": 1.0}
        return GenerationConfig(
            **sampled,
            eos_token_id=None,
            pad_token_id=0,
            num_assistant_tokens=self.settings.gamma,
            num_assistant_tokens_schedule="constant",
            assistant_confidence_threshold=0.0,
        )


class PeerArm:
    """One of the library's loops."""

    def __init__(self, contestant: Contestant, settings: BenchSettings, peers: Peers) -> None:
        self.name, self.kind, self.peers = contestant.name, contestant.kind, peers
        self.target = peers.model("target")
        self.extra: dict[str, Any] = {}
        self._cache: Any = None  # of fixed size, for `hf-compiled`
        if self.kind == "hf-assisted":
            self.extra = {"assistant_model": peers.model("draft")}
        elif self.kind == "hf-lookup":
            self.extra = {
                "prompt_lookup_num_tokens": settings.gamma,
                "max_matching_ngram_size": settings.lookup_length,
            }
        elif self.kind == "hf-early-exit":
            self.extra = {"assistant_early_exit": exit_layer(self.target, settings.exit_layer)}

    @property
    def attention(self) -> str:
        """The library's name of the attention it chose."""
        return str(self.target.config._attn_implementation)

    def ready(self, prompt: Tokens, n: int, seed: int) -> Callable[[], Tokens]:
        """The run; the library draws from the global generator, seeded here."""
        torch.manual_seed(seed)
        ids = torch.tensor([prompt], device=self.target.device)
        mask = torch.ones_like(ids)
        if self.kind == "hf-compiled":
            self.extra = self._compiled(len(prompt) + n)

        def run() -> Tokens:
            out = self.target.generate(ids, attention_mask=mask, max_new_tokens=n, **self.extra)
            new: Tokens = out[0, len(prompt) :].tolist()
            return new

        return run

    def _compiled(self, n: int) -> dict[str, Any]:
        """A cache of fixed size, emptied, over which the library compiles its pass of one row when it first runs.

        One size for all runs, or every prompt would be compiled for anew.
        """
        room = self.peers.context
        if self._cache is None or n > room:
            self._cache = StaticCache(self.target.config, max_cache_len=max(n, room))
        self._cache.reset()
        compiling = CompileConfig(mode="default")
        compiling._compile_all_devices = True  # else on GPUs alone
        return {"past_key_values": self._cache, "compile_config": compiling}

    def split(self, prompt: Tokens, n: int, seed: int) -> Split:
        """A run with a clock on every forward: draft, target, and `other`, the host's work between them."""
        if self.kind == "hf-compiled":  # a clock within would be compiled along
            return Split(n_tokens=len(self.ready(prompt, n, seed)()), n_rounds=n)
        watch = Watch()
        with watch.on(self.target, "target"), watch.on(self.extra.get("assistant_model"), "draft"):
            tokens = self.ready(prompt, n, seed)()
        out = watch.split(len(prompt), len(tokens))
        if "assistant_model" in self.extra:
            out.calls = []  # passes of two models add up to nothing
        return out


@dataclass(slots=True)
class Watch:
    """Times and widths of forward calls, by hooks that are taken off again.

    Early exit drafts with the target's own object, for which the library then names fewer layers: so they are told
    apart.
    """

    calls: list[tuple[str, int, int, int]] = field(default_factory=list)  # role, began, ended, rows
    depths: list[int] = field(default_factory=list)  # layers of each call
    _open: tuple[int, int] = (0, 0)

    @contextmanager
    def on(self, model: Any, role: str) -> Iterator[None]:
        """Watch a model; None watches nothing."""
        if model is None:
            yield
            return

        whole = _depth(model)

        def before(_module: Any, _args: Any, inputs: dict[str, Any]) -> None:
            self._open = (time.perf_counter_ns(), inputs["input_ids"].shape[-1])

        def after(*_: Any) -> None:
            if model.device.type == "cuda":
                torch.cuda.synchronize()
            depth = _depth(model)
            self.calls.append(
                (role if depth == whole else "draft", self._open[0], time.perf_counter_ns(), self._open[1])
            )
            self.depths.append(depth)

        hooks = [model.register_forward_pre_hook(before, with_kwargs=True), model.register_forward_hook(after)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _passes(self, n_prompt: int) -> Iterator[tuple[int, int]]:
        """Layers and rows of every pass; of a model's first one without the prompt, whose last token is the root."""
        seen: set[str] = set()
        for depth, (role, _, _, rows) in zip(self.depths, self.calls, strict=True):
            yield depth, rows if role in seen else rows - n_prompt + 1
            seen.add(role)

    def split(self, n_prompt: int, n_tokens: int) -> Split:
        """A round ends with a pass of the target. All rows but the prompt and one root a round were drafted."""
        ends = [call for call in self.calls if call[0] == "target"]
        out = Split(n_tokens=n_tokens, n_rounds=len(ends), n_accepted=n_tokens - len(ends))
        out.n_drafted = sum(call[3] for call in ends) - n_prompt - (len(ends) - 1)
        out.calls = list(self._passes(n_prompt))
        for last, end in pairwise(ends):
            inside = [call for call in self.calls if last[2] <= call[1] < end[1]]
            draft = sum(call[2] - call[1] for call in inside)
            target, whole = end[2] - end[1], end[2] - last[2]
            stages = {"draft": draft, "target": target, "other": whole - draft - target}
            out.rounds.append({name: ns / 1e6 for name, ns in stages.items()})
        return out


def _depth(model: Any) -> int:
    """Layers the model runs at present."""
    return int(getattr(model, model.base_model_prefix).config.get_text_config().num_hidden_layers)


def exit_layer(model: Any, wanted: int | None) -> int:
    """The layer to draft from: the one asked for, else half of them. Raises SpecvizError when it cannot be done."""
    n_layers = int(model.config.get_text_config().num_hidden_layers)
    layer = max(1, n_layers // 2) if wanted is None else wanted
    if not 1 <= layer < n_layers:
        raise SpecvizError(f"--exit-layer {layer}: the target has {n_layers} layers; give one from 1 to {n_layers - 1}")
    why = refusal(model, layer)
    if why is not None:
        raise SpecvizError(f"hf-early-exit does not run on this target: {why}; leave it out of --methods")
    return layer


@torch.inference_mode()
def refusal(model: Any, layer: int) -> str | None:
    """Why the library's early exit would not leave at that layer; None when it does."""
    base = getattr(model, model.base_model_prefix, None)
    layers = next((getattr(base, name) for name in ("layers", "h") if hasattr(base, name)), None)
    if base is None or layers is None or not hasattr(base.config, "num_hidden_layers"):
        return f"{type(model).__name__} has no layers where the library looks for them"
    if len(layers) <= layer:
        return f"it has {len(layers)} layers"
    ran: list[int] = []
    hooks = [module.register_forward_hook(lambda *_, k=k: ran.append(k)) for k, module in enumerate(layers)]
    try:
        with short(model, layer):
            model(torch.tensor([[0]], device=model.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    if ran == list(range(layer)):
        return None
    return f"{type(model).__name__} runs {len(ran)} layers however many its configuration names"


@contextmanager
def short(model: Any, layer: int) -> "Iterator[None]":
    """The model with that many layers, in the way the library does it."""
    config = getattr(model, model.base_model_prefix).config
    before, config.num_hidden_layers = config.num_hidden_layers, layer
    try:
        yield
    finally:
        config.num_hidden_layers = before
