"""A node decided again: with another u, and by every rule that takes its draft."""

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static

from specviz.errors import SpecvizError
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.view.frame.parts import Why
from specviz.view.why.again import NodeAgain, RuleAgain, least_u, node_again, with_u
from specviz_tui.common.paint import FAINT, STRONG, Painter, painter_of

DECISION_ONLY = "decisions of this round alone, on the text as it was; what comes after it may be another text"
WORKING = "deciding again by every rule that takes this draft …"


class AgainScreen(ModalScreen[None]):
    """A field for u above the table of rules."""

    BINDINGS = [Binding("escape,q", "leave", "back", show=False)]

    def __init__(self, run: Run, record: RoundRecord, why: Why, ascii: bool = False) -> None:
        super().__init__()
        self._run, self._record, self._why, self._ascii = run, record, why, ascii
        self._found: NodeAgain | None = None

    def compose(self) -> ComposeResult:
        """Both parts stand from the start; what they say comes when it is worked out."""
        with VerticalScroll(classes="dialog -wide -again"):
            yield Label(f"{self._why.title} again · round {self._record.r}", markup=False, classes="dialog-title")
            yield Label("with u =", markup=False, id="u-label")
            yield Input("", id="u", restrict=r"[0-9.]*", disabled=True)
            yield Static("", id="with-u", markup=False, classes="dialog-hint")
            yield Static(WORKING, id="rules")
            yield Static(f"{DECISION_ONLY} · esc back", markup=False, classes="dialog-hint")

    def on_mount(self) -> None:
        """The rules are worked out beside the screen."""
        self.run_worker(self._decide, thread=True, exclusive=True)

    def _decide(self) -> None:
        try:
            decided = node_again(self._run, self._record, self._why.node, self._ascii)
        except SpecvizError as error:
            self.app.call_from_thread(self._fail, str(error))
            return
        self.app.call_from_thread(self._show, decided)

    def _fail(self, why: str) -> None:
        self.query_one("#rules", Static).update(Text(why))

    def _show(self, decided: NodeAgain) -> None:
        self._found = decided
        self.query_one("#rules", Static).update(rule_table(decided, painter_of(self.app)))
        field = self.query_one("#u", Input)
        if decided.u is None:
            self.query_one("#with-u", Static).update(decided.no_u)
            return
        flip = self._why.flip
        field.disabled = False
        field.value = least_u(flip.lo, flip.hi, decided.u) if flip is not None else f"{decided.u:.3f}"
        field.focus()

    @on(Input.Changed, "#u")
    def _asked(self, event: Input.Changed) -> None:
        """Decide with what is typed so far."""
        if self._found is None or self._found.u is None:
            return
        hint = self.query_one("#with-u", Static)
        try:
            sentence = with_u(self._run, self._record, self._why.node, float(event.value), self._ascii).sentence
        except ValueError:
            hint.update("a number from 0 up to, not including, 1")
            return
        except SpecvizError as error:
            hint.update(str(error))
            return
        hint.update(f"{sentence}. Recorded: u {self._found.u:.6g}.")

    def action_leave(self) -> None:
        self.dismiss(None)


def rule_table(decided: NodeAgain, painter: Painter) -> Table:
    """A row for each rule: what becomes of the node, how many drafted tokens are kept, and in words."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for ratio in (None, None, None, 1):
        table.add_column(ratio=ratio, no_wrap=ratio is None)
    table.add_row(*(Text(word, style=FAINT) for word in ("rule", "node", "kept", "")))
    for rule in decided.rules:
        table.add_row(*_cells(rule, painter))
    return table


def _cells(rule: RuleAgain, painter: Painter) -> tuple[Text, ...]:
    style = painter.tint(rule.mark) if rule.mark is not None else FAINT
    name = Text(f"▶ {rule.verifier}" if rule.own else f"  {rule.verifier}", style=STRONG if rule.own else "")
    return name, Text(rule.glyph, style=style), Text(rule.kept), Text(rule.sentence)
