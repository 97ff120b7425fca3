"""`--stream`: prompts from a file, decoded one after another with one drafter. What is wrong is said by line."""

import sys
from dataclasses import dataclass
from pathlib import Path

from specviz.commands import Prompt
from specviz.sources.prompts import PromptSet, load_prompts, parse_prompts

BUNDLED = "bundled"


@dataclass(frozen=True, slots=True)
class Stream:
    """The prompts in their order, and the name they came under."""

    source: str
    prompts: tuple[Prompt, ...]

    @property
    def domains(self) -> dict[str, int]:
        """How many prompts of each kind, in order of appearance."""
        out: dict[str, int] = {}
        for prompt in self.prompts:
            out[prompt.domain] = out.get(prompt.domain, 0) + 1
        return out


def read_stream(name: str) -> Stream:
    """A JSONL file of prompts; `-` standard input; `bundled` those that come along. Raises SpecvizError by line."""
    found = _found(name)
    return Stream(found.source, found.stream)


def _found(name: str) -> PromptSet:
    if name == "-":
        return parse_prompts(sys.stdin.buffer.read(), "standard input", "stream")
    return load_prompts(None if name == BUNDLED and not Path(name).exists() else Path(name))
