"""Metrics as bytes and back: those of a recording do not change, and need not be counted again to be shown again."""

from typing import Any, get_type_hints

import msgspec

from specviz.metrics.registry import METRICS, Metrics


def packed(metrics: Metrics) -> bytes:
    """As MessagePack; empty where a metric of somebody's own gives what cannot be written."""
    try:
        return msgspec.msgpack.encode(dict(metrics))
    except TypeError:
        return b""


def unpacked(data: bytes) -> Metrics | None:
    """What was packed, as equal values of the same kinds: those that the formulas say they give. None when other
    metrics are declared now, or when it is something else."""
    try:
        raw = msgspec.msgpack.decode(data, type=dict[str, msgspec.Raw])
        if raw.keys() != METRICS.keys():
            return None
        kinds = {name: get_type_hints(spec.formula).get("return", Any) for name, spec in METRICS.items()}
        return Metrics({name: msgspec.msgpack.decode(raw[name], type=kind) for name, kind in kinds.items()})
    except (msgspec.MsgspecError, TypeError, NameError):
        return None
