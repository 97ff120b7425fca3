"""A worker for the pages: decodes a table model, a round every PAUSE seconds, and takes every command of the wire.

Usage: fake_core.py [PAUSE] [chat | talks] [bare] [long]. `fail` instead of a number: it ends before it is ready, as a
bad model folder would. `chat`: its target has a template; `talks`: and is sent messages where nobody says otherwise;
`bare`: no draft model is there; `long`: a busy browser sees it at work. A message that says `too long` is refused.
"""

import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from specviz import events as ev
from specviz.commands import Pause, Resume, SetKnob, Shutdown, Start, StepRounds, Stop, decode_command
from specviz.methods import all_methods
from support.traces import make_events

_NO_DRAFT = ev.Missing(why="it drafts with a second model and none was loaded", command="start with --draft FOLDER")
HOSTILE = "<img src=x onerror=alert(1)>"  # a token that would like to be more than text


class Core:
    """Holds, steps, acknowledges knobs at the next round."""

    def __init__(self, pause: float) -> None:
        self.pause = pause
        self.held, self.steps, self.stopping = False, 0, False
        self.asked: list[SetKnob] = []
        self.start: Start | None = None
        self.round = self.n_runs = 0

    def serve(self) -> None:
        methods = [
            ev.MethodInfo(
                name=m.name,
                help=m.help,
                needs_draft=m.needs_draft,
                verifiers=list(m.verifiers),
                default_verifier=m.default_verifier,
                knobs=list(m.table.specs),
                traits=m.traits,
                missing=_NO_DRAFT if m.needs_draft and "bare" in sys.argv else None,
            )
            for m in all_methods().values()
        ]
        say(
            ev.Catalogue(
                methods=methods,
                verifiers=[],
                models=ev.Models(target=ev.ModelInfo(name="table")),
                chat=bool({"chat", "talks"} & set(sys.argv)),
                talks="talks" in sys.argv,
            )
        )
        say(ev.State(state="idle"))
        while True:
            time.sleep(0.01)
            if self.start is not None:
                start, self.start = self.start, None
                self.decode(start)

    def decode(self, start: Start) -> None:
        self.held, self.steps, self.stopping = start.paused, 0, False
        say(ev.State(state="paused" if start.paused else "running"))
        shape = start.knobs.get("shape", "chain")
        n = start.knobs.get("max_new_tokens", 512 if "long" in sys.argv else 128)
        self.n_runs += 1
        for event in make_events(shape=shape, temperature=0.8, new_tokens=n):
            if isinstance(event, ev.RoundStart):
                self.between(event.r)
            if self.stopping and isinstance(event, ev.RoundStart):
                say(ev.End(reason="stopped", q=event.q, r=event.r))
                break
            if isinstance(event, ev.Header):
                event.run = f"{event.run}-{os.getpid()}-{self.n_runs}"
                event.knobs |= {name: value for name, value in start.knobs.items() if name in event.knobs}
            say(hostile(event))
        say(ev.State(state="idle"))

    def between(self, r: int) -> None:
        self.round = r
        while self.held and not self.steps and not self.stopping:
            time.sleep(0.005)
        self.steps = max(0, self.steps - 1)
        for knob in self.asked:
            change = ev.Knob(name=knob.name, old=4, new=knob.value, requested_r=max(0, r - 1), applied_r=r, r=r)
            change.changes_text = knob.name == "temperature"
            say(change)
        self.asked = []
        time.sleep(self.pause)

    def obey(self, line: bytes) -> None:
        command = decode_command(line)
        if isinstance(command, Start) and "too long" in command.prompt:
            say(ev.Refused(id=command.id, message="the prompt has 8,193 tokens, the context 8,192: no space is left"))
        elif isinstance(command, Start):
            self.start = command
        elif isinstance(command, SetKnob):
            self.asked.append(command)
        elif isinstance(command, Pause | Resume):
            self.held, self.steps = isinstance(command, Pause), 0
            say(ev.State(state="paused" if self.held else "running"))
        elif isinstance(command, StepRounds):
            self.held, self.steps = True, self.steps + command.n
            say(ev.State(state="paused"))
        elif isinstance(command, Stop):
            self.stopping = True
        elif isinstance(command, Shutdown):
            sys.stdout.flush()
            os._exit(0)


def hostile(event: ev.Event) -> ev.Event:
    """Some tokens spelled as HTML."""
    if isinstance(event, ev.Node) and event.token % 5 == 0:
        event.text = HOSTILE
    return event


_saying = threading.Lock()


def say(event: ev.Event) -> None:
    with _saying:
        sys.stdout.buffer.write(ev.encode(event) + b"\n")
        sys.stdout.buffer.flush()


def main() -> None:
    if sys.argv[1:] == ["fail"]:
        print("specviz: no target model in 'models/x'; name a folder of save_pretrained", file=sys.stderr, flush=True)
        sys.exit(2)
    core = Core(float(sys.argv[1]) if sys.argv[1:] else 0.05)
    threading.Thread(target=core.serve, daemon=True).start()
    for line in sys.stdin.buffer:
        core.obey(line)


if __name__ == "__main__":
    main()
