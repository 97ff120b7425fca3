"""`trace_summary(path)`: what a recording shows, from its first and last lines alone: question, method, tokens a pass.

A zipped trace is inflated on the way, never decoded: a list of recordings is there at once, whatever they hold.
"""

from dataclasses import dataclass
from pathlib import Path

from specviz.errors import SpecvizError
from specviz.events import End, Event, Header, Prefill
from specviz.numerals import number
from specviz.text import running
from specviz.trace.bundled import RecordingAbout, bundled_abouts
from specviz.trace.files import KEPT_MB, Damaged, Plain, most_bytes, resolve
from specviz.trace.migrate import major_of, record_of
from specviz.view.frame.run_header import sampling

_TAIL = 1 << 16  # bytes within which the last line of a trace ends
_FIRST_LINES = 64  # among which the prompt stands


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """A recorded run in a few words, escaped. What is not on record is empty or None."""

    question: str
    model: str
    method: str
    shape: str
    verifier: str
    sampling: str
    n_rounds: int | None
    n_tokens: int | None
    n_queries: int | None
    lossless: bool = True
    about: RecordingAbout | None = None  # of one that comes with the package

    @property
    def per_pass(self) -> float | None:
        """Tokens a pass of the target: what `block_efficiency` is of the rounds themselves."""
        return self.n_tokens / self.n_rounds if self.n_tokens is not None and self.n_rounds else None

    @property
    def pace(self) -> str:
        """`6.42 tokens a pass`; "" where the recording has no end."""
        if self.per_pass is None:
            return ""
        return f"{number(self.per_pass)} {'token' if self.per_pass == 1 else 'tokens'} a pass"

    @property
    def how(self) -> str:
        """`draft tree, walk`."""
        shape = f" {self.shape}" if self.shape and self.shape != "chain" else ""
        return f"{self.method}{shape}, {self.verifier}" + ("" if self.lossless else ", NOT LOSSLESS")


def trace_summary(path: Path | str) -> TraceSummary | None:
    """A recording's summary for lists; None for a file that is no readable trace (opening it gives the reason)."""
    try:
        resolved = resolve(path)
        first, last = _ends(resolved)
        return _summary(resolved, first, last)
    except (SpecvizError, Damaged, OSError):
        return None


def _ends(path: Path) -> tuple[list[bytes], bytes]:
    """The first lines and the last whole one."""
    plain = Plain(path, most_bytes(KEPT_MB))
    try:
        head = tail = plain.piece()
        if not plain.packed and (size := path.stat().st_size) > len(head) + _TAIL:
            plain.seek(size - _TAIL)
        while piece := plain.piece():
            tail = (tail + piece)[-_TAIL:]
    finally:
        plain.close()
    return head.split(b"\n", _FIRST_LINES)[:_FIRST_LINES], tail.rstrip(b"\n").rpartition(b"\n")[2]


def _summary(path: Path, lines: list[bytes], last: bytes) -> TraceSummary | None:
    major = major_of(lines[0], path)
    header = _record(lines[0], 1, path, major)
    if not isinstance(header, Header):
        return None
    records = (_record(line, k, path, major) for k, line in enumerate(lines[1:], 2) if b'"prefill"' in line[:40])
    asked = next((record for record in records if isinstance(record, Prefill)), None)
    end = _record(last, 0, path, major)
    totals = end.totals if isinstance(end, End) else {}
    n_rounds, n_tokens, n_queries = (_count(totals.get(name)) for name in ("n_rounds", "n_new_tokens", "n_queries"))
    return TraceSummary(
        question=" ".join(running(asked.text).replace("⏎", " ").split()) if asked is not None else "",
        model=running(header.models.target.name) if header.models.target is not None else "",
        method=running(header.method),
        shape=running(str(header.knobs.get("shape", ""))),
        verifier=running(header.verifier),
        sampling=sampling({**header.knobs, **header.sampling}),
        n_rounds=n_rounds,
        n_tokens=n_tokens,
        n_queries=n_queries,
        lossless=header.lossless,
        about=bundled_abouts().get(path),
    )


def _record(line: bytes, number: int, path: Path, major: int) -> Event | None:
    try:
        return record_of(line, number, path, major)
    except SpecvizError:  # a torn last line, or a record of which nobody here has heard
        return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
