"""The models of a core, as a command line names them; which stand between its other words (device, dtype, threads)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelNames:
    """`target` "": the embedded pair; `draft` "": the one that comes with the target, if any does."""

    target: str = ""
    draft: str = ""

    @classmethod
    def of(cls, words: Sequence[str]) -> "ModelNames":
        """The models that the words of a command line name."""
        return cls(_named(words, "--target"), _named(words, "--draft"))

    def among(self, words: Sequence[str]) -> tuple[str, ...]:
        """The words of a command line with these models in place of its own."""
        out = list(words)
        for flag, name in (("--target", self.target), ("--draft", self.draft)):
            if flag in out:
                place = out.index(flag)
                del out[place : place + 2]
            out += [flag, name] if name else []
        return tuple(out)

    @property
    def text(self) -> str:
        """`smollm2 with self:int4`, to be shown."""
        target = self.target or "the embedded pair"
        return f"{target} with {self.draft}" if self.draft else target


def _named(words: Sequence[str], flag: str) -> str:
    return words[words.index(flag) + 1] if flag in words else ""
