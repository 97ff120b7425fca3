"""Rounds of the answers that pass by, into one trace: one answer at a time, the others wait with what they said."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from specviz.engines.asking import UNREADABLE, as_count, parsed
from specviz.engines.rounds.attach import Taken, reader_of
from specviz.engines.rounds.llama_stream import LlamaStream, prompt_length
from specviz.engines.rounds.server import EngineServer
from specviz.errors import SpecvizError
from specviz.trace import Writer

ASKED: Mapping[str, Mapping[str, Any]] = {  # fields of a request that make rounds visible, by kind of server
    "llama.cpp": {"stream": True, "timings_per_token": True, "return_tokens": True},
    "vLLM": {"stream": True, "return_token_ids": True, "stream_options": {"include_usage": True}},
    "SGLang": {"stream": True},
}
ANSWERING = ("/completion", "/completions", "/generate")  # ends of the paths that answer with text
_LONGEST = 16 << 20  # bytes of an answer that are kept, while they are no whole line
_FINISH = {"stop": "eos", "length": "limit"}


class AnswerSide:
    """One answer, read while it passes. Nothing that is wrong with it reaches who passes it on."""

    def __init__(self, server: EngineServer, trace: Writer, turn: threading.Lock, say: Callable[[str], None]) -> None:
        self._server, self._trace, self._turn, self._say = server, trace, turn, say
        self._taken: Taken | None = None
        self._waiting: list[Mapping[str, Any]] = []
        self._rest: list[bytes] = []  # pieces of a line that has not ended
        self._size = 0  # of them
        self._lost = False  # whether something of it could not be read: nothing more is
        self._counted = False  # whether a chunk of llama.cpp brought counts before the last one
        self._sums: Mapping[str, Any] | None = None  # of the whole answer, where nothing told of single rounds

    def take(self, data: bytes) -> None:
        """Some bytes of the body, without its framing."""
        if self._lost:
            return
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._line(b"".join((*self._rest, end)))
            self._rest, self._size = [], 0
        self._rest.append(rest)
        self._size += len(rest)
        if self._size > _LONGEST:
            self._lose("a line of it is too long")
        if self._waiting and self._turn_is_mine():
            self._write()

    def end(self, whole: bool) -> None:
        """The answer is over; `whole`: as it should be."""
        self._line(b"".join(self._rest))
        if not self._waiting and self._taken is None:
            return
        if self._taken is None:
            self._turn.acquire()
            self._begin()
        try:
            self._write()
            self._finish(whole)
        except (SpecvizError, *UNREADABLE) as error:
            self._lose(type(error).__name__)
        finally:
            self._trace.abandon()  # the next answer finds the trace between two rounds
            self._turn.release()

    def _turn_is_mine(self) -> bool:
        if self._taken is None and self._turn.acquire(blocking=False):
            self._begin()
        return self._taken is not None

    def _begin(self) -> None:
        self._taken = reader_of(self._server, self._trace)

    def _line(self, line: bytes) -> None:
        """A line of a stream, or an answer in one piece."""
        data = line.strip().removeprefix(b"data:").strip()
        if not data.startswith(b"{"):
            return
        try:
            event = parsed(data)
        except ValueError:
            return
        if isinstance(event, Mapping) and "error" not in event:
            self._waiting.append(_as_completion(event) if self._server.kind == "llama.cpp" else event)

    def _write(self) -> None:
        chunks, self._waiting = self._waiting, []
        try:
            for chunk in chunks if not self._lost else ():
                assert self._taken is not None
                if not self._is_sum(chunk):
                    self._taken.take(chunk)
        except (SpecvizError, *UNREADABLE) as error:
            self._lose(type(error).__name__)

    def _lose(self, why: str) -> None:
        """Nothing more of this answer is read: what stands in the trace stays, and others go on."""
        if not self._lost:
            self._say(f"an answer cannot be read ({why}); it was passed on as it is")
        self._lost, self._rest, self._size, self._waiting = True, [], 0, []
        if self._taken is not None:
            self._trace.abandon()

    def _finish(self, whole: bool) -> None:
        assert self._taken is not None
        if self._lost:
            self._trace.warn("cut_short", "an answer could not be read to its end: its rounds so far are shown")
        elif self._sums is not None:
            self._write_sums(self._sums)
        elif whole and (self._taken.done or not isinstance(self._taken, LlamaStream)):
            self._taken.end()
        else:
            self._taken.cut()

    def _is_sum(self, chunk: Mapping[str, Any]) -> bool:
        """Whether the last chunk of llama.cpp tells of many tokens of which no chunk before it told anything."""
        timings = chunk.get("timings")
        if not isinstance(timings, Mapping):
            return False
        if chunk.get("stop") is True and not self._counted and as_count(timings.get("predicted_n", 0)) > 1:
            self._sums = timings
            return True
        self._counted = True
        return False

    def _write_sums(self, timings: Mapping[str, Any]) -> None:
        self._trace.request(n_prompt=prompt_length(timings))
        fields = ", ".join(ASKED["llama.cpp"])
        self._trace.warn(
            "no_rounds", f"only the sums of this answer are known: let the client send {fields}, or give --ask"
        )
        self._trace.reported(
            "llama.cpp",
            n_drafted=as_count(timings.get("draft_n", 0)),
            n_accepted=as_count(timings.get("draft_n_accepted", 0)),
            n_emitted=as_count(timings.get("predicted_n", 0)),
        )


def _as_completion(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """A chunk of llama.cpp's OpenAI routes as one of its own; others as they are."""
    choices = chunk.get("choices")
    if not isinstance(choices, list):
        return chunk
    first = choices[0] if choices and isinstance(choices[0], Mapping) else {}
    delta = first.get("delta") or first.get("message") or first
    text = delta.get("content") or delta.get("text") or "" if isinstance(delta, Mapping) else ""
    reason = first.get("finish_reason")
    return {
        "content": text,
        "timings": chunk.get("timings"),
        "stop": reason is not None,
        "stop_type": _FINISH.get(str(reason)),
    }
