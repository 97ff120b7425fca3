"""`Trial`: A/B of a run whose knobs were moved: its prompt decoded with what it began with, then with what stands now.

Both are decoded by the server's own core, whose models are loaded already, one after the other at full speed; they are
kept under names of their own. A thread waits for them: no page is held up.
"""

import threading
import time
from typing import TYPE_CHECKING

from specviz.errors import SpecvizError
from specviz.sources.two_settings import STOPPED, TwoSettings

if TYPE_CHECKING:
    from specviz_app.server.core import ServedRun

_LOOK_S = 0.05


class Trial:
    """Both settings under way. `names`: of the runs that are done; `problem`: why no more come.

    Raises SpecvizError when the first cannot be started.
    """

    def __init__(self, core: "ServedRun", asked: TwoSettings, number: int) -> None:
        self.core, self.asked, self.number = core, asked, number
        self.names: list[str] = []
        self.problem: str | None = None
        self._cancelled = threading.Event()
        self._begin(0)
        threading.Thread(target=self._work, name="specviz-ab", daemon=True).start()

    @property
    def running(self) -> bool:
        """Whether more is to come."""
        return self.problem is None and len(self.names) < len(self.asked.starts)

    @property
    def cancelled(self) -> bool:
        """Whether a person ended it."""
        return self.problem == STOPPED

    def progress(self) -> tuple[float, str]:
        """How much is done, from 0 to 1, and what goes on now, in words."""
        n = len(self.asked.starts)
        done = min(len(self.names), n - 1)
        with self.core.lock:
            ours = self.core.started is self.asked.starts[done] and not self.core.preparing
            rounds, header = self.core.run.rounds, self.core.run.header
            tokens = sum(rounds.point(k).n_emitted or 0 for k in range(len(rounds))) if ours else 0
            most = int((header.sampling | header.knobs).get("max_new_tokens", 0)) if ours and header is not None else 0
        share = min(1.0, tokens / most) if most else 0.0
        return (done + share) / n, f"A/B {done + 1} of {n}, {self.asked.labels[done]}: {tokens} tokens"

    def cancel(self) -> None:
        """End it; what was done of it stays."""
        self._cancelled.set()

    def _begin(self, k: int) -> None:
        with self.core.lock:
            self._generation = self.core.generation
            self.core.start(self.asked.starts[k], paced=False)

    def _work(self) -> None:
        try:
            for k, label in enumerate(self.asked.labels):
                if k:
                    self._begin(k)
                while not self._ended(k):
                    time.sleep(_LOOK_S)
                self.names.append(self.core.keep(f"A/B {self.number}: {label}"))
        except SpecvizError as error:
            self.problem = str(error)
        except Exception as error:  # whatever it was, the page must say so rather than wait
            self.problem = f"{type(error).__name__}: {error}"
        with self.core.lock:
            self.core.version += 1

    def _ended(self, k: int) -> bool:
        """Whether a run has come to its end. Raises SpecvizError with the reason when none will."""
        core, start = self.core, self.asked.starts[k]
        with core.lock:
            if core.failed is not None:
                raise SpecvizError(core.failed)
            if core.last_start is not start:
                raise SpecvizError("another run was started meanwhile")
            if self._cancelled.is_set():
                if core.running or core.preparing:
                    core.stop()
                raise SpecvizError(STOPPED)
            if core.started is not start or core.preparing or core.running:
                return False
            if core.generation == self._generation:  # no run came of it
                raise SpecvizError(core.refusals[-1] if core.refusals else "the core took no run")
            end = core.run.end
            if end is not None and end.reason not in ("done", STOPPED):
                raise SpecvizError(end.message or f"the run ended: {end.reason}")
            if end is not None and end.reason == STOPPED:
                raise SpecvizError(STOPPED)
            return end is not None
