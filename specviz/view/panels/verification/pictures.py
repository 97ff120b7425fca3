"""The pictures of the verdict as blocks: branches, the row at the stop, other rules, and the run as a whole."""

from collections.abc import Iterator, Sequence

from specviz.numerals import UNKNOWN, number, prob
from specviz.runlog.run import Mark
from specviz.view.blocks import Block, Cell, Heat, Plot, PlotCurve, Square, TableBlock, Words
from specviz.view.panels.verification.model import (
    ClosingRow,
    Comparison,
    Paired,
    RuleReplay,
    VerificationModel,
    WeighedToken,
)
from specviz.view.panels.verification.rules import COLOURS
from specviz.view.words.numbers import apart, fine
from specviz.view.words.palette import STYLES, glyph

_LATER = "the target has not judged the draft yet"


def round_blocks(model: VerificationModel) -> list[Block]:
    """The blocks about the selected draft of the round."""
    closing = closing_plot(model.closing)
    return [branches_plot(model), rules_heat(model.comparison), closing, Words(closing.words)]


def run_blocks(model: VerificationModel) -> list[Block]:
    """Over the run: what was kept beside what must be, and how much more than token-wise."""
    survival = [] if model.survival is None else [model.survival]
    words = (Words(plot.words) for plot in survival)
    return [*survival, paired_plot(model.paired), *words, *paired_words(model.paired)]


def branches_plot(model: VerificationModel) -> Plot:
    """What both laws give below every prefix, what the target misses, what the draft has too much of."""
    branches = model.branches
    masses: tuple[tuple[str, list[float], Mark], ...] = (
        ("both give", [b.agreed for b in branches], "untested"),
        ("D+ target mass missing", [b.d_plus for b in branches], "accepted"),
        ("D- draft mass in excess", [b.d_minus for b in branches], "rejected"),
    )
    return Plot(
        "branches",
        "Below each prefix",
        "after so many tokens (■ the stop)",
        tuple(f"{b.t}{' ■' if b.stop else ''}" for b in branches),
        tuple(PlotCurve(name, tuple(ys), mark, texts=tuple(map(fine, ys))) for name, ys, mark in masses),
        help="The mass of the next token under both laws, the target's weighted with c. D+ over D- is the keep chance.",
        words="; ".join(f"{b.shown}: D+ {b.d_plus:.3f}, D- {b.d_minus:.3f}" for b in branches),
        missing="" if branches else model.branches_missing or _LATER,
        stacked=True,
        notes=tuple(b.shown for b in branches),
    )


def closing_plot(row: ClosingRow | None) -> Plot:
    """The row at the stop: p and q as they are weighed, and what is left."""
    entries = row.entries if row is not None and row.missing is None else ()
    missing = "" if entries else (row.missing if row is not None else "") or "told when the last token is drawn"
    return Plot(
        "closing",
        "The row at the stop",
        "",
        tuple(_told_apart(entries)),
        tuple(_weights(row)) if row is not None else (),
        help="What the token that closes the round was drawn from.",
        words=f"{row.title}. {row.words}" if row is not None and entries else missing,
        missing=missing,
        table=closing_table(row) if row is not None and entries else None,
    )


def _told_apart(entries: Sequence[WeighedToken]) -> Iterator[str]:
    """Names of the tokens, the drawn one marked; two that are written alike are numbered."""
    seen: dict[str, int] = {}
    for entry in entries:
        n = seen[entry.shown] = seen.get(entry.shown, 0) + 1
        yield f"{glyph('recovered') + ' ' if entry.drawn else ''}{entry.shown}{f' ({n})' if n > 1 else ''}"


def _weights(row: ClosingRow) -> Iterator[PlotCurve]:
    against = any(e.weighed_q is not None for e in row.entries)
    columns: list[tuple[str, list[float | None], Mark]] = [
        (row.p_label if against else "p", [e.weighed_p if against else e.p for e in row.entries], "accepted")
    ]
    if against:
        columns.append((row.q_label, [e.weighed_q for e in row.entries], "drafted"))
        columns.append(("left", [e.left for e in row.entries], "exit"))
    for name, ys, mark in columns:
        yield PlotCurve(name, tuple(ys), mark, texts=tuple(UNKNOWN if y is None else fine(y) for y in ys))


