"""Keys of a conversation: the message line, stop, a new conversation."""

import msgspec
from textual import on
from textual.actions import SkipAction

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.sources.talking_run import proposed
from specviz_tui.screens.live import LiveActions, asks_core
from specviz_tui.screens.start import Begin
from specviz_tui.widgets.message_line import MessageLine
from specviz_tui.widgets.talk_view import TalkView
from specviz_tui.widgets.text_strip import MODES, TextStrip


class TalkActions(LiveActions):
    """What is said to a model that talks."""

    def ask_first(self) -> None:
        """A model that talks is talked to; others are given a prompt."""
        if not self.feed.speaks:
            super().ask_first()

    @asks_core
    def action_message(self) -> None:
        """To the line in which one talks."""
        if not self.feed.speaks:
            raise SpecvizError("this model holds no conversation, it goes on with texts: p decodes a prompt")
        self.query_one(MessageLine).focus()

    @on(MessageLine.Entered)
    def _entered(self, message: MessageLine.Entered) -> None:
        """What is refused stays in the line, to be mended; an empty message is none."""
        if message.text.strip():
            self.ask_core(lambda: self._say(message.text))
        else:
            self.focus_main()

    def _say(self, text: str) -> None:
        self.feed.say(text, self._like())
        self.feed.chosen = None
        self.query_one(MessageLine).was_said()
        self.focus_main()
        self.talk_shown = True
        self.query_one(TalkView).anchor()  # whoever asks wants to see the answer
        self.feed.to_live()

    def _like(self) -> Start:
        """Method and knobs as they are now; where nobody named a method, one that can run."""
        if self.feed.chosen is not None:
            return self.feed.chosen
        like, catalogue = self.wanted(), self.feed.catalogue
        if catalogue is None or self.feed.last_start is not None or self.feed.template is not None:
            return like
        return msgspec.structs.replace(like, method=proposed(catalogue, like.method))

    def begin(self, begin: Begin) -> None:
        """In a conversation a prompt is the next message; without one the choices are for the message to come."""
        self.adopt(begin.core)
        start = begin.start
        if not self.feed.talks or start.chat is False:
            self.feed.start(start)
        elif start.prompt:
            self.feed.edits.take()
            self.feed.say(start.prompt, start)
        else:
            self.feed.chosen = start
            self.feed.edits.take()  # the dialog has shown them, and has what became of them
            self.notify("for the next message; m writes it", markup=False)

    @asks_core
    def action_new_conversation(self) -> None:
        """Forget what was said."""
        if not self.feed.talk:
            raise SpecvizError("nothing was said yet: m says something")
        self.feed.new_conversation()
        self.notify("a new conversation: the model knows nothing of the last one", markup=False)

    def action_interrupt(self) -> None:
        """Stop what is being decoded, or copy what the mouse has marked; else say how one leaves."""
        if self.feed.running:
            self.action_stop()
            return
        try:
            self.action_copy_text()
        except SkipAction:
            writing = self.query_one(MessageLine).has_focus
            self.notify("ctrl+q quits" if writing else "q quits", markup=False)

    def action_text(self) -> None:
        """The conversation, then the forms of the newest run's text."""
        strip = self.query_one(TextStrip)
        if not (self.feed.speaks or self.feed.talk):
            strip.mode = MODES[(MODES.index(strip.mode) + 1) % len(MODES)]
        elif self.talk_shown:
            self.talk_shown, strip.mode = False, MODES[0]
        elif strip.mode == MODES[-1]:
            self.talk_shown = True
        else:
            strip.mode = MODES[MODES.index(strip.mode) + 1]
        self.paint_soon()
