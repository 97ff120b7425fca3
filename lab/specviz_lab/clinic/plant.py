"""What a plant is made with: runs of real models into a case's folder, and ways to disturb a model without touching it.

A disturbed model is a copy of its adapter with single methods replaced; nothing of the engine is changed.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import load_file, save_file

from specviz.commands import Prompt, Start
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.files.loading import Loaded
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.events import Calibration, Event, RoundEnd
from specviz.local_models.catalogue import part_folders
from specviz.sources.bundled import bundled_prompts
from specviz.trace.bundled import assets
from specviz.trace.recorder import Recorder
from specviz.view.clinic.played import PLAIN, RUN
from specviz_lab.clinic.case import FILES, SEEDS

CHAIN: dict[str, Any] = {
    "k_max": 1,
    "d_max": 4,
    "node_budget": 4,
}  # EAGLE's tree as the chain that engines draft by default
N_IDS = 400  # of the tokenizers that are evidence
TINY: dict[str, Any] = {  # of the models that are evidence
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 12,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "vocab_size": N_IDS,
    "max_position_embeddings": 1024,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
    "tie_word_embeddings": True,
}
QUESTIONS = (
    "Explain in three sentences why the sky is blue.",
    "Give me a short recipe for pancakes.",
    "What should I see in Rome in one day?",
    "How does a bicycle stay upright?",
    "Write a short letter to a friend who moved away.",
    "Name three ways to save water at home.",
    # those of seeds that are not recorded
    "Why do leaves change their colour in autumn?",
    "Write a note to a neighbour whose dog barks at night.",
    "How is cheese made?",
    "Give me a plan for a week of running, for a beginner.",
    "What does a referee do in a football match?",
    "Describe a rainy day by the sea in five sentences.",
    "How do I change a flat tyre?",
    "Tell me about the first people who crossed the Alps.",
    "What is the difference between a frog and a toad?",
    "Suggest a present for a friend who likes maps.",
    "Why is bread kneaded?",
    "Write four lines about a clock that is always late.",
)
N_RECORDED = 6  # of the questions, that recorded seeds ask
TEXTS = (  # for the embedded pair, of its three kinds in turn; those of seeds that are not recorded
    "def is_prime(n):",
    "A dictionary maps keys to values. The keys of a dictionary",
    "31 + 4 = 35\n35 + 4 = 39\n39 + 4 = 43\n",
    'class Queue:\n    """A queue of items, first in, first out."""\n\n    def ',
    "This module provides classes for reading and writing archives. The module",
    "Anna has 14 plums and buys 9 more. How many plums does she have?\n",
    'import json\n\n\ndef read_settings(path):\n    """Return the settings in a file."""\n',
    "When a thread is started, it runs beside the one that started it. A lock",
    "8 + 13 = 21\n21 + 13 = 34\n34 + 13 = 47\n",
    "def count_words(text):",
    "Comments begin with a hash and end with the line. They",
    "What is 12 plus 9? It is 21.\nWhat is 27 plus 4? It is 31.\nWhat is 16 plus 8? It is",
    'def area(width, height):\n    """Return the area of a rectangle."""\n    return',
    "This module defines a class that reads lines from a file. The class",
    "64 - 5 = 59\n59 - 5 = 54\n54 - 5 = 49\n",
    "class Point:\n    def __init__(self, x, y):\n        self.x = x\n",
    "A list can be sorted in place. If a function is given as the key, it",
    "Question: Tom has 6 bags with 7 marbles each and loses 4 marbles. How many are left?\nAnswer:",
)
QUOTES = (
    "The harbour was quiet that morning, and the boats lay still between the stones. Nobody had seen the pilot since "
    "the storm, and his lamp still burned above the door.",
    "Every window of the old school looked out on the same three apple trees. In the autumn the smallest children were "
    "sent to count the fruit, and no two of them ever agreed.",
    "A train that leaves at seven reaches the coast before the shops have opened. The guard knows his passengers by "
    "name, and asks after their dogs, their roofs and their knees.",
    "The library keeps its maps in a room without a lock. Whoever wants to see them signs the book, washes both hands, "
    "and promises to leave the north side of the table free.",
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
    """Prompts, other ones for every seed: bundled ones where it is recorded, `TEXTS` where it is not."""
    if seed not in SEEDS:  # six seeds one after another share none; as those of recorded seeds one of each kind
        return [TEXTS[(3 * seed + k) % len(TEXTS)] for k in range(n)]
    known = list(bundled_prompts().values())
    return [known[(seed + 3 * k) % len(known)] for k in range(n)]


def questions(seed: int, n: int = 2) -> list[str]:
    """Messages to an assistant."""
    known = QUESTIONS[:N_RECORDED] if seed in SEEDS else QUESTIONS[N_RECORDED:]
    return [known[(2 * seed + k) % len(known)] for k in range(n)]


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
        timed: bool = False,
        **knobs: Any,
    ) -> None:
        """Decode prompts one after another; the recording becomes evidence.

        `timed`: with what stages took, and passes of plain decoding beside the rounds, where the fault is one of cost.
        A pass of the embedded target takes a millisecond, beside which a round's own overhead says more than its
        drafts.
        """
        stream = [Prompt(text=text) for text in prompts]
        wanted = {"max_new_tokens": tokens, "temperature": temperature, "seed": 100 * self.fault + self.seed, **knobs}
        start = Start(
            stream=stream, method=method, verifier=verifier, knobs=wanted, chat=chat, level="summary", lanes="serial"
        )
        recorder = Recorder(self.folder / name)
        try:
            for _ in LocalRun(
                pair, start, recorder.write if timed else _untimed(recorder.write), run=f"clinic-{self.seed}"
            ).rounds():
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

    def model(self, side: str, **config: Any) -> Path:
        """A small model with the embedded pair's tokenizer, as a folder that is evidence. Its weights are zero: of them
        names and shapes alone are read, and zeros take no room."""
        from transformers import AutoConfig, AutoModelForCausalLM

        kind = AutoConfig.for_model(config.pop("model_type", "llama"), **{**TINY, **config})
        folder = self.scratch / FILES / side
        model = AutoModelForCausalLM.from_config(kind, dtype=torch.bfloat16)
        for weight in model.parameters():
            weight.data.zero_()
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        tokenizer(folder, list(range(N_IDS)))
        return folder

    def head(self, layers: Sequence[int] | None) -> Path:
        """An EAGLE-3 head for such a target. `layers` None: its config names none."""
        width, inner = TINY["hidden_size"], TINY["intermediate_size"]
        shapes = {
            "fc.weight": (width, 3 * width),
            **{f"midlayer.self_attn.{name}_proj.weight": (width, 2 * width) for name in "qkv"},
            "midlayer.self_attn.o_proj.weight": (width, width),
            "midlayer.mlp.gate_proj.weight": (inner, width),
            "midlayer.mlp.up_proj.weight": (inner, width),
            "midlayer.mlp.down_proj.weight": (width, inner),
            **{f"midlayer.{name}.weight": (width,) for name in ("input_layernorm", "hidden_norm")},
            "midlayer.post_attention_layernorm.weight": (width,),
            "norm.weight": (width,),
            "lm_head.weight": (N_IDS, width),
        }
        folder = self.scratch / FILES / "draft"
        folder.mkdir(parents=True)
        save_file(
            {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in shapes.items()},
            folder / "model.safetensors",
            {"format": "pt"},
        )
        named = {} if layers is None else {"eagle_aux_hidden_state_layer_ids": list(layers)}
        config = {**TINY, "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1}
        more = {"draft_vocab_size": N_IDS, "torch_dtype": "bfloat16", **named}
        (folder / "config.json").write_text(json.dumps({**config, **more}, indent=1))
        return folder


def tokenizer(folder: Path, order: Sequence[int], template: str = "") -> None:
    """The first ids of the embedded pair's tokenizer, in this order, and the merges that make them."""
    source = assets("models/pair/target")
    whole = json.loads((source / "tokenizer.json").read_text())
    words = sorted(whole["model"]["vocab"], key=whole["model"]["vocab"].__getitem__)
    place = {words[old]: new for new, old in enumerate(order)}
    merges = [merge if isinstance(merge, list) else merge.split(" ") for merge in whole["model"]["merges"]]
    kept = [merge for merge in merges if all(word in place for word in (*merge, "".join(merge)))]
    whole["model"] |= {"vocab": dict(sorted(place.items(), key=lambda item: item[1])), "merges": kept}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    settings = json.loads((source / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if template:
        (folder / "chat_template.jinja").write_text(template)


def _untimed(write: Callable[[Event], None]) -> Callable[[Event], None]:
    """A sink that hears nothing of what stages and passes took on this machine."""

    def sink(event: Event) -> None:
        if isinstance(event, RoundEnd):
            event = msgspec.structs.replace(event, plain_ns=0, stage_ns={})
        if not isinstance(event, Calibration):
            write(event)

    return sink


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
        cache: KVCache = kind(adapter.n_layers, capacity, adapter.backend.spare)
        return cache

    return new_cache
