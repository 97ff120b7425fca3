"""Several servers beside each other: which one is ill is said first, and the table tells now from the mean."""

from specviz.engines.watch import picture_of
from specviz.events import Counted, EngineCounts
from specviz.view.blocks import Plot, TableBlock, Words
from specviz.view.servers import SeenServer, servers_blocks


def _server(name: str, *kept: list[int], engines: dict[str, int] | None = None) -> SeenServer:
    """A server that at each look had counted so many kept tokens by position of 1,000 rounds a look."""
    looks = [
        Counted(
            engine="vLLM",
            wall=1000.0 + 2 * k,
            n_rounds=1000 * k,
            n_drafted=2000 * k,
            n_accepted=sum(sum(row) for row in kept[:k]),
            n_generated=1000 * k + sum(sum(row) for row in kept[:k]),
            per_position=[sum(column) for column in zip([0, 0], *kept[:k], strict=True)],
            engines=[
                EngineCounts(name=part, n_rounds=100 * k, n_accepted=n * k) for part, n in (engines or {}).items()
            ],
            gauges={"running": 3.0},
        )
        for k in range(len(kept) + 1)
    ]
    return SeenServer(f"http://{name}:8000/metrics", picture_of(looks))


def _table(*servers: SeenServer) -> TableBlock:
    return next(block for block in servers_blocks(servers) if isinstance(block, TableBlock))


def _words(*servers: SeenServer) -> list[str]:
    return [block.text for block in servers_blocks(servers) if isinstance(block, Words)]


def test_now_stands_beside_the_mean() -> None:
    (row,) = _table(_server("a", [800, 600], [500, 100])).rows
    assert [cell.text for cell in row[:3]] == ["a:8000", "1.60", f"{1 + 2000 / 2000:.2f}"]


def test_the_ill_engine_of_eight_is_named_and_the_others_are_one_line() -> None:
    engines = {str(k): 180 if k != 5 else 9 for k in range(8)}
    server = _server("a", [800, 600], engines=engines)
    first, ill = _words(_server("b", [800, 600]), server)
    assert first == "1 of 2 servers need a look"
    assert ill == "a:8000: engine 5 at 1.09 tokens a round, the others at 2.80"
    names = [row[0].text.strip() for row in _table(server).rows]
    assert names == ["a:8000", "engine 5", "7 others"]


def test_a_server_that_is_away_keeps_its_line() -> None:
    away = SeenServer("http://c:8000/metrics", None, "nothing answers there")
    rows = _table(_server("a", [800, 600]), away).rows
    assert rows[1][-1].text == "no answer"
    assert len({len(row) for row in rows}) == 1
    assert "c:8000: nothing answers there" in _words(_server("a", [800, 600]), away)


def test_every_server_has_a_curve_as_wide_as_the_chart() -> None:
    blocks = servers_blocks([_server("a", [800, 600], [800, 600], [700, 500]), _server("b", [700, 500], [700, 500])])
    plots = [block for block in blocks if isinstance(block, Plot)]
    assert [len(plot.curves) for plot in plots] == [2, 2]
    assert all(len(curve.ys) == len(plot.xs) for plot in plots for curve in plot.curves)


def test_an_address_is_as_hostile_as_any_text() -> None:
    rows = _table(SeenServer("http://a\x1b[31m/metrics", None)).rows
    assert "\x1b" not in rows[0][0].text
