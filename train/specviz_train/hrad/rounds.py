"""What H-RAD learns from: rounds of plain speculative sampling, each with its features and how much was accepted.

The rounds are those of method `sps` in the production session, with a fixed gamma and no early stop.
A round's features depend on committed text only, so one pass over the finished text gives those of all rounds.
Rounds that the end of the text cut say nothing about the draft model and are dropped, all of them, whatever they held.

Every tenth prompt is from held-out documents. Prompts are keyed by their number and saved in chunks, so a run goes on
where it was interrupted and ends with the same rounds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.model.rows import Tensor
from specviz.engine.run.local import make_drafter
from specviz.methods import get_method, pick_verifier
from specviz.methods.branch.hrad import feature_rows, taps
from specviz_train.common.files import save_arrays
from specviz_train.common.training_text import Side, TrainingText

HELD_OUT_EVERY = 10
SHORTEST, LONGEST, N_NEW = 16, 160, 96  # tokens of a prompt, and new ones
CHUNK = 10  # prompts to a file, one of them held out
_MOST = float(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """How rounds are made. `layers`: K, the states that are looked at."""

    gamma: int
    temperature: float
    layers: int
    seed: int


@dataclass(frozen=True, slots=True)
class HradRounds:
    """Features `[n, inputs]` in float16, accepted tokens `[n]`, the number of each round's prompt `[n]`."""

    features: NDArray[np.float16]
    accepted: NDArray[np.int16]
    prompt: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.accepted)

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """Which rounds are measured on and never trained on."""
        is_held_out: NDArray[np.bool_] = self.prompt % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
        return is_held_out

    def labels(self, gamma: int) -> NDArray[np.int64]:
        """The class of every round."""
        return label(self.accepted.astype(np.int64), gamma)


def label(accepted: NDArray[np.int64], gamma: int) -> NDArray[np.int64]:
    """Classes `[n]` of accepted tokens `[n]`: 0: nothing was accepted; 1: some; 2: all of gamma."""
    return np.where(accepted <= 0, 0, np.where(accepted < gamma, 1, 2))


def censored(done: RoundResult, gamma: int) -> bool:
    """Whether the end of the text, not the target, decided how much was accepted: no more fitted, or it was over.

    A draft that ends with a drafted stop token counts while the text goes on: the target rejected some of it.
    """
    return done.finish is not None or done.draft.planned != gamma


def prompts(text: TrainingText, seed: int) -> Iterator[tuple[int, list[int]]]:
    """Endless prompts of many lengths by their numbers, one in ten from held-out documents."""
    for number in count():
        length = int(np.random.default_rng((seed, number)).integers(SHORTEST, LONGEST + 1))
        side: Side = "held_out" if number % HELD_OUT_EVERY == HELD_OUT_EVERY - 1 else "train"
        yield number, next(text.begin(side, 1, length, (seed, number, 2))[0])


class RoundCollector:
    """Decodes prompts of one pair and keeps what their rounds say."""

    def __init__(
        self, target: ModelAdapter, draft: ModelAdapter, stops: frozenset[int], setting: RoundSettings
    ) -> None:
        self.target, self.draft, self.stops, self.setting = target, draft, stops, setting
        self.method = get_method("sps")
        self.knobs = self.method.table.knobs(
            {
                "gamma": setting.gamma,
                "temperature": setting.temperature,
                "seed": setting.seed,
                "max_new_tokens": N_NEW,
            }
        )

    def of(self, number: int, prompt: list[int]) -> HradRounds:
        """The rounds of one prompt that count."""
        gamma = self.setting.gamma
        models = FactoryModels(self.target, self.draft, len(prompt) + N_NEW + 2 * gamma + 16)
        parts = SessionConfig(
            models, make_drafter(self.method, models, self.knobs), pick_verifier(self.method, None, self.knobs)
        )
        session = Session(parts, prompt, self.method.table, self.knobs, eos=self.stops, query=number)
        kept = [(done.n, done.n_accepted) for done in session.rounds() if done.n > 1 and not censored(done, gamma)]
        if not kept:
            inputs = (self.setting.layers + 1) * int(self.target.head.weight.shape[1])
            return HradRounds(np.zeros((0, inputs), np.float16), np.zeros(0, np.int16), np.zeros(0, np.int32))
        rows = self._features(session.tokens, [n for n, _ in kept])
        return HradRounds(
            rows.clamp(-_MOST, _MOST).half().cpu().numpy(),
            np.array([accepted for _, accepted in kept], dtype=np.int16),
            np.full(len(kept), number, dtype=np.int32),
        )

    @torch.inference_mode()
    def _features(self, text: list[int], lengths: list[int]) -> Tensor:
        """Feature rows at rounds that began with so many tokens committed."""
        ids = torch.tensor([text], device=self.target.device)
        states = self.target.model(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
        at = [n - 2 for n in lengths]
        wanted = {tap: states[tap][0, at] for tap in taps(self.target.n_layers, self.setting.layers)}
        return feature_rows(self.target, wanted, [text[n - 1] for n in lengths])


def collect(
    collector: RoundCollector, text: TrainingText, folder: Path, wanted: int, report: Callable[[int, str], None]
) -> HradRounds:
    """At least `wanted` rounds, in whole chunks; those that `folder` holds are read."""
    chunks: list[HradRounds] = []
    source = prompts(text, collector.setting.seed)
    total = 0
    while total < wanted:
        todo = [next(source) for _ in range(CHUNK)]
        path = folder / f"rounds-{len(chunks):05d}.npz"
        if path.exists():
            with np.load(path) as arrays:
                chunk = HradRounds(arrays["features"], arrays["accepted"], arrays["prompt"])
        else:
            chunk = _joined([collector.of(number, prompt) for number, prompt in todo])
            save_arrays(path, features=chunk.features, accepted=chunk.accepted, prompt=chunk.prompt)
        chunks.append(chunk)
        total += len(chunk)
        report(total, f"{CHUNK * len(chunks):,} prompts")
    return _joined(chunks)


def _joined(chunks: list[HradRounds]) -> HradRounds:
    return HradRounds(
        np.concatenate([chunk.features for chunk in chunks]),
        np.concatenate([chunk.accepted for chunk in chunks]),
        np.concatenate([chunk.prompt for chunk in chunks]),
    )
