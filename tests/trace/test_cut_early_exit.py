"""Early-exit recordings that were cut off: every screen is drawn of them, and `sweep` replays them or says why not."""

import json
from pathlib import Path

import msgspec
import pytest

from specviz.cli import main
from specviz.events import Commit, Event, ExitTable, Gate, LayerTrace, RoundEnd, encode
from specviz.trace import read_events
from specviz.view.panels.exits.model import BANDS, band
from support.damage import SCREENS, frames
from support.exit_trace import exit_events
from support.recordings import RECORDINGS

EVENTS = exit_events(n_tokens=16)


def written(path: Path, events: list[Event]) -> Path:
    path.write_bytes(b"".join(encode(event) + b"\n" for event in events))
    return path


def test_every_screen_is_drawn_wherever_it_was_cut(tmp_path: Path) -> None:
    """At every line of a round: also among its climbs, where nobody knows yet what the drafts earned."""
    events = read_events(RECORDINGS["code-specbound"])
    end = next(k for k, event in enumerate(events) if isinstance(event, RoundEnd))
    inside = 0
    for k in range(1, end + 2):
        assert frames(written(tmp_path / "a.sv.jsonl", events[:k]), n=1) >= len(SCREENS)
        inside += isinstance(events[k - 1], LayerTrace | Gate)
    assert inside > 4


@pytest.mark.parametrize(("method", "flags"), [("specbound", ["--alpha", "0.5"]), ("adadecode", [])])
def test_a_sweep_of_what_was_cut_off_is_a_table_or_one_line(
    method: str, flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At every line, with what the heads say of the tokens that are left."""
    body = [event for event in EVENTS if not isinstance(event, ExitTable)]
    table = [event for event in EVENTS if isinstance(event, ExitTable)]
    codes = set()
    for k in range(1, len(body)):
        path = written(tmp_path / "a.sv.jsonl", body[:k] + table)
        code = main(["whatif", str(path), "--sweep", method, *flags, "--tau", "0.5,0.9", "--json"])
        out, err = capsys.readouterr()
        has_text = any(isinstance(event, Commit) for event in body[:k])
        assert code == (0 if has_text else 2), err
        assert len(json.loads(out)["totals"]) == 2 if has_text else (out, err.count("\n")) == ("", 1)
        codes.add(code)
    assert codes == {0, 2}


def test_a_head_s_words_about_another_prompt_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = [msgspec.structs.replace(e, q=1) if isinstance(e, ExitTable) else e for e in EVENTS]
    assert (
        main(["whatif", str(written(tmp_path / "a.sv.jsonl", others)), "--sweep", "specbound", "--alpha", "0.5"]) == 2
    )
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "a 'exit_table' record of query 1, but no prompt of it" in err


@pytest.mark.parametrize(
    "values", [{"pos": 2**63}, {"layer": 10**12}, {"top1": 2**63}, {"pos": 3}, {"layer": 0}], ids=str
)
def test_a_head_s_words_of_nowhere_are_one_line(
    values: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [encode(event) for event in EVENTS]
    at = max(k for k, event in enumerate(EVENTS) if isinstance(event, ExitTable))
    lines[at] = json.dumps(json.loads(lines[at]) | values).encode()
    (tmp_path / "a.sv.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    assert main(["whatif", str(tmp_path / "a.sv.jsonl"), "--sweep", "specbound", "--alpha", "0.5"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_a_confidence_below_all_bands_has_the_lowest() -> None:
    assert [band(conf) for conf in (-0.5, float("nan"), 0.0, 1.0)] == [0, 0, 0, len(BANDS) - 1]
