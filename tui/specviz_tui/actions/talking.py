"""Keys of a conversation: the message line, stop, a new conversation."""

import msgspec
from textual.actions import SkipAction

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.sources.talking_run import proposed
from specviz.view import Frame
from specviz_tui.actions.finding import FindActions
from specviz_tui.actions.live import LiveActions
from specviz_tui.common.actions import Actions, asks_core
from specviz_tui.common.frame_widget import ScreenMessage
from specviz_tui.common.keymap import Key
from specviz_tui.widgets.message_line import MessageLine
from specviz_tui.widgets.talk_view import TalkView

TO_TYPE = "m or a click here: write a message · p: other model, method, settings · N: new conversation"
TO_SAY = "write a message"


class TalkActions(Actions):
    """What is said to a model that talks."""

    order = 50
    KEYS = (
        Key(
            "message",
            "m",
            "message",
            "m",
            "live: write a message to a model that talks; ctrl+c stops an answer",
            "Run",
            "write",
            1,
            True,
        ),
        Key("conversation.new", "N", "new_conversation", "N", "live: a new conversation", "Run"),
        Key("interrupt", "ctrl+c", "interrupt", "^c", "live: stop an answer", "Run"),
    )

    def restart(self) -> None:
        self.controller.talk_shown = True

    def paint(self, frame: Frame) -> None:
        """The conversation in place of the text, and the line in which one talks to whoever listens."""
        line, speaks = self.controller.widget(MessageLine), self.feed.speaks
        line.placeholder = TO_SAY if line.has_focus else TO_TYPE
        self.controller.mark(speaks, "-speaks")
        self.controller.mark((speaks or bool(self.feed.talk)) and self.controller.talk_shown, "-talk")
        self.controller.widget(TalkView).show(self.feed.talk, frame)
        if unsent := self.feed.talk.unsent:
            self.feed.talk.unsent = ""
            line.offer(unsent)
        if line.has_focus and not speaks:
            self.controller.focus_main()

    @asks_core
    def action_message(self) -> None:
        """To the line in which one talks."""
        if not self.feed.speaks:
            raise SpecvizError("this model holds no conversation, it goes on with texts: p decodes a prompt")
        self.controller.widget(MessageLine).focus()

    def heard(self, message: ScreenMessage) -> None:
        """What is refused stays in the line, to be mended; an empty message is none."""
        if isinstance(message, MessageLine.Entered):
            if message.text.strip():
                self.controller.ask_core(lambda: self._say(message.text))
            else:
                self.controller.focus_main()

    def _say(self, text: str) -> None:
        self.feed.say(text, self._like())
        self.feed.chosen = None
        self.controller.widget(MessageLine).was_said()
        self.controller.focus_main()
        self.controller.talk_shown = True
        self.controller.widget(TalkView).anchor()  # whoever asks wants to see the answer
        self.feed.to_live()

    def _like(self) -> Start:
        """Method and knobs as they are now; where nobody named a method, one that can run."""
        if self.feed.chosen is not None:
            return self.feed.chosen
        like, catalogue = self.controller.group(LiveActions).wanted(), self.feed.catalogue
        if catalogue is None or self.feed.last_start is not None or self.feed.template is not None:
            return like
        return msgspec.structs.replace(like, method=proposed(catalogue, like.method))

    def action_new_conversation(self) -> None:
        """Forget what was said; with a filter in force the key goes back a match."""
        finding = self.controller.group(FindActions)
        if finding.looks:
            finding.look(-1)
        else:
            self.controller.ask_core(self._forget)

    def _forget(self) -> None:
        if not self.feed.talk:
            raise SpecvizError("nothing was said yet: m says something")
        self.feed.new_conversation()
        self.controller.notify("a new conversation: the model knows nothing of the last one")

    def action_interrupt(self) -> None:
        """Stop what is being decoded, or copy what the mouse has marked; else say how one leaves."""
        if self.feed.running:
            self.controller.ask_core(self.feed.stop)
            return
        try:
            self.controller.screen.action_copy_text()
        except SkipAction:
            writing = self.controller.widget(MessageLine).has_focus
            self.controller.notify("ctrl+q quits" if writing else "q quits")
