"""Exit heads: what turns the state after a layer into logits, one small module a layer.

Every kind begins as the logit lens, the model's own final norm and head read too early, and learns what that lacks:

* `gain`: an own norm gain; the shared head does the rest. Almost no parameters.
* `lowrank`: gain and a low-rank update of the state in front of the shared head. The default.
* `square`: a full d x d map in front of the shared head (AdaDecode's form).
* `full`: an own head [V, d], the largest to store.
* `factored`: an own head [V, r] [r, d], begun at the shared head's best approximation. Few weights to read per test.
* `tuned`: an affine correction in front of the norm, as published tuned lenses have it.

A shortlist cuts any of them to the K most frequent tokens: cheaper, and overconfident, as the rest has no mass.
Heads see one position at a time. Exactness never depends on them; an untrained head only costs time.

A folder holds `heads.safetensors` and a `config.json` naming the target's fingerprint, layers and kind. A folder of a
published tuned lens is taken too, once its weights are safetensors.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import torch
from torch import nn

from specviz.cost.ledger import head_cost
from specviz.engine.model.adapter import Model, ModelAdapter
from specviz.engine.model.files.loading import fingerprint as fingerprint
from specviz.errors import ModelError
from specviz.methods import Part
from specviz.methods.trained.part_kind import PartKind, misshapen, other_sizes

Tensor = torch.Tensor
Kind = Literal["gain", "lowrank", "square", "full", "factored", "tuned"]
KINDS: tuple[str, ...] = get_args(Kind)
OWN_ROWS = ("full", "factored")  # kinds with a matrix of their own at the end


class FinalHead:
    """The model's final norm and head, for states of any layer; rows of the head cut to a shortlist `[K]` if given."""

    def __init__(self, adapter: ModelAdapter, ids: Tensor | None = None) -> None:
        self.norm, self.shaped, self.vocab, self.ids = adapter.norm, adapter.shaped, adapter.vocab, ids
        weight, bias = adapter.head.weight, getattr(adapter.head, "bias", None)
        rows = slice(adapter.vocab) if ids is None else ids
        self.weight: Tensor = weight[rows].detach()  # [V or K, width]; a view unless there is a shortlist
        self.bias: Tensor | None = None if bias is None else bias[rows].detach()

    def scores(self, states: Tensor, weight: Tensor | None = None) -> Tensor:
        """`[n, V or K]` of states `[n, width]` behind the norm, by the shared matrix or one of the head's own."""
        matrix = self.weight if weight is None else weight
        bias = None if self.bias is None else self.bias.to(matrix.dtype)
        return self.shaped(nn.functional.linear(states.to(matrix.dtype), matrix, bias))

    def spread(self, scores: Tensor) -> Tensor:
        """`[n, V]`: tokens off the shortlist at minus infinity."""
        if self.ids is None:
            return scores
        return scores.new_full((len(scores), self.vocab), float("-inf")).index_copy_(1, self.ids, scores)


