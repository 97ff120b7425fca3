"""What was counted and judged of a whole recording, as bytes and back: neither changes, and both read every round.

Metrics of a recording need not be counted again to be shown again either.
"""

from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec

from specviz.judge.finding import Finding
from specviz.metrics import ConfidenceBand
from specviz.metrics.registry import METRICS, Metrics
from specviz.runlog.fold import Run
from specviz.view.frame.judgement import CountedRun, RunJudgement
from specviz.view.frame.series import Meter
from specviz.view.judge.judgement import judge


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


class _Kept(msgspec.Struct, array_like=True):
    metrics: bytes
    tokens: str
    speed: str
    basis: str
    basis_words: str
    findings: tuple[Finding, ...]
    confidence: tuple[ConfidenceBand, ...]
    n_rounds: int
    panels: dict[str, bytes]


def counted(run: Run, meter: Meter, panels: Mapping[str, bytes]) -> bytes:
    """All of it as MessagePack; empty before the first round, and where a metric cannot be written. `panels`: what each
    counted, by its id."""
    metrics = meter.metrics(run)
    data = b"" if metrics is None else packed(metrics)
    if not data:
        return b""
    judged = judge(run, meter.tally, metrics)
    parts = (judged.tokens, judged.speed, judged.basis, judged.basis_words, judged.findings)
    return msgspec.msgpack.encode(_Kept(data, *parts, tuple(judged.confidence), judged.n_rounds, dict(panels)))


def read_counted(data: bytes) -> CountedRun | None:
    """What was kept; None when it is something else, or other metrics are declared now."""
    try:
        kept = msgspec.msgpack.decode(data, type=_Kept)
    except msgspec.MsgspecError:
        return None
    metrics = unpacked(kept.metrics)
    if metrics is None:
        return None
    parts = (kept.tokens, kept.speed, kept.basis, kept.basis_words, kept.findings)
    judged = RunJudgement(*parts, kept.confidence, kept.n_rounds)
    return CountedRun(metrics, judged, kept.panels)
