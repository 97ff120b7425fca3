"""A planted pair on disk: its greedy text, and how often the draft model is right, are known by construction."""

import pytest

from support.models import planted, save


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Folders of target and draft model; the draft model is wrong about a quarter of the tokens."""
    folder = tmp_path_factory.mktemp("pair")
    target, _ = planted(seed=1)
    draft, _ = planted(seed=2, wrong=0.25)
    return save(target, folder / "target"), save(draft, folder / "draft")
