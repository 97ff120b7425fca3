"""Loading a model: a local folder or hub id, its adapter tested before the first token; tokenizers, digests.

`transformers` does the loading; safetensors only, no code from a repository. What is wrong with a folder is said in
one line before anything heavy is read. What the library would fill in or leave out by itself (weights that are missing,
of another shape or type, layers beyond the last, an adapter beside them) is refused by name: such a text is nobody's.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import torch

from specviz import model_folder
from specviz.engine.memory import refuse_weights
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.compiled.build import NotCompiled
from specviz.engine.model.drafts import corrected, shared_ends
from specviz.engine.model.few_bits.quantised import QuantisedAdapter
from specviz.engine.model.files import families, gguf_model, hub
from specviz.engine.model.files.as_stored import read_as_stored
from specviz.engine.model.files.dtypes import pick_dtype, stored
from specviz.engine.model.files.quiet import one_line
from specviz.engine.model.files.whole import left_out, refuse_holes, refuse_odd_types
from specviz.engine.model.layers.hooked import present
from specviz.engine.model.selftest import reference, self_test
from specviz.errors import ModelError
from specviz.events import ModelInfo
from specviz.local_models.found import embedded_pair
from specviz.local_models.named import checked_path


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that passed its self-test, with its tokenizer. `exact`: what its rows are, once that was tried.

    `left_out`: what to say of tensors in its files that it has no place for. `no_kernel`: why its layers do not run in
    the compiled kernel, once that was tried.
    """

    adapter: ModelAdapter
    tokenizer: Any
    info: ModelInfo
    exact: str | None = None
    left_out: str | None = None
    no_kernel: NotCompiled | None = None


def embedded(role: str) -> Path:
    """The folder of the embedded target or draft model. Raises ModelError when this install has none."""
    folder = embedded_pair() / role
    if not (folder / "config.json").exists():
        raise ModelError(
            f"this install has no embedded {role} model; name one with --{role} FOLDER, or run specviz train pair"
        )
    return folder


