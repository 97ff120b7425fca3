"""Make a recording as long as one likes of a real one: its rounds again and again, as further queries of one run.

    python -m tools.long_trace RECORDING OUT [--mb 200]

RECORDING: a trace, or the name of one that comes with the package. OUT ends in `.sv.jsonl`, or in `.sv.jsonl.gz` to be
zipped as recordings are. Queries, times and running numbers go on where the copy before ends; all else is as recorded.
Prints the rounds and the megabytes of plain text.
"""

import gzip
from pathlib import Path

import click
from msgspec.structs import replace

from specviz.cli.look.written import found_trace
from specviz.events import Calibration, End, Event, Header, RoundStart, Span, encode_lines
from specviz.trace import read_events


@click.command()
@click.argument("recording")
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--mb", default=200.0, show_default=True, help="Plain text, in millions of bytes.")
def main(recording: str, out: Path, mb: float) -> None:
    """Write the long recording."""
    events = read_events(found_trace(recording))
    once = [event for event in events if isinstance(event, Header | Calibration)]
    body = [event for event in events if not isinstance(event, Header | Calibration | End)]
    n_queries = max(event.q for event in body) + 1
    lasts = max(event.t for event in body) - min(event.t for event in body) + 1_000_000
    n_rounds, n_bytes, copy, number = 0, 0, 0, 0
    with gzip.open(out, "wb", compresslevel=6) if out.suffix == ".gz" else out.open("wb") as file:
        while n_bytes < mb * 1e6:
            lines: list[Event] = list(once) if copy == 0 else []
            lines += [_moved(event, copy * n_queries, copy * lasts) for event in body]
            numbered = [replace(event, i=number + k) for k, event in enumerate(lines)]
            n_bytes += file.write(encode_lines(numbered))
            n_rounds += sum(isinstance(event, RoundStart) for event in numbered)
            copy, number = copy + 1, number + len(lines)
        end = End(reason="done", i=number, t=numbered[-1].t, q=numbered[-1].q, r=numbered[-1].r)
        file.write(encode_lines([end]))
    click.echo(f"{out}: {n_rounds:,} rounds, {n_bytes / 1e6:,.0f} MB of plain text")


def _moved(event: Event, queries: int, ns: int) -> Event:
    if isinstance(event, Span) and event.clock == "host":
        return replace(event, q=event.q + queries, t=event.t + ns, t0=event.t0 + ns)
    return replace(event, q=event.q + queries, t=event.t + ns)


if __name__ == "__main__":
    main()
