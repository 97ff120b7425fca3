"""Tests that need a CUDA device: `pytest -m cuda` (`make gpu`) picks them, and where there is none they are skipped."""

from typing import Any

import pytest
import torch

_MARKS = (pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))


def on_cuda(*values: Any, **named: Any) -> Any:
    """Parameters of a test that hold for a CUDA device alone."""
    return pytest.param(*values, marks=_MARKS, **named)


PLACES = ["cpu", on_cuda("cuda")]
