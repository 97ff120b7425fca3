"""Looks for what nobody holds any more: seldom inside, as before behind it, whatever ended it."""

import gc

import pytest

from specviz.collecting import SELDOM, seldom


def test_looks_are_seldom_inside_and_usual_behind() -> None:
    usual = gc.get_threshold()
    assert usual != SELDOM
    with seldom():
        assert gc.get_threshold() == SELDOM
        assert gc.get_freeze_count() > 1_000, "what was there before is looked at no more"
    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, 0)
    with pytest.raises(KeyError), seldom():
        raise KeyError("ended early")
    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, 0)
