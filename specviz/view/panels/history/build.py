"""`HistoryPanel`: a run over time with its knobs, the tokens that fail most and the rounds, as ways into the tree."""

from collections.abc import Iterator, Sequence
from math import ceil

from specviz.numerals import UNKNOWN, number, percent, plural, prob
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, RoundRecord
from specviz.traits import MethodTraits
from specviz.view.blocks import Block, Cell, Destination, Plot, PlotCurve, TableBlock, Unit
from specviz.view.frame.frame import PanelOptions
from specviz.view.panels import CachedValue, PanelContext
from specviz.view.panels.built import BlockModel, BlockPanel
from specviz.view.panels.history.counts import RoundCounts, TokenFate

_WINDOWS = 24  # places of a chart
_TOKENS, _ROUNDS = 60, 200  # lines of a table
_LEAST = 2  # rounds of which a chart can be drawn


class HistoryPanel(BlockPanel[PanelOptions]):
    """Of one run."""

    id, title, options = "history", "Over time", PanelOptions
    key, order, in_stats = "7", 25, False
    about = (
        "Where the run changed, and which tokens fail. The charts take the rounds in windows of equal "
        "length; a sign stands where a knob was moved. Below them the drafted tokens by how often they were rejected, "
        "with the mean probability that draft (q) and target (p) gave them where they were tested, and the rounds. A "
        "line of a table leads to its place."
    )

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._counts = RoundCounts(run)
        self._last = CachedValue[BlockModel]()

    @classmethod
    def needs(cls, traits: MethodTraits) -> bool:
        return not traits.plain

    def on_evict(self, record: RoundRecord) -> None:
        self._counts.take(record)

    def n_unread(self) -> int:
        return self._counts.n_behind

    def advance(self, n_rounds: int) -> None:
        self._counts.update(n_rounds)

    def kept(self) -> bytes:
        return self._counts.kept()

    def from_cache(self, data: bytes) -> None:
        self._counts.from_cache(data)

    def build(self, scene: PanelContext, options: PanelOptions) -> BlockModel:
        """Of all rounds that have ended; the table of rounds goes up to the one on screen."""
        self._counts.update()
        here = scene.record.index
        return self._last.of((len(self._counts), here), lambda: self._model(here))

    def _model(self, here: int) -> BlockModel:
        if len(self._counts) < _LEAST:
            return BlockModel("Fewer than two rounds have ended.")
        return BlockModel(None, (*self._charts(here), self._tokens(), self._rounds(here)))

    def _charts(self, here: int) -> Iterator[Block]:
        counts, n = self._counts, len(self._counts)
        size = ceil(n / _WINDOWS)
        starts = range(0, n, size)
        signs: tuple[tuple[int, str, Mark], ...] = tuple(
            (index // size, words, "recovered") for index, words in counts.knobs.items()
        )
        rounds = "round" if size == 1 else f"rounds, {size} a place"

        def chart(key: str, title: str, name: str, unit: Unit, values: Sequence[float | None], help: str) -> Plot:
            known = [value for value in values if value is not None]
            ends = f"from {_written(known[0], unit)} to {_written(known[-1], unit)}" if known else "not on record"
            return Plot(
                f"history-{key}",
                title,
                rounds,
                tuple(start + 1 for start in starts),
                (PlotCurve(name, tuple(values), look="line"),),
                unit,
                help=help,
                words=f"{title}: {ends}" + (f"; moved: {'; '.join(counts.knobs.values())}." if counts.knobs else "."),
                signs=signs,
                places=tuple(Destination(start) for start in starts),
                cursor=min(here // size, len(starts) - 1),
            )

        emitted, accepted, drafted, took = (
            [sum(column[k : k + size]) for k in starts]
            for column in (counts.emitted, counts.accepted, counts.drafted, counts.took_ns)
        )
        lengths = [len(counts.emitted[k : k + size]) for k in starts]
        yield chart(
            "length",
            "Tokens a round",
            "tokens a round",
            "number",
            [tokens / n for tokens, n in zip(emitted, lengths, strict=True)],
            "Tokens committed in a window over its rounds.",
        )
        if not self.run.method_traits.pipelined:  # drafts of a pipeline are settled by later rounds
            yield chart(
                "kept",
                "Kept of drafted",
                "kept/drafted",
                "percent",
                [kept / of if of else None for kept, of in zip(accepted, drafted, strict=True)],
                "Accepted over drafted tokens in a window.",
            )
        yield chart(
            "speed",
            "Tokens a second",
            "tok/s",
            "number",
            [tokens / ns * 1e9 if ns else None for tokens, ns in zip(emitted, took, strict=True)],
            "New tokens over the time of the rounds of a window.",
        )

    def _tokens(self) -> TableBlock:
        tokens = self._counts.tokens
        failed = sorted(
            ((text, fate) for text, fate in tokens.items() if fate.n_rejected),
            key=lambda item: (-item[1].n_rejected, item[1].n_tested, item[0]),
        )
        more = f"; the {_TOKENS} most rejected are listed" if len(failed) > _TOKENS else ""
        n_rejected = sum(fate.n_rejected for _, fate in failed)
        return TableBlock(
            "history-tokens",
            ("token", "rejected", "tested", "kept", "mean q", "mean p", "newest"),
            tuple(self._token(text, fate) for text, fate in failed[:_TOKENS]),
            "Which tokens fail most",
            "Drafted tokens by their text, counted over all tests.",
            words=f"{plural(n_rejected, 'rejection')} of {plural(len(failed), 'different token')}{more}.",
            missing="" if failed else "no drafted token was tested and lost, as far as is on record",
            places=tuple(Destination(fate.index, fate.node) for _, fate in failed[:_TOKENS]),
        )

    def _token(self, text: str, fate: TokenFate) -> tuple[Cell, ...]:
        share = 1 - fate.n_rejected / fate.n_tested
        means = [total / fate.n_known if fate.n_known else None for total in (fate.q, fate.p)]
        return (
            Cell(text),
            Cell(f"{fate.n_rejected:,}", fate.n_rejected, mark="rejected"),
            Cell(f"{fate.n_tested:,}", fate.n_tested),
            Cell(percent(share), share, share),
            *(Cell(prob(mean), mean) for mean in means),
            Cell(self._name(fate.index), fate.index + 1),
        )

    def _rounds(self, here: int) -> TableBlock:
        n = len(self._counts)
        stop = min(n, max(here + 1, _ROUNDS))
        shown = range(max(0, stop - _ROUNDS), stop)
        return TableBlock(
            "history-rounds",
            ("round", "drafted", "kept", "tokens", "ms", "tok/s", "knobs"),
            tuple(tuple(self._round(index)) for index in shown),
            "Rounds",
            "What every round drafted, kept and took.",
            words=f"Rounds {shown[0] + 1:,} to {shown[-1] + 1:,} of {n:,}." if n > _ROUNDS else "",
            places=tuple(Destination(index) for index in shown),
            cursor=here - shown[0] if here in shown else None,
        )

    def _round(self, index: int) -> Iterator[Cell]:
        counts = self._counts
        emitted, ns = counts.emitted[index], counts.took_ns[index]
        yield Cell(self._name(index), index + 1)
        yield Cell(str(counts.drafted[index]), counts.drafted[index])
        kept, drafted = counts.accepted[index], counts.drafted[index]
        yield Cell(str(kept), kept, kept / drafted if drafted else None, "accepted" if kept else "rejected")
        yield Cell(str(emitted), emitted)
        yield Cell(number(ns / 1e6) if ns else UNKNOWN, ns / 1e6 if ns else None)
        yield Cell(number(emitted / ns * 1e9) if ns else UNKNOWN, emitted / ns * 1e9 if ns else None)
        yield Cell(counts.knobs.get(index, ""))

    def _name(self, index: int) -> str:
        if not 0 <= index < len(self.run.rounds):
            return UNKNOWN
        q, r = self.run.rounds.place(index)
        return f"q{q} r{r}" if len(self.run.queries) > 1 else f"r{r}"


def _written(value: float, unit: Unit) -> str:
    return percent(value) if unit == "percent" else number(value)
