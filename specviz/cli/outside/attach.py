"""`specviz attach`: a prompt to a running server, its rounds as a trace."""

from pathlib import Path

import click

from specviz.cli.flags import SERVER_KEY, flag
from specviz.cli.printing import narrate, terminal_text
from specviz.errors import SpecvizError
from specviz.text import running
from specviz.trace.recorder import existing


@click.command("attach")
@click.argument("url")
@click.argument("prompt")
@click.option(
    "-o", "--out", metavar="TRACE", type=click.Path(path_type=Path), default=Path("attach"), help="Trace to write."
)
@click.option("--max-new-tokens", type=click.IntRange(1, 1 << 20), default=128, show_default=True, metavar="N")
@click.option("--temperature", type=click.FloatRange(0, 100), default=0.0, show_default=True, metavar="T")
@click.option("--seed", type=click.IntRange(0, (1 << 32) - 2), metavar="N", help="Of the server's own draws.")
@click.option("--rule", metavar="NAME", help="The rule in force, where the server was told another than its default.")
@SERVER_KEY
@flag("--force", "Record over an older trace.")
def command(
    url: str,
    prompt: str,
    out: Path,
    max_new_tokens: int,
    temperature: float,
    seed: int | None,
    rule: str | None,
    key_env: str | None,
    force: bool,
) -> None:
    """Send PROMPT to a server of llama.cpp, vLLM or SGLang and rebuild its rounds from the answer.

    Nothing is installed there. What server it is, is found out. The trace grows while the answer streams: `specviz tui
    attach` beside it follows. vLLM has to be started with --per-request-spec-decode-metrics detailed.

    \b
      specviz attach http://127.0.0.1:8080 "def add(a, b):"
      specviz stats attach
    """
    from specviz.engines.asking import key_of
    from specviz.engines.rounds.attach import ServerRequest, answer, open_trace
    from specviz.engines.rounds.server import find_server

    older = existing(out)
    if older is not None and not force:
        raise SpecvizError(f"{older} is there already; give --force to record over it, or another -o")
    server = find_server(url, key_of(key_env))
    asked = ServerRequest(prompt, max_new_tokens, temperature, seed)
    said = " ".join(filter(None, (server.kind, server.version, server.model)))
    trace = open_trace(server, out, asked, rule)
    narrate(f"specviz: {running(said)} at {running(server.url)}; to watch: specviz tui {running(str(out))}")
    try:
        for text in answer(server, asked, trace):
            click.echo(terminal_text(text), nl=False)
    except BaseException as error:
        trace.close("error", running(str(error)) or type(error).__name__)
        raise
    click.echo()
    trace.close()
    narrate(f"specviz: {trace.n_rounds} rounds in {running(str(trace.path))}")
