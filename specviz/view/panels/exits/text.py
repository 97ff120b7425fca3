"""The cell under the cursor of screen *Layers*: its numbers, what the heads say, and what happened in words."""

from collections.abc import Sequence

from specviz.events import prob as linear
from specviz.numerals import UNKNOWN, number, plural, prob
from specviz.runlog.run import Mark
from specviz.text import quoted
from specviz.view.blocks import Facts, Plot, PlotCurve
from specviz.view.frame.parts import WhyRow
from specviz.view.panels.exits.climbs import Climbs
from specviz.view.panels.exits.model import CellInfo, Column, ExitCell
from specviz.view.panels.exits.parts import signed
from specviz.view.words.numbers import apart

NOT_SAVED = "Layers it has not passed are not saved arithmetic: every row passes all of them before the round ends."
_HOW = {
    "own": "climbing by itself",
    "catch_up": "taken along by a later row",
    "align": "in the last climb, below the deepest test",
    "sweep": "in the last climb, the verification",
}


def cell_info(climbs: Climbs, column: Column, layer: int, columns: Sequence[Column]) -> CellInfo:
    """What is known of one layer at one row. `columns`: the rows of that round that are shown."""
    cell = column.cells[layer - 1]
    return CellInfo(
        title=f"L{layer} × {column.shown}",
        mark=column.mark,
        column=column,
        layer=layer,
        facts=Facts("layers-facts", tuple(_rows(climbs, column, cell))),
        heads=_heads(climbs, column),
        words=_words(climbs, column, cell, columns),
    )


def _rows(climbs: Climbs, column: Column, cell: ExitCell) -> list[WhyRow]:
    setting, final = climbs.setting, _final(climbs, column)
    raw, asks = climbs.raw(column.row, cell.layer) if cell.conf is not None else (None, None)
    rows = [WhyRow("top-1 here", cell.top1 or UNKNOWN, raw, prob(raw) if raw is not None else "")]
    rows.append(WhyRow("final top-1", final[0], final[1], prob(final[1]) if final[1] is not None else ""))
    if column.chosen is not None and column.chosen != final[0]:
        rows.append(WhyRow("chosen", column.chosen, None, "drawn by the target"))
    if cell.agrees is not None:
        rows.append(
            WhyRow("agree", "yes" if cell.agrees else "no", None, "" if cell.agrees else "an exit is wrong here")
        )
    if cell.conf is not None and setting is not None and setting.tau is not None:
        conf, tau = apart(cell.conf, setting.tau)
        rows.append(WhyRow("conf", conf, cell.conf, f"{'≥' if cell.conf >= setting.tau else '<'} τ {tau}"))
        if raw is not None and asks is not None:
            text, least = apart(raw, asks)
            rows.append(WhyRow("raw", text, raw, f"needs {least}"))
    if cell.kind is not None:
        rows.append(WhyRow("computed", cell.kind.replace("_", "-"), None, f"{_HOW[cell.kind]}, {_wide(cell.width)}"))
    if column.first_right is not None:
        n = climbs.n_layers
        first = f"L{column.first_right}" if column.first_right < n else "none"
        stays = (
            f"for good from L{column.settled}" if column.settled is not None and column.settled < n else "not for good"
        )
        regret = "" if column.regret is None else f", regret {signed(column.regret)}"
        rows.append(WhyRow("first right", first, None, f"{stays}{regret}" if first != "none" else "in no layer"))
    return rows


def _wide(width: int | None) -> str:
    return "alone in its call" if width == 1 else f"{width} rows in the call"


def _final(climbs: Climbs, column: Column) -> tuple[str, float | None]:
    """The target's own most likely token after this row, when the recording has it."""
    if column.status == "open":
        return UNKNOWN, None
    verdict = climbs.verdict(column.row)
    if verdict is not None and verdict.argmax_p is not None:
        return climbs.run.word(verdict.argmax_p), next(
            (linear(log) for token, log in verdict.top or [] if token == verdict.argmax_p), None
        )
    closing = climbs.record.closing
    if closing is not None and closing.row and climbs.row_of(closing.node) == column.row:
        token, chance = max(((entry[0], entry[1]) for entry in closing.row), key=lambda entry: entry[1] or 0.0)
        greedy = climbs.record.temperature == 0
        return climbs.run.word(int(token)), None if greedy or chance is None else float(chance)
    return column.chosen or UNKNOWN, None


