"""Every command that takes a recording takes the name of one that comes with the package, and says the nearest name."""

from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Cli
from specviz.cli import COMMANDS

NAME, TYPO = "explain-draft", "explian-draft"
TAKING = {
    "compare": [NAME, "story-pearl"],
    "diagnose": [NAME],
    "export": [NAME, "--svg", "r1"],
    "export --html": [NAME],
    "stats": [NAME],
    "stats --sql": ["select count(*) from rounds", NAME],
    "tui": ["--replay", NAME],
    "web": ["--replay", NAME, "--port", "0"],
    "whatif": [NAME, "--at", "r1"],
    "whatif --sweep": ["specbound", NAME, "--tau", ".5"],
}
OTHERS = "attach check doctor import lab learn models run train tune watch"
SAID = {
    "tui": "no terminal",
    "whatif --sweep": "record with --verifier walk",
}  # how far one comes with this recording here


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without traces; nothing is served."""
    monkeypatch.chdir(tmp_path)

    def serve(server: Any, *_given: Any) -> None:
        assert server.settings.replay.name.startswith(NAME)

    monkeypatch.setattr("specviz_app.launcher.serve", serve)


def test_no_command_is_forgotten() -> None:
    assert set(COMMANDS) == {*(words.partition(" ")[0] for words in TAKING), *OTHERS.split()}


@pytest.mark.parametrize("command", TAKING)
def test_a_recording_of_the_package_is_known_by_its_name(command: str, cli: Cli) -> None:
    done = cli(*command.split(), *TAKING[command])
    if command in SAID:
        assert SAID[command] in done.line
    else:
        assert done.code == 0, done.err


@pytest.mark.parametrize("command", TAKING)
def test_a_name_that_is_nearly_one_is_answered_by_it(command: str, cli: Cli) -> None:
    words = [TYPO if word == NAME else word for word in TAKING[command]]
    assert f"no trace {TYPO}; did you mean '{NAME}'?" in cli(*command.split(), *words).line
