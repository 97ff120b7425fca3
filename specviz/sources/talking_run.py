"""`ChatRun`: a live run with a conversation, whose core (models and worker) can be replaced. For both front-ends.

A message waits until the models are loaded and the current answer has ended; one that failed is offered for editing.
"""

from dataclasses import replace
from typing import Any

import msgspec

from specviz.commands import USUAL, Start
from specviz.errors import SpecvizError
from specviz.events import Catalogue, Commit, End, Event, Header, Refused, State
from specviz.sources.base import Source
from specviz.sources.conversation import Conversation
from specviz.sources.live_run import LiveRun


class ChatRun(LiveRun):
    """What is said to the model, and what it answered: `talk`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.talk = Conversation()
        super().__init__(*arguments, **named)

    # What comes of the core ------------------------------------------------------------------------------------------

    def _follow(self, event: Event) -> None:
        super()._follow(event)
        if self.answering:
            if isinstance(event, Header):
                self.talk.begins(event)
            elif isinstance(event, Commit):
                self.talk.hears(event)
            elif isinstance(event, End):
                self.talk.ends(event.reason)
        if isinstance(event, State) and event.state == "idle":
            self._say_waiting()

    def _refused(self, event: Refused) -> None:
        ours = self.answering and event.id == self._begun > 0
        super()._refused(event)
        if ours:
            if self.talk.spoken:  # it may be what was said before that is too long
                notice = self._notices.pop()
                self._notices.append(replace(notice, message=f"{notice.message}; or begin a new conversation"))
            self.talk.ends("error")
            self._say_waiting()

    def _fail(self, why: str) -> None:
        super()._fail(why)
        if self.talk.asked is not None:
            self.talk.ends("error")
        if self.talk.waiting is not None:
            self.talk.give_back(self.talk.waiting.prompt)
            self.talk.waiting = None

    # What is so ------------------------------------------------------------------------------------------------------

    @property
    def talks(self) -> bool:
        """Whether prompts are messages to the models that are loaded, where nobody says otherwise."""
        return self.catalogue is not None and self.catalogue.talks

    @property
    def answering(self) -> bool:
        """Whether what runs, or is about to, is the conversation's."""
        return self.talk.asked is not None and self.started is self.talk.asked

    # What a person asks ----------------------------------------------------------------------------------------------

    def say(self, message: str, like: Start) -> None:
        """Ask the model something; the conversation goes on. `like`: with what method, verifier and knobs; to them
        comes, when it is handed over, what waits for the next run (`edits.staged`).

        One message may wait for the models, or for the answer in hand to end. To a model that turns out to go on with
        texts it is a prompt. Raises SpecvizError.
        """
        if not message.strip():
            raise SpecvizError("the message is empty")
        if self.talk.waiting is not None:
            raise SpecvizError("one message waits already: it is said when the answer is at its end")
        if self.catalogue is not None:
            if not (self.talks or like.chat):
                raise SpecvizError("this model holds no conversation, it goes on with texts: p decodes a prompt")
            if (why := self.catalogue.lacks(like.method, like.knobs)) is not None:
                raise SpecvizError(why)
        self.talk.ask(message, like)
        if self.catalogue is not None and not self.running:
            self._say_waiting()

    def _say_waiting(self) -> None:
        waiting = self.talk.waiting
        if waiting is None or self.preparing:
            return
        if not (self.talks or waiting.chat):
            self.talk.waiting = None
            self._hand_over(waiting, None)
            return
        info = next((m for m in self.catalogue.methods if m.name == waiting.method), None) if self.catalogue else None
        if info is not None:
            self._leave_out(info.name, info.knobs)
        self.talk.waiting = msgspec.structs.replace(waiting, knobs={**waiting.knobs, **self.edits.take()})
        try:
            self._hand_over(self.talk.hand_over(), None)
        except SpecvizError:
            self.talk.ends("error")
            raise

    def new_conversation(self) -> None:
        """Forget what was said; an answer that is being decoded is stopped."""
        if self.answering and self.running:
            self.stop()
        self.talk.forget()

    def go_on_with(self, other: LiveRun) -> Source:
        """Another core, with what it has told so far. A run in hand ends here; what was decoded and said stays.

        Returns the source before, which the caller closes.
        """
        before = self.source
        if self.running:
            self.take([End(reason="cancelled", message="another core was started")])
        elif self.talk.asked is not None:
            self.talk.ends("error")
        self.attach(other.source)
        self.catalogue = other.catalogue
        return before


def proposed(catalogue: Catalogue, wanted: str) -> str:
    """The wanted method if it can run with the models that are loaded, else the first usual one that can, else any."""
    able = [info for info in catalogue.methods if info.missing is None] or catalogue.methods
    order = (wanted, *USUAL)
    ranked = sorted(able, key=lambda info: order.index(info.name) if info.name in order else len(order))
    return ranked[0].name
