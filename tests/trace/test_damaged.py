"""Bundled traces, damaged from a seed: every command and every screen reads them or says in one line why not.

`SPECVIZ_FUZZ=N` tries N of each instead of one (the first stays the same).
"""

import os
import random
from pathlib import Path

import pytest

from support.damage import DAMAGE, few_rounds, lines_of, look
from support.recordings import RECORDINGS

TIMES = int(os.environ.get("SPECVIZ_FUZZ", "1"))
TRACES = (
    "code-ngram",
    "code-tree",
    "code-hsd",
    "code-specbound",
    "code-specbranch",
    "code-pearl",
    "code-specblock",
    "code-lookahead",
    "code-kangaroo",
    "code-eagle3",
)


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("damage", DAMAGE, ids=[damage.__name__ for damage in DAMAGE])
def test_damage_is_shown_or_told(damage, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    lines = few_rounds(lines_of(RECORDINGS[name]), 1 if name == "code-eagle3" else 2)
    for seed in range(TIMES):
        path = tmp_path / f"{seed}.sv.jsonl"
        path.write_bytes(damage(lines, random.Random(f"{name} {damage.__name__} {seed}")))
        for code in look(path):
            assert code in (0, 2), seed
        err = capsys.readouterr().err
        assert "Traceback" not in err
        assert err.count("specviz: ") == err.count("\n"), err
