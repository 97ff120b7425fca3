"""Saved answers of SGLang: `meta_info` with `spec_verify_ct`, correct and proposed drafts and the histogram of rounds
by correct drafts; names of 2026, and older ones. Its log of requests (`Finish: obj=..`) holds the same, as Python
writes it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.values import count, counts, decoded, kept_of, objects_with, real

_LOGGED = re.compile(r"'(spec_\w{1,40}|completion_tokens|e2e_latency)': (\[[\d, ]{0,4000}\]|[\d.]{1,30})(?=[,}])")
_NAMES = {
    "accepted": ("spec_num_correct_drafts", "spec_accept_token_num"),
    "drafted": ("spec_num_proposed_drafts", "spec_draft_token_num"),
    "histogram": ("spec_correct_drafts_histogram", "spec_accept_histogram"),
}


class SglangAnswers:
    """Answers one after another."""

    def __init__(self) -> None:
        self._history = CountHistory("SGLang", "")
        self._n = 0
        self._seconds = 0.0

    def take(self, line: str) -> bool | None:
        """One line."""
        if "'spec_verify_ct'" in line:
            return self._answer(_logged(line))
        taken = False
        for meta in objects_with(decoded(line), "spec_verify_ct"):
            taken = self._answer(meta) or taken
        return taken

    def _answer(self, meta: Mapping[str, Any]) -> bool:
        rounds = count(meta.get("spec_verify_ct"))
        if rounds is None:
            return False
        values = {key: next((meta[name] for name in names if name in meta), None) for key, names in _NAMES.items()}
        histogram, accepted = counts(values["histogram"]), count(values["accepted"])
        if accepted is None and histogram is not None:
            accepted = sum(j * n for j, n in enumerate(histogram))
        took = real(meta.get("e2e_latency"))
        if took is not None and not self._history.windows:
            self._history.began = 0.0
        self._seconds += took or 0.0
        self._history.add(
            CountWindow(
                self._seconds if took is not None else None,
                rounds,
                count(values["drafted"]),
                accepted,
                count(meta.get("completion_tokens")),
                kept_of(histogram) if histogram is not None else (),
            )
        )
        self._n += 1
        return True

    def histories(self) -> list[CountHistory]:
        """One over all answers."""
        self._history.span = f"over {self._n} answers" if self._n > 1 else "over one answer"
        return [self._history]


def _logged(line: str) -> dict[str, Any]:
    """The fields of an answer in the log of requests; a text may hold anything, and the last of a name counts."""
    out: dict[str, Any] = {}
    for name, words in _LOGGED.findall(line):
        try:
            out[name] = json.loads(words)
        except ValueError:
            continue
    return out


KINDS = (LineKind("answers of SGLang", ('"spec_verify_ct"', "'spec_verify_ct'"), SglangAnswers),)
