"""A prompt sent to a server, and its answer as a trace that grows while it streams."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.engines.asking import UNREADABLE, ServerError
from specviz.engines.rounds import server as servers
from specviz.engines.rounds.llama_stream import LlamaStream
from specviz.engines.rounds.server import EngineServer
from specviz.engines.rounds.sglang_answer import SglangAnswer
from specviz.engines.rounds.vllm_answer import VllmAnswer
from specviz.trace import Writer
from specviz.trace.rules import DEFAULT_RULES


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What is asked of a server. `temperature` None: what the server takes by itself."""

    prompt: str
    max_new_tokens: int = 128
    temperature: float | None = 0.0
    seed: int | None = None


def rule_of(server: EngineServer) -> tuple[str, str]:
    """The rule in force, and where that is known from."""
    facts = server.facts or {}
    if server.kind == "SGLang":
        if facts.get("speculative_use_rejection_sampling"):
            if facts.get("speculative_use_block_verification"):
                return "block", "--speculative-use-block-verification"
            return "p/q", "--speculative-use-rejection-sampling"
        if str(facts.get("device")) in ("cpu", "xpu"):
            return "argmax", f"device {facts['device']}"
        single, joint = facts.get("speculative_accept_threshold_single"), facts.get("speculative_accept_threshold_acc")
        if any(isinstance(value, int | float) and value < 1 for value in (single, joint)):
            return "thresholds", f"thresholds {single}, {joint}"
    return DEFAULT_RULES[server.kind].rule.name, "its default, the setting is not told"


def open_trace(server: EngineServer, path: Path, asked: ServerRequest, rule: str | None) -> Writer:
    """The trace of a server's answers. Raises SpecvizError."""
    name, setting = (rule, "as told") if rule is not None else rule_of(server)
    return Writer(
        path,
        server.kind,
        version=server.version,
        rule=name,
        setting=setting,
        known="counts",
        source="streamed answers",
        chains=server.kind != "SGLang",  # whose drafts may be trees
        target=server.model,
        temperature=asked.temperature,
    )


Taken = LlamaStream | VllmAnswer | SglangAnswer
READERS: dict[str, type[Taken]] = {"llama.cpp": LlamaStream, "vLLM": VllmAnswer, "SGLang": SglangAnswer}


def reader_of(server: EngineServer, trace: Writer) -> Taken:
    """What reads an answer of that server into a trace."""
    return READERS[server.kind](trace)


def answer(server: EngineServer, asked: ServerRequest, trace: Writer) -> Iterator[str]:
    """The text as it comes; rounds go to the trace. Raises ServerError, with the trace as far as it came."""
    taken, n = reader_of(server, trace), 0
    path, body = _body(server, asked)
    try:
        for chunk in servers.stream(server, path, body):
            n += 1
            yield taken.take(chunk)
        if n and taken.done:
            taken.end()
    except ServerError:
        if n:
            taken.cut()
        raise
    except UNREADABLE as error:  # of what stands in the chunks
        trace.abandon()
        raise ServerError(
            f"the answer of {server.url} cannot be read ({type(error).__name__}): {server.kind} of another version?"
        ) from None
    if not n:
        raise ServerError(f"{server.url} sent an empty answer")
    if not taken.done:
        taken.cut()
        raise ServerError(f"{server.url} broke off its answer: is it still up?")


def _body(server: EngineServer, asked: ServerRequest) -> tuple[str, Mapping[str, Any]]:
    """Where it is asked, and what."""
    if server.kind == "vLLM":
        return _vllm_body(server, asked)
    return _llama_body(asked) if server.kind == "llama.cpp" else _sglang_body(asked)


def _llama_body(asked: ServerRequest) -> tuple[str, Mapping[str, Any]]:
    return "/completion", {
        "prompt": asked.prompt,
        "n_predict": asked.max_new_tokens,
        "stream": True,
        "timings_per_token": True,
        "return_tokens": True,
        **_given(temperature=asked.temperature, seed=asked.seed),
    }


def _vllm_body(server: EngineServer, asked: ServerRequest) -> tuple[str, Mapping[str, Any]]:
    return "/v1/completions", {
        "model": server.model,
        "prompt": asked.prompt,
        "max_tokens": asked.max_new_tokens,
        "stream": True,
        "return_token_ids": True,
        "stream_options": {"include_usage": True},
        **_given(temperature=asked.temperature, seed=asked.seed),
    }


def _sglang_body(asked: ServerRequest) -> tuple[str, Mapping[str, Any]]:
    sampling = {"max_new_tokens": asked.max_new_tokens, **_given(temperature=asked.temperature)}
    return "/generate", {"text": asked.prompt, "sampling_params": sampling, "stream": True}


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
