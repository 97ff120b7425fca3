"""Commands a worker takes, one JSON object a line: `{"cmd": .., "id": .., ..}`.

Answers are events on the worker's stdout; a command that is not carried out is answered by `refused` with its id.
"""

from typing import Any, Literal

import msgspec

from specviz.events.base import Level

MAX_LINE = 16 << 20  # bytes of a command; a longer one is refused
USUAL = ("draft", "ngram")  # default methods: the first that can run with the models
BEAT_S = 1.0  # seconds between two signs of life of a worker


class Command(msgspec.Struct, kw_only=True, tag_field="cmd"):
    """`id` comes back in a refusal."""

    id: int = 0


class Prompt(msgspec.Struct, kw_only=True, frozen=True):
    """One query of a stream. `where`: what to call it when it is refused, `prompts.jsonl line 3`."""

    text: str
    domain: str = ""
    where: str = ""


class Said(msgspec.Struct, kw_only=True, frozen=True):
    """What somebody said before, in a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


class Start(Command, tag="start", kw_only=True):
    """Decode one prompt, or the prompts of a stream one after another with one drafter. Refused while another runs.

    `chat`: whether a prompt is a message, handed over through the tokenizer's chat template; null: it is one for every
    model with a template but the embedded one. `history`: what was said before it; what the target's cache still holds
    of that is not computed again. `auto`: nothing is drafted where that does not pay (specviz.cost.pausing); null: a
    worker sees to it for targets that take time, nobody else does.
    """

    prompt: str = ""
    history: list[Said] = []
    stream: list[Prompt] = []  # in place of `prompt`
    method: str = "draft"
    verifier: str | None = None  # None: the method's default for the temperature
    knobs: dict[str, Any] = {}
    chat: bool | None = None
    level: Level = "full"
    lanes: str = "auto"  # auto, serial, threads, streams, two_device
    paused: bool = False
    auto: bool | None = None


class SetKnob(Command, tag="knob", kw_only=True):
    """Ask for a knob; it is applied at the next round and acknowledged by a `knob` event."""

    name: str
    value: Any
    by: str = "user"


class Pause(Command, tag="pause"):
    """Hold before the next round."""


class Resume(Command, tag="resume"):
    """Go on."""


class StepRounds(Command, tag="step", kw_only=True):
    """Run `n` rounds, then hold."""

    n: int = 1


class Stop(Command, tag="stop"):
    """End the run (reason `stopped`); the worker stays, models loaded."""


class Shutdown(Command, tag="shutdown"):
    """End the run and the worker."""


AnyCommand = Start | SetKnob | Pause | Resume | StepRounds | Stop | Shutdown
_decoder: "msgspec.json.Decoder[AnyCommand]" = msgspec.json.Decoder(AnyCommand)


def decode_command(line: bytes | str) -> AnyCommand:
    """The command of a line. Raises msgspec.ValidationError/DecodeError."""
    return _decoder.decode(line)


def encode_command(command: Command) -> bytes:
    """One line without the newline."""
    return msgspec.json.encode(command)
