"""Recorded runs, made once; the terminal's own wishes (NO_COLOR, TEXTUAL_*) do not reach the tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet

from specviz import events as ev
from specviz_tui.common.bookmarks import ENDING
from support.branch_trace import worked
from support.exit_trace import exit_events
from support.live import Cores, recorded
from support.rank_trace import rank_events
from support.traces import Recipe, make_header, write_trace
from support.worked_trace import worked_events


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")  # 16 colours are a test of their own
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("NO_COLOR", "TEXTUAL_ANIMATIONS", "TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM", "TEXTUAL_FILTERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def nothing_stays_beside_recordings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Recordings are made once for all tests: a bookmark that one sets beside it is not there for the next."""
    yield
    for beside in tmp_path_factory.getbasetemp().glob(f"*/*{ENDING}"):
        if beside.is_file():
            beside.unlink(missing_ok=True)  # a folder has two names: pytest keeps a link to the newest of a kind


@pytest.fixture(autouse=True, scope="session")
def styles_are_read_once() -> Iterator[None]:
    """Every application reads the same style sheets, which do not change: one reading for each set of variables."""
    read: dict[Any, Any] = {}
    plain = Stylesheet._parse_rules

    def remembered(self: Stylesheet, *args: Any, **named: Any) -> Any:
        key = (args, *sorted(named.items()), *sorted(self._variables.items()))
        if key not in read:
            read[key] = plain(self, *args, **named)
        return read[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", remembered)
        yield


@pytest.fixture(scope="session")
def chain_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("chain"), "chain", temperature=0.8, new_tokens=40, knob_at=5)


@pytest.fixture(scope="session")
def tree_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("tree"), "tree", shape="tree", temperature=0.7, new_tokens=32)


@pytest.fixture(scope="session")
def two_queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("two"), "two", queries=2, new_tokens=8)


@pytest.fixture(scope="session")
def case_d(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Case D (`support.worked_trace`), judged by hsd."""
    return write_trace(tmp_path_factory.mktemp("d") / "case-d", worked_events())


@pytest.fixture(scope="session")
def branched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worked trace (`support.branch_trace`), with measured costs t = 1 ms, c = 4."""
    header = make_header(Recipe(temperature=0.0), method="specbranch", drafter="branch", verifier="walk")
    prefill = ev.Prefill(prompt=[1] * 11, text="p", n_prompt=11, seed=0, dur_ns=1)
    costs = ev.Calibration(t_ns=1_000_000, c=4.0, kappa_q=0.0, kappa_p=0.0)
    events = [header, costs, prefill, *[event for records in worked() for event in records], ev.End(reason="done")]
    for i, event in enumerate(events):
        event.i = i
        if isinstance(event, ev.Fork):
            event.branches = [
                ev.BranchToken(branch=n.branch, node=n.node, token=n.token, rank=n.branch + 1, kind="top")
                for n in events
                if isinstance(n, ev.Node) and n.r == event.r and n.pos == event.pos and n.branch is not None
            ]
    return write_trace(tmp_path_factory.mktemp("branch") / "worked", events)


@pytest.fixture(scope="session")
def exit_trace_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A swept run of specbound on a table."""
    return write_trace(tmp_path_factory.mktemp("exits") / "exits", exit_events())


@pytest.fixture(scope="session")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of specblock on a table, sampled."""
    folder = tmp_path_factory.mktemp("ranks")
    return write_trace(folder / "ranks", rank_events(temperature=0.8, new_tokens=40))


@pytest.fixture(scope="session")
def learning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six queries of two domains, each ended with a decision of the bandit."""
    folder = tmp_path_factory.mktemp("learns")
    return write_trace(folder / "learns", rank_events(queries=6, learns=True, domains=("code", "prose")))


@pytest.fixture
def cores() -> Cores:
    return Cores()
