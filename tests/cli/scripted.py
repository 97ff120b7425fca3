"""A stand-in for `specviz.engine.run.local`: its runs replay true events of a table model and need no torch."""

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from specviz import events
from specviz.commands import Start
from specviz.engine.runtime import Runtime
from specviz.errors import ModelError
from specviz.events import Event
from support.traces import make_events


class Script:
    """What the next run does: the events it plays, and what goes wrong before round `at`."""

    def __init__(self) -> None:
        self.events = make_events(new_tokens=12)
        self.error: BaseException | None = None
        self.at = 3
        self.refuses: str | None = None
        self.loaded: tuple[Any, ...] | None = None
        self.start: Start | None = None

    @property
    def text(self) -> str:
        """The text of the whole script."""
        return "".join(text for e in self.events if isinstance(e, events.Commit) for text in e.texts)

    @property
    def tokens(self) -> list[int]:
        """The tokens of the whole script."""
        return [token for e in self.events if isinstance(e, events.Commit) for token in e.tokens]

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "Script":
        """Stand where the engine is imported from."""
        module = ModuleType("specviz.engine.run.local")
        module.load_pair, module.LocalRun = self._load, self._run  # type: ignore[attr-defined]
        module.usual_auto = lambda pair, start: start  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "specviz.engine.run.local", module)
        return self

    @property
    def runtime(self) -> Runtime:
        """Of a pair that lies nowhere: to begin it changes nothing of this process."""
        return Runtime()

    def _load(self, *args: Any, on_loaded: Any = None) -> "Script":
        if self.refuses:
            raise ModelError(self.refuses)
        self.loaded = args
        return self

    def _run(self, pair: "Script", start: Start, sink: Callable[[Event], None]) -> "ScriptedRun":
        self.start = start
        return ScriptedRun(pair, sink)


class ScriptedRun:
    """As `LocalRun`: events reach the sink round by round, `end` comes whatever happens."""

    def __init__(self, script: Script, sink: Callable[[Event], None]) -> None:
        self.script, self.sink = script, sink
        self.text, self.tokens, self.chat = "", list[int](), False

    @property
    def answer(self) -> str:
        return self.text

    def rounds(self) -> Iterator[None]:
        """Play the script; yield after every round."""
        *body, end = self.script.events
        try:
            for event in body:
                if isinstance(event, events.RoundStart) and event.r == self.script.at and self.script.error:
                    raise self.script.error
                self._note(event)
                self.sink(event)
                if isinstance(event, events.RoundEnd):
                    yield
            self.sink(end)
        except (KeyboardInterrupt, BrokenPipeError):
            self.sink(events.End(reason="cancelled"))
            raise
        except Exception as error:
            self.sink(events.End(reason="error", message=str(error)))
            raise

    def _note(self, event: Event) -> None:
        if isinstance(event, events.Commit):
            self.text += "".join(event.texts)
            self.tokens += event.tokens
