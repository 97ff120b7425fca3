"""C of ours as libraries of this machine, built once with the compiler that is at hand and kept on disk.

A file is named by what it was made of (source, flags, compiler, processor) and by a digest of what it holds, so one
that was cut short is seen before it is loaded. It is made beside its place, tried in a process of its own, and put
there whole. Code is loaded from folders alone into which nobody else can write: the user's cache, else a private one.
A build that failed is not tried again for a day. Nothing of it is ever needed: without it torch computes, and one line
says why.
"""

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

import platformdirs

from specviz.engine.model.compiled import watched_build
from specviz.engine.processor import processor
from specviz.names import COMPILE
from specviz.text import running

FoundT = TypeVar("FoundT")

LONGEST = 120.0  # seconds a compiler may take
_ROOM = 16 << 20  # bytes that a folder must have room for: a build with the compiler's own files
_DAY = 86400.0
_UNUSED = 30 * _DAY  # then a library is removed
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OURS = re.compile(r"([a-z]+-)?[0-9a-f]{24}[-.]")


class NoKernel(OSError):
    """There is no library; in one line, why. `asked`: somebody wants none."""

    def __init__(self, why: str, asked: bool = False) -> None:
        super().__init__(why)
        self.asked = asked


@dataclass(frozen=True, slots=True)
class NotCompiled:
    """Why layers run in torch and not in the C kernel. `warns`: whether that is worth a warning; not where the user
    chose it, nor for models that the kernel is not made for."""

    why: str
    warns: bool


@dataclass(frozen=True, slots=True)
class Compiler:
    """The words that a compiler is called by; `remark`: what is wrong with `$CC`, or ""."""

    words: tuple[str, ...]
    remark: str = ""


def find_compiler() -> Compiler:
    """`$CC`, which may bring arguments, else cc, gcc or clang. Raises NoKernel."""
    named, remark = os.environ.get("CC", "").strip(), ""
    if named:
        with suppress(ValueError):  # a quotation that does not end
            for words in ([named], shlex.split(named)):
                program = shutil.which(words[0]) if words else None
                if program:
                    return Compiler((program, *words[1:]))
        remark = f"CC={named}: there is no such program"
    program = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if program is None:
        raise NoKernel(f"no C compiler here{f' ({remark})' if remark else ''}")
    return Compiler((program,), remark and f"{remark}; {program} builds the kernel")


def folders() -> list[Path]:
    """Where libraries are kept: the first of them that will do."""
    if os.name != "posix":
        return []
    candidates = [Path(platformdirs.user_cache_dir("specviz")) / "compiled"]
    if own := os.environ.get("XDG_RUNTIME_DIR"):
        candidates.append(Path(own) / "specviz")
    with suppress(OSError):  # there may be no folder for temporary files
        candidates.append(Path(tempfile.gettempdir()) / f"specviz-{os.geteuid()}")
    return candidates


def trouble(folder: Path) -> str:
    """Why no code is loaded from a folder, or ""; one that is not there yet is judged by those above it."""
    try:
        place = folder.resolve()
        there = [ancestor for ancestor in (place, *place.parents, folder, *folder.parents) if os.path.lexists(ancestor)]
        for ancestor in there:
            seen = ancestor.lstat()
            if seen.st_uid not in (os.geteuid(), 0):
                return f"{ancestor} belongs to somebody else"
            if stat.S_ISLNK(seen.st_mode):  # where it leads is looked at too
                continue
            if not stat.S_ISDIR(seen.st_mode):
                return f"{ancestor} is no folder"
            # Into a sticky folder others can write, and change nothing of ours.
            if seen.st_mode & (_OTHERS if ancestor == place else 0 if seen.st_mode & stat.S_ISVTX else stat.S_IWOTH):
                return f"others can write into {ancestor}"
        if os.statvfs(there[0]).f_flag & getattr(os, "ST_NOEXEC", 0):
            return f"no program is run from {folder} (noexec)"
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return ""


def failures(folder: Path) -> list[Path]:
    """Notes of builds that failed within a day, each of which says why."""
    notes = [*folder.glob("*.failed"), *folder.glob("*.slow")]
    return [note for note in notes if time.time() - note.stat().st_mtime < _DAY]


def built(name: str, sources: Sequence[Path], flags: Sequence[str]) -> ctypes.CDLL:
    """The library of that name, made of the first of the sources where it is not there yet. Raises NoKernel."""
    if os.environ.get(COMPILE) == "off":
        raise NoKernel("--compile off", asked=True)
    if os.name != "posix":
        raise NoKernel(f"none is built on {sys.platform}")
    words = find_compiler().words
    seen = os.stat(words[0])
    by = _digest("\0".join([*words, str(seen.st_size), str(seen.st_mtime_ns), *processor()]).encode())
    text = b"\0".join(source.read_bytes() for source in sources)
    stem = f"{name}-{_digest(' '.join([by, *flags]).encode() + text)}"
    troubles = {folder: trouble(folder) for folder in folders()}
    for folder, wrong in troubles.items():
        if not wrong and (library := _kept(folder, stem)) is not None:
            return library
    for folder, wrong in troubles.items():
        troubles[folder] = wrong or _unwritable(folder)
        if not troubles[folder]:
            for note in failures(folder):
                if note.stem in (stem, by):
                    why = note.read_text(encoding="utf-8")
                    raise NoKernel(f"{why} (tried again in a day, or when the file {note} is gone)")
            _announce(folder, next(filter(None, troubles.values()), ""))
            return _made(folder, stem, by, [*words, *flags], sources[0])
    raise NoKernel(f"nowhere to keep a kernel: {'; '.join(troubles.values())}")


