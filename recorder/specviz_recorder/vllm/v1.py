"""vLLM's first model runner: hooks around its rejection sampler."""

import time
from importlib import import_module
from threading import local
from typing import Any

from specviz_recorder.device import OnItsWay, at, being_captured
from specviz_recorder.records import DraftToken, ServedRound
from specviz_recorder.signatures import found_at
from specviz_recorder.sink import Sink
from specviz_recorder.switch import Switch
from specviz_recorder.vllm.common import Bound, announce, wrapped

_SAMPLER = "vllm.v1.sample.rejection_sampler"
_RUNNER = "vllm.v1.worker.gpu_model_runner:GPUModelRunner"
SIGNATURES = [
    f"{_SAMPLER}:rejection_sample",
    f"{_SAMPLER}:generate_uniform_probs",
    f"{_SAMPLER}:sample_recovered_tokens",
    f"{_RUNNER}._sample",
    f"{_RUNNER}.execute_model",
]


class FirstRunnerStep:
    """What a step has handed over: numbers of all drafted tokens of a batch, one request behind the other."""

    def __init__(self, ids: list[str], n_drafted: list[int], skipped: list[bool], vocab_size: int) -> None:
        self.t = time.monotonic_ns()
        self.numbers = OnItsWay()
        self._ids, self._n_drafted, self._skipped, self._vocab_size = ids, n_drafted, skipped, vocab_size

    def rounds(self) -> list[ServedRound]:
        """Of the requests whose tokens the engine uses: a prompt that is read in parts gives none before its end."""
        sampled, rounds, start = self.numbers.read("sampled"), [], 0
        for row, (name, n, skipped) in enumerate(zip(self._ids, self._n_drafted, self._skipped, strict=True)):
            tokens = [int(token) for token in sampled[row] if 0 <= token < self._vocab_size]
            if tokens and not skipped:
                rounds.append(self._round(name, row, start, n, tokens))
            start += n
        return rounds

    def _round(self, name: str, row: int, start: int, n: int, tokens: list[int]) -> ServedRound:
        draft = [self._drafted(row, start + k, k - 1) for k in range(n)]
        kept = len(tokens) - 1
        p = self.numbers.numbers("p_recovered")
        closing = float(p[start + kept]) if p is not None and kept < n and not self._greedy(row) else None
        return ServedRound(name, self.t, draft, list(range(kept)), tokens, p=closing)

    def _drafted(self, row: int, place: int, parent: int) -> DraftToken:
        token = int(self.numbers.read("drafted")[place])
        if token < 0:  # filled up to the draft's length; never kept
            return DraftToken(-1, parent)
        p, q, u = (self.numbers.numbers(name) for name in ("p", "q", "u"))
        if self._greedy(row):
            likeliest = self.numbers.numbers("argmax")
            return DraftToken(token, parent, p=None if likeliest is None else float(likeliest[place] == token))
        return DraftToken(
            token,
            parent,
            q=None if q is None else float(q[place]),
            p=None if p is None else float(p[place]),
            u=None if u is None else float(u[place]),
        )

    def _greedy(self, row: int) -> bool:
        greedy = self.numbers.numbers("greedy")
        return greedy is None or bool(greedy[row])


class _Now(local):
    """The step in hand, of every thread its own."""

    step: FirstRunnerStep | None = None


class FirstRunner:
    """The hooks. A step is handed over when the runner's `_sample` returns; calls outside of it warm up."""

    def __init__(self, sink: Sink, switch: Switch) -> None:
        self.sink, self._now = sink, _Now()
        sampler, runner = import_module(_SAMPLER), found_at(_RUNNER)
        wrapped(
            runner, "execute_model", switch, before=lambda arguments: announce(self.sink, arguments["scheduler_output"])
        )
        wrapped(runner, "_sample", switch, before=self._begin, after=self._end)
        wrapped(sampler, "rejection_sample", switch, before=self._judging)
        wrapped(sampler, "generate_uniform_probs", switch, after=self._drew)
        wrapped(sampler, "sample_recovered_tokens", switch, before=self._tested, after=self._recovered)

    def _begin(self, arguments: Bound) -> None:
        runner, drafted = arguments["self"], arguments["spec_decode_metadata"]
        batch, self._now.step = runner.input_batch, None
        if being_captured():
            return
        skipped = [bool(flag) for flag in runner.discard_request_mask.np[: batch.num_reqs]]
        n_drafted = [0] * batch.num_reqs if drafted is None else list(drafted.num_draft_tokens)
        self._now.step = FirstRunnerStep(list(batch.req_ids[: batch.num_reqs]), n_drafted, skipped, batch.vocab_size)

    def _end(self, arguments: Bound, result: Any, state: None) -> None:
        step, self._now.step = self._now.step, None
        if step is not None:
            step.numbers.take("sampled", result.sampled_token_ids)
            self.sink.step(step)

    def _judging(self, arguments: Bound) -> None:
        if self._now.step is None:
            return
        numbers, settings = self._now.step.numbers, arguments["sampling_metadata"]
        numbers.take("drafted", arguments["draft_token_ids"])
        if not settings.all_random:
            numbers.take("argmax", arguments["target_logits"].argmax(dim=-1))
        if not settings.all_greedy:
            numbers.take("greedy", settings.temperature == 0)

    def _drew(self, arguments: Bound, result: Any, state: None) -> None:
        if self._now.step is not None:
            self._now.step.numbers.take("u", result)

    def _tested(self, arguments: Bound) -> None:
        if self._now.step is None:
            return
        for name, probs in (("p", arguments["target_probs"]), ("q", arguments["draft_probs"])):
            if probs is not None:
                self._now.step.numbers.take(name, at(probs, arguments["draft_token_ids"]))

    def _recovered(self, arguments: Bound, result: Any, state: None) -> None:
        if self._now.step is not None:
            self._now.step.numbers.take("p_recovered", at(arguments["target_probs"], result))
