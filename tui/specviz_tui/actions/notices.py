"""What the core says unasked: its warnings while it runs, their list, and what ended it."""

from specviz.numerals import plural
from specviz.view.frame.run_header import WarningGroup, warning_groups, warning_text
from specviz_tui.common.actions import Actions
from specviz_tui.common.keymap import Key
from specviz_tui.screens.dialogs import ListChoice, PickScreen
from specviz_tui.screens.page import error_page

_NAMED = 12  # rounds of a warning that are named
_AT_ONCE = 2  # warnings of one tick; the others are counted


class NoticeActions(Actions):
    """The list of warnings, each in full."""

    order = 18
    KEYS = (Key("warnings", "w", "warnings", "w", "list of warnings of the core, each in full", "Time"),)

    _n_seen = 0  # warnings of the run

    def restart(self) -> None:
        self._n_seen = 0

    def tick(self) -> None:
        """What came since the last one; of a recording warnings are no news, the first line counts them."""
        for notice in self.feed.take_notices():
            if notice.severe:
                self.controller.push(error_page(notice.title, notice.message, self.feed.tail))
            else:
                self.controller.notify(notice.message, title=notice.title, severity="warning")
        warnings = self.player.run.warnings
        seen, self._n_seen = min(self._n_seen, len(warnings)), len(warnings)
        fresh = warnings[seen:] if self.feed.has_core else []
        for warning in fresh[:_AT_ONCE]:
            self.controller.notify(warning_text(warning), title="The core warns", severity="warning", timeout=10)
        if len(fresh) > _AT_ONCE:
            self.controller.notify(f"and {len(fresh) - _AT_ONCE} more: w lists them", severity="warning")

    def action_warnings(self) -> None:
        """Every warning of the core in full, once; enter goes to the next round that has it."""
        groups = warning_groups(self.player.run)
        if not groups:
            self.controller.notify("the core has warned of nothing in this run")
            return
        choices = [ListChoice(str(k), _counted(group), group.text) for k, group in enumerate(groups)]
        n = sum(group.n for group in groups)
        title = f"Warnings: {n:,}" + (f" of {plural(len(groups), 'kind')}" if n > len(groups) else "")
        self.controller.push(
            PickScreen(title, choices, "", "esc back", "goes to the next round that has it", wrap=True),
            lambda chosen: self._go_to(groups[int(chosen)]),
        )

    def _go_to(self, group: WarningGroup) -> None:
        at = group.next(self.player.cursor.index)
        if at is not None:
            self.controller.go(self.player.seek_index(at))


def _counted(group: WarningGroup) -> str:
    """`3 times: r2, r5, r9`."""
    times = f"{group.n:,} times" if group.n > 1 else ""
    named = ", ".join(label for _, label in group.places[:_NAMED])
    more = len(group.places) - _NAMED
    named += f" and {more:,} more" if more > 0 else ""
    return ": ".join(part for part in (times, named) if part) or "before the first round"
