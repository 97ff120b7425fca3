"""The real server over the scripted core, for tests that need sockets: serve.py PORT [REPLAY | MANNER ..].

No REPLAY means live; manners are those of the core, `talks` before all.
"""

import sys
from pathlib import Path

from specviz_app.launcher import serve
from specviz_app.server.core import Settings
from specviz_app.server.server import Server


def main() -> None:
    port, words = int(sys.argv[1]), sys.argv[2:]
    replay = Path(words[0]) if words and Path(words[0]).is_absolute() else None
    command = (sys.executable, str(Path(__file__).with_name("fake_core.py")), "0.05", *words)
    server = Server(Settings(replay=replay, command=command, live=replay is None))
    serve(server, "127.0.0.1", port, False, lambda address: print(server.token, flush=True))


if __name__ == "__main__":
    main()