def pick_device(name: str | None) -> torch.device:
    """The device of that name; the CPU by default. Raises ModelError for one that is not there."""
    wanted = name or "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise ModelError(f"device '{wanted}' is no device name; use cpu, cuda, cuda:0 or mps") from None
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device.type, False):
        raise ModelError(
            f"device '{wanted}' is not available here; available: {', '.join(k for k, v in there.items() if v)}"
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ModelError(
            f"device '{wanted}': this machine has {torch.cuda.device_count()} CUDA device(s), counted from 0"
        )
    return device


def load(source: str | None, role: str, device: str | None, dtype: str | None, target: Loaded | None = None) -> Loaded:
    """Load a model and its tokenizer. `source`: folder, hub id, or None for the embedded one. Raises ModelError.

    `target`: what a draft model stands beside, whose embedding and head it may take.
    """
    name = str(embedded(role)) if source is None else source
    place = pick_device(device)
    where = locate(name, f"--{role}")
    ends = shared_ends.needs(f"--{role} {name}", where, target)
    if ends is not None and target is not None:
        return _with_ends(name, role, where, target, ends)
    with one_line(f"--{role} {name}"):
        tokenizer = plain_tokenizer(where)
    kind = pick_dtype(dtype, place, where)
    if Path(where).exists():  # what must be fetched first is not asked for twice
        refuse_weights(f"--{role} {name}", stored(where), kind, place)
    model = plain_model(name, role, kind, where).to(place).requires_grad_(False).eval()
    return proved(model, name, role, tokenizer)


def _with_ends(name: str, role: str, where: str, target: Loaded, ends: shared_ends.Ends) -> Loaded:
    """A draft model with its target's ends: in its dtype, where it lies, with its tokenizer."""
    theirs = target.adapter
    model = plain_model(name, role, theirs.dtype, where, theirs.model).to(theirs.device).requires_grad_(False).eval()
    loaded = proved(model, name, role, target.tokenizer)
    light = shared_ends.lightened(loaded.adapter, ends)
    if not isinstance(light, QuantisedAdapter):
        return replace(loaded, adapter=light)
    return replace(loaded, adapter=light, info=msgspec.structs.replace(loaded.info, dtype="int4"))


def proved(
    model: Any,
    name: str,
    role: str,
    tokenizer: Any,
    behind: Callable[[Any, str, int], ModelAdapter] = ModelAdapter,
) -> Loaded:
    """A model behind its adapter, once that was proved. `behind`: makes it, of model, name, vocabulary. Raises
    ModelError.
    """
    vocab = _size(tokenizer)
    want = reference(model, _name(name), vocab)  # before the adapter changes anything about the model
    with one_line(f"--{role} {name}"):
        adapter = behind(model, _name(name), vocab)
    self_test(adapter, want)
    return Loaded(adapter, tokenizer, _info(adapter, name), left_out=vars(model).get("left_out"))


def plain_tokenizer(where: str) -> Any:
    """The library's own tokenizer of what `locate` said."""
    if Path(where).is_file():
        return gguf_model.read_tokenizer(Path(where))
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(where, trust_remote_code=False)


def plain_model(
    name: str, role: str, dtype: torch.dtype, where: str | None = None, target: Any = None, library: Any = None
) -> Any:
    """The library's own causal LM of a folder or hub id, every weight of it from there. Raises ModelError.

    `where`: what `locate` said of the name, if it was asked already. `target`: whose embedding and head a draft model
    may take. `library`: what it must know to lay the model over several devices.
    """
    option = f"--{role} {name}"
    where = locate(name, f"--{role}") if where is None else where
    ends = shared_ends.needs(option, where, target)
    dtype = dtype if ends is None else target.dtype
    # Some families draw numbers before they load over them: not from the generator of the program around.
    with one_line(option), torch.random.fork_rng(devices=[]):
        if Path(where).is_file():
            model, loading_info = gguf_model.read_model(Path(where), dtype)
        elif ends is not None and ends.layers:
            model, loading_info = corrected.read(option, Path(where), ends.layers, target)
        elif not library and (plain := _as_stored(where, dtype)) is not None:
            model, loading_info = plain, {}
        else:
            model, loading_info = _read(where, dtype, library or {})
    if ends is not None:
        loading_info["missing_keys"] = shared_ends.lend(
            option, model, set(loading_info.get("missing_keys") or ()), target
        )
    refuse_holes(option, model, loading_info)
    model.left_out = left_out(option, model, loading_info)
    if not Path(where).is_file():
        refuse_odd_types(option, model, Path(where) if Path(where).is_dir() else hub.snapshot(where))
    return model


def _as_stored(where: str, dtype: torch.dtype) -> Any | None:
    """Load by `read_as_stored`; None on any failure, so that the library's loader gives the error."""
    try:
        return read_as_stored(Path(where), dtype)
    except Exception:
        return None


def _read(where: str, dtype: torch.dtype, library: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    from transformers import AutoModelForCausalLM

    read: tuple[Any, dict[str, Any]] = AutoModelForCausalLM.from_pretrained(
        where,
        dtype=dtype,
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # so that each is named; the caller refuses any
        **library,
    )
    return read


def _size(tokenizer: Any) -> int:
    """One more than the largest id; ids may have gaps, so their number is not enough."""
    return max(len(tokenizer), 1 + max(tokenizer.get_vocab().values(), default=-1))


def locate(name: str, option: str) -> str:
    """Where to load from: a folder or GGUF file here, once it was looked at, or a hub id that can be had.

    `option`: the flag that names it. Raises ModelError.
    """
    path = checked_path(name, option)
    where = hub.resolve(name, option) if path is None else str(path)
    kind = model_folder.kind_of(where)
    flag = f"{option} {model_folder.shown(name)}"
    with one_line(flag):
        try:
            if kind == "file":
                gguf_model.check(Path(where))
            elif kind == "folder":
                if path is None:  # what is in the hub's cache
                    model_folder.check(Path(where))
                families.introduce(Path(where))
        except ModelError as error:
            raise ModelError(f"{flag}: {error}") from None
    return where


def _name(where: str) -> str:
    path = Path(where)
    if not path.exists():
        return where
    if path.is_file():
        return path.stem
    return f"{path.parent.name}/{path.name}" if path.name in ("target", "draft") else path.name


def _info(adapter: ModelAdapter, where: str) -> ModelInfo:
    config = adapter.config
    return ModelInfo(
        name=adapter.name,
        arch=type(adapter.model).__name__,
        n_layers=adapter.n_layers,
        width=config.hidden_size,
        n_params=sum(p.numel() for p in adapter.model.parameters()),
        vocab=adapter.vocab,
        dtype=str(adapter.dtype).removeprefix("torch."),
        device=str(adapter.device),
        hash=fingerprint(adapter),
    )


def compare_tokenizers(target: Any, draft: Any) -> None:
    """Raises ModelError that says what differs, when the two do not number the same tokens."""
    first, second = target.get_vocab(), draft.get_vocab()
    if first != second:
        sizes = (
            f"{len(first)} against {len(second)} tokens" if len(first) != len(second) else _difference(first, second)
        )
        raise ModelError(
            f"target and draft model have different tokenizers ({sizes}): use a draft model of the same family"
        )
    probe = "Speculative   decoding:\n\tdef f(x): return x**2  # Grüße, 世界 1234"
    ids = [t(probe, add_special_tokens=True)["input_ids"] for t in (target, draft)]
    if ids[0] != ids[1]:
        raise ModelError("target and draft model split text into different tokens though they number the same ones")


def _difference(first: dict[str, int], second: dict[str, int]) -> str:
    for token, number in sorted(first.items(), key=lambda item: item[1]):
        if second.get(token) != number:
            return f"token {token!r} is {number} in one and {second.get(token, 'missing')} in the other"
    return "different entries"


def stop_tokens(loaded: Loaded) -> frozenset[int]:
    """End-of-text ids: the generation config's, then the model's, then the tokenizer's."""
    generation = getattr(loaded.adapter.model, "generation_config", None)
    ids = getattr(generation, "eos_token_id", None)
    if ids is None:
        ids = getattr(loaded.adapter.config, "eos_token_id", None)
    if ids is None:
        ids = loaded.tokenizer.eos_token_id
    stops = [ids] if isinstance(ids, int) else list(ids or [])
    return frozenset(i for i in stops if 0 <= i < loaded.adapter.vocab)


_SAMPLE = 256  # entries of every parameter that the fingerprint looks at
_SMALLEST = 2.0**-14  # below it float16 loses digits, so the fingerprint takes such entries as zero
_fingerprints: "WeakKeyDictionary[Any, str]" = WeakKeyDictionary()  # by the library's model


@torch.inference_mode()
def fingerprint(adapter: ModelAdapter) -> str:
    """Tells models apart, and one model not from itself in another dtype: names, shapes, some entries of all weights.

    Entries are rounded to bfloat16, so a checkpoint has the same fingerprint loaded in float32, float64 or bfloat16.
    """
    if adapter.model not in _fingerprints:
        digest = hashlib.sha256()
        for name, parameter in sorted(adapter.model.named_parameters()):
            with present(adapter.model.get_submodule(name.rpartition(".")[0])) as module:
                flat = module.get_parameter(name.rpartition(".")[2]).detach().flatten()
                some = flat[:: max(1, len(flat) // _SAMPLE)].float().cpu()
            some = torch.where(some.abs() < _SMALLEST, 0.0, some).bfloat16().view(torch.int16)
            digest.update(f"{name}{tuple(parameter.shape)}".encode())
            digest.update(some.numpy().tobytes())
        _fingerprints[adapter.model] = digest.hexdigest()[:32]
    return _fingerprints[adapter.model]
