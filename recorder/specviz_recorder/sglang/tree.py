"""SGLang's verification of trees and chains: hooks behind the kernels' Python entries, and around who calls them."""

import os
import time
from threading import local
from typing import Any

import numpy as np

from specviz_recorder.device import OnItsWay, at, being_captured
from specviz_recorder.records import DraftToken, ServedRound
from specviz_recorder.sglang.hooks import Bound, EngineHook, Served, after, around
from specviz_recorder.sink import Sink
from specviz_recorder.switch import Switch

_KERNELS = "sglang.kernels.ops.speculative"
_TREE = f"{_KERNELS}.sampling:tree_speculative_sampling_target_only"
_CHAIN = f"{_KERNELS}.reject_sampling:chain_speculative_sampling_triton"
_GREEDY = f"{_KERNELS}.spec_tree:verify_tree_greedy_func"
_SAMPLE = "sglang.srt.speculative.eagle_utils:eagle_sample"


class Verified:
    """What a kernel was given, of a whole batch. Slot 0 of a request is the token before the draft."""

    def __init__(self) -> None:
        self.numbers = OnItsWay()
        self.limits: tuple[float, float] | None = None  # thresholds single and acc, where coins decide

    def draft(self, row: int, greedy: bool) -> tuple[list[DraftToken], dict[int, int]]:
        """The drafted tokens of a request, parents first and siblings in the order of their tests; their indices by
        slot."""
        tokens = self.numbers.read("drafted")[row]
        draft: list[DraftToken] = []
        index_of = {0: -1}
        for slot, parent in self._slots(row, len(tokens)):
            index_of[slot] = len(draft)
            token = DraftToken(int(tokens[slot]), index_of[parent])
            self._numbers_of(token, row, slot, parent, greedy)
            draft.append(token)
        if self.limits is not None:
            self._limits_of(draft, index_of, row)
        return draft, index_of

    def _slots(self, row: int, width: int) -> list[tuple[int, int]]:
        """Slots with their parents; without a topology the draft is one line."""
        child, sibling = self.numbers.numbers("child"), self.numbers.numbers("sibling")
        if child is None or sibling is None:
            return [(slot, slot - 1) for slot in range(1, width)]
        slots: list[tuple[int, int]] = []
        waiting = [(int(child[row][0]), 0)]
        while waiting:
            slot, parent = waiting.pop()
            if slot > 0:
                slots.append((slot, parent))
                waiting += [(int(sibling[row][slot]), parent), (int(child[row][slot]), slot)]
        return slots

    def _numbers_of(self, token: DraftToken, row: int, slot: int, parent: int, greedy: bool) -> None:
        p, q, u, likeliest = (self.numbers.numbers(name) for name in ("p", "q", "u", "likeliest"))
        if p is not None:
            token.p = float(p[row][parent][slot])
        elif likeliest is not None and greedy:
            token.p = float(likeliest[row][parent] == token.token)
        if q is not None:
            token.q = float(q[row][parent][slot])
        if u is not None:
            token.u = float(u[row][parent])  # a coin for all children of a token

    def _limits_of(self, draft: list[DraftToken], index_of: dict[int, int], row: int) -> None:
        """What each coin was held against: the sum of p over siblings up to its token."""
        single, total = self.limits or (1.0, 1.0)
        sums: dict[int, Any] = {}
        for token in draft:
            before = sums.get(token.parent, np.float32(0))
            sums[token.parent] = reached = before + np.float32(token.p)
            if min(single, total) >= 1:
                token.interval = min(1.0, float(before)), min(1.0, float(reached))
            elif token.p:
                token.threshold = 1.0 if token.p >= single else min(1.0, float(reached) / max(total, 1e-9))
            else:
                token.threshold = 0.0