def _heads(climbs: Climbs, column: Column) -> Plot:
    """What every head that was asked said of the row: how sure, of which token, and whether that was right."""
    known = [cell for cell in column.cells if cell.conf is not None]
    marks: dict[bool | None, Mark] = {None: "untested", True: "accepted", False: "rejected"}
    tau = climbs.setting.tau if climbs.setting else None
    right = ", ".join(str(cell.layer) for cell in known if cell.agrees)
    curve = PlotCurve("sure", tuple(cell.conf for cell in known), marks=tuple(marks[cell.agrees] for cell in known))
    return Plot(
        "layers-cell",
        f"Heads over {column.shown}",
        "layer",
        tuple(f"{cell.layer} {cell.top1 or UNKNOWN}" for cell in known),
        (curve,),
        "share",
        help=f"how sure the head of each layer was, and of which token{'' if tau is None else f'; τ {prob(tau)}'}",
        words=f"Right at layers {right}." if right else "No head was right, as far as is known.",
        missing="" if known else "no head was asked about this row",
        flat=True,
    )


# Words ---------------------------------------------------------------------------------------------------------------


def _words(climbs: Climbs, column: Column, cell: ExitCell, columns: Sequence[Column]) -> str:
    if cell.kind is None and cell.source is None:
        return "Not computed yet at this moment: a later row, or the last climb, takes this row through this layer."
    parts = [_said(climbs, column, cell)] if cell.source is not None else [_way(column, cell, columns)]
    if cell.layer == climbs.n_layers:
        parts = [_top(column)]
    parts += _worth(climbs, column, cell)
    if column.status == "rejected":
        parts.append("The row was rejected: what was computed for it is lost.")
    elif column.exit_layer is not None and cell.layer >= column.exit_layer:
        parts.append(NOT_SAVED)
    return " ".join(part for part in parts if part)


def _name(shown: str | None) -> str:
    return quoted(shown) if shown else "a token"


def _said(climbs: Climbs, column: Column, cell: ExitCell) -> str:
    """What the head said, and what came of it."""
    tau = climbs.setting.tau if climbs.setting else None
    conf, thr = apart(cell.conf, tau)
    says = f"The head of layer {cell.layer} says {_name(cell.top1)}"
    if cell.took and (column.row, cell.layer) not in climbs.gates:
        goes = (
            ""
            if tau is None
            else (
                f" {conf} ≥ τ {thr}, so drafting goes on."
                if (cell.conf or 0.0) >= tau
                else f" {conf} is below τ {thr}: it is verified all the same, but nothing is drafted behind it."
            )
        )
        return f"Layer {cell.layer} always stops a row; the adapter behind it drafts {_name(cell.top1)}.{goes}"
    if cell.source == "test" and cell.took:
        drafted = "" if column.drafted == cell.top1 else f" ({_name(column.drafted)} was drawn from its law)"
        return f"{says} and is sure enough: {conf} ≥ τ {thr}. The row stops here and drafts it{drafted}."
    gate = climbs.gates.get((column.row, cell.layer))
    if cell.source == "test" and gate is not None and gate.took:
        return f"{says} and is sure enough: {conf} ≥ τ {thr}. An end token is not fed: the row climbs on and judges it."
    if cell.source == "test":
        below = f"but {conf} is below τ {thr}" if tau is None or (cell.conf or 0.0) < tau else f"with {conf} ≥ τ {thr}"
        return f"{says}, {below}: the row climbs on."
    went = (
        "so the row would have stopped"
        if tau is not None and (cell.conf or 0.0) >= tau
        else "so it would have climbed on"
    )
    who = (
        "Nobody decided by it: it was watched after the verdict"
        if cell.source == "observed"
        else ("It was asked in a pass over the finished text, not in this round")
    )
    tests = climbs.setting.layers if climbs.setting else ()
    if column.exit_layer is not None and cell.layer > column.exit_layer:
        went = f"and the row had stopped at layer {column.exit_layer}"
    here = went if cell.layer in tests else f"and layer {cell.layer} has no test"
    return f"{says} with {conf}. {who}, {here}."


