"""Files of recordings are closed with who reads them, whether somebody remembers to or not."""

import gc
from pathlib import Path

from specviz.runlog.spool import Spool
from specviz.trace.files import Plain
from support.traces import make_events, write_trace


def test_a_recording_that_nobody_closes_lets_go_of_its_file(tmp_path: Path) -> None:
    plain = Plain(write_trace(tmp_path / "run", make_events()), 1 << 20)
    plain.itself = plain  # type: ignore[attr-defined]  # as in a page that was left: found by the collector alone
    file = plain.file
    del plain
    gc.collect()
    assert file.closed


def test_so_does_what_a_long_run_pushed_out_of_memory() -> None:
    spool = Spool()
    for _ in range(9):
        spool.put(b"a round " * 900)
    file = spool._file
    assert file is not None
    spool.itself = spool  # type: ignore[attr-defined]
    del spool
    gc.collect()
    assert file.closed
