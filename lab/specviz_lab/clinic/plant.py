"""What a plant is made with: runs of real models into a case's folder, and ways to disturb a model without touching it.

A disturbed model is a copy of its adapter with single methods replaced; nothing of the engine is changed.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from specviz.commands import Prompt, Start
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.files.loading import Loaded
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.local_models.catalogue import part_folders
from specviz.sources.bundled import bundled_prompts
from specviz.trace.bundled import assets
from specviz.trace.recorder import Recorder
from specviz_lab.clinic.case import FILES, PLAIN, RUN

CHAIN: dict[str, Any] = {
    "k_max": 1,
    "d_max": 4,
    "node_budget": 4,
}  # EAGLE's tree as the chain that engines draft by default
QUESTIONS = (
    "Explain in three sentences why the sky is blue.",
    "Give me a short recipe for pancakes.",
    "What should I see in Rome in one day?",
    "How does a bicycle stay upright?",
    "Write a short letter to a friend who moved away.",
    "Name three ways to save water at home.",
)


@cache
def small() -> Pair:
    """The embedded pair."""
    return load_pair(None, None, True)


@cache
def chat() -> Pair:
    """SmolLM2-135M-Instruct, and itself in four bits as its draft model."""
    return load_pair("smollm2", "self:int4", True)


@cache
def chat_of_twenty_layers() -> Pair:
    """SmolLM2-135M-Instruct, and a draft model made of its first twenty layers of thirty."""
    return load_pair("smollm2", "smollm2-draft", True)


def texts(seed: int, n: int = 3) -> list[str]:
    """Bundled prompts, other ones for every seed."""
    known = list(bundled_prompts().values())
    return [known[(seed + 3 * k) % len(known)] for k in range(n)]


def questions(seed: int, n: int = 2) -> list[str]:
    """Messages to an assistant."""
    return [QUESTIONS[(2 * seed + k) % len(QUESTIONS)] for k in range(n)]


@dataclass(frozen=True, slots=True)
class Bench:
    """Where one case is made: `folder` takes its evidence, `scratch` what no evidence is."""

    fault: int
    seed: int
    folder: Path
    scratch: Path
    rng: torch.Generator = field(default_factory=torch.Generator)

    def run(
        self,
        pair: Pair,
        prompts: Sequence[str],
        method: str = "draft",
        *,
        tokens: int = 96,
        temperature: float = 0.7,
        verifier: str | None = None,
        chat: bool | None = None,
        name: str = RUN,
        **knobs: Any,
    ) -> None:
        """Decode prompts one after another; the recording becomes evidence."""
        stream = [Prompt(text=text) for text in prompts]
        wanted = {"max_new_tokens": tokens, "temperature": temperature, "seed": 100 * self.fault + self.seed, **knobs}
        start = Start(
            stream=stream, method=method, verifier=verifier, knobs=wanted, chat=chat, level="summary", lanes="serial"
        )
        recorder = Recorder(self.folder / name)
        try:
            for _ in LocalRun(pair, start, recorder.write, run=f"clinic-{self.seed}").rounds():
                pass
        finally:
            recorder.close()

    def plain(self, pair: Pair, prompts: Sequence[str], *, tokens: int = 96, chat: bool | None = None) -> None:
        """The same prompts decoded greedily without drafts, as a second recording."""
        self.run(pair, prompts, "ar", tokens=tokens, temperature=0.0, chat=chat, name=PLAIN)

    def part(self, kind: str, change: Callable[["Part"], None], *, chat: bool = False) -> str:
        """The folder of a part trained for the embedded target, or SmolLM2, changed; what a knob `drafter` takes."""
        folders = part_folders() if chat else [assets("models/pair")]
        into = self.scratch / f"{kind}-{self.seed}-{self.folder.name}"
        shutil.copytree(next(folder / kind for folder in folders if (folder / kind).is_dir()), into)
        part = Part(json.loads((into / "config.json").read_text()), load_file(into / "drafter.safetensors"))
        change(part)
        (into / "config.json").write_text(json.dumps(part.config))
        save_file(part.tensors, into / "drafter.safetensors")
        return str(into)

    def files(self, side: str, config: Mapping[str, Any], tensors: Mapping[str, Sequence[int]] | None = None) -> Path:
        """A model's folder as evidence: its `config.json`, and tensors of these shapes, all zero."""
        folder = self.scratch / FILES / side
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=1))
        if tensors is not None:
            zeros = {name: torch.zeros(*shape, dtype=torch.bfloat16) for name, shape in tensors.items()}
            save_file(zeros, folder / "model.safetensors", {"format": "pt"})
        return folder


@dataclass(slots=True)
class Part:
    """A trained part that is about to be changed."""

    config: dict[str, Any]
    tensors: dict[str, torch.Tensor]


def disturbed(loaded: Loaded, **methods: Callable[..., Any]) -> Loaded:
    """A model with methods of its adapter replaced. Each is called with the adapter as it was, then the arguments."""
    before = loaded.adapter
    after = copy(before)
    for name, method in methods.items():
        setattr(after, name, _bound(method, before))
    return replace(loaded, adapter=after)


def _bound(method: Callable[..., Any], adapter: ModelAdapter) -> Callable[..., Any]:
    return lambda *args, **more: method(adapter, *args, **more)


def with_draft(pair: Pair, **methods: Callable[..., Any]) -> Pair:
    """The pair with a disturbed draft model."""
    assert pair.draft is not None
    return replace(pair, draft=disturbed(pair.draft, **methods))


def with_target(pair: Pair, **methods: Callable[..., Any]) -> Pair:
    """The pair with a disturbed target."""
    return replace(pair, target=disturbed(pair.target, **methods))


class StaleCache(KVCache):
    """A cache that is not cropped behind a rejected token: the slots of what was rejected keep their keys and values,
    whatever token stands there later. `times`: how often, from crop number `first` on; -1: always.
    """

    first, times = 0, -1

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._stale: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}  # keys and values of layers, by slot
        self._crops = 0

    def follow(self, tokens: Sequence[int]) -> list[int]:
        """As the cache it is, but for the slots behind a crop."""
        kept, filled = self.holds(tokens), min(self.filled)
        for slot in [slot for slot in self._stale if slot < kept]:
            for (keys, values), (key, value) in zip(self._layers, self._stale.pop(slot), strict=True):
                keys[:, :, slot], values[:, :, slot] = key, value
        if filled > kept > self.length > 0:
            self._crops += 1
            if self.first < self._crops and (self.times < 0 or self._crops <= self.first + self.times):
                self._stale = {
                    slot: [(k[:, :, slot].clone(), v[:, :, slot].clone()) for k, v in self._layers]
                    for slot in range(kept, filled)
                }
        return super().follow(tokens)


def stale(first: int, times: int = -1) -> Callable[[ModelAdapter, int], KVCache]:
    """In place of `ModelAdapter.new_cache`: a cache whose crops are skipped."""

    def new_cache(adapter: ModelAdapter, capacity: int) -> KVCache:
        kind = type("StaleCache", (StaleCache,), {"first": first, "times": times})
        made: KVCache = kind(adapter.n_layers, capacity, adapter.backend.spare)
        return made

    return new_cache
