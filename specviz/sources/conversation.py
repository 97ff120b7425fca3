"""A conversation with a model: every answer is a run of its own, whose prompt includes the turns before it.

Turns are kept as text, so a conversation can continue with another method or another model. `LiveRun` holds one and
updates it from the core's events; a front-end shows it.
"""

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from specviz.commands import Said, Start
from specviz.events import Commit, Header

LENGTH = {"max_new_tokens": 256}  # tokens of an answer by default: enough to end by itself
_DONE = ("done", "stopped", "cancelled")  # end reasons after which the text remains in the conversation


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A turn. `who`: display name of the model that answered; `run`: the run that the answer came from.

    `stopped`: a person ended the answer.
    """

    role: Literal["user", "assistant"]
    text: str
    who: str = ""
    run: str = ""
    stopped: bool = False


@dataclass(slots=True)
class Conversation:
    """What was said, oldest first; what is being answered; what waits to be said.

    `unsent`: a message that came to nothing, to be offered again (`give_back`).
    `n_given_back` tells one from the next, which may be the same words.
    """

    spoken: list[ChatMessage] = field(default_factory=list)
    asked: Start | None = None  # sent, its answer not yet complete
    waiting: Start | None = None
    unsent: str = ""
    n_given_back: int = 0
    run: str = ""  # that answers, or gave the newest answer; "": that is in no run that was heard of
    who: str = ""
    _pieces: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether anything was said, or is about to be."""
        return bool(self.spoken or self.asked or self.waiting)

    def ask(self, message: str, like: Start) -> None:
        """A message that waits to be handed over: method and knobs as in `like`."""
        self.waiting = msgspec.structs.replace(like, prompt=message, stream=[], history=[])

    def hand_over(self) -> Start:
        """The message that waits, with what was said before it: it is being answered from now on."""
        like = self.waiting
        assert like is not None
        history = [Said(role=turn.role, text=turn.text) for turn in self.spoken]
        self.asked = msgspec.structs.replace(like, history=history, chat=True, knobs={**LENGTH, **like.knobs})
        self.waiting, self.run, self._pieces = None, "", []
        return self.asked

    def begins(self, header: Header) -> None:
        """The run of the answer has come."""
        target = header.models.target
        self.run, self.who = header.run, target.name if target is not None else ""

    def hears(self, commit: Commit) -> None:
        """A round's text; the mark that ends a message is no part of it."""
        self._pieces += commit.texts[:-1] if commit.finish == "eos" else commit.texts

    def ends(self, reason: str) -> None:
        """The run is over: its text stays said, or the message came to nothing."""
        asked, self.asked = self.asked, None
        assert asked is not None
        text = "".join(self._pieces)
        if reason not in _DONE or (reason != "done" and not text):
            self.run = ""
            self.give_back(asked.prompt)
            return
        answer = ChatMessage("assistant", text, self.who, self.run, stopped=reason != "done")
        self.spoken += [ChatMessage("user", asked.prompt), answer]

    def give_back(self, message: str) -> None:
        """Nothing came of it."""
        self.unsent = message
        self.n_given_back += 1

    def forget(self) -> None:
        """A new conversation; an answer that is still coming is no part of it."""
        self.spoken, self.asked, self.waiting, self.unsent, self.run = [], None, None, "", ""
