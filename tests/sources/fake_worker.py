"""A worker for tests: speaks the wire over stdin and stdout, and misbehaves on request. Usage: fake_worker.py MANNER
LINES

LINES is a file of events as JSON lines (a catalogue is written first). Manners: whole, slow, sigkill, exit3, garbage,
silent, mute (never reads nor writes), twice (two runs), obey (waits for `start`, then writes; answers `stop` by
`refused`). In the middle of a run and alive after it: shut (closes its output), deaf (closes its input), orphan (dies,
a child of it keeps the output open), beating (a sign of life every 0.1 s).
"""

import json
import os
import signal
import sys
import time

HALF = 2  # of the lines, when it dies


def main(manner: str, path: str) -> None:
    with open(path, "rb") as file:
        lines = file.readlines()
    catalogue = {"ev": "catalogue", "methods": [], "verifiers": [], "models": {"target": {"name": "table"}}}
    if manner in ("silent", "mute"):
        print("loading for ever", file=sys.stderr, flush=True)
        time.sleep(60)
    if manner == "unready":
        print("no such folder: models/x", file=sys.stderr, flush=True)
        sys.exit(2)
    say(json.dumps(catalogue).encode() + b"\n")
    if manner == "obey":
        obey(lines)
        return
    if manner == "garbage":
        say(
            b"Loading weights: 100%|####|\n\xff\xfe not utf-8\n"
            + b'{"ev": "round_end"}\n'
            + b'{"ev": "tomorrow", "x": 1}\n'
        )
    if manner == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say(b"".join(lines[: len(lines) // HALF]))
        time.sleep(60)
    if manner in ("shut", "deaf", "orphan", "beating"):
        say(b"".join(lines[: len(lines) // HALF]))
        live_on(manner)
    if manner in ("sigkill", "exit3", "torn"):
        say(b"".join(lines[: len(lines) // HALF]))
        print("allocating the last byte", file=sys.stderr, flush=True)
        if manner == "torn":
            say(lines[len(lines) // HALF][:20])
        if manner == "exit3":
            sys.exit(3)
        os.kill(os.getpid(), signal.SIGKILL)
    say(b"".join(lines))
    if manner == "twice":
        say(b"".join(lines))


def live_on(manner: str) -> None:
    """Half of a run is out, nothing more of it comes."""
    if manner == "shut":
        os.close(1)
    elif manner == "deaf":
        os.close(0)
    elif manner == "orphan" and os.fork():
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(200):  # an orphan ends by itself
        if manner == "beating":
            say(b'{"ev":"beat"}\n')
        time.sleep(0.1)


def obey(lines: list[bytes]) -> None:
    for line in sys.stdin.buffer:
        command = json.loads(line)
        if command["cmd"] == "start":
            say(b"".join(lines[: len(lines) // HALF]))
        elif command["cmd"] == "shutdown":
            say(b'{"ev":"end","reason":"stopped","q":0,"r":3}\n')
            return
        else:
            say(json.dumps({"ev": "refused", "id": command["id"], "message": "no"}).encode() + b"\n")


def say(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
