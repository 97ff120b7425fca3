"""Files from a browser: limited in size, checked record by record before anything of them is shown."""

import atexit
import shutil
import tempfile
import zlib
from functools import cache
from pathlib import Path

from specviz.errors import TraceError
from specviz.trace import read_events
from specviz_app.server.settings import INFLATED_MB, UPLOAD_MB

_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"


def accept(name: str, data: bytes, folder: Path | None = None) -> Path:
    """Keep an uploaded trace in a temporary folder. Raises TraceError with the line and the reason, by its own name."""
    safe = Path(name.replace("\\", "/")).name or "upload"
    _check_size(safe, data)
    place = Path(tempfile.mkdtemp(dir=folder or scratch())) / safe
    place.write_bytes(data)
    try:
        read_events(place, check=True)
    except TraceError as error:
        place.unlink()
        place.parent.rmdir()
        raise TraceError(str(error).replace(str(place), safe)) from None
    return place


@cache
def scratch() -> Path:
    """Files of this server: uploads, and what was made of them; they go when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="specviz-uploads-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _check_size(name: str, data: bytes) -> None:
    if len(data) > UPLOAD_MB << 20:
        raise TraceError(
            f"{name} has {len(data) >> 20} MB, uploads may have {UPLOAD_MB}; open it with 'specviz web --replay FILE'"
        )
    if data[:2] == _GZIP and _unpacks_beyond(data, INFLATED_MB << 20):
        raise TraceError(
            f"{name} unpacks to more than {INFLATED_MB} MB; open it with 'specviz web --replay FILE' if you trust it"
        )


def _unpacks_beyond(data: bytes, limit: int) -> bool:
    """Whether a zipped file holds more than `limit` bytes; it is unpacked a piece at a time and thrown away."""
    engine, total = zlib.decompressobj(wbits=31), 0
    while data and not engine.eof:
        try:
            total += len(engine.decompress(data, _CHUNK))
        except zlib.error:
            return False  # the reader says what is wrong with it
        if total > limit:
            return True
        data = engine.unconsumed_tail
    return False
