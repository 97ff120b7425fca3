"""What was counted and judged of a whole recording, as bytes and back: neither changes, and both read every round."""

from collections.abc import Mapping

import msgspec

from specviz.metrics import ConfidenceBand
from specviz.metrics.kept import packed, unpacked
from specviz.runlog.fold import Run
from specviz.view.frame.judgement import CountedRun, RunFinding, RunJudgement
from specviz.view.frame.series import Meter
from specviz.view.judge.judgement import judge


class _Kept(msgspec.Struct, array_like=True):
    metrics: bytes
    tokens: str
    speed: str
    basis: str
    basis_words: str
    findings: tuple[RunFinding, ...]
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
    said = judge(run, meter.tally, metrics)
    parts = (said.tokens, said.speed, said.basis, said.basis_words, said.findings)
    return msgspec.msgpack.encode(_Kept(data, *parts, tuple(said.confidence), said.n_rounds, dict(panels)))


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
    said = RunJudgement(*parts, kept.confidence, kept.n_rounds)
    return CountedRun(metrics, said, kept.panels)
