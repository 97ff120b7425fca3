"""Attention whose rows do not depend on what else is in the pass: the sums of plain decoding, to the last bit."""

import torch

from specviz.engine.model.exact.plan import KeyPiece, RowPlan

Tensor = torch.Tensor

_SHORT = 1024  # slots whose values are widened in one call: a call a piece would cost more than it saves


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """What scores and sums are taken in: float32 at least."""
    return torch.promote_types(dtype, torch.float32)


def exact_attention(
    query: Tensor,  # [1, H, rows, D]
    key: Tensor,  # [1, K, wide, D], of the model's dtype or that of sums
    value: Tensor,
    plan: RowPlan,
    scale: float,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """`[1, rows, H, D]`. `sinks` `[H]`: one more score of every row, whose weight goes nowhere."""
    _, heads, n, dim = query.shape
    order = plan.order
    shared = key.shape[1]
    packed = query.reshape(shared, heads // shared * n, dim).to(plan.bias.dtype)
    scores = _scores(packed, key[0].to(plan.bias.dtype), plan.bias, scale, softcap)
    if order.places is not None:
        tail = scores[:, :, order.base :]
        tail.copy_(tail.gather(2, order.places.expand(shared, -1, -1)))
    if sinks is not None:
        scores[:, :, -1] = sinks.to(scores.dtype).view(shared, -1, 1).expand(-1, -1, n).reshape(shared, -1)
    weights = scores.softmax(-1)
    if sinks is not None:
        weights[:, :, -1] = 0
    if order.slots is not None:
        tail = weights[:, :, order.base :]
        tail.copy_(tail.gather(2, order.slots.expand(shared, -1, -1)))
    values = value[0].to(weights.dtype) if order.wide <= _SHORT else value[0]
    out: Tensor | None = None
    for piece in order.pieces:
        mixed = torch.bmm(*_of(piece, weights, values))
        out = mixed if out is None else out + mixed
    assert out is not None
    return out.to(query.dtype).view(1, heads, n, dim).transpose(1, 2)


def _scores(packed: Tensor, key: Tensor, bias: Tensor, scale: float, softcap: float | None) -> Tensor:
    products = torch.bmm(packed, key.transpose(1, 2))
    if softcap is None:  # scaled here: MKL's product scales before its sum or behind it, by how many rows it is given
        return torch.add(bias, products, alpha=scale, out=products)
    return torch.tanh(products * (scale / softcap)) * softcap + bias


def _of(piece: KeyPiece, weights: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The weights and values of a piece, in the dtype of sums: a cache of 16 bits is widened where it is read, which
    keeps every bit, and piece by piece, which keeps the processor's cache from overflowing."""
    if piece.columns is not None:
        weights, value = weights.index_select(2, piece.columns), value.index_select(1, piece.columns)
    else:
        weights, value = weights[:, :, piece.lo : piece.hi], value[:, piece.lo : piece.hi]
    return (weights if piece.keep is None else weights * piece.keep), value.to(weights.dtype)
