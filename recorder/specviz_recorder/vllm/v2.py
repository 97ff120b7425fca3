"""vLLM's second model runner: hooks around its rejection sampler. The number that a token is tested with is keyed there
by seed and position, so it is worked out afterwards."""

import sys
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
from specviz_recorder.vllm.philox import uniforms

_SAMPLER = "vllm.v1.worker.gpu.spec_decode.rejection_sampler"  # where `rejection_sample` is called by name
_RUNNER = "vllm.v1.worker.gpu.model_runner:GPUModelRunner"
SIGNATURES = [
    f"{_SAMPLER}:rejection_sample",
    f"{_RUNNER}.sample",
    f"{_RUNNER}.execute_model",
]
_ROWS = 64  # of a vocabulary, that are reduced at once


class _Chunk:
    """Some requests of a batch, verified in one call. Every number is of a row of logits [rows], or of a request."""

    def __init__(self, arguments: Bound, sampled: Any, n_sampled: Any) -> None:
        self.n_requests = arguments["cu_num_logits"].shape[0] - 1
        self.numbers = OnItsWay()
        states, drafted = arguments["expanded_idx_mapping"].long(), arguments["draft_sampled"]
        temperature = arguments["temperature"][states].float()
        asked = drafted.roll(-1)  # the token that a row decides about; of a request's last row none
        last = (n_sampled.long() - 1).clamp(min=0)
        closing = (arguments["cu_num_logits"][:-1].long() + last).clamp(max=drafted.shape[0] - 1)  # rows
        asked_too = drafted.new_full(drafted.shape, -1, dtype=sampled.dtype)
        asked_too[closing] = sampled.gather(1, last.unsqueeze(1)).squeeze(1)
        n_known = (
            arguments["target_logits"].shape[1]
            if arguments["draft_logits"] is None
            else arguments["draft_logits"].shape[-1]
        )
        p, p_closing = _chances(arguments["target_logits"], n_known, None, asked, asked_too)
        likeliest = arguments["target_logits"][:, :n_known].argmax(dim=-1)
        self.numbers.take("first", arguments["cu_num_logits"])
        self.numbers.take("drafted", drafted)
        self.numbers.take("greedy", temperature == 0)
        self.numbers.take("p", p.where(temperature > 0, (likeliest == asked).float()))
        self.numbers.take("p_closing", p_closing)
        self.numbers.take("seed", arguments["seed"][states])
        self.numbers.take("pos", arguments["pos"])
        if arguments["draft_logits"] is not None:
            steps = arguments["expanded_local_pos"].long().clamp(max=arguments["draft_logits"].shape[1] - 1)
            scale = temperature.where(temperature > 0, temperature.new_ones(()))
            self.numbers.take("q", _chances(arguments["draft_logits"], n_known, (states, steps), asked, scale=scale)[0])


def _chances(logits: Any, n_known: int, where: tuple[Any, Any] | None, *asked: Any, scale: Any = None) -> list[Any]:
    """float32 [rows] for each of `asked` [rows]: the probability of an id in the softmax of its row. A few rows at a
    time: no second copy of all logits is made. `where`: indices of the rows, in two dimensions."""
    pieces: list[list[Any]] = [[] for _ in asked]
    for start in range(0, asked[0].shape[0], _ROWS):
        piece = slice(start, start + _ROWS)
        rows = logits[piece, :n_known] if where is None else logits[where[0][piece], where[1][piece]]
        rows = rows.float() if scale is None else rows.float() / scale[piece].unsqueeze(-1)
        total = rows.logsumexp(dim=-1)
        for ids, chances in zip(asked, pieces, strict=True):
            chances.append((at(rows, ids[piece]) - total).exp())
    torch = sys.modules["torch"]
    return [torch.cat(chances) for chances in pieces]


class SecondRunnerStep:
    """What a step has handed over. `chunks`: none where nothing was drafted."""

    def __init__(self, ids: list[str]) -> None:
        self.t = time.monotonic_ns()
        self.chunks: list[_Chunk] = []
        self.numbers = OnItsWay()
        self._ids = ids

    def rounds(self) -> list[ServedRound]:
        """Of the requests whose tokens the engine uses: a prompt that is read in parts gives none before its end."""
        sampled, n_sampled = self.numbers.read("sampled"), self.numbers.read("n_sampled")
        places = [(chunk, row) for chunk in self.chunks for row in range(chunk.n_requests)]
        rounds = []
        for index, name in enumerate(self._ids):
            tokens = [int(token) for token in sampled[index][: n_sampled[index]]]
            if tokens and self.chunks:
                rounds.append(self._round(name, *places[index], tokens))
            elif tokens:
                rounds.append(ServedRound(name, self.t, tokens=tokens))
        return rounds

    def _round(self, name: str, chunk: _Chunk, row: int, tokens: list[int]) -> ServedRound:
        numbers = chunk.numbers
        start, stop = (int(place) for place in numbers.read("first")[row : row + 2])
        greedy, p, q = bool(numbers.read("greedy")[start]), numbers.read("p"), numbers.numbers("q")
        u = uniforms(numbers.read("seed")[start:stop], numbers.read("pos")[start:stop])
        draft = []
        for k, place in enumerate(range(start, stop - 1)):
            token = int(numbers.read("drafted")[place + 1])
            draft.append(DraftToken(token, k - 1))
            if token < 0:  # never kept
                continue
            draft[-1].p = float(p[place])
            draft[-1].q = None if q is None or greedy else float(q[place])
            draft[-1].u = None if greedy else float(u[k])
        closing = None if greedy else float(numbers.read("p_closing")[start + len(tokens) - 1])
        return ServedRound(name, self.t, draft, list(range(len(tokens) - 1)), tokens, p=closing)


class _Now(local):
    """The step in hand, of every thread its own."""

    step: SecondRunnerStep | None = None
    warms_up: bool = False


class SecondRunner:
    """The hooks. A step is handed over when the runner's `sample` returns; calls outside of it warm up."""

    def __init__(self, sink: Sink, switch: Switch) -> None:
        self.sink, self._now = sink, _Now()
        sampler, runner = import_module(_SAMPLER), found_at(_RUNNER)
        wrapped(runner, "execute_model", switch, before=self._scheduled)
        wrapped(runner, "sample", switch, before=self._begin, after=self._end)
        wrapped(sampler, "rejection_sample", switch, after=self._judged)

    def _scheduled(self, arguments: Bound) -> None:
        self._now.warms_up = arguments["dummy_run"] or arguments["is_profile"]
        if not self._now.warms_up:
            announce(self.sink, arguments["scheduler_output"])

    def _begin(self, arguments: Bound) -> None:
        self._now.step = None
        if arguments["self"].batch_sharder is not None:
            raise ValueError("requests are sampled on several ranks (batch sharding), which is not recorded")
        if not (self._now.warms_up or being_captured()):
            batch = arguments["input_batch"]
            self._now.step = SecondRunnerStep(list(batch.req_ids[: batch.num_reqs]))

    def _judged(self, arguments: Bound, result: Any, state: None) -> None:
        if self._now.step is not None:
            self._now.step.chunks.append(_Chunk(arguments, *result))

    def _end(self, arguments: Bound, result: Any, state: None) -> None:
        step, self._now.step = self._now.step, None
        if step is not None:
            step.numbers.take("sampled", result[0].sampled_token_ids)
            step.numbers.take("n_sampled", result[0].num_sampled)
            self.sink.step(step)