class ExitHead(nn.Module):
    """The head of one layer. `final` is handed in, so that a model's own weights are stored once."""

    def __init__(self, kind: Kind, final: FinalHead, rank: int = 0, like: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.kind = kind
        width = final.weight.shape[1]
        make: dict[str, Any] = {"dtype": like, "device": final.weight.device}
        if kind != "tuned":
            self.gain = nn.Parameter(torch.ones(width, **make))
        if kind == "lowrank":
            # One side begins at zero, the other must not: fixed cosines are spread well and need no random generator.
            grid = torch.outer(torch.arange(rank, **make) + 1, torch.arange(width, **make) + 0.5)
            self.down = nn.Parameter(torch.cos(grid * torch.pi / width) * (2 / width) ** 0.5)
            self.up = nn.Parameter(torch.zeros(width, rank, **make))
        elif kind == "square":
            self.map = nn.Parameter(torch.eye(width, **make))
        elif kind == "tuned":
            self.weight = nn.Parameter(torch.zeros(width, width, **make))
            self.bias = nn.Parameter(torch.zeros(width, **make))
        elif kind == "full":
            self.own = nn.Parameter(final.weight.to(like).clone())
        elif kind == "factored":
            self._factor(final.weight.to(like), rank)

    def _factor(self, shared: Tensor, rank: int) -> None:
        left, values, right = torch.linalg.svd(shared.double(), full_matrices=False)
        root = values[:rank].sqrt()
        self.up = nn.Parameter((left[:, :rank] * root).to(shared.dtype))
        self.down = nn.Parameter((root[:, None] * right[:rank]).to(shared.dtype))

    def forward(self, hidden: Tensor, final: FinalHead) -> Tensor:
        """Scores `[n, V or K]` of hidden states `[n, width]`."""
        if self.kind == "tuned":
            return final.scores(final.norm(hidden + nn.functional.linear(hidden, self.weight, self.bias)))
        states = final.norm(hidden).to(self.gain.dtype) * self.gain
        if self.kind == "lowrank":
            states = states + states @ self.down.T @ self.up.T
        elif self.kind == "square":
            states = states @ self.map.T
        elif self.kind == "full":
            return final.scores(states, self.own)
        elif self.kind == "factored":
            return final.scores(states @ self.down.T, self.up)
        return final.scores(states)

    @property
    def n_params(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


def weights_read(kind: str, final: FinalHead, n_own: int) -> int:
    """Weights that one test reads: the head's own, and the shared matrix unless it has one itself."""
    return n_own + (0 if kind in OWN_ROWS else final.weight.numel())


SHORTLIST = "shortlist"  # the tensor that holds its token ids


@dataclass(frozen=True, slots=True)
class ExitHeadConfig:
    """`config.json` of a folder of heads. `target`: its fingerprint; `shortlist`: K, 0 for the whole vocabulary.

    `advised`: the layers to test with the default threshold, chosen by replay; empty when nobody chose.
    """

    target: str
    target_name: str
    n_layers: int
    width: int
    vocab: int
    kind: str
    layers: tuple[int, ...]
    rank: int = 0
    shortlist: int = 0
    labels: str = "soft"
    advised: tuple[int, ...] = ()

    def write(self, folder: Path) -> None:
        KIND.save(folder, self)


def _unsound(config: ExitHeadConfig) -> str | None:
    if config.kind not in KINDS:
        return f" has kind '{config.kind}', known are {', '.join(KINDS)}"
    return None if config.target else " names no target"


def _unfit(config: ExitHeadConfig, adapter: ModelAdapter) -> str | None:
    outside = [layer for layer in (*config.layers, *config.advised) if not 1 <= layer < adapter.n_layers]
    unfit = other_sizes(config, adapter)
    if unfit is None and (outside or not config.layers):
        return (
            f"config.json names {f'layer {outside[0]}' if outside else 'no layers'}, the "
            f"target has layers 1 to {adapter.n_layers - 1} below its last"
        )
    return unfit


KIND = PartKind(
    part=Part("exit heads", "specviz train exit-heads", "exit-heads", knob="heads"),
    format="specviz-exit-heads",
    config=ExitHeadConfig,
    weights="heads.safetensors",
    hint="give one that specviz train exit-heads wrote, or lens",
    advice="train heads for it with specviz train exit-heads",
    sound=_unsound,
    fits=_unfit,
    embedded="heads",
)


def opened(folder: Path, adapter: ModelAdapter) -> tuple[ExitHeadConfig, dict[str, Tensor]]:
    """Config and tensors of a folder: `<layer>.<name>` of each head, `shortlist` `[K]`.

    Raises ModelError in one line where they are no heads, or not of this target.
    """
    card = KIND.document(folder)
    config = _tuned_lens(folder, card, adapter) if "lens_type" in card else KIND.parsed(folder, card)
    KIND.refuse_others(folder, config, adapter, owned=bool(config.target))
    tensors = KIND.tensors(folder, adapter.device, SHORTLIST)
    if SHORTLIST in tensors:
        tensors[SHORTLIST] = _shortlist(folder, tensors[SHORTLIST], adapter.vocab)
    return config, _with_biases(tensors, config) if config.kind == "tuned" else tensors


def _shortlist(folder: Path, ids: Tensor, vocab: int) -> Tensor:
    """Token ids `[K]`. Raises ModelError for what are none of this target."""
    whole = ids.dim() == 1 and len(ids) > 0 and not (ids.is_floating_point() or ids.is_complex())
    inside = whole and ids.dtype != torch.bool and bool(((ids >= 0) & (ids < vocab)).all())
    if not inside or len(set(ids.tolist())) < len(ids):
        raise ModelError(
            f"--heads {folder}: its shortlist is no list of different tokens of the target (0 to {vocab - 1})"
        )
    return ids.long()


def _tuned_lens(folder: Path, config: dict[str, Any], adapter: ModelAdapter) -> ExitHeadConfig:
    """A published tuned lens: translator l corrects the state after l layers. It names its base, not its weights."""
    if config["lens_type"] != "linear_tuned_lens":
        raise ModelError(f"--heads {folder}: lens_type '{config['lens_type']}' is unknown; known: linear_tuned_lens")
    n_layers, width = config.get("num_hidden_layers"), config.get("d_model")
    if not isinstance(n_layers, int) or not isinstance(width, int):
        raise ModelError(f"--heads {folder}: config.json of a tuned lens needs num_hidden_layers and d_model")
    return ExitHeadConfig(
        target="",
        target_name=str(config.get("base_model_name_or_path")),
        n_layers=n_layers,
        width=width,
        vocab=adapter.vocab,
        kind="tuned",
        layers=tuple(range(1, n_layers)),
    )


def _with_biases(tensors: dict[str, Tensor], config: ExitHeadConfig) -> dict[str, Tensor]:
    """A translator's names are `l.weight` and `l.bias`, as ours are; one without a bias gets zeros."""
    zero = torch.zeros(config.width)
    biases = {f"{layer}.bias": zero for layer in config.layers if f"{layer}.bias" not in tensors}
    return tensors | biases


class Heads(Protocol):
    """Logits of intermediate states. `layers`: those with a trained head; any other is read through the logit lens.

    `advised`: the layers that are best tested, if somebody found out.
    """

    layers: tuple[int, ...]
    advised: tuple[int, ...]
    kind: str

    def logits(self, layer: int, hidden: Tensor) -> Tensor:
        """`[n, V]`, float32 or the model's float64, of states `[n, width]` after `layer`."""
        ...

    def named(self, layer: int) -> Tensor | None:
        """Token ids `[K]`, rising, that are ever above minus infinity after `layer`; None: any."""
        ...


class LogitLens:
    """The model's own final norm and head on any layer: exact as a draft source, weak in the lower half."""

    layers: tuple[int, ...] = ()
    advised: tuple[int, ...] = ()
    kind = "lens"

    def __init__(self, model: Model) -> None:
        self.model = model

    def logits(self, layer: int, hidden: Tensor) -> Tensor:
        """Logits `[n, V]` of states `[n, width]`; the same head serves every layer."""
        return self.model.logits(hidden[None])

    def named(self, layer: int) -> Tensor | None:
        """None: the whole vocabulary."""
        return None


class TrainedHeads:
    """Heads for some layers of one target, in its dtype and on its device."""

    def __init__(self, adapter: ModelAdapter, config: ExitHeadConfig, tensors: dict[str, Tensor]) -> None:
        self.config, self.kind, self.layers, self.advised = config, config.kind, config.layers, config.advised
        ids = tensors.get("shortlist")
        self.final = FinalHead(adapter, None if ids is None else ids.to(adapter.device))
        self._named = None if self.final.ids is None else self.final.ids.sort().values
        self._lens = LogitLens(adapter)
        self._heads = {layer: self._head(layer, tensors, adapter.dtype) for layer in config.layers}

    def _head(self, layer: int, tensors: dict[str, Tensor], dtype: torch.dtype) -> ExitHead:
        head = ExitHead(self.config.kind, self.final, self.config.rank, like=dtype)  # type: ignore[arg-type]
        own = {name.partition(".")[2]: t for name, t in tensors.items() if name.startswith(f"{layer}.")}
        head.load_state_dict(own)
        return head.requires_grad_(False)

    def logits(self, layer: int, hidden: Tensor) -> Tensor:
        """Logits `[n, V]` of states `[n, width]`; through the logit lens for a layer without a head."""
        head = self._heads.get(layer)
        if head is None:
            return self._lens.logits(layer, hidden)
        out = self.final.spread(head(hidden, self.final))
        return out if out.dtype == torch.float64 else out.float()

    def named(self, layer: int) -> Tensor | None:
        """The shortlist, in token order; None where there is none, and for a layer without a head."""
        return self._named if layer in self._heads else None

    @property
    def weights_read(self) -> int:
        """Weights that one test reads."""
        return weights_read(self.kind, self.final, next(iter(self._heads.values())).n_params)


def tested(heads: Heads, asked: "list[int] | tuple[int, ...]") -> str | None:
    """What to tell about tested layers that have no trained head; None when all have one."""
    bare = [layer for layer in asked if layer not in heads.layers]
    if not bare:
        return None
    where = (
        "no exit heads for this target" if not heads.layers else f"no exit head at layer {', '.join(map(str, bare))}"
    )
    return f"{where}: the logit lens stands in (exact, but weak in the lower half); specviz train exit-heads makes them"


def describe(adapter: ModelAdapter, heads: Heads) -> str:
    """One line for the header and the screen: kind, layers, what a test costs."""
    cost = f"c_h {cost_in_layers(adapter, heads):.1f}: a test reads that many layers' worth of weights"
    if not heads.layers:
        return f"logit lens, no trained exit heads; {cost}"
    named = f"layers {', '.join(map(str, heads.layers))}"
    if isinstance(heads, TrainedHeads) and heads.kind == "tuned":
        return f"tuned lens of {heads.config.target_name} (by name, weights not compared) at {named}; {cost}"
    return f"{heads.kind} exit heads at {named}; {cost}"


def cost_in_layers(adapter: ModelAdapter, heads: Heads) -> float:
    """`c_h`: what one head test reads of weights, in units of one layer."""
    layer = sum(int(parameter.numel()) for parameter in adapter.layers[0].parameters())
    if isinstance(heads, TrainedHeads):
        return heads.weights_read / layer
    return head_cost(adapter.vocab, int(adapter.head.weight.shape[1]), layer)


def pick(target: Model, wanted: str | None) -> Heads:
    """The heads to use: `lens`, a folder, or None for those shipped with the target, the lens when there are none.

    Raises ModelError in one line for a folder that is no heads, or not of this target.
    """
    if wanted == "lens" or not isinstance(target, ModelAdapter):
        return LogitLens(target)
    if wanted is not None:
        return load(Path(wanted), target)
    folder = next(KIND.shipped_for(target), None)
    return LogitLens(target) if folder is None else load(folder, target)


def load(folder: Path, adapter: ModelAdapter) -> TrainedHeads:
    """The heads in a folder, read once per target. Raises ModelError in one line for one that holds none, or none of
    this target."""
    return KIND.once(folder, adapter, lambda: _read(folder, adapter))


def _read(folder: Path, adapter: ModelAdapter) -> TrainedHeads:
    config, tensors = opened(folder, adapter)
    try:
        return TrainedHeads(adapter, config, tensors)
    except RuntimeError as error:
        raise misshapen(folder, KIND.option, error) from error
