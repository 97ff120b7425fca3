"""Prometheus' text format: `name{label="value"} number`, one sample a line."""

import math
import re
from dataclasses import dataclass

from specviz.errors import SpecvizError

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$")
_LABEL = re.compile(r'(?:^|,)\s*+([A-Za-z_]\w*+)="((?:[^"\\]++|\\.)*+)"')  # never back: a label may be long
_LONGEST = 1 << 16  # characters of a line
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One number under one set of labels."""

    name: str
    labels: dict[str, str]
    value: float


def read_samples(text: str, where: str) -> list[MetricSample]:
    """Every finite sample. Raises SpecvizError, with the line, for what is no Prometheus text or was cut off.

    `where`: the address, for the message.
    """
    if text.lstrip()[:1] == "<":
        raise SpecvizError(f"{where} answers with a web page, not with counters: give the address of the engine itself")
    if text.lstrip()[:1] in ("{", "["):
        if "specDecodingStats" in text or "iterLatencyMS" in text:
            raise SpecvizError(
                f"{where} answers with TensorRT-LLM's JSON: specviz import reads it once; to watch it give its "
                "/prometheus/metrics, where on"
            )
        raise SpecvizError(f"{where} answers with JSON, not with counters: give the engine's address without a path")
    read = []
    lines = text.splitlines()
    if lines and not text.endswith("\n"):
        raise SpecvizError(f"{where}: the answer broke off behind line {len(lines) - 1}")
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SAMPLE.match(line.strip()) if len(line) <= _LONGEST else None
        try:
            value = float(match[3]) if match else None
        except ValueError:
            value = None
        if match is None or value is None:
            raise SpecvizError(f"{where}, line {number}: {line[:60]!r} is no Prometheus sample; is this an engine?")
        if math.isfinite(value):
            labels = {name: _unescaped(words) for name, words in _LABEL.findall(match[2] or "")}
            read.append(MetricSample(match[1], labels, value))
    return read


def _unescaped(words: str) -> str:
    return re.sub(r"\\[\\\"n]", lambda match: _ESCAPES[match[0]], words)
