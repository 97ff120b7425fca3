"""The library's own assisted generation, recorded as it is: what was drafted, p, q and u, and what was kept.

Nothing is decoded again and nothing is drawn besides: the functions that the library calls are watched while the
context is open, and give what they always gave. Opened by `specviz.trace.transformers`: it writes by specviz, which the
recorders inside engines do without.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.generation import utils as library

from specviz.errors import TraceError
from specviz.trace import Writer


class AssistedRecorder:
    """Takes what the library does, round by round, and writes it. One rule a trace: other calls are left out."""

    def __init__(
        self, path: Path | str, text: Callable[[int], str] | None, names: tuple[str | None, str | None]
    ) -> None:
        self._path, self._text, self._names = path, text, names
        self.trace: Writer | None = None
        self._config: Any = None
        self._skipped = False
        self._fresh = True  # a call of `generate` begins
        self._length = 0
        self._drafted: list[int] = []
        self._q_rows: Any = None
        self._u: list[float] = []  # of this round's tests
        self._passed: int | None = None  # how many the library's sampling let through

    def begin(self, config: Any) -> None:
        """A call of `generate`, with its settings."""
        self._config, self._fresh, self._skipped = config, True, False

    def drafted(self, ids: Any, candidates: Any, logits: Any) -> None:
        """A draft: `ids` `[1, n]` the text so far, `candidates` `[1, n + k]`, `logits` `[1, k, V]` or None."""
        if self._fresh:
            self._open(ids[0].tolist(), logits is not None)
        self._length = ids.shape[1]
        self._drafted = candidates[0, self._length :].tolist()
        self._q_rows = None if logits is None or not self._drafted else logits[0].float().softmax(-1)
        self._u, self._passed = [], None
        if self.trace is not None and not self._skipped:
            self.trace.round(n_drafted=len(self._drafted))

    def sampled(self, u: list[float], passed: int) -> None:
        """What the library's sampling drew for its tests, and how many passed."""
        self._u, self._passed = u, passed

    def committed(self, ids: Any, scores: Any) -> None:
        """The round is over: `ids` `[1, n]` the text now, `scores` `[1, k + 1, V]` the target's processed rows."""
        if self.trace is None or self._skipped:
            return
        tokens = ids[0, self._length :].tolist()
        rows = self._rows(scores[0])
        same = next(
            (k for k, (a, b) in enumerate(zip(tokens, self._drafted, strict=False)) if a != b),
            min(len(tokens), len(self._drafted)),
        )
        kept = min(len(tokens), same if self._passed is None else self._passed)
        for k, token in enumerate(self._drafted):
            q = None if self._q_rows is None else float(self._q_rows[k, token])
            u = self._u[k] if k < len(self._u) and k <= kept else None
            self.trace.drafted(token, q=q, p=float(rows[k, token]), u=u)
        cut = kept == len(tokens)  # the text ended inside the draft
        last = None if cut else float(rows[kept, tokens[-1]])
        self.trace.committed(tokens, n_accepted=kept, finish=self._finish(tokens) if cut else None, p=last)

    def _rows(self, scores: Any) -> Any:
        """The target's law `[k + 1, V]`: at temperature 0 all of it is at one token."""
        if self._config.do_sample:
            return scores.float().softmax(-1)
        return torch.nn.functional.one_hot(scores.argmax(-1), scores.shape[-1]).float()

    def _finish(self, tokens: list[int]) -> Any:
        stops = self._config.eos_token_id
        stops = stops if isinstance(stops, list) else [stops]
        return "eos" if tokens and tokens[-1] in stops else "length"

    def _open(self, prompt: list[int], has_q: bool) -> None:
        self._fresh = False
        rule, temperature = self._rule(has_q)
        if self.trace is None:
            self.trace = Writer(
                self._path,
                "transformers",
                rule=rule,
                version=transformers.__version__,
                setting="do_sample" if self._config.do_sample else "greedy",
                source="own loop",
                target=self._names[0],
                draft=self._names[1],
                temperature=temperature,
                text=self._text,
            )
        elif self.trace.rule.name != rule:
            self._skipped = True
            self.trace.warn("left_out", f"a call of generate that decides by '{rule}' is not in this trace")
            return
        self.trace.request(prompt)
        self.trace.temperature(temperature)

    def _rule(self, has_q: bool) -> tuple[str, float]:
        config = self._config
        if config.assistant_ensemble_weight is not None and has_q:
            return "ensemble", float(config.temperature or 1.0) if config.do_sample else 0.0
        if not config.do_sample:
            return "exact match", 0.0
        temperature = float(1.0 if config.temperature is None else config.temperature)
        return ("p/q" if has_q else "exact match"), temperature


@contextmanager
def recorded(
    model: Any, path: Path | str, *, text: Callable[[int], str] | None = None, draft: str | None = None
) -> Iterator[AssistedRecorder]:
    """Record what `model.generate(.., assistant_model=..)` does inside the context, prompt lookup as well.

    `text`: one token id as text, for the screens. Raises TraceError where this version of the library has other names.
    """
    recorder = AssistedRecorder(path, text, (str(getattr(model, "name_or_path", "") or "target"), draft))
    make_generator, sampling = type(model)._get_candidate_generator, vars(library).get("_speculative_sampling")
    if sampling is None:
        raise TraceError(
            f"transformers {transformers.__version__} has no _speculative_sampling: its loop is another one"
        )

    def watched(*args: Any, **options: Any) -> Any:
        recorder.begin(options["generation_config"])
        return _watch(make_generator(model, *args, **options), recorder)

    def sampling_recorded(*args: Any, **options: Any) -> Any:
        with _uniforms() as drawn:
            tokens, passed = sampling(*args, **options)
        recorder.sampled([float(u) for u in drawn[0].flatten()] if drawn else [], int(passed))
        return tokens, passed

    model._get_candidate_generator = watched
    library._speculative_sampling = sampling_recorded
    try:
        yield recorder
    except BaseException as error:
        if recorder.trace is not None:
            recorder.trace.close("error", f"{type(error).__name__}: {error}")
        raise
    finally:
        del model._get_candidate_generator
        library._speculative_sampling = sampling
        if recorder.trace is not None:
            recorder.trace.close()


def _watch(generator: Any, recorder: AssistedRecorder) -> Any:
    """A generator of candidates that tells what it gives and what became of it."""
    give, update = generator.get_candidates, generator.update_candidate_strategy

    def get_candidates(input_ids: Any, *args: Any, **options: Any) -> Any:
        candidates, logits = give(input_ids, *args, **options)
        recorder.drafted(input_ids, candidates, logits)
        return candidates, logits

    def update_candidate_strategy(input_ids: Any, scores: Any, num_matches: Any) -> Any:
        recorder.committed(input_ids, scores)
        return update(input_ids, scores, num_matches)

    generator.get_candidates, generator.update_candidate_strategy = get_candidates, update_candidate_strategy
    return generator


@contextmanager
def _uniforms() -> Iterator[list[Any]]:
    """What `torch.rand_like` draws meanwhile."""
    drawn: list[Any] = []
    draw = torch.rand_like

    def seen(*args: Any, **options: Any) -> Any:
        drawn.append(draw(*args, **options))
        return drawn[-1]

    torch.rand_like = seen
    try:
        yield drawn
    finally:
        torch.rand_like = draw
