"""`specviz train mtp`: an MTP layer for a frozen target. What all kinds share is in `train`.

Models that bring such a layer learn it together with the rest. Here the target stays as it is and the layer begins as
the target's last one over a guess of what that will read.

That guess is worked out of the target and a little of what it wrote. The target's last layer says the next token, by
what reaches it. Behind one more token that is not known yet; but a good share of it is a plain map of what is: the
target's last state and that token's embedding. Least squares finds the best such map, so the layer is right about some
tokens before its first step. All is told in the coordinates of the target's last state, `y = g r / s`: r the stream
between layers, g the gains of the final norm, s how loud the stream is in front of it. So what the layer leaves is a
last state like the one it read, and can take its place for the token after.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.mtp.drafter import Mtp
from specviz.methods.mtp.network import KIND, MtpConfig, MtpNetwork, Trained
from specviz.methods.trained.parts import fingerprint
from specviz_train.common.own_text import OwnWindows
from specviz_train.trees import levels, train
from specviz_train.trees.block_drafter import layer_like, vocabulary_of
from specviz_train.trees.card import TreeCard


@dataclass(frozen=True, slots=True)
class MtpRequest(train.TreeDrafterRequest):
    """What the command line asks for. `steps`: tokens ahead unrolled in training; `ff`: 0 is the target's.

    `bits`: 16 or 8, of a weight on disk.
    """

    command_name: ClassVar[str] = "mtp"

    steps: int = 3
    ff: int = 0
    bits: int = 16


def _begin(request: MtpRequest, adapter: ModelAdapter, windows: OwnWindows) -> Trained:
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    layer = layer_like(adapter)
    layer = replace(layer, ff=request.ff or layer.ff)
    config = MtpConfig.describing(
        adapter,
        fingerprint(adapter),
        (adapter.n_layers,),
        vocabulary.n_draft,
        layer,
        trained_steps=request.steps,
        bits=request.bits,
    )
    network = MtpNetwork(config.layer, torch.Generator().manual_seed(request.seed)).to(adapter.device).float()
    network.join(adapter, vocabulary)
    goes_on = (request.work / RECIPE.checkpoint).exists()
    if not goes_on and request.begin is None:  # else its weights come from there
        settle(network, adapter, windows)
    return Trained(config, network, vocabulary)


CARD = TreeCard(
    "mtp",
    "mtp",
    Mtp,
    ({}, {"gamma": 2}, {"p_min": 0.5}),
    levels.known,
    partial(levels.columns, "ahead"),
    ("one token ahead", "the furthest ahead"),
)
RECIPE = train.DrafterRecipe(KIND, _begin, levels.unrolled, CARD)


WINDOWS, AT_ONCE = 64, 8  # of the text, and of those at once
RIDGE = 1e-3  # of the mean square of the inputs: what holds back directions that the text hardly has
LEAST_GAIN = 0.05  # of the mean one: a direction that the final norm all but drops cannot be told by what it leaves


@dataclass(frozen=True, slots=True)
class TargetPass:
    """What the target said at places of a text: `[n, width]` each, and how loud its inner neurons were, `[ff]`.

    `last` its last state, `token` the embedding of the token after; `read`, `left` what its last layer read and left
    there, `after` the last state there. `inner` is None where the layer is not one of those we know.
    """

    last: Tensor
    token: Tensor
    read: Tensor
    left: Tensor
    after: Tensor
    inner: Tensor | None


@torch.no_grad()
def passed(adapter: ModelAdapter, windows: OwnWindows) -> TargetPass:
    """Ask the target about some windows. The first token of a text, whose states are like no other's, is left out."""
    layer, left, inner = adapter.layers[-1], [], []
    down = dict(layer.named_modules()).get("mlp.down_proj")
    hooks = [layer.register_forward_hook(lambda module, inputs, out: left.append(_rows(out)))]
    if down is not None:
        hooks.append(down.register_forward_pre_hook(lambda module, inputs: inner.append(_loudness(inputs[0]))))
    parts = []
    try:
        for ids, _ in OwnWindows(windows.ids[:WINDOWS], windows.written[:WINDOWS]).split(AT_ONCE):
            ids = ids.to(adapter.device)
            out = adapter.model(input_ids=ids, output_hidden_states=True, use_cache=False)
            last, read = out.hidden_states[-1], out.hidden_states[adapter.n_layers - 1]
            embedded = adapter.embedding(ids)
            some = last[:, 1:-1], embedded[:, 2:], read[:, 2:], left[-1][:, 2:], last[:, 2:]
            parts.append([states.flatten(0, 1).float() for states in some])
    finally:
        for hook in hooks:
            hook.remove()
    last, token, read, leaves, after = (torch.cat(states) for states in zip(*parts, strict=True))
    return TargetPass(last, token, read, leaves, after, torch.stack(inner).mean(0) if inner else None)


@torch.no_grad()
def settle(network: MtpNetwork, adapter: ModelAdapter, windows: OwnWindows) -> None:
    """Give the network its first weights. A layer that is not like ours lends nothing: then its output is guessed."""
    outputs, layer = passed(adapter, windows), network.layer
    heard = outputs.left / _loud(outputs.left)
    gains = (outputs.after * heard).sum(0) / heard.square().sum(0).clamp(min=1e-12)
    least = LEAST_GAIN * gains.abs().mean()
    gains = torch.where(gains.abs() < least, least.copysign(gains), gains)
    loud = _loud(outputs.left).mean()
    lent = levels.begin_as(layer, adapter.layers[-1], outputs.inner)
    guessed = gains * (outputs.read if lent else outputs.left) / loud
    network.fuse.weight.copy_(_map(torch.cat([_level(outputs.token), _level(outputs.last)], -1), guessed))
    network.norm_out.weight.fill_(_loud(outputs.after).mean())
    if lent:
        louder = (_loud(guessed) * loud / _loud(outputs.read)).mean()
        for norm in (layer.norm_attention, layer.norm_mlp):
            norm.weight.mul_(louder / gains)
        for leaves in (layer.o, layer.down):
            leaves.weight.mul_((gains / loud)[:, None])


def _map(inputs: Tensor, wanted: Tensor) -> Tensor:
    """The matrix `[b, a]` that comes nearest to `wanted` `[n, b]` on `inputs` `[n, a]`."""
    squares = inputs.T @ inputs
    ridge = RIDGE * squares.diagonal().mean()
    solution: Tensor = torch.linalg.solve(
        squares + ridge * torch.eye(len(squares), device=inputs.device), inputs.T @ wanted
    )
    return solution.T


def _loud(rows: Tensor) -> Tensor:
    """Root mean squares `[n, 1]` of rows `[n, width]`."""
    return rows.square().mean(-1, keepdim=True).sqrt()


def _level(rows: Tensor) -> Tensor:
    """Rows at mean square one, as the network's norms make them."""
    return rows / _loud(rows).clamp(min=1e-12)


def _loudness(rows: Tensor) -> Tensor:
    return rows.float().abs().mean((0, 1))


def _rows(out: Tensor | tuple[Tensor, ...]) -> Tensor:
    """What a layer of the library returns: states, in some versions with more behind them."""
    return out if isinstance(out, Tensor) else out[0]
