"""The real server over the scripted core, for tests that need sockets.

No REPLAY means live; manners are those of the core, `talks` before all. `open`: nothing is asked for, and what
comes with the package are the recordings of the tests. `shared`: only the owner commands. `busy`: of a machine that has
other work, on which every script begins late.
"""

import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from streamlit.runtime.scriptrunner.script_runner import ScriptRunner

from specviz_app.launcher import serve
from specviz_app.server.core import Settings
from specviz_app.server.server import Server
from specviz_app.ui import library
from support.recordings import RECORDINGS


def main(port: int, words: list[str], ready: "Connection[str, str]") -> None:
    """Serve at a port. `words`: [REPLAY | MANNER ..]; `ready` is sent the token once pages can be fetched."""
    replay = Path(words[0]) if words and Path(words[0]).is_absolute() else None
    command = (sys.executable, str(Path(__file__).with_name("fake_core.py")), "0.05", *words)
    if "open" in words:
        library.bundled_traces = lambda: RECORDINGS
    if "busy" in words:
        begin = ScriptRunner._run_script_thread
        ScriptRunner._run_script_thread = lambda runner: (time.sleep(0.3), begin(runner))  # type: ignore
    server = Server(Settings(replay=replay, command=command, live=replay is None and "open" not in words))
    if "shared" in words:
        server.share()
    try:
        serve(server, "127.0.0.1", port, False, lambda address: ready.send(server.token))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)  # as a shell has it; a fork's own word would be 1, as of any error
