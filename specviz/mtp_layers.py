"""MTP layers that a published model brings in its own files: found by the names of its tensors, without torch.

Each family names them its own way, and all do the same: join the norm of a token's embedding with the norm of a state,
run a decoder layer of the target's kind, and speak behind a last norm by the target's head, or a copy of it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz import model_folder
from specviz.errors import ModelError


@dataclass(frozen=True, slots=True)
class MtpLayout:
    """How a family names the parts: norms of `token` and `state`, the matrix that joins them, the norm behind the
    layer (`out`), and what the names of the `layer` itself begin with.

    `marks`: matches the joining matrix; its first group stands before every name, its second numbers the layers.
    `head`, `embedding`: copies of the target's, where they are saved again. `state_first`: joined as [state, token].
    """

    family: str
    marks: re.Pattern[str]
    token: str
    state: str
    join: str
    out: str
    layer: str = ""
    head: str = ""
    embedding: str = ""
    state_first: bool = False


LAYOUTS = (
    MtpLayout(
        "DeepSeek-V3",  # and GLM; numbered behind the target's layers
        re.compile(r"^((?:.*\.)?layers\.(\d{1,4})\.)eh_proj\.weight$"),
        "enorm",
        "hnorm",
        "eh_proj",
        "shared_head.norm",
        head="shared_head.head",
        embedding="embed_tokens",
    ),
    MtpLayout(
        "Qwen3-Next",  # and Qwen3.5
        re.compile(r"^((?:.*\.)?mtp\.)fc\.weight$()"),
        "pre_fc_norm_embedding",
        "pre_fc_norm_hidden",
        "fc",
        "norm",
        layer="layers.0.",
    ),
    MtpLayout(
        "MiMo",
        re.compile(r"^((?:.*\.)?mtp_layers\.(\d{1,4})\.)input_proj\.weight$"),
        "token_layernorm",
        "hidden_layernorm",
        "input_proj",
        "final_layernorm",
        state_first=True,
    ),
)
_FIELDS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers")
_NUMBERED = re.compile(r"(?:^|\.)mtp\.layers\.(\d{1,4})\.")


@dataclass(frozen=True, slots=True)
class OwnMtp:
    """What a target brings: the layout, what its first layer's names begin with, and how many layers there are."""

    layout: MtpLayout
    prefix: str
    n_layers: int

    def holds(self, name: str) -> bool:
        """Whether a tensor is one of the first layer's; of those behind it only the first is run."""
        rest = name.removeprefix(self.prefix)
        others = self.layout.layer and _NUMBERED.search(name) and not rest.startswith(self.layout.layer)
        return name.startswith(self.prefix) and not others


def own_mtp(names: Iterable[str]) -> OwnMtp | None:
    """The MTP layers among tensors of these names, in a layout that is known; None: there are none."""
    names = [*names]
    for layout in LAYOUTS:
        marked = sorted((int(match[2] or 0), match[1]) for name in names if (match := layout.marks.match(name)))
        if marked:
            n = len(marked) if not layout.layer else len({m[1] for name in names if (m := _NUMBERED.search(name))})
            return OwnMtp(layout, marked[0][1], max(1, n))
    return None


def own_mtp_layers(config: Mapping[str, Any], names: Iterable[str] = ()) -> int:
    """How many MTP layers a target brings in its own files, by its configuration or else the names of its tensors."""
    parts = [config, *(part for part in (config.get("text_config"),) if isinstance(part, dict))]
    counts = [n for part in parts for name in _FIELDS if isinstance(n := part.get(name), int)]
    if counts:
        return max(0, max(counts))
    own = own_mtp(names)
    return 0 if own is None else own.n_layers


def folder_mtp(folder: Path) -> OwnMtp | None:
    """Those in a folder's weight files; None also for what cannot be read."""
    try:
        files = model_folder.weight_files(folder) if model_folder.kind_of(folder) == "folder" else []
        return own_mtp(tensor.name for path in files for tensor in model_folder.tensors(path))
    except ModelError:
        return None


def has_mtp(folder: Path) -> bool:
    """Whether a target's own folder brings layers that are read here."""
    return folder_mtp(folder) is not None


def layout_words(own: OwnMtp | None) -> str:
    """Which layout layers are in; None: in none that is known."""
    if own is None:
        return f"in no layout that is read here ({', '.join(layout.family for layout in LAYOUTS)} are)"
    return f"in the layout of {own.layout.family}"


def unread_mtp(folder: Path) -> str:
    """What to say of a folder whose config names layers that are not read; "" where there are none, or they are."""
    try:
        n = own_mtp_layers(model_folder.read_config(folder))
    except ModelError:
        return ""
    return f"the {n} of its own {'is' if n == 1 else 'are'} {layout_words(None)}" if n and not has_mtp(folder) else ""
