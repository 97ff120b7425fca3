"""`specviz attach`: a prompt to a running server, its rounds as a trace."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specviz.cli.flags import SERVER_KEY, flag
from specviz.cli.outside.warned import waited_for, warned
from specviz.cli.printing import narrate, terminal_text
from specviz.cli.signals import terminable
from specviz.errors import SpecvizError
from specviz.numerals import plural
from specviz.text import running
from specviz.trace.recorder import existing

if TYPE_CHECKING:
    from specviz.engines.rounds.server import EngineServer
    from specviz.trace import Writer


@click.command("attach")
@click.argument("url")
@click.argument("prompt", required=False)
@click.option(
    "-o", "--out", metavar="TRACE", type=click.Path(path_type=Path), default=Path("attach"), help="Trace to write."
)
@click.option("--max-new-tokens", type=click.IntRange(1, 1 << 20), default=128, show_default=True, metavar="N")
@click.option("--temperature", type=click.FloatRange(0, 100), default=0.0, show_default=True, metavar="T")
@click.option("--seed", type=click.IntRange(0, (1 << 32) - 2), metavar="N", help="Of the server's own draws.")
@click.option("--rule", metavar="NAME", help="The rule in force, where the server was told another than its default.")
@click.option(
    "--proxy",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="In place of PROMPT: listen there on this machine, pass on your client's requests, read the answers.",
)
@flag("--ask", "With --proxy: add the fields to requests that make rounds visible, which changes them.")
@flag("--tui", "Watch the answer's rounds in the terminal, at once.")
@SERVER_KEY
@flag("--force", "Record over an older trace.")
def command(
    url: str,
    prompt: str | None,
    out: Path,
    max_new_tokens: int,
    temperature: float,
    seed: int | None,
    rule: str | None,
    proxy: int | None,
    ask: bool,
    tui: bool,
    key_env: str | None,
    force: bool,
) -> None:
    """Send PROMPT to a server of llama.cpp, vLLM or SGLang and rebuild its rounds from the answer.

    URL may hold user and password (http://user:password@host), for a server behind basic authentication.
    Nothing is installed there. What server it is, is found out. The trace grows while the answer streams: `specviz tui
    attach` beside it follows. vLLM has to be started with --per-request-spec-decode-metrics detailed.

    With --proxy nothing is sent but what your client sends: it gives the printed address in place of the server's, and
    answers reach it byte for byte.

    \b
      specviz attach http://127.0.0.1:8080 "def add(a, b):"
      specviz attach http://127.0.0.1:8080 --proxy 9000
      specviz stats attach
    """
    from specviz.engines.asking import key_of
    from specviz.engines.rounds.attach import ServerRequest, answer, open_trace
    from specviz.engines.rounds.server import find_server

    if (prompt is None) == (proxy is None):
        raise SpecvizError("give a PROMPT to send, or --proxy PORT to pass on what your client sends; one of them")
    if ask and proxy is None:
        raise SpecvizError("--ask changes the requests of a client: give --proxy PORT with it")
    if tui and proxy is not None:
        raise SpecvizError(f"--tui goes with a PROMPT; beside --proxy, watch with: specviz tui {running(str(out))}")
    older = existing(out)
    if older is not None and not force:
        raise SpecvizError(f"{older} is there already; give --force to record over it, or another -o")
    with waited_for("what the server says of itself"):
        server = find_server(url, key_of(key_env))
    if prompt is None:
        _pass_on(server, out, proxy or 0, ask, rule)
        return
    asked = ServerRequest(prompt, max_new_tokens, temperature, seed)
    server_name = " ".join(filter(None, (server.kind, server.version, server.model)))
    trace = open_trace(server, out, asked, rule)
    if tui:
        _watched(answer(server, asked, trace), trace)
        _kept(trace)
        return
    narrate(f"specviz: {running(server_name)} at {running(server.url)}; to watch: specviz tui {running(str(out))}")
    begun = False
    try:
        with terminable(), waited_for("the first token") as waiting:
            for text in answer(server, asked, trace):
                waiting.cancel()
                click.echo(terminal_text(text), nl=False)
                begun = True
    except BaseException as error:
        if begun:
            click.echo()
        trace.close("error", running(str(error)) or type(error).__name__)
        if isinstance(error, SpecvizError) and trace.n_rounds:
            raise SpecvizError(f"{error}; {_rounds(trace)}") from None
        raise
    click.echo()
    trace.close()
    _kept(trace)


def _rounds(trace: "Writer") -> str:
    return f"{plural(trace.n_rounds, 'round')} in {running(str(trace.path))}"


def _kept(trace: "Writer") -> None:
    """Print the trace's path and its warnings."""
    warned(trace)
    narrate(f"specviz: {_rounds(trace)}")


def _watched(texts: Iterator[str], trace: "Writer") -> None:
    """The answer is read beside the screen, which follows its trace; who leaves ends it. Raises SpecvizError."""
    from specviz.cli.look.tui import command as tui

    left, failed = threading.Event(), []

    def read() -> None:
        try:
            for _ in texts:
                if left.is_set():
                    break
        except SpecvizError as error:
            failed.append(error)
        trace.close("error" if failed else "stopped" if left.is_set() else "done", str(failed[0]) if failed else None)

    reader = threading.Thread(target=read, name="answer", daemon=True)
    path = str(trace.path)
    reader.start()
    try:
        tui.main([path], standalone_mode=False)
    finally:
        left.set()
        reader.join(2.0)  # a server that says nothing more is not waited for
    if failed:
        raise SpecvizError(f"{failed[0]}; {_rounds(trace)}") if trace.n_rounds else failed[0]


def _pass_on(server: "EngineServer", out: Path, port: int, ask: bool, rule: str | None) -> None:
    """Until Ctrl-C: answers that a client asks for itself."""
    from specviz.engines.proxy import ProxyDoor
    from specviz.engines.proxy.sides import ASKED
    from specviz.engines.rounds.attach import ServerRequest, open_trace

    trace = open_trace(server, out, ServerRequest("", temperature=None), rule)
    try:
        with (
            suppress(KeyboardInterrupt),
            terminable(),
            ProxyDoor(server, trace, port, ask, lambda words: narrate(f"specviz: {running(words)}")) as door,
        ):
            click.echo(door.url)
            fields = ", ".join(ASKED[server.kind])
            how = f"{fields} are added to requests" if ask else f"rounds are seen where requests have {fields}"
            narrate(f"specviz: passes on to {running(server.url)}; {how}; to watch: specviz tui {running(str(out))}")
            door.serve_forever(0.1)
    finally:
        trace.close("stopped")
    warned(trace)
    narrate(f"specviz: kept in {running(str(trace.path))}")
