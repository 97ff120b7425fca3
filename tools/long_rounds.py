"""Make prompts of thousands of rounds out of a short one: its rounds again and again, with their numbers shifted.

    python -m tools.long_rounds OUT [--like TRACE] [--rounds 5000 | --mb 100] [--prompts 10] [--zipped]

The rounds are those of the recording's first prompt, spread over `--prompts` queries; in each of them rounds, positions
and nodes count up as in a real run, so that every reader takes it for one (its text repeats itself). `--mb`: until the
file has that many megabytes of plain text, however many rounds that are. Left plain unless `--zipped`.
"""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from specviz.events import Commit, End, Event, Header, Note, Prefill, RoundEnd, RoundStart, encode
from specviz.sources.bundled import bundled_traces
from specviz.trace import Recorder, read_events

_NODES = ("node", "parent", "judged")  # fields that hold the id of a node


class Shift:
    """Counts on: what of a copy of the rounds has to be added to."""

    def __init__(self, events: list[Event]) -> None:
        self.head = [event for event in events if isinstance(event, Header)]
        self.prefill = next(event for event in events if isinstance(event, Prefill))
        of_rounds = [event for event in events if event.q == self.prefill.q and event.r > 0]
        self.body = [event for event in of_rounds if not isinstance(event, End | Note)]
        self.n_rounds = max(event.r for event in self.body)
        self.n_tokens = sum(len(event.tokens) for event in self.body if isinstance(event, Commit))
        self.n_nodes = 1 + max((value for event in self.body for _, value in _nodes(event)), default=-1)
        self.t0, self.dt = self.body[0].t, self.body[-1].t - self.body[0].t

    def rounds(self, q: int, copy: int, at: int) -> Iterator[Event]:
        """One copy, as the `copy`-th of query `q` and the `at`-th of all."""
        for event in self.body:
            new = {"q": q, "r": event.r + copy * self.n_rounds, "t": event.t + at * self.dt}
            new |= {name: value + copy * self.n_nodes for name, value in _nodes(event)}
            if isinstance(event, RoundStart | Commit):
                new["n"] = event.n + copy * self.n_tokens
            if isinstance(event, Commit):
                new["finish"] = None
            if "pos" in event.__struct_fields__:
                new["pos"] = getattr(event, "pos") + copy * self.n_tokens  # noqa: B009 (of several kinds)
            yield msgspec.structs.replace(event, **new)


def _nodes(event: Event) -> list[tuple[str, int]]:
    plain = msgspec.structs.asdict(event)
    return [(name, plain[name]) for name in _NODES if isinstance(plain.get(name), int) and plain[name] >= 0]


def long_events(events: list[Event], n_rounds: int | None, mb: float | None, n_prompts: int) -> Iterator[Event]:
    """The events of the long run, without its end."""
    shift = Shift(events)
    one = sum(len(encode(event)) + 1 for event in shift.body)
    n_copies = -(-n_rounds // shift.n_rounds) if n_rounds is not None else max(1, round((mb or 1) * 1e6 / one))
    left = n_rounds if n_rounds is not None else n_copies * shift.n_rounds
    yield from shift.head
    each = -(-n_copies // max(1, n_prompts))
    for at in range(n_copies):
        q, copy = divmod(at, each)
        if not copy:
            yield msgspec.structs.replace(shift.prefill, q=q, t=shift.t0 + at * shift.dt)
        for event in shift.rounds(q, copy, at):
            if isinstance(event, RoundStart):
                if not left:
                    return
                left -= 1
            yield event


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--like", type=click.Path(exists=True, path_type=Path), help="[default: explain-tree, bundled]")
@click.option("--rounds", type=click.IntRange(1), help="How many [default: 5000].")
@click.option("--mb", type=float, help="In place of that: megabytes of plain text.")
@click.option("--prompts", type=click.IntRange(1), default=10, show_default=True)
@click.option("--zipped", is_flag=True)
def main(out: Path, like: Path | None, rounds: int | None, mb: float | None, prompts: int, zipped: bool) -> None:
    """Write the long recording to OUT."""
    found = read_events(like or bundled_traces()["explain-tree"])
    wanted = rounds if rounds is not None or mb is not None else 5000
    if zipped:
        recorder = Recorder(out)
        for event in long_events(found, wanted, mb, prompts):
            recorder.write(event)
        recorder.write(End(reason="done"))
        recorder.close()
        print(f"{recorder.path}: {recorder.path.stat().st_size / 1e6:.1f} MB")
        return
    n = i = 0
    with out.open("wb") as file:
        for i, event in enumerate([*long_events(found, wanted, mb, prompts), End(reason="done")]):
            event.i = i
            n += isinstance(event, RoundEnd)
            file.write(encode(event) + b"\n")
    print(f"{out}: {n:,} rounds, {i + 1:,} records, {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