def closing_table(row: ClosingRow) -> TableBlock:
    """A line a token: what p and q give it, what is left, its part of the draw."""
    against = any(e.weighed_q is not None for e in row.entries)
    heads = ("", "token", row.p_label, *((row.q_label, "left") if against else ()), "share of the draw", "")
    rows = tuple(tuple(_line(e, against)) for e in row.entries)
    return TableBlock("closing", heads, rows, row.title, words=row.words)


def _line(entry: WeighedToken, against: bool) -> Iterator[Cell]:
    yield Cell("→" if entry.drawn else "", entry.drawn, mark="recovered")
    yield Cell(entry.shown)
    yield Cell(prob(entry.weighed_p), entry.weighed_p, entry.weighed_p, "accepted")
    if against:
        q = entry.weighed_q
        yield Cell(prob(q), q, q, "drafted")
        yield Cell(fine(entry.left), entry.left)
    yield Cell(entry.text, entry.share)
    yield Cell("drafted" if entry.drafted else "")


def rules_heat(comparison: Comparison | None) -> Heat:
    """A row a rule, a square a position: what becomes of it, shaded by the keep chance."""
    shown = comparison is not None and comparison.missing is None
    rules = comparison.rules if comparison is not None and shown else ()
    return Heat(
        "rules",
        "Same draft, same u",
        tuple(_named(rule) for rule in rules),
        tuple(f"{t} {token}" for t, token in enumerate(comparison.tokens, 1)) if comparison is not None else (),
        tuple(tuple(_squares(rule, comparison)) for rule in rules) if comparison is not None else (),
        heads=("kept", "expected"),
        right=tuple((_kept(rule), number(rule.expected)) for rule in rules),
        foot=(("u", *(fine(u) if u is not None else UNKNOWN for u in comparison.us)),)
        if comparison is not None
        else (),
        help="Rules on this draft with the uniforms of this round, which follow from the seed: no model is asked. "
        "▶ is the rule of the run; a square is shaded by the chance to keep.",
        words=comparison.words if comparison is not None else "",
        missing="" if rules else (comparison.missing if comparison is not None else "") or "told with the verdict",
    )


def _named(rule: RuleReplay) -> str:
    return f"{'▶ ' if rule.own else ''}{rule.label}"


def _kept(rule: RuleReplay) -> str:
    return f"{'?' if rule.kept is None else rule.kept} of {len(rule.marks)}"


def _squares(rule: RuleReplay, comparison: Comparison) -> Iterator[Square]:
    for t, mark, keep, u in zip(range(1, len(rule.marks) + 1), rule.marks, rule.keep, comparison.us, strict=True):
        note = f"{rule.label}, position {t}: {STYLES[mark].word}\n{'keep {}, u {}'.format(*apart(keep, u))}"
        yield Square(glyph(mark), None if mark == "untested" else keep, "", mark, note)


def rules_table(comparison: Comparison) -> TableBlock:
    """A line a rule: its marks, what it keeps and is expected to, its keep chances below the uniforms."""
    rows = tuple(
        (
            Cell(_named(rule)),
            Cell("".join(map(glyph, rule.marks)), mark="accepted" if rule.own else None),
            Cell(_kept(rule)),
            Cell(number(rule.expected), rule.expected),
            Cell(rule.note),
            *map(Cell, map(prob, rule.keep)),
        )
        for rule in comparison.rules
    )
    heads = ("", "", "kept", "expected", "", *(f"u {prob(u)}" for u in comparison.us))
    return TableBlock("rules", heads, rows, words=comparison.words)


def paired_plot(paired: Sequence[Paired]) -> Plot:
    """Drafts by how many tokens more a rule keeps of them than token-wise."""
    known = [p for p in paired if p.missing is None and p.counts]
    places = sorted({difference for p in known for difference, _ in p.counts})
    words = " ".join(p.words or p.missing or "" for p in paired)
    return Plot(
        "paired",
        "Gain over token-wise",
        "tokens kept more than token-wise, same draft and u",
        tuple(places),
        tuple(
            PlotCurve(p.label, tuple(float(dict(p.counts).get(at, 0)) for at in places), COLOURS[p.rule]) for p in known
        ),
        "count",
        help=f"Paired: the same draft, the same uniforms. {'; '.join(f'{p.label} {p.gain.text}' for p in known)}",
        words=words,
        missing="" if known else words or "no sampled chain to compare on",
    )


def paired_words(paired: Sequence[Paired]) -> list[Block]:
    """The difference to token-wise, a sentence a rule."""
    return [Words(p.words or p.missing or "") for p in paired]
