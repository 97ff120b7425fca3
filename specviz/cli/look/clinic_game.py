"""A case played in lines: what is typed opens evidence, or answers."""

from collections.abc import Callable, Iterator

from specviz.check.findings import FAULTS
from specviz.errors import SpecvizError
from specviz.view.blocks import Block, Cell, TableBlock, Words
from specviz.view.clinic import PlayedCase

_GAP = "  "


def play(case: PlayedCase, say: Callable[[str], None], ask: Callable[[str], str]) -> None:
    """From the symptom to the marks. `say`: a paragraph, or a row of a table, to be shown; `ask`: what is typed to a
    question."""
    say(case.lead)
    say(case.how)
    say("")
    for exhibit in case.exhibits:
        say(f"{_GAP}{exhibit.key:<10}{exhibit.title}")
    say("")
    fault = _fault(case, say, ask)
    for place, words in enumerate(case.steps, 1):
        say(f"{_GAP}{place}  {words}")
    step = _number(ask, say, "And the next step?", range(1, len(case.steps) + 1)) - 1
    say("")
    say(f"It was {case.answer}.")
    say(f"Next step: {case.steps[case.right_step]}")
    say(case.marks(fault, step).words)
    if case.following is not None:
        say(f"The next one: specviz learn clinic {case.following}")


def _fault(case: PlayedCase, say: Callable[[str], None], ask: Callable[[str], str]) -> int:
    """Evidence is opened until a fault is named."""
    while True:
        typed = ask("Open which, or which fault is it (1 to 16, 0: none; ? lists them)?").strip()
        if typed == "?":
            for fault, name in enumerate(FAULTS, 1):
                say(f"{_GAP}{fault:>2}  {name}")
        elif typed.isascii() and typed.isdigit() and int(typed) <= len(FAULTS):
            return int(typed)
        else:
            try:
                exhibit = case.open(typed)
            except SpecvizError as error:
                say(str(error))
                continue
            for block in exhibit.blocks:
                for line in _lines(block):
                    say(f"{_GAP}{line}")


def _number(ask: Callable[[str], str], say: Callable[[str], None], question: str, known: range) -> int:
    while True:
        typed = ask(question).strip()
        if typed.isascii() and typed.isdigit() and int(typed) in known:
            return int(typed)
        say(f"a number, {known.start} to {known.stop - 1}")


def _lines(block: Block) -> Iterator[str]:
    """Words and tables; exhibits are made of nothing else."""
    if isinstance(block, Words):
        yield block.text
    elif isinstance(block, TableBlock):
        rows = [tuple(Cell(head) for head in block.heads), *block.rows]
        widths = [max(len(row[k].text) for row in rows) for k in range(len(block.heads))]
        for row in rows:
            yield _GAP.join(cell.text.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
