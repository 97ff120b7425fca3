"""SGLang's block drafters (DFlash): hooks around their worker. Drafts are lines; kernels below are those of trees."""

import time
from typing import Any

from specviz_recorder.device import OnItsWay
from specviz_recorder.records import ServedRound
from specviz_recorder.sglang.hooks import Bound, EngineHook, Served, around
from specviz_recorder.sglang.tree import TreeHooks, Verified
from specviz_recorder.sink import Sink
from specviz_recorder.switch import Switch

_WORKER = "sglang.srt.speculative.dflash_worker_v2:DFlashWorkerV2"


class BlockStep:
    """A step of a batch: what was drafted, and what became text."""

    def __init__(self, ids: list[str], verified: Verified, greedy: bool) -> None:
        self.t = time.monotonic_ns()
        self.kept = OnItsWay()
        self._ids, self._verified, self._greedy = ids, verified, greedy

    def rounds(self) -> list[ServedRound]:
        """Of every request of the batch."""
        emitted, count = self.kept.read("emitted"), self.kept.read("count")
        roots, rounds = self._verified.numbers.read("drafted"), []
        for row, name in enumerate(self._ids):
            tokens = [int(token) for token in emitted[row][: count[row]]]
            draft, _ = self._verified.draft(row, self._greedy)
            n_kept = len(tokens) - 1
            if self._greedy:  # what was kept was likeliest, what failed was not
                for index, drafted in enumerate(draft[: n_kept + 1]):
                    drafted.p = float(index < n_kept)
            rounds.append(ServedRound(name, self.t, draft, list(range(n_kept)), tokens, root=int(roots[row][0])))
        return rounds


class BlockHooks:
    """Of the worker of block drafters."""

    def __init__(self, sink: Sink, switch: Switch, tree: TreeHooks) -> None:
        self._sink, self._switch, self._tree, self._served = sink, switch, tree, Served(sink)
        self._batch: Any = None  # a worker decodes one at a time

    def hooks(self) -> list[EngineHook]:
        """To be registered."""
        return [
            around(f"{_WORKER}.forward_batch_generation", self._switch, self._begin, self._end),
            around(f"{_WORKER}._accept_block", self._switch, lambda arguments: self._tree.begin(), self._accepted),
        ]

    def _begin(self, arguments: Bound) -> None:
        self._batch = arguments["batch"]

    def _end(self, arguments: Bound, result: Any) -> None:
        self._batch = None

    def _accepted(self, arguments: Bound, result: Any) -> None:
        verified, self._tree.now.verified = self._tree.now.verified, None
        ids = None if self._batch is None or verified is None else self._served.of(self._batch)
        if ids is None or verified is None:
            return
        verified.numbers.take("drafted", arguments["candidates"])
        settings = arguments["sampling_info"]
        step = BlockStep(ids, verified, settings is None or settings.is_all_greedy)
        step.kept.take("count", result[1])
        step.kept.take("emitted", result[3])
        self._sink.step(step)
