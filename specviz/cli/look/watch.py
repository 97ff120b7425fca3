"""`specviz watch`: a server's counters while it runs, or a history of them; a screen, lines, or JSON."""

import dataclasses
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specviz.cli.flags import SERVER_KEY, flag, value
from specviz.cli.printing import echo_json, narrate
from specviz.cli.signals import terminable
from specviz.errors import SpecvizError
from specviz.text import running

if TYPE_CHECKING:
    from specviz.engines.watch import ServerWatcher, WatchPicture
    from specviz.judge import Finding


@click.command("watch")
@click.argument("servers", metavar="URL|FILE [URL..]", nargs=-1, required=True)
@value("--every", click.FloatRange(0.1, 3600), 2.0, "Seconds between two looks.", metavar="S")
@click.option("--looks", type=click.IntRange(1), metavar="N", help="End after so many looks.")
@flag("--once", "One look, and an exit code: 1 where something is wrong with the speculation of a server.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Keep the history as a trace.")
@SERVER_KEY
@flag("--plain", "Lines in place of the screen.")
@flag("--json as_json", "One JSON object a look on standard output.")
def command(
    servers: tuple[str, ...],
    every: float,
    looks: int | None,
    once: bool,
    output: Path | None,
    key_env: str | None,
    plain: bool,
    as_json: bool,
) -> int:
    """Watch how a server speculates: tokens kept by position with 95 % intervals, tokens a round, tokens/s, and when
    that changed. vLLM, llama.cpp (with --metrics) and SGLang (with --enable-metrics) count it; nothing is installed
    there. FILE is a history kept with -o. Several servers stand in one table, with --plain a line each.

    Exit codes: 0 done · 1 with --once: an engine is ill, or next to nothing is kept · 2 bad input, or no server there.

    \b
      specviz watch localhost:8000
      specviz watch localhost:8080 -o history.sv.jsonl
      specviz watch history.sv.jsonl.gz
      specviz watch gpu1:8000 gpu2:8000 --once --json
    """
    from specviz.engines.asking import key_of
    from specviz.engines.watch import ServerWatcher, picture_of, read_history

    server = servers[0]
    if once or len(servers) > 1:
        if output is not None:
            raise SpecvizError("-o keeps one server that is watched on: leave it out, or name one without --once")
        watchers = [ServerWatcher(url, key_of(key_env)) for url in servers]
        if not (once or plain or as_json) and looks is None and _screen_works():
            problems = [_looked(watcher) for watcher in watchers]
            if all(problems):
                raise SpecvizError("; ".join(dict.fromkeys(filter(None, problems))))
            _show(None, watchers, every)
            return 0
        return _several(watchers, every, 1 if once else looks, as_json, once)
    on_screen = not plain and not as_json and looks is None and _screen_works()
    if server.endswith((".jsonl", ".jsonl.gz")) or Path(server).is_file():
        picture = picture_of(read_history(server))
        if on_screen:
            _show(picture, [], every)
        else:
            tell(picture, as_json)
        return 0
    watcher = ServerWatcher(server, key_of(key_env), output)
    try:
        watcher.look()
        if on_screen:
            _show(None, [watcher], every)
        else:
            with terminable():
                _follow(watcher, every, looks, as_json)
    finally:
        watcher.close()
        if watcher.kept_in is not None:
            narrate(f"specviz: history kept in {running(str(watcher.kept_in))}")
    return 0


def _several(watchers: "list[ServerWatcher]", every: float, looks: int | None, as_json: bool, once: bool) -> int:
    """A line, or an object, a server and look. Exit code 1 where one look finds something wrong; raises SpecvizError
    where no server answers."""
    width = max(len(watcher.address) for watcher in watchers)
    done = 0
    with terminable():
        while True:
            problems = [_looked(watcher) for watcher in watchers]
            if all(problems) and not done:
                raise SpecvizError("; ".join(dict.fromkeys(filter(None, problems))))
            for watcher, problem in zip(watchers, problems, strict=True):
                _line(watcher, problem, width, as_json)
            done += 1
            if looks is not None and done >= looks:
                pictures = [picture for watcher in watchers if (picture := watcher.picture) is not None]
                wrong = any(finding.broken for picture in pictures for finding in _judged(picture))
                return 1 if once and (wrong or any(problems)) else 0
            time.sleep(every)


def _looked(watcher: "ServerWatcher") -> str | None:
    """Why the server's counters could not be read, in one line."""
    try:
        watcher.look()
    except SpecvizError as error:
        return str(error)
    return None


def _line(watcher: "ServerWatcher", problem: str | None, width: int, as_json: bool) -> None:
    picture = None if problem else watcher.picture
    if as_json:
        counters = counters_object(picture) if picture is not None else None
        echo_json({"server": watcher.address, "problem": problem, "counters": counters})
    elif picture is None:
        click.echo(running(f"{watcher.address.ljust(width)}  {problem}"))
    else:
        speed = f"{picture.points[-1].tokens_per_s or 0:.1f} tok/s" if picture.points else ""
        findings = [finding.headline for finding in _judged(picture)]
        gauges = (f"{name} {value}" for name, value in picture.gauges)
        words = " · ".join(filter(None, (picture.headline, speed, *gauges, *findings)))
        click.echo(running(f"{watcher.address.ljust(width)}  {words}"))
    sys.stdout.flush()


