"""Privacy of recordings: paths are reduced to names always, text to token ids on demand (`Redactor`), and files made
from a recording are readable only by those who may read it (`open_like`).

A redacted trace holds no text: every text is written as its token ids (`#310#42`), which all views show; domains and
trained parts are numbered or left out, messages keep their code. Whoever has the tokenizer can turn the ids back into
text; the option's help and the header (`env.redacted`) say so.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import and_
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, BinaryIO

import msgspec

from specviz.events import (
    Adapt,
    Closing,
    Commit,
    End,
    Event,
    FindingRecord,
    Header,
    Knob,
    Node,
    Note,
    Pieces,
    Prefill,
    Warn,
)
from specviz.events.base import handlers

PARTS = ("heads", "hrad", "adapter", "skip_set", "drafter")  # knobs that may name a folder or a file
LEFT_OUT = "not recorded"
STORED = "prompt, new text and settings, readable by you alone; --redact records token ids instead of text"
IDS_ALONE = "token ids in place of text: reversible, who has the tokenizer can read them"
_FOLDERS = re.compile(r"(?:(?<![\w.~/\\])(?:[A-Za-z]:)?|~|\.{1,2})[/\\](?:[^/\\\s'\"]+[/\\])*([^/\\\s'\":;,)]*)")


def open_like(path: Path, traces: Iterable[Path]) -> BinaryIO:
    """A file to write what was made of these traces: for those alone who may read all of them, and for its owner alone
    where there are none. Raises OSError."""
    modes = [trace.stat().st_mode for trace in traces]
    mode = 0o600 | (reduce(and_, modes, 0o066) if modes else 0)
    if path.exists() and (old := path.stat().st_mode) & 0o777 & ~mode:
        path.chmod(old & mode)
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode))


def name_of(path: str) -> str:
    """The last part of a path of either kind; what is no path stays as it is."""
    return PurePosixPath(PureWindowsPath(path).as_posix()).name if "/" in path or "\\" in path else path


def without_folders(text: str) -> str:
    """A message with every absolute path in it cut to its last part."""
    return _FOLDERS.sub(lambda match: match[1] or "…", text)


def named_parts(knobs: Mapping[str, Any]) -> dict[str, Any]:
    """The same knobs, with names for paths in those that name trained parts."""
    return {name: _named(value) if name in PARTS else value for name, value in knobs.items()}


def named(event: Event) -> Event:
    """The record with names for paths: knobs that name trained parts, what the header says of them, messages."""
    change = _NAMES_PATHS.get(type(event))
    return event if change is None else change(event)


def _named_knob(event: Knob) -> Knob:
    if event.name not in PARTS:
        return event
    return msgspec.structs.replace(event, old=_named(event.old), new=_named(event.new))


def _named_message(event: Warn | End) -> Event:
    message = event.message
    return msgspec.structs.replace(event, message=without_folders(message)) if message else event


def _named_header(header: Header) -> Header:
    parts = {name: value for name, value in header.knobs.items() if name in PARTS}
    paths = {_joined(value): name_of(_joined(value)) for value in parts.values() if _joined(value)}
    models = msgspec.structs.replace(
        header.models,
        parts={name: _cut(words, paths) for name, words in header.models.parts.items()},
        **{
            which: msgspec.structs.replace(info, name=_model(info.name))
            for which in ("target", "draft")
            if (info := getattr(header.models, which)) is not None
        },
    )
    specs = [
        msgspec.structs.replace(spec, default=_named(spec.default)) if spec.name in PARTS else spec
        for spec in header.knob_specs
    ]
    return msgspec.structs.replace(header, models=models, knobs=named_parts(header.knobs), knob_specs=specs)


# Kinds that may name a path; of all others, which are most of a run, nothing is looked at.
_NAMES_PATHS: dict[type[Event], Callable[[Any], Event]] = {
    Header: _named_header,
    Knob: _named_knob,
    Warn: _named_message,
    End: _named_message,
}


def _model(name: str) -> str:
    """A hub id (`owner/name`) is no path; anything else with a separator is."""
    is_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None and not name.startswith(".")
    return name if is_hub else name_of(name)


def _cut(words: str, paths: Mapping[str, str]) -> str:
    for path, name in paths.items():
        words = words.replace(path, name)
    return without_folders(words)


def _joined(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value if isinstance(value, str) else ""


def _named(value: Any) -> Any:
    """A knob's value; one that was cut into words at its blanks is one path."""
    text = _joined(value)
    if "/" not in text and "\\" not in text:
        return value
    return name_of(text) if isinstance(value, str) else [name_of(text)]


