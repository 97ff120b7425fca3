"""The queries of a run: their prompts, all checked before the first one begins, and a session for each.

One drafter goes through all of them. Most know nothing of another query and are made anew; one whose `next_query`
says so goes on from what it learnt.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specviz.commands import Prompt, Start
from specviz.engine.decode.drafter import Drafter
from specviz.engine.decode.knob_queue import refuse_prompt
from specviz.engine.decode.overlap import Lanes
from specviz.engine.decode.round import QueryStats
from specviz.engine.decode.session import Parts, Session, Sink
from specviz.engine.decode.text_output import Texts
from specviz.engine.model.adapter import Models
from specviz.engine.model.loading import stop_tokens
from specviz.engine.model.pair import Pair
from specviz.engine.run import build_drafter
from specviz.engine.run.build_drafter import make_drafter
from specviz.errors import KnobError, SpecvizError
from specviz.knobs import LAST_SEED, Knobs, KnobTable
from specviz.methods import Method
from specviz.probability.plan import Verifier


def encode_prompt(tokenizer: Any, prompt: str, chat: bool) -> list[int]:
    """Token ids of a prompt: raw text with the tokenizer's own special tokens, or through its chat template."""
    if not prompt:
        raise SpecvizError("the prompt is empty: give at least one character")
    if not chat:
        return list(tokenizer(prompt, verbose=False)["input_ids"])  # its length is checked, and told, by the session
    if not getattr(tokenizer, "chat_template", None):
        raise SpecvizError("this tokenizer has no chat template; leave out --chat")
    messages = [{"role": "user", "content": prompt}]
    try:
        encoded = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    except Exception as error:  # a template is a program of its author's: it may refuse, or be broken
        why = " ".join(str(error).split())
        raise SpecvizError(f"the tokenizer's chat template fails ({why}); leave out --chat") from error
    return list(encoded["input_ids"])


@dataclass(frozen=True, slots=True)
class Setup:
    """What all queries of a run share."""

    pair: Pair
    method: Method
    verifier: Verifier
    table: KnobTable
    lanes: Lanes
    texts: Texts


class Queries:
    """Prompts and their token ids. Raises SpecvizError for any that cannot be decoded, by its place in the stream."""

    def __init__(self, pair: Pair, start: Start, method: Method, knobs: Knobs) -> None:
        if start.stream and start.prompt:
            raise SpecvizError("a run has a prompt or a stream of them, not both")
        self.prompts = list(start.stream) or [Prompt(text=start.prompt)]
        self.pair, self.method = pair, method
        self.ids = [self._ids(prompt, start) for prompt in self.prompts]
        last = knobs["seed"] + len(self.prompts) - 1
        if last > LAST_SEED:
            raise KnobError(f"knob seed: the last query would have seed {last}; the last there is is {LAST_SEED}")

    def _ids(self, prompt: Prompt, start: Start) -> list[int]:
        try:
            ids = encode_prompt(self.pair.target.tokenizer, prompt.text, start.chat)
            refuse_prompt(ids, self.pair.target.adapter.context)
        except SpecvizError as error:
            if not prompt.where:
                raise
            raise SpecvizError(f"{prompt.where}: {error}") from error
        return ids

    def __len__(self) -> int:
        return len(self.prompts)

    def models(self, query: int, knobs: Knobs) -> Models:
        """Slots for the text and for the widest draft in flight; a context of 128k is not reserved for a short run."""
        flight = build_drafter.in_flight(self.method, knobs)
        wanted = len(self.ids[query]) + int(knobs["max_new_tokens"]) + flight
        target, draft = self.pair.target.adapter, self.pair.draft.adapter if self.pair.draft else None
        return Models(target, draft, min(wanted, target.context + flight))

    def session(
        self, query: int, setup: Setup, knobs: Knobs, drafter: Drafter | None, sink: Sink | None
    ) -> Session:  # fmt: skip
        """A query that has not begun."""
        parts = Parts(self.models(query, knobs), drafter, setup.verifier, setup.lanes)
        return Session(
            parts, self.ids[query], setup.table, knobs, eos=stop_tokens(self.pair.target), texts=setup.texts,
            sink=sink, query=query, more=query + 1 < len(self),
        )  # fmt: skip

    def next_drafter(self, before: Drafter | None, method: Method, query: int, knobs: Knobs) -> Drafter | None:
        """Who drafts in that query after `before` did in the one ahead of it."""
        models = self.models(query, knobs)
        after = before.next_query(models, knobs) if before else None
        return after or make_drafter(method, models, knobs)


def length_of(session: Session, stopped: Callable[[], bool]) -> float | None:
    """Decode a session to its end; tokens a round, None when it was stopped before."""
    served = QueryStats()
    for done in session.rounds():
        if stopped():
            return None
        served.add(done)
    return served.mean_acceptance_length