def show_history(file: str) -> int:
    """A history on the screen; as lines where there is none."""
    from specviz.engines.watch import picture_of, read_history

    picture = picture_of(read_history(file))
    if _screen_works():
        _show(picture, [], 0.0)
    else:
        tell(picture, as_json=False)
    return 0


def _screen_works() -> bool:
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return terminal and importlib.util.find_spec("textual") is not None


def _show(picture: "WatchPicture | None", watchers: "list[ServerWatcher]", every: float) -> None:
    from specviz_tui.watch.app import WatchApp

    WatchApp(picture, watchers, every).run()


def _follow(watcher: "ServerWatcher", every: float, looks: int | None, as_json: bool) -> None:
    """Print a line for each poll of the server's counters; a server that stops answering is reported once."""
    done, away = 1, False
    known: set[tuple[int, bool]] = set()
    while True:
        picture = None if away else watcher.picture
        if picture is not None:
            tell(picture, as_json, short=not as_json and done > 1)
            # A change is found some looks after it happened, at a moment that moves a little as more is seen.
            for change in picture.changes if done > 1 and not as_json else ():
                if (change.position, change.after < change.before) not in known:
                    seen = _clock(picture.points[-1].wall)
                    click.echo(f"{seen}  changed at {_date(change.wall)}: {change.with_interval}")
            known |= {(change.position, change.after < change.before) for change in picture.changes}
            sys.stdout.flush()
        if looks is not None and done >= looks:
            return
        time.sleep(every)
        done += 1
        try:
            watcher.look()
            away = False
        except SpecvizError as error:
            if not away:
                narrate(f"specviz: {running(str(error))}; still looking")
            away = True


def tell(picture: "WatchPicture", as_json: bool, short: bool = False) -> None:
    """Print the server's state as lines or as one JSON object. `short`: only the newest poll."""
    if as_json:
        echo_json(counters_object(picture))
    else:
        for line in _now(picture) if short else _lines(picture):
            click.echo(running(line))
    sys.stdout.flush()


def counters_object(picture: "WatchPicture") -> dict[str, Any]:
    """A picture and what is wrong with it, as JSON has them."""
    return {**dataclasses.asdict(picture), "findings": [finding.as_object() for finding in _judged(picture)]}


def _judged(picture: "WatchPicture") -> "tuple[Finding, ...]":
    from specviz.judge import Evidence, judge

    return judge(Evidence.of_picture(picture))


def _now(picture: "WatchPicture") -> list[str]:
    point = picture.points[-1]
    mean = f", {picture.length:.2f} {picture.over}" if picture.length is not None else ""
    parts = [
        f"{point.length:.2f} tokens a round{mean}" if point.length is not None else "",
        f"{point.acceptance:.0%} of drafted kept" if point.acceptance is not None else "",
        f"{point.tokens_per_s:.1f} tok/s" if point.tokens_per_s is not None else "",
        "server began again" if point.wall in picture.restarts else "",
    ]
    if point.length is None and point.acceptance is None and picture.n_rounds is not None:
        parts.insert(0, "nothing drafted")
    return [f"{_clock(point.wall)}  " + " · ".join(filter(None, parts))]


def _lines(picture: "WatchPicture") -> list[str]:
    from specviz.engines.watch.picture import CLOSED

    out = [f"{picture.engine} · {', '.join(picture.models) or 'model not named'} · {picture.headline}"]
    if picture.length is not None:
        ends = f" [{picture.length_ends[0]:.2f}, {picture.length_ends[1]:.2f}]" if picture.length_ends else ""
        kept = f" · {picture.acceptance:.1%} of drafted kept" if picture.acceptance is not None else ""
        speed = f" · {picture.tokens_per_s:.1f} tok/s" if picture.tokens_per_s is not None else ""
        out.append(f"{picture.over}: {picture.length:.3f}{ends} tokens a round{kept}{speed}")
    counted = (("rounds", picture.n_rounds), ("drafted", picture.n_drafted), ("accepted", picture.n_accepted))
    out += [words] if (words := " · ".join(f"{n:,} {name}" for name, n in counted if n is not None)) else []
    for at in picture.positions:
        conditional = f"  {at.conditional:6.1%} of those that came so far" if at.conditional is not None else ""
        out.append(
            f"  position {at.position + 1}: {at.kept:6.1%} [{at.low:.1%}, {at.high:.1%}] of {at.n} rounds{conditional}"
        )
    out += [f"  {engine.words}" for engine in picture.engines]
    out += [f"  {finding.certainty}: {finding.text}" for finding in _judged(picture)]
    out += [f"  {_date(change.wall)} {change.with_interval}" for change in picture.changes]
    out += [f"  {_clock(wall)} the server began again; its counters were added up" for wall in picture.restarts]
    out += [f"  {', '.join(f'{name}: {value}' for name, value in picture.settings)}"] if picture.settings else []
    out += [f"  beside: {', '.join(f'{name} {value}' for name, value in picture.gauges)}"] if picture.gauges else []
    return [*out, *(f"  {note}" for note in picture.notes), f"  {picture.rule}", f"  {CLOSED}"]


def _date(wall: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))


def _clock(wall: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall))
