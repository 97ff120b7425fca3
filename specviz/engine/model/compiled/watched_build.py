"""Run a compiler and load the library it made, in a child process that ends with its parent.

`build.py` starts this script as `python watched_build.py SECONDS LIBRARY COMPILER ARGUMENT ..`. Its standard input is a
pipe that the parent never writes to: end of file means that the parent is gone, and then the compiler is stopped and
the library's folder removed. Loading a broken library can crash a process, so it is tried here first.
"""

import contextlib
import ctypes
import mmap
import os
import select
import shutil
import signal
import subprocess
import sys
import threading

COMPILER_FAILED, TOO_SLOW, NOT_LOADED = 10, 11, 12  # exit codes; below 0: the library ended the process
_NOW = 2  # RTLD_NOW: every symbol is looked up


def main(seconds: float, library: str, line: list[str]) -> int:
    """The exit code; why is on standard output, behind what the compiler says."""
    try:
        compiler = subprocess.Popen(line, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        print(error.strerror, flush=True)
        return COMPILER_FAILED
    leaving = threading.Thread(target=_leave_with_who_asked, args=(compiler, os.path.dirname(library)), daemon=True)
    leaving.start()
    try:
        return _tried(compiler, seconds, library)
    finally:
        if select.select([0], [], [], 0)[0]:  # the parent is gone: this is not to end before the folder is removed
            leaving.join()


def _tried(compiler: "subprocess.Popen[bytes]", seconds: float, library: str) -> int:
    """The exit code, once the compiler has ended and its library was loaded."""
    try:
        code = compiler.wait(seconds)
    except subprocess.TimeoutExpired:
        _kill(compiler)
        return TOO_SLOW
    if code or not os.path.exists(library):
        print(f"exit code {code}" if code else "it made no file", flush=True)
        return COMPILER_FAILED
    try:
        ctypes.CDLL(library, _NOW)
        _read_all(library)
    except OSError as error:
        print(str(error).removeprefix(f"{library}: "), flush=True)
        return NOT_LOADED
    return 0


def _read_all(library: str) -> None:
    """Every page of a loaded library, where the system tells them: one that is not in the file ends the process."""
    with contextlib.suppress(FileNotFoundError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for mapping in maps:
            addresses, access, *_ = mapping.split()
            if mapping.rstrip("\n").endswith(library) and access.startswith("r"):
                first, end = (int(word, 16) for word in addresses.split("-"))
                for page in range(first, end, mmap.PAGESIZE):
                    _ = ctypes.c_ubyte.from_address(page).value  # one by one: a sanitizer watches copies


def _leave_with_who_asked(compiler: "subprocess.Popen[bytes]", folder: str) -> None:
    os.read(0, 1)
    _kill(compiler)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _kill(compiler: "subprocess.Popen[bytes]") -> None:
    """The compiler, and what it started."""
    with contextlib.suppress(OSError):
        os.killpg(compiler.pid, signal.SIGKILL)
    compiler.wait()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2], sys.argv[3:]))