def ids(tokens: Iterable[int]) -> str:
    """Tokens as they stand in a redacted trace."""
    return "".join(f"#{token}" for token in tokens)


class Redactor:
    """Records without text. One for a whole run: it numbers the domains."""

    def __init__(self) -> None:
        self._domains: dict[str, str] = {}
        self._texts: set[str] = set()  # knobs that hold texts

    def __call__(self, event: Event) -> Event | None:
        """The record as it may be written; None where nothing of it may."""
        change = _CHANGES.get(type(event))
        return event if change is None else change(self, event)

    def domain(self, name: str | None) -> str | None:
        """`domain 1`, `domain 2`, in order of appearance."""
        return self._domains.setdefault(name, f"domain {len(self._domains) + 1}") if name else name

    def _header(self, event: Header) -> Header:
        self._texts = {spec.name for spec in event.knob_specs if spec.kind == "texts"} | {"stop", "ban", *PARTS}
        env = {**event.env, "redacted": IDS_ALONE}
        stream = env.get("stream")
        if isinstance(stream, dict):
            counts = stream.get("domains") or {}
            env["stream"] = {**stream, "domains": {self.domain(str(name)): n for name, n in counts.items()}}
        specs = [
            msgspec.structs.replace(spec, default=self._knob(spec.name, spec.default))
            if spec.name in self._texts
            else spec
            for spec in event.knob_specs
        ]
        models = msgspec.structs.replace(event.models, parts=dict.fromkeys(event.models.parts, LEFT_OUT))
        parts = (event.knobs, event.sampling)
        knobs, sampling = ({name: self._knob(name, value) for name, value in part.items()} for part in parts)
        return msgspec.structs.replace(event, env=env, models=models, knob_specs=specs, knobs=knobs, sampling=sampling)

    def _knob(self, name: str, value: Any) -> Any:
        if name not in self._texts or not value:
            return value
        return [LEFT_OUT] * len(value) if isinstance(value, list | tuple) else LEFT_OUT

    def _changed(self, event: Knob) -> Knob:
        old, new = self._knob(event.name, event.old), self._knob(event.name, event.new)
        return msgspec.structs.replace(event, old=old, new=new)

    def _prefill(self, event: Prefill) -> Prefill:
        return msgspec.structs.replace(event, text=ids(event.prompt), domain=self.domain(event.domain))

    def _node(self, event: Node) -> Node:
        return msgspec.structs.replace(event, text=ids([event.token]), bytes=None)

    def _closing(self, event: Closing) -> Closing:
        text = None if event.text is None else ids([] if event.token is None else [event.token])
        return msgspec.structs.replace(event, text=text)

    def _commit(self, event: Commit) -> Commit:
        return msgspec.structs.replace(event, texts=[ids([token]) for token in event.tokens])

    def _adapt(self, event: Adapt) -> Adapt:
        return msgspec.structs.replace(event, domain=self.domain(event.domain) or "")

    def _warn(self, event: Warn) -> Warn:
        return msgspec.structs.replace(event, message=event.code.replace("_", " "))

    def _finding(self, event: FindingRecord) -> FindingRecord:
        return msgspec.structs.replace(event, message=event.detector)

    def _note(self, event: Note) -> Note:
        return msgspec.structs.replace(event, text="bookmark")

    def _end(self, event: End) -> End:
        return msgspec.structs.replace(event, message=None if event.message is None else LEFT_OUT)

    def _pieces(self, event: Pieces) -> None:
        return None


_CHANGES = handlers(Redactor)
