"""`ABTest`: A/B of the server's own run, both settings decoded one after the other and kept under names of their own.

A thread looks how far they are: no page is held up.
"""

import threading
import time
from typing import TYPE_CHECKING

from specviz.sources.two_settings import STOPPED, ABRuns, ABSettings

if TYPE_CHECKING:
    from specviz_app.server.core import ServedRun

_LOOK_S = 0.05


class ABTest(ABRuns):
    """Both settings under way. `names`: of the runs that are done. Raises SpecvizError when the first cannot begin."""

    core: "ServedRun"

    def __init__(self, core: "ServedRun", asked: ABSettings, number: int) -> None:
        self.number = number
        self.names: list[str] = []
        with core.lock:
            super().__init__(core, asked)
        threading.Thread(target=self._work, name="specviz-ab", daemon=True).start()

    @property
    def cancelled(self) -> bool:
        """Whether a person ended it."""
        return self.problem == STOPPED

    def progress(self) -> tuple[float, str]:
        """How much is done, from 0 to 1, and what goes on now, in words."""
        with self.core.lock:
            n = len(self.asked.starts)
            done, most = min(self.n_done, n - 1), self.most
            tokens = sum(point.n_emitted or 0 for run in self.runs[done:] for point in run.rounds.points())
        share = min(1.0, tokens / most) if most else 0.0
        return (done + share) / n, f"A/B {done + 1} of {n}, {self.asked.labels[done]}: {tokens} tokens"

    def cancel(self) -> None:
        with self.core.lock:
            super().cancel()

    def _keep(self) -> None:
        self.names.append(self.core.keep(f"A/B {self.number}: {self.asked.labels[self.n_done]}"))

    def _work(self) -> None:
        while self.running:
            time.sleep(_LOOK_S)
            try:
                with self.core.lock:
                    self.look()
            except Exception as error:  # whatever it was, the page must say so rather than wait
                self.problem = f"{type(error).__name__}: {error}"
        with self.core.lock:
            self.core.version += 1
