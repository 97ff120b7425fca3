"""`scan(..)`: the table of a backward scan at one moment.

Drafted tokens come first, ratios after the target's pass, then one verdict a step, right to left. For a run whose rule
does not scan backward it says what hsd would have done.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.numerals import UNKNOWN
from specviz.runlog.fold import Run
from specviz.runlog.tree import RoundTree
from specviz.traits import CAPPED, NAIVE, TOKENWISE, Letter, Order, VerifierTraits
from specviz.view.frame.run_header import badge
from specviz.view.frame.steps import Moment, node_text
from specviz.view.panels.verification.model import Scan, ScanColumn, ScanRow
from specviz.view.why.node_context import Path
from specviz.view.words.numbers import apart, fine, joint
from specviz.view.words.palette import Phase, glyph

if TYPE_CHECKING:
    from specviz.metrics.replay_rules import ChainPosition

LABELS: dict[str, str] = {TOKENWISE: "token-wise", CAPPED: "blockwise = hsd", NAIVE: "hsd_naive"}
_MASSES = "target mass missing │ draft's excess"
_CAPPED = ("c  capped", "r ÷ its running maximum", "D+ │ D-", _MASSES)
# Names and meanings of the rows c, D and h: one arithmetic, in the letters of the rule.
_WORDS: dict[Letter, tuple[str, ...]] = {
    "c": (*_CAPPED, "D+/D-; last position: c"),
    "r": ("", "", "D+ │ D-", "the same with r uncapped", "1 if r ≥ 1, else D+/D-; last: r"),
    "w": (
        "w  weight",
        "min(1, w before · p/q)",
        "S │ S+1−w",
        "target mass missing │ that + 1 − w",
        "S/(S + 1 − w); last position: w",
    ),
}
_LAST_UNCAPPED = (*_CAPPED, "D+/D-; last position: r, uncapped")
_LONGEST = "keep the LONGEST prefix that passes, scanning right to left"
_HOW: dict[Order, str] = {
    "prefixes": _LONGEST,
    "candidates": "candidate by candidate, each from its end: the LONGEST prefix that passes is kept",
    "leaves": "from the leaves towards the root: the first node that passes is kept with its path",
}
_LATER = "as recorded: later candidates meet rows that earlier ones took from, and start from weight 1"
_SUMMARY = "recorded with --level summary: D+ and D- need whole rows, which only --level full records"


@dataclass(frozen=True, slots=True)
class ScanView:
    """What every part of the screen is made from."""

    run: Run
    round_tree: RoundTree
    now: Moment
    path: Path
    selected: int | None
    ascii: bool = False

    @property
    def verifier(self) -> str:
        return self.run.header.verifier if self.run.header else ""

    @property
    def rule(self) -> VerifierTraits:
        return self.run.rule

    @property
    def backward(self) -> bool:
        return self.run.backward

    @property
    def naive(self) -> bool:
        """Whether the uncapped ratio decides."""
        return not self.rule.capped

    @property
    def judged(self) -> bool:
        """Whether every verdict of the round is on screen."""
        return self.now.all_tested

    def keep(self, link: "ChainPosition") -> float | None:
        """The keep chance that the scan compares with u: the recorded one where this run scans backward."""
        if self.backward:
            verdict = self.round_tree.record.verdicts.get(link.node)
            return verdict.thr if verdict is not None else None
        return link.keep[CAPPED]

    def stop(self) -> int | None:
        """Where the scan stops: the recorded place, or the one hsd would have."""
        from specviz.metrics.replay_rules import kept

        if not self.backward:
            return kept(self.path.links, CAPPED)
        verdicts = self.round_tree.record.verdicts
        held = [link.t for link in self.path.links if (v := verdicts.get(link.node)) and v.status == "accepted"]
        return max(held, default=0)


def excess(look: ScanView, link: "ChainPosition") -> tuple[float | None, float | None]:
    """D+ and D- of the branch below a position, in the form the scan uses."""
    chain = link.chain
    if chain is None:
        return None, None
    return (chain.dhat_pq, chain.dhat_qp) if look.naive else (chain.d_pq, chain.d_qp)


def scan(look: ScanView, words: str) -> Scan:
    """The table. `words` is the sentence on the column under the cursor."""
    stop = look.stop()
    columns = tuple(_column(look, link, stop) for link in look.path.links)
    rows = [*_known_rows(look, columns), _verdicts(look, columns, stop), _other(look, columns)]
    chained = any(link.chain is not None for link in look.path.links)
    return Scan(_title(look), columns, tuple(rows), words, "" if chained else _SUMMARY)


def _column(look: ScanView, link: "ChainPosition", stop: int | None) -> ScanColumn:
    """One position, with what this moment may show of it."""
    now, round_tree = look.now, look.round_tree
    keep, has_p = look.keep(link), now.has_p
    d_plus, d_minus = excess(look, link) if has_p else (None, None)
    decided = link.node in now.verdicts if look.backward else look.judged
    mark = now.mark(round_tree, link.node)
    return ScanColumn(
        t=link.t,
        node=link.node,
        shown=node_text(look.run, round_tree, link.node),
        mark=mark,
        glyph=glyph(mark, look.ascii),
        log_r=link.log_r if has_p else None,
        log_c=link.log_c if has_p else None,
        d_plus=d_plus,
        d_minus=d_minus,
        h=keep if has_p else None,
        u=link.u if decided or link.node == now.testing else None,
        passes=None if not decided or keep is None or link.u is None else link.u < keep,
        implied=decided and stop is not None and link.t < stop,
        decided=decided,
        stop=decided and link.t == stop,
        fresh=link.node in now.fresh and now.phase == Phase.ACCEPT,
        cursor=link.node == look.selected,
    )


def _title(look: ScanView) -> str:
    record, path = look.round_tree.record, look.path
    parts = [f"Round {record.r} · γ={len(path.links)}"]
    parts += [f"candidate {path.number} of {path.count}"] if path.count > 1 else []
    if not look.backward:
        what_if = "what hsd would do with the same draft and u"
        return " · ".join([*parts, f"rule {look.verifier} tests left to right", what_if])
    header = look.run.header
    same = f", = {look.rule.same_rule_as}" if look.rule.same_rule_as else ""
    held = badge(header).partition(":")[0] if header else ""
    parts.append(f"rule {look.verifier} ({held}{same})")
    return " · ".join([*parts, _HOW[look.rule.order]])


# Rows ---------------------------------------------------------------------------------------------------------------


def _known_rows(look: ScanView, columns: tuple[ScanColumn, ...]) -> list[ScanRow]:
    """From the token to its uniform; before the target's pass there are only tokens."""
    rows = [_row("t", "t", [str(c.t) for c in columns], ""), _row("draft", "draft", [c.shown for c in columns], "")]
    if not look.now.has_p:
        return rows
    words = _WORDS[look.rule.letter] if look.rule.last_capped or not look.rule.capped else _LAST_UNCAPPED
    wide, several = "target/draft, the whole prefix", look.backward and look.path.count > 1
    rows.append(_row("r", "r  joint p/q", [joint(c.log_r) for c in columns], wide))
    if not look.naive:
        rows.append(_row("c", words[0], [fine(c.c) for c in columns], words[1]))
    return [
        *rows,
        _row("d", words[2], [_excess(c) for c in columns], words[3]),
        _row("h", "h  keep", [apart(c.h, c.u)[0] for c in columns], words[4] if not several else _LATER),
        _row("u", "u", ["" if c.u is None else apart(c.u, c.h)[0] for c in columns], "passes if u < h"),
    ]


