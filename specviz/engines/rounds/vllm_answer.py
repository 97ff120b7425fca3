"""Rounds out of vLLM's streamed answer: token ids as they come, and at the end the counts of every step
(`--per-request-spec-decode-metrics detailed`)."""

from collections.abc import Mapping
from typing import Any

from specviz.engines.asking import as_count
from specviz.engines.rounds import counts
from specviz.events.round import Finish
from specviz.trace import Writer
from specviz.trace.writer import LONGEST

NEEDS = (
    "the server says nothing of single rounds: start vLLM with --per-request-spec-decode-metrics detailed "
    "(the text is whole, and its counters can be watched)"
)
CUT = "the answer ended before its end, where the server tells its rounds: none is known"
_FINISH: dict[str, Finish] = {"stop": "eos", "length": "length"}


class VllmAnswer:
    """Give it every chunk of one answer; rounds are written when it is over."""

    def __init__(self, trace: Writer) -> None:
        self._trace = trace
        self._tokens: list[int] = []
        self._texts: list[str] = []
        self._counts: dict[str, Any] | None = None
        self._finish: Finish | None = None
        self.done = False  # whether it came to its end
        self._n_prompt: int | None = None

    def take(self, chunk: Mapping[str, Any]) -> str:
        """One chunk of `/v1/completions` or `/v1/chat/completions`; its text."""
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            self._n_prompt = as_count(usage.get("prompt_tokens") or self._n_prompt or 1, LONGEST)
        self._counts = counts.found_in(chunk) or self._counts
        text = ""
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or choice
            new = str(delta.get("text") or delta.get("content") or "")
            ids = choice.get("token_ids") or []
            text += new
            self.done = self.done or choice.get("finish_reason") is not None
            self._finish = _FINISH.get(str(choice.get("finish_reason")), self._finish)
            self._tokens += [as_count(token, least=-1) for token in ids]
            self._texts += [""] * (len(ids) - 1) + [new] if ids else []
        return text

    def cut(self) -> None:
        """The answer ended before its last chunk, which holds the counts of every step."""
        self._trace.request(n_prompt=self._n_prompt or 1)
        self._trace.warn("cut_short", CUT)

    def end(self) -> None:
        """The answer is over: its rounds."""
        self._trace.request(n_prompt=self._n_prompt or 1)
        if self._counts is None:
            self._trace.warn("no_rounds", NEEDS)
            return
        steps = counts.steps_of(self._counts)
        if steps is None:
            self._trace.warn("no_rounds", NEEDS)
        else:
            n = len(self._tokens) or 1 + sum(kept + 1 for kept, _ in steps)
            tokens, texts = self._tokens or [-1] * n, self._texts or [""] * n
            counts.write_steps(self._trace, steps, tokens, texts, self._finish)
        counts.write_counts(self._trace, self._counts, "vLLM")