class TreeStep:
    """A step of a batch: what its kernel was given, and what was kept."""

    def __init__(self, ids: list[str], verified: Verified, greedy: bool) -> None:
        self.t = time.monotonic_ns()
        self.kept = OnItsWay()
        self._ids, self._verified, self._greedy = ids, verified, greedy

    def rounds(self) -> list[ServedRound]:
        """Of every request of the batch."""
        predicted, count, index = (self.kept.read(name) for name in ("predicted", "count", "index"))
        roots, chances = self._verified.numbers.read("drafted"), self._verified.numbers.numbers("p_predicted")
        width, rounds = roots.shape[1], []
        for row, name in enumerate(self._ids):
            places = [int(place) for place in index[row][: count[row]]]
            draft, index_of = self._verified.draft(row, self._greedy)
            path = [index_of[place - row * width] for place in places[1:]]
            tokens = [int(predicted[place]) for place in places]
            p = None if chances is None else float(chances[places[-1]])
            rounds.append(ServedRound(name, self.t, draft, path, tokens, root=int(roots[row][0]), p=p))
        return rounds


class _Now(local):
    """What the kernel of the step in hand was given, of every thread its own."""

    verified: Verified | None = None


class TreeHooks:
    """Of `eagle_sample`, and of the kernels below it. `now`: whoever else calls the kernels sets it, too."""

    def __init__(self, sink: Sink, switch: Switch) -> None:
        self.now = _Now()
        self._sink, self._switch, self._served = sink, switch, Served(sink)

    def hooks(self) -> list[EngineHook]:
        """To be registered."""
        return [
            after(_TREE, self._switch, self._tree),
            after(_CHAIN, self._switch, self._chain),
            after(_GREEDY, self._switch, self._greedy),
            around(_SAMPLE, self._switch, lambda arguments: self.begin(), self._sampled),
        ]

    def begin(self) -> None:
        """A step begins: kernels hand over what they are given until it ends."""
        self.now.verified = None if being_captured() else Verified()

    def _given(self, arguments: Bound, child: str, sibling: str) -> Verified | None:
        verified = self.now.verified
        if verified is not None:
            for name, of in (("drafted", "candidates"), ("child", child), ("sibling", sibling)):
                verified.numbers.take(name, arguments[of])
        return verified

    def _tree(self, arguments: Bound, result: Any) -> None:
        verified = self._given(arguments, "retrive_next_token", "retrive_next_sibling")
        if verified is not None:
            verified.limits = float(arguments["threshold_single"]), float(arguments["threshold_acc"])
            verified.numbers.take("u", arguments["uniform_samples"])
            _probabilities(verified, arguments)

    def _chain(self, arguments: Bound, result: Any) -> None:
        verified = self._given(arguments, "retrive_next_token", "retrive_next_sibling")
        if verified is not None:
            verified.numbers.take("u", arguments["uniform_samples"])
            verified.numbers.take("q", _at_all(arguments["draft_probs"], arguments["candidates"]))
            _probabilities(verified, arguments)

    def _greedy(self, arguments: Bound, result: Any) -> None:
        verified = self._given(arguments, "retrieve_next_token", "retrieve_next_sibling")
        if verified is not None:
            verified.numbers.take("likeliest", arguments["target_predict"])

    def _sampled(self, arguments: Bound, result: Any) -> None:
        verified, self.now.verified = self.now.verified, None
        batch = arguments["batch"]
        if verified is None or "drafted" not in verified.numbers or batch.forward_mode.is_idle():
            return
        ids = self._served.of(batch)
        if ids is None:
            return
        step = TreeStep(ids, verified, batch.sampling_info.is_all_greedy)
        for name, tensor in zip(("predicted", "count", "index"), result, strict=True):
            step.kept.take(name, tensor)
        self._sink.step(step)


def made_up() -> bool:
    """Whether the engine was told to make up how much it accepts."""
    return float(os.environ.get("SGLANG_SIMULATE_ACC_LEN") or 0) > 0


def _at_all(rows: Any, ids: Any) -> Any:
    """float32 [batch, rows, slots]: of every row of `rows` [batch, rows, vocabulary] the numbers at all `ids`
    [batch, slots]. Which row is a token's, only the topology says, and that is read later."""
    inside = ids.long().clamp(0, rows.shape[-1] - 1)
    return rows.gather(-1, inside.unsqueeze(1).expand(-1, rows.shape[1], -1)).float()


def _probabilities(verified: Verified, arguments: Bound) -> None:
    probs, predicted = arguments["target_probs"], arguments["predicts"]
    verified.numbers.take("p", _at_all(probs, arguments["candidates"]))
    verified.numbers.take("p_predicted", at(probs.reshape(-1, probs.shape[-1])[: predicted.shape[0]], predicted))
