"""What a run needs before it begins: its drafter, its prompts, and room for both in the caches.

All prompts are checked before the first query begins. The drafter fits its knobs to the loaded models.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from specviz.commands import Prompt, Said, Start
from specviz.engine.decode.drafter import Drafter
from specviz.engine.decode.knob_queue import refuse_prompt
from specviz.engine.memory import MemoryPlan, plan_of, refuse_run
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.model.files.chat_template import rendered, speaks_chat
from specviz.engine.model.files.loading import Loaded
from specviz.engine.model.pair import Pair
from specviz.errors import KnobError, SpecvizError
from specviz.knobs import LAST_SEED, Knobs, KnobTable
from specviz.methods import Method


def make_drafter(method: Method, models: FactoryModels, knobs: Knobs) -> Drafter | None:
    """The method's drafter, from the factory it names."""
    if method.drafter is None:
        return None
    module, _, attribute = method.drafter.partition(":")
    drafter: Drafter = getattr(importlib.import_module(module), attribute)(models, knobs)
    return drafter


def in_flight(method: Method, knobs: Knobs) -> int:
    """Slots a cache needs besides the text, for the widest draft a round may have under these knobs, changed live."""
    return max(2 * 256, method.cache_slots(knobs.values)) + 64


def fitted(table: KnobTable, drafter: Drafter | None, values: Mapping[str, Any]) -> tuple[KnobTable, Knobs]:
    """The table for the loaded models, and the snapshot of what was given under it.

    A value that only says the method's own default leaves the choice to the models.
    """
    if drafter is None:
        return table, table.knobs(values)
    own = KnobTable(table.method, tuple(drafter.fitted(spec) for spec in table.specs))
    chosen = {name: value for name, value in table.check(values).items() if value != table.spec(name).default}
    return own, own.knobs(chosen)


def wants_chat(target: Loaded, asked: bool | None) -> bool:
    """Whether a prompt is a message: as asked, else for models that were made for chats."""
    return speaks_chat(target.tokenizer) if asked is None else asked


def encode_prompt(tokenizer: Any, prompt: str, chat: bool, history: Sequence[Said] = ()) -> list[int]:
    """Token ids of a prompt: raw text with the tokenizer's own special tokens, or through its chat template, behind
    what was said before."""
    if not prompt:
        raise SpecvizError("the prompt is empty: give at least one character")
    if not chat:
        if history:
            raise SpecvizError("a conversation goes through the tokenizer's chat template; leave out --raw")
        return list(tokenizer(prompt, verbose=False)["input_ids"])  # its length is checked, and told, by the session
    if not getattr(tokenizer, "chat_template", None):
        raise SpecvizError("this tokenizer has no chat template; leave out --chat")
    earlier_turns = [(turn.role, turn.text) for turn in history]
    messages = [{"role": role, "content": text} for role, text in (*earlier_turns, ("user", prompt))]
    try:
        return rendered(tokenizer, messages)
    except Exception as error:  # a template is a program of its author's: it may refuse, or be broken
        why = " ".join(str(error).split())
        raise SpecvizError(f"the tokenizer's chat template fails ({why}); give --raw to do without") from error


class Queries:
    """Prompts and their token ids. Raises SpecvizError for any that cannot be decoded, by its place in the stream."""

    def __init__(self, pair: Pair, start: Start, method: Method, knobs: Knobs) -> None:
        if start.stream and start.prompt:
            raise SpecvizError("a run has a prompt or a stream of them, not both")
        self.prompts = list(start.stream) or [Prompt(text=start.prompt)]
        self.pair, self.method = pair, method
        self.chat = wants_chat(pair.target, start.chat)
        self.ids = [self._ids(prompt, start) for prompt in self.prompts]
        last = knobs["seed"] + len(self.prompts) - 1
        if last > LAST_SEED:
            raise KnobError(f"knob seed: the last query would have seed {last}; the last there is is {LAST_SEED}")

    def _ids(self, prompt: Prompt, start: Start) -> list[int]:
        try:
            ids = encode_prompt(self.pair.target.tokenizer, prompt.text, self.chat, start.history)
            refuse_prompt(ids, self.pair.target.adapter.context)
        except SpecvizError as error:
            if not prompt.where:
                raise
            raise SpecvizError(f"{prompt.where}: {error}") from error
        return ids

    def __len__(self) -> int:
        return len(self.prompts)

    def memory(self, knobs: Knobs) -> MemoryPlan:
        """What the query with the longest prompt will hold. Raises SpecvizError where that is more than is free."""
        longest = max(range(len(self)), key=lambda query: len(self.ids[query]))
        target, draft = self.pair.target.adapter, self.pair.draft
        models = [target, draft.adapter] if draft and self.method.needs_draft else [target]
        n_prompt = len(self.ids[longest])
        plan = plan_of(models, self.models(longest, knobs).capacity, n_prompt)
        refuse_run(plan, n_prompt, int(knobs["max_new_tokens"]), *target.devices)
        return plan

    def cut_short(self, knobs: Knobs) -> str | None:
        """Which text ends with the target's positions, before its time; None where all may be as long as was asked."""
        wanted, context = int(knobs["max_new_tokens"]), self.pair.target.adapter.context
        room = [context - len(ids) for ids in self.ids if context - len(ids) < wanted]
        if not room:
            return None
        prompts = (
            "the prompt leaves" if len(self) == 1 else f"{len(room)} of {len(self)} prompts leave less, the longest"
        )
        return f"the target has {context:,} positions: {prompts} {min(room):,} of {wanted:,} new tokens"

    def models(self, query: int, knobs: Knobs) -> FactoryModels:
        """Slots for the text and for the widest draft in flight; a context of 128k is not reserved for a short run."""
        flight = in_flight(self.method, knobs)
        wanted = len(self.ids[query]) + int(knobs["max_new_tokens"]) + flight
        target, draft = self.pair.target.adapter, self.pair.draft.adapter if self.pair.draft else None
        return FactoryModels(target, draft, min(wanted, target.context + flight))
