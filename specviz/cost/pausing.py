"""When drafting does not pay: whether the next round drafts, or is a round of plain decoding.

The session asks before each round, whatever the method, so a new one is held to it without a line of its own. A round
is worth the tokens it brings less the plain passes it takes. Losses add up and gains pay them off (a one-sided CUSUM);
once `TOLERATED` passes are lost and recent rounds lose on the whole, nothing is drafted for a while, then a few rounds
try again. Each failed try doubles the wait, and what more it lost than is tolerated, reading what was written meanwhile
included, is at most `BUDGET` of the plain passes that follow; a try that pays off all it owes ends the waiting.

Times come from the run's own rounds, for they are what a round costs here: they know the drafter, the rows, the context
and a busy machine. The clock decides no text: a session heeds the rule only where the number of drafted tokens cannot
change one (temperature 0, or a verifier whose draws are keyed by place alone). What it decides is a function of the
rounds' tokens and times and of plain passes, all on record (`RoundEnd`), and of what was known before (the header's
`env.auto`): fed with them again, the rule decides the same. Pure functions of numbers: no model, no clock of its own.
"""

from collections import deque
from dataclasses import dataclass, field
from math import ceil
from statistics import median_low
from typing import Any

FIRST = 2  # plain rounds before anything is drafted, where nothing else tells what a pass takes here
TOLERATED = 1.5  # plain passes lost before drafting pauses
WORST = 1.0  # plain passes that one round can lose, so that a hiccup of the machine decides nothing by itself
SHORTEST, LONGEST = 32, 256  # plain rounds of a pause, by the number of tries
BUDGET = 0.02  # of plain passes, for tries that lose much: makes the next pause longer
DECAY = 0.95  # of older rounds, a round: the last twenty or so count
KEPT = 9  # newest plain passes, whose median is the price of one


@dataclass(slots=True)
class Pausing:
    """Feed it every round with `take`; `drafts` tells of the next one. `beside`: plain passes are timed between the
    rounds as well (`price`), so that no round need be plain for the price of one."""

    plain_ns: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    owed: float = 0.0  # plain passes lost and not won back
    rounds: float = 0.0  # that drafted, older ones counting less; and what they brought and took
    tokens: float = 0.0
    passes: float = 0.0
    # Plain passes that the rounds lost since nothing was owed; gains stand below zero.
    losses: deque[float] = field(default_factory=lambda: deque(maxlen=SHORTEST))
    reading: float = 0.0  # plain passes that this try lost as it read what was written meanwhile
    prompt: float = 0.0  # plain passes that the first draft for a text lost, as it read the prompt
    unread: bool = False  # nothing of this text's prompt was read yet
    left: int = 0  # plain rounds before the next try
    pause: int = 0  # length of the newest pause; 0: drafting pays
    beside: bool = False

    @property
    def drafts(self) -> bool:
        """Whether the next round drafts."""
        return not self.left and (self.beside or len(self.plain_ns) >= FIRST)

    @property
    def state(self) -> dict[str, Any]:
        """What it knows, for the header of a trace."""
        sums = ("owed", "rounds", "tokens", "passes", "reading", "prompt")
        numbers = {name: round(getattr(self, name), 4) for name in sums}
        losses = [round(loss, 4) for loss in self.losses]
        return {"plain_ns": list(self.plain_ns), **numbers, "losses": losses, "left": self.left, "pause": self.pause}

    def begin(self) -> None:
        """Another text begins: while drafting pauses its prompt stays unread until that, too, is in the budget. A try
        that the end of the text before cut short has not paid for what it read."""
        self.unread = True
        more = ceil((self.prompt - TOLERATED) / BUDGET) - (self.pause if self.left else 0)
        if self.pause and more > 0:
            self.pause, self.left = self.pause + more, self.left + more

    def price(self, ns: int) -> None:
        """Learn what a plain pass took that was timed between two rounds."""
        self.plain_ns.append(ns)

    def take(self, number: int, ns: int, tokens: int, drafted: bool, read: int = 0) -> str | None:
        """Learn from a round: its number, nanoseconds, committed tokens, whether the drafter was asked, and how many
        tokens of the text it then read.

        What there is to say where drafting pauses or goes on: one line, or None.
        """
        if not drafted:
            self.plain_ns.append(ns)
            self.left = max(0, self.left - 1)
            return None
        if self.left or not self.plain_ns:
            return None  # what was drafted before the pause is judged to its end
        loss = ns / median_low(self.plain_ns) - tokens
        if read >= SHORTEST:  # as long a text is not read every round
            self.reading += max(0.0, loss) if self.pause else 0.0
            self.prompt, self.unread = max(0.0, loss) if self.unread else self.prompt, False
            return None
        self.losses.append(loss)
        loss = min(loss, self._most)
        self.rounds, self.tokens, self.passes = (
            DECAY * old + new for old, new in ((self.rounds, 1), (self.tokens, tokens), (self.passes, tokens + loss))
        )
        self.owed = max(0.0, self.owed + min(loss, WORST))
        if self.owed >= TOLERATED and self.passes > self.tokens:
            return self._pause(number)
        if not self.owed:
            pause, self.pause, self.reading = self.pause, 0, 0.0
            self.losses.clear()
            return f"drafting again: {self._said}" if pause else None
        return None

    @property
    def _most(self) -> float:
        """Plain passes that a round can be said to have lost, by what others do: the rest is a hiccup's."""
        return median_low(self.losses) + WORST

    def _pause(self, number: int) -> str:
        lost = self.reading + sum(min(loss, self._most) for loss in self.losses)
        self.left = self.pause = max(min(LONGEST, 2 * self.pause or SHORTEST), ceil((lost - TOLERATED) / BUDGET))
        self.owed, self.reading = TOLERATED / 2, 0.0
        self.losses.clear()
        return f"not drafting: {self._said}; next try at r{number + self.left + 1}"

    @property
    def _said(self) -> str:
        passes, tokens = self.passes / self.rounds, self.tokens / self.rounds
        digits = 2 if f"{passes:.1f}" == f"{tokens:.1f}" else 1
        return f"a round costs {passes:.{digits}f} plain passes and brings {tokens:.{digits}f} tokens"
