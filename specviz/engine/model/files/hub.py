"""Hub ids: what is here already, and one short question to the hub instead of a minute of retries.

The library asks for every file anew, with waits in between, before it says that nobody answers. So a hub id is asked
for once, with one try and a limit on the whole of it (name look-up included); without an answer, or with
HF_HUB_OFFLINE set, only what lies in the hub's cache is used.
"""

import threading
from collections import Counter
from pathlib import Path

from specviz import model_folder
from specviz.errors import ModelError, nearest
from specviz.local_models.catalogue import KNOWN, brought_draft, to_install
from specviz.local_models.found import other_names

PATIENCE_S = 5.0


def resolve(name: str, option: str) -> str:
    """The name itself when the hub has it and answers, the cached folder when it does not. Raises ModelError."""
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    near = model_folder.suggested(name) or _embedded_hint(name) or _local_hint(name)
    try:
        validate_repo_id(name)
    except HFValidationError:
        raise ModelError(
            f"{option} {model_folder.shown(name)}: neither a folder nor a hub id of the form owner/name{near}"
        ) from None
    if not constants.HF_HUB_OFFLINE:
        status = answer(name)
        if status is not None and status < 400:
            return name
        if status in (401, 403, 404):
            raise ModelError(
                f"{option} {name}: no such folder here, and the hub has no such model, or keeps it from you{near}"
            )
    try:
        return str(huggingface_hub.snapshot_download(name, local_files_only=True))
    except Exception:  # each version has its own name for "not in the cache"
        pass
    why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the hub does not answer (offline?)"
    raise ModelError(f"{option} {name}: no such folder here, not in the hub's cache, and {why}{near}")


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE says that the hub must not be asked."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def answer(name: str) -> int | None:
    """The hub's status for a model, asked once; None when there is no answer within `PATIENCE_S` seconds."""
    statuses: list[int] = []
    asking = threading.Thread(target=_ask, args=(name, statuses), name="hub", daemon=True)
    asking.start()
    asking.join(PATIENCE_S)
    return statuses[0] if statuses else None


def _ask(name: str, statuses: list[int]) -> None:
    from huggingface_hub import constants, get_session
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    try:
        url = f"{constants.ENDPOINT}/api/models/{name}"
        statuses.append(int(get_session().get(url, headers=build_hf_headers(), timeout=PATIENCE_S).status_code))
    except Exception:  # any network error counts as no answer
        return


def snapshot(name: str) -> Path | None:
    """The cached snapshot folder of a loaded hub id."""
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(name, "config.json")
    return Path(cached).parent if isinstance(cached, str) else None


def stored(name: str) -> Counter[str]:
    """How many weights of each dtype a model on the hub has, by the headers of its files; empty without an answer."""
    counts: list[Counter[str]] = []
    asking = threading.Thread(target=_ask_stored, args=(name, counts), name="hub", daemon=True)
    asking.start()
    asking.join(PATIENCE_S)
    return counts[0] if counts else Counter()


def _ask_stored(name: str, counts: list[Counter[str]]) -> None:
    from huggingface_hub import get_safetensors_metadata

    try:
        counts.append(Counter(get_safetensors_metadata(name).parameter_count))
    except Exception:  # no answer, or a model without safetensors, which is refused when it is loaded
        return


def _local_hint(name: str) -> str:
    """The package to install, or the known or stored model of nearly that name: `"; did you mean 'smollm2'?"`."""
    of = next((known for known in KNOWN if name == brought_draft(known)), None)
    install = to_install(of, "draft")
    if install is not None:
        return f"; {install} brings it"
    close = nearest(name, {*KNOWN, *other_names()})
    return f"; did you mean '{close}'?" if close else ""


def _embedded_hint(name: str) -> str:
    close = nearest(name, ("pair/target", "pair/draft")) if name.startswith("pair/") else None
    return f"; the embedded {close} is used when no model is named" if close else ""
