"""`cli`: the command line in this process, as `(exit code, standard output, standard error)`."""

import io
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import pytest

from specviz.cli import main
from specviz.engine.model.compiled.build import NoKernel
from specviz.engine.model.compiled.library import functions


@pytest.fixture(autouse=True, scope="session")
def built() -> None:
    """The kernel is there before a command's lines are counted: the first that needs it says that it is being built."""
    with suppress(NoKernel):
        functions()


class Done(NamedTuple):
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line of an error: nothing on standard output, no traceback, exit code 2."""
        assert (self.code, self.out) == (2, ""), self
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("specviz: ")
        return lines[0].removeprefix("specviz: ")


Cli = Callable[..., Done]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run `specviz ARGS` with `stdin` as standard input; there is no terminal."""

    def run(*args: object, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        return Done(code, *capsys.readouterr())

    return run
