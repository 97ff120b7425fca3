"""Libraries of C are made whole or not at all, kept where nobody else can write, and what goes wrong is one line."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from specviz.engine.model.compiled import build
from specviz.engine.model.compiled.build import NoKernel, built, find_compiler, folders
from specviz.names import COMPILE

CC = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler here")
FLAGS = ("-shared", "-fPIC")
ASK = """
import sys
from pathlib import Path
from specviz.engine.model.compiled import build
build.LONGEST = float(sys.argv[3])
try:
    print(build.built(sys.argv[2], (Path(sys.argv[1]),), ("-shared", "-fPIC")).answer())
except build.NoKernel as error:
    print(error)
"""


@pytest.fixture(autouse=True)
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a source and a cache of its own; `temporary` is where the second choice lies."""
    monkeypatch.setenv(COMPILE, "auto")
    for name in ("CC", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    build._announce.cache_clear()
    (tmp_path / "answer.c").write_text(
        f"static char large[{1 << 16}] = {{7}};\nint answer(void) {{ return 35 + large[0]; }}\n"
    )
    return tmp_path


def ask(house: Path, name: str = "answer", longest: float = 60) -> "subprocess.CompletedProcess[str]":
    """A process that wants the library: it prints 42, or why not."""
    line = [sys.executable, "-c", ASK, str(house / "answer.c"), name, str(longest)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def said(house: Path, name: str = "answer", longest: float = 60) -> str:
    done = ask(house, name, longest)
    assert done.returncode == 0, done
    return done.stdout.strip()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if not path.is_dir() and path.name != "calls")


def compiler(house: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Callable[[], int]:
    """`$CC` is a script, to which `out` is the file that it is to make; how often it was called."""
    place = house / "mycc"
    head = 'for each; do if [ "$before" = -o ]; then out=$each; fi; before=$each; done'
    place.write_text(f'#!/bin/sh\necho "$@" >> {house}/calls\n{head}\n{script}\n')
    place.chmod(0o755)
    monkeypatch.setenv("CC", str(place))
    return lambda: len((house / "calls").read_text().splitlines()) if (house / "calls").exists() else 0


def test_it_is_announced_once_and_found_again(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = compiler(house, monkeypatch, f'exec {CC} "$@"')
    first, again = ask(house), ask(house)
    assert (first.stdout, again.stdout, calls()) == ("42\n", "42\n", 1)
    assert first.stderr == "specviz: building the kernel, some seconds, once …\n"
    assert again.stderr == ""
    assert len(files(house / "cache")) == 1
    assert not files(house / "temporary")


@pytest.mark.parametrize("harm", ["cut", "zeros"])
def test_a_damaged_library_is_made_again(house: Path, harm: str) -> None:
    """Loaded, either would end the process at the first touch of a page."""
    assert said(house) == "42"
    (place,) = (house / "cache").rglob("*.so")
    whole = place.read_bytes()
    place.write_bytes(whole[: len(whole) // 3] if harm == "cut" else whole[:4096] + bytes(len(whole) - 4096))
    assert said(house) == "42"
    assert [path.read_bytes() for path in (house / "cache").rglob("*.so")] == [whole]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ('echo x > "$out"; echo "x.c: note: n"; echo "x.c: error: no space"; exit 1', "failed: x.c: error: no space"),
        ('echo x > "$out"; exit 3', "failed: exit code 3"),
        ("exit 0", "failed: it made no file"),
        ('echo garbage > "$out"', "cannot be loaded: file too short"),
        (f'{CC} "$@"; truncate -s 8192 "$out"', "cannot be loaded: SIG"),
    ],
)
def test_what_a_compiler_makes_badly_is_never_kept(
    script: str, why: str, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told in one line, and remembered: the next process does not try again."""
    calls = compiler(house, monkeypatch, script)
    first = said(house)
    assert why in first
    assert "\n" not in first
    assert not [name for name in files(house / "cache") if not name.endswith(".failed")]
    assert said(house).startswith(first)
    assert calls() == 1
    (note,) = (house / "cache").rglob("*.failed")
    os.utime(note, (0, 0))
    assert said(house) == first, "a day later"
    assert calls() == 2


def test_a_slow_compiler_is_waited_for_once(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = compiler(house, monkeypatch, "sleep 1000")
    assert "took longer than 1 s" in said(house, longest=1)
    assert "took longer than" in said(house, name="other", longest=1), "it would be for the other library too"
    assert calls() == 1
    assert not running(house)


def running(house: Path) -> list[str]:
    """Command lines of processes that have to do with the folder."""
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in lines.splitlines() if str(house) in line]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_goes_on_when_the_one_who_asked_is_gone(
    number: signal.Signals, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So many files that whoever removes them is overtaken by whoever only waits for the compiler to end.
    many = '(cd "${out%/*}" && seq 9999 | xargs touch)'
    compiler(house, monkeypatch, f"{many}; touch {house}/begun; sh -c 'while sleep 1; do : {house}; done'")
    line = [sys.executable, "-c", ASK, str(house / "answer.c"), "answer", "60"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # which what runs in the background does not hear
    with subprocess.Popen(line, stderr=subprocess.DEVNULL, preexec_fn=heard) as asking:
        until((house / "begun").exists)
        asking.send_signal(number)
    until(lambda: not running(house))
    until(lambda: not [*(house / "cache" / "specviz" / "compiled").iterdir()])


def until(true: Callable[[], bool]) -> None:
    for _ in range(3000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never came true")


def foreign(folder: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives folders away")
    folder.mkdir(parents=True)
    os.chown(folder, 65534, -1)


def is_file(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("")


def open_to_all(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def below_an_open_one(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.parent.chmod(0o777)


def foreign_link(folder: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives links away")
    own = folder.parent.parent / "own"
    own.mkdir(parents=True, mode=0o700)
    folder.parent.mkdir()
    folder.symlink_to(own)
    os.chown(folder, 65534, -1, follow_symlinks=False)


BAD = {
    foreign_link: "belongs to somebody else",
    foreign: "belongs to somebody else",
    is_file: "is no folder",
    open_to_all: "others can write into",
    below_an_open_one: "others can write into",
}


@pytest.mark.parametrize("spoil", BAD)
def test_where_the_cache_will_not_do_it_is_kept_in_a_private_folder(
    spoil: Callable[[Path], None], house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that waits there under the right name is never run."""
    calls = compiler(house, monkeypatch, f'exec {CC} "$@"')
    assert said(house) == "42"
    cache = folders()[0]
    (library,) = cache.iterdir()
    kept = library.rename(house / library.name)
    cache.rmdir()
    cache.parent.rmdir()
    spoil(cache)
    if cache.is_dir():
        shutil.copy(kept, cache)
    first, again = ask(house), ask(house)
    assert (first.stdout, again.stdout, calls()) == ("42\n", "42\n", 2)
    (second,) = (house / "temporary").iterdir()
    assert BAD[spoil] in first.stderr
    assert f"once, in {second} (" in first.stderr
    assert first.stderr.count("\n") == 1
    assert again.stderr == ""
    assert stat.S_IMODE(second.stat().st_mode) == 0o700


def test_a_file_that_others_may_change_is_not_loaded(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = compiler(house, monkeypatch, f'exec {CC} "$@"')
    assert said(house) == "42"
    (library,) = (house / "cache").rglob("*.so")
    library.chmod(0o777)
    assert said(house) == "42"
    assert calls() == 2


@pytest.mark.parametrize("kind", ["noexec", "full"])
def test_a_disk_that_will_not_do_is_seen_before_anything_is_compiled(
    kind: str, house: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """There, and in the second folder too."""
    calls = compiler(house, monkeypatch, f'exec {CC} "$@"')
    if kind == "noexec":
        usual = os.statvfs(house)
        there = os.statvfs_result((*usual[:8], getattr(os, "ST_NOEXEC", 8), usual[9]))
        monkeypatch.setattr(os, "statvfs", lambda place: there if "cache" in str(place) else usual)
    else:

        def full(dir: Path) -> object:
            if "cache" in str(dir):
                raise OSError(28, "No space left on device")
            return usual_file(dir=dir)

        usual_file = build.tempfile.TemporaryFile
        monkeypatch.setattr(build.tempfile, "TemporaryFile", full)
    source = (house / "answer.c",)
    assert built("answer", source, FLAGS).answer() == 42
    err = capfd.readouterr().err
    assert ("noexec" if kind == "noexec" else "No space left") in err
    assert str(house / "temporary") in err
    assert built("answer", source, FLAGS).answer() == 42
    assert calls() == 1
    monkeypatch.setattr(build, "folders", lambda: [house / "cache" / name for name in ("a", "b")])
    with pytest.raises(NoKernel, match=r"nowhere to keep a kernel: .*cache/a.*; .*cache/b"):
        built("other", source, FLAGS)
    assert calls() == 1


def test_what_nobody_uses_any_more_is_removed(house: Path) -> None:
    cache = folders()[0]
    cache.mkdir(parents=True, mode=0o700)
    old, recent = "passes-" + "0" * 24, "passes-" + "1" * 24 + ".so"
    (cache / f"{old}-x.new").mkdir()
    for name in (f"{old}.so", recent, f"{old}.123", f"{old}-x.new", f"{old}.failed", "0" * 24 + ".slow", "not ours.so"):
        (cache / name).touch()
        age = 86400 * (29 if name == recent else 31)
        os.utime(cache / name, (time.time() - age,) * 2)
    assert said(house) == "42"
    (library,) = (path for path in cache.iterdir() if path.name.startswith("answer"))
    assert {path.name for path in cache.iterdir()} == {recent, "not ours.so", library.name}
    os.utime(library, (time.time() - 86400 * 40,) * 2)
    assert said(house) == "42"
    assert time.time() - library.stat().st_mtime < 3600, "what is used is not removed"


def test_a_compiler_may_bring_arguments(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{CC} -O1 -DNAME='a b'")
    assert find_compiler() == build.Compiler((str(CC), "-O1", "-DNAME=a b"))
    assert said(house) == "42"


@pytest.mark.parametrize("named", ["nosuch -m64", "nosuch", "'"])
def test_one_that_is_not_there_is_told(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", named)
    cc = find_compiler()
    assert cc.words == (CC,)
    assert cc.remark == f"CC={named}: there is no such program; {CC} builds the kernel"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NoKernel, match=r"no C compiler here \(CC="):
        find_compiler()
