"""Rounds out of SGLang's streamed answer (`/generate`): a chunk is a step, and at the end `meta_info` has a histogram
of what steps kept. Chunks that do not give this histogram were merged on their way, and are no rounds.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from specviz.engines.asking import as_count
from specviz.engines.rounds.counts import dense
from specviz.engines.rounds.vllm_answer import CUT
from specviz.events.round import Finish
from specviz.trace import Writer
from specviz.trace.writer import LONGEST

_NAMES = {  # what is read: names of 2026, and older ones
    "accepted": ("spec_num_correct_drafts", "spec_accept_token_num"),
    "drafted": ("spec_num_proposed_drafts", "spec_draft_token_num"),
    "histogram": ("spec_correct_drafts_histogram", "spec_accept_histogram"),
}
NEEDS = (
    "the server says nothing of speculation: it runs without --speculative-algorithm, or hides meta_info, which its "
    "route /generate alone has"
)
_FINISH: dict[str, Finish] = {"stop": "eos", "length": "length"}


class SglangAnswer:
    """Give it every chunk of one answer; rounds are written when it is over."""

    def __init__(self, trace: Writer) -> None:
        self._trace = trace
        self._ends: list[tuple[int, str]] = []  # new tokens after every chunk, and the text it brought
        self._text = ""
        self._ids: list[int] = []
        self._meta: Mapping[str, Any] = {}
        self.done = False  # whether it came to its end

    def take(self, chunk: Mapping[str, Any]) -> str:
        """One chunk, whose text is all of it so far; what is new of it."""
        meta = chunk.get("meta_info")
        self._meta = meta if isinstance(meta, Mapping) else self._meta
        self.done = self.done or self._meta.get("finish_reason") is not None
        whole = str(chunk.get("text", ""))
        new, self._text = whole[len(self._text) :], whole
        ids = chunk.get("output_ids")
        self._ids = [as_count(token, least=-1) for token in ids] if isinstance(ids, list) else self._ids
        n = as_count(self._meta.get("completion_tokens", 0), LONGEST)
        if n > (self._ends[-1][0] if self._ends else 0):
            self._ends.append((n, new))
        return new

    def cut(self) -> None:
        """The answer ended before its last chunk, which alone tells what chunks are rounds."""
        self._trace.request(n_prompt=as_count(self._meta.get("prompt_tokens", 1), LONGEST))
        self._trace.warn("cut_short", CUT)

    def end(self) -> None:
        """The answer is over: its rounds."""
        meta = self._meta
        self._trace.request(n_prompt=as_count(meta.get("prompt_tokens", 1), LONGEST))
        steps = meta.get("spec_verify_ct")
        if not isinstance(steps, int):
            self._trace.warn("no_rounds", NEEDS)
            return
        counts = {key: next((meta[name] for name in names if name in meta), None) for key, names in _NAMES.items()}
        histogram = None if counts["histogram"] is None else list(dense(counts["histogram"]))
        grown = [b - a for a, b in zip([0, *(n for n, _ in self._ends)], [n for n, _ in self._ends], strict=False)]
        self._rounds(grown, steps, counts["drafted"], histogram)
        self._trace.reported(
            "SGLang",
            n_rounds=steps,
            n_drafted=counts["drafted"],
            n_accepted=counts["accepted"],
            n_emitted=meta.get("completion_tokens"),
            histogram=histogram,
        )

    def _rounds(self, grown: list[int], steps: int, drafted: Any, histogram: list[int] | None) -> None:
        plain = 1 if len(grown) == steps + 1 and grown[0] == 1 else 0  # the prompt's pass brings the first token
        kept = Counter(n - 1 for n in grown[plain:])
        by_kept = None if histogram is None else {j: n for j, n in enumerate(histogram) if n}
        if by_kept is None or dict(kept) != by_kept:
            self._trace.warn("no_rounds", "chunks of the answer are no single rounds here: only their sums are known")
            return
        if not isinstance(drafted, int) or not steps or drafted % steps:
            self._trace.warn("no_rounds", "drafts are of unlike length: how much each round drafted is not told")
            return
        at, reason = 0, self._meta.get("finish_reason")
        reason = reason.get("type") if isinstance(reason, Mapping) else reason
        for k, n in enumerate(grown):
            last = k + 1 == len(grown)
            ids = self._ids[at : at + n] if len(self._ids) >= at + n else [-1] * n
            self._trace.round(n_drafted=0 if k < plain else drafted // steps)
            texts = [""] * (n - 1) + [self._ends[k][1]]
            finish = _FINISH.get(str(reason)) if last else None
            self._trace.committed(ids, texts, n_accepted=n - 1, finish=finish, took_ns=0)
            at += n
