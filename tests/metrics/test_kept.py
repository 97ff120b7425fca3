"""Metrics that were written and read again are the same ones."""

from pathlib import Path

import pytest

from specviz.metrics import measure, metric, unregister
from specviz.trace import read_events
from specviz.view.judge.kept import packed, unpacked
from support.recordings import RECORDINGS


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_what_is_kept_comes_back_as_it_was(name: str) -> None:
    metrics = measure(read_events(RECORDINGS[name]))
    again = unpacked(packed(metrics))
    assert again is not None
    assert dict(again) == dict(metrics)
    assert again.as_dict() == metrics.as_dict()


def test_what_is_something_else_is_none(tmp_path: Path) -> None:
    data = packed(measure(read_events(RECORDINGS["code-ar"])))
    assert unpacked(b"") is None
    assert unpacked(data[:-3]) is None

    @metric("mine", unit="rounds", help="of my own")
    def mine(run: object) -> object:
        """What nobody can write."""
        return object()

    try:
        assert unpacked(data) is None
        assert packed(measure(read_events(RECORDINGS["code-ar"]))) == b""
    finally:
        unregister("mine")