def _row(key: str, label: str, cells: list[str], help_: str) -> ScanRow:
    return ScanRow(key, label, tuple(cells), help_)


def _excess(column: ScanColumn) -> str:
    if column.d_plus is None or column.d_minus is None:
        return UNKNOWN
    return f"{fine(column.d_plus)}│{fine(column.d_minus)}"


def _verdicts(look: ScanView, columns: tuple[ScanColumn, ...], stop: int | None) -> ScanRow:
    alone = next((c for c in columns if c.alone_failed), None)
    help_ = ""
    if alone is not None:
        help_ = "* alone it would fail: {} ≥ {}".format(*apart(alone.u, alone.h))
    elif not look.backward and look.judged and stop is not None:
        help_ = f"hsd would keep {stop} of {len(columns)}"
    label = "verdict" if look.backward else "hsd"
    return _row("verdict", label, [_verdict(look, column) for column in columns], help_)


def _verdict(look: ScanView, column: ScanColumn) -> str:
    good, bad = glyph("accepted", look.ascii), glyph("rejected", look.ascii)
    if not column.decided:
        return f"{glyph('testing', look.ascii)} now" if column.node == look.now.testing else ""
    if look.backward and column.mark == "untested":
        return f"{glyph('untested', look.ascii)} cut off"
    if column.stop:
        return f"{good} STOP"
    if column.implied:
        return f"{good} kept{'*' if column.alone_failed else ''}"
    return f"{bad} failed" if column.passes is False else UNKNOWN


def _other(look: ScanView, columns: tuple[ScanColumn, ...]) -> ScanRow:
    """Token-wise on the same draws; where the run's own rule goes forward, its own verdicts."""
    if look.backward or look.rule.replays_as == TOKENWISE:
        several = [UNKNOWN] * len(columns), "several candidates: their tests depend on each other"
        return _row("token", "token-wise", *(_tokenwise(look) if look.path.count == 1 else several))
    marks = [look.now.mark(look.round_tree, c.node) if look.judged else "drafted" for c in columns]
    cells = [glyph(mark, look.ascii) if look.judged else "" for mark in marks]
    n_kept = sum(mark == "accepted" for mark in marks)
    return _row("token", look.verifier, cells, f"this run: keeps {n_kept or 'nothing'}" if look.judged else "")


def _tokenwise(look: ScanView) -> tuple[list[str], str]:
    from specviz.metrics.replay_rules import kept

    links = look.path.links
    n_kept = kept(links, TOKENWISE)
    if not look.judged:
        return [""] * len(links), ""
    if n_kept is None:
        return [UNKNOWN] * len(links), "the seed is not on record, so its uniforms are not known"
    cells = [_forward(look, link, n_kept) for link in links]
    ours = look.stop() or 0
    if not look.backward:
        return cells, f"this run: keeps {n_kept or 'nothing'}"
    less = ours - n_kept
    gap = f", {abs(less)} {'fewer' if less > 0 else 'more'}" if less else ", as many"
    if n_kept == len(links):
        return cells, f"same u: keeps all {n_kept}{gap if less else ''}"
    return cells, f"same u: stops at {n_kept + 1}, keeps {n_kept or 'nothing'}{gap if n_kept else ''}"


def _forward(look: ScanView, link: "ChainPosition", n_kept: int) -> str:
    if link.t > n_kept + 1:
        return glyph("untested", look.ascii)
    mark = glyph("accepted" if link.t <= n_kept else "rejected", look.ascii)
    return f"{mark} {fine(link.keep[TOKENWISE])}"