class Once(Generic[FoundT]):
    """A function without arguments, called once a process: what it gave, or the NoKernel it raised, is kept."""

    def __init__(self, make: Callable[[], FoundT]) -> None:
        self._make = make
        self._known: FoundT | NoKernel | None = None

    def __call__(self) -> FoundT:
        if self._known is None:
            try:
                self._known = self._make()
            except NoKernel as error:
                if error.asked:  # the next one may want it
                    raise
                self._known = NoKernel(str(error))
        if isinstance(self._known, NoKernel):
            raise NoKernel(str(self._known))
        return self._known

    def cache_clear(self) -> None:
        self._known = None


def _digest(what: bytes) -> str:
    return hashlib.sha256(what).hexdigest()[:24]


def _kept(folder: Path, stem: str) -> ctypes.CDLL | None:
    """A library that was made before. One that is not what was written is deleted."""
    for place in sorted(folder.glob(f"{stem}-*.so")):
        with suppress(OSError):
            seen = place.lstat()
            if not stat.S_ISREG(seen.st_mode) or seen.st_uid not in (os.geteuid(), 0) or seen.st_mode & _OTHERS:
                continue
            if place.stem != f"{stem}-{_digest(place.read_bytes())}":
                place.unlink()
                continue
            if time.time() - seen.st_mtime > _DAY:
                with suppress(OSError):
                    os.utime(place)  # what is used is not removed
            return ctypes.CDLL(str(place))
    return None


def _unwritable(folder: Path) -> str:
    """Why nothing can be kept in a folder, or "". It is there afterwards."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(bytes(_ROOM))
            trial.flush()
            os.fsync(trial.fileno())
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return trouble(folder)


@cache  # one line a process, for all libraries
def _announce(folder: Path, instead: str) -> None:
    where = f", in {folder} ({instead})" if instead else ""
    with suppress(OSError, AttributeError):  # there may be no standard error
        print(running(f"specviz: building the kernel, some seconds, once{where} …"), file=sys.stderr, flush=True)


def _made(folder: Path, stem: str, by: str, line: Sequence[str], source: Path) -> ctypes.CDLL:
    """A library that was not there. Raises NoKernel, of which a note is left: by its name; of one that took too long by
    that of the compiler, which would take too long for the others too."""
    staged = Path(tempfile.mkdtemp(prefix=f"{stem}-", suffix=".new", dir=folder))
    try:
        new = staged / "library.so"
        why, is_slow = _compile([*line, "-o", str(new), str(source), "-lm"], new)
        if not why:
            place = folder / f"{stem}-{_digest(new.read_bytes())}.so"
            _install(new, place)
            try:
                return ctypes.CDLL(str(place))
            except OSError as error:
                why = f"{place} cannot be loaded here: {error}"
        with suppress(OSError):
            (folder / (f"{by}.slow" if is_slow else f"{stem}.failed")).write_text(why, encoding="utf-8")
        raise NoKernel(why)
    except OSError as error:
        raise error if isinstance(error, NoKernel) else NoKernel(f"{folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        _sweep(folder)


def _compile(line: Sequence[str], new: Path) -> tuple[str, bool]:
    """Why the compiler made no library that can be loaded, or ""; whether it took too long."""
    if not sys.executable:
        return "there is no Python to watch the compiler with", False
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", watched_build.__file__, str(LONGEST), str(new), *line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "TMPDIR": str(new.parent)},
        start_new_session=True,  # Ctrl-C is for this process: its end is that of the child
    )
    with child:
        assert child.stdout is not None
        output_lines = [text.strip() for text in child.stdout.read().splitlines() if text.strip()]
    code, last = child.returncode, output_lines[-1] if output_lines else "no word"
    if code == watched_build.COMPILER_FAILED:
        first_error = next((text for text in output_lines if "error" in text), output_lines[0])
        return f"{line[0]} failed: {first_error}", False
    if code == watched_build.TOO_SLOW:
        return f"{line[0]} took longer than {LONGEST:.0f} s", True
    if code:
        last = signal.Signals(-code).name if code < 0 else last
        return f"what {line[0]} made cannot be loaded: {last}", False
    return "", False


def _install(new: Path, place: Path) -> None:
    """Put a file in its place, whole or not at all, also when the power fails."""
    new.chmod(0o755)
    for path, then in ((new, lambda: new.replace(place)), (place.parent, lambda: None)):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
        then()


def _sweep(folder: Path) -> None:
    """Delete libraries not used for a month and the leftovers of interrupted builds."""
    for entry in folder.glob("*"):
        with suppress(OSError):
            unused = time.time() - entry.lstat().st_mtime > (_UNUSED if entry.suffix == ".so" else _DAY)
            if unused and _OURS.match(entry.name):
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
