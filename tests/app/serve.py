"""The real server over the scripted core, for tests that need sockets: serve.py PORT [REPLAY]; no REPLAY means live."""

import sys
from pathlib import Path

from specviz_app.launcher import serve
from specviz_app.server.core import Settings
from specviz_app.server.server import Server


def main() -> None:
    port, replay = int(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2:] else None
    command = (sys.executable, str(Path(__file__).with_name("fake_core.py")), "0.05")
    server = Server(Settings(replay=replay, command=command, live=replay is None))
    serve(server, "127.0.0.1", port, False, lambda address: print(server.token, flush=True))


if __name__ == "__main__":
    main()