def _way(column: Column, cell: ExitCell, columns: Sequence[Column]) -> str:
    """How the row came through a layer where no head was asked."""
    if cell.kind == "own":
        return f"The row climbs through layer {cell.layer}, {_wide(cell.width)}. No head is asked here."
    driver = next((other.shown for other in columns if other.row == cell.climb), None)
    if cell.kind == "catch_up":
        stop = f"It had stopped at layer {column.exit_layer}" if column.exit_layer is not None else "It waited below"
        return f"{stop}; {_name(driver)} entered layer {cell.layer} later and took it along, {_wide(cell.width)}."
    if column.terminal and cell.kind == "align":
        return (
            f"The last row of the round climbs through layer {cell.layer}, {_wide(cell.width)}. No head is asked here."
        )
    if cell.kind == "align":
        return f"The last climb took it along through layer {cell.layer}, {_wide(cell.width)}."
    return (
        f"The last climb carries all rows through layer {cell.layer} in one call, {_wide(cell.width)}: the target pass."
    )


def _top(column: Column) -> str:
    if column.chosen is None:
        return "The top: here the target itself says what comes next." + (
            "" if column.status == "open" else " Its word on this row was not needed."
        )
    drafted = column.drafted
    if drafted is None:
        return f"The top: the target chose {_name(column.chosen)}; nothing was drafted for this place."
    if drafted == column.chosen:
        return f"The top: the target chose {_name(column.chosen)} too, so the draft stays."
    return (
        f"The top: the target chose {_name(column.chosen)}, not {_name(drafted)}: the draft falls, and all behind it."
    )


def _worth(climbs: Climbs, column: Column, cell: ExitCell) -> list[str]:
    """What the exit cost or earned, or what one here would have."""
    n = climbs.n_layers
    if cell.took:
        if column.wrong is None:
            return ["" if column.status == "open" else "It was never judged: the text did not get here."]
        if column.wrong:
            return [
                f"Wrong: the target chose {_name(column.chosen)}. The {cell.layer} calls of this climb earned nothing."
            ]
        return [f"Right: {cell.layer} calls paid, {n} earned, {n - cell.layer} saved."]
    if cell.agrees is None or cell.layer == n:
        return []
    if not cell.agrees:
        return [f"Stopping here would have been wrong: the target chose {_name(column.chosen)}."]
    if column.exit_layer is not None and cell.layer >= column.exit_layer:
        return [
            f"The head agrees with the target, {plural(cell.layer - column.exit_layer, 'layer')} after the row stopped."
        ]
    if column.exit_layer is not None:
        return [f"Already right: stopping here would have saved {plural(column.exit_layer - cell.layer, 'call')} more."]
    return [f"It was right: an exit here would have paid {cell.layer} calls and earned {n}, {n - cell.layer} saved."]


def over_run(columns: Sequence[Column], n_layers: int) -> str:
    """Oracle and regret over the rows on the map: how early heads were right, and how much later rows stopped."""
    known = [column for column in columns if column.first_right is not None and column.settled is not None]
    if not known:
        return ""
    first = sum(column.first_right or 0 for column in known) / len(known)
    settled = sum(column.settled or 0 for column in known) / len(known)
    stopped = [column.regret for column in known if column.regret is not None]
    text = f"heads are right first at layer {number(first, 1)}, for good from {number(settled, 1)} of {n_layers}"
    if stopped:
        mean, early = sum(stopped) / len(stopped), sum(regret < 0 for regret in stopped)
        text += f" · regret {'+' if mean > 0 else ''}{number(mean, 1)} layers an exit"
        text += f", {early} too early" if early else ""
    return f"{text} · over {len(known)} rows"
