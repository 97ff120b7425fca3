"""What a recording says of a run that specviz did not make itself: the rule that decided, what is known of it, and
what the engine counted."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from specviz.events.base import Event, Prob, Real

# same law: the text has the target's law; lossy: another one, by a setting that says so; changed: another one, though
# nobody asked for it; invalid: nothing that was decided says anything of the models; unknown: nobody said.
Promise = Literal["same law", "lossy", "changed", "invalid", "unknown"]
# times: when each stage of a round ran, and no token; counts: how many tokens were drafted and kept; decisions: and
# which; probabilities: and what the models gave them.
Known = Literal["times", "counts", "decisions", "probabilities"]

Total = Annotated[int, Meta(ge=0, le=2**53)]


class Outside(msgspec.Struct, kw_only=True, frozen=True):
    """Who made a run, by what rule drafted tokens were kept, and how much of it is known.

    `setting`: what chose the rule there; `how`: what it does, in a sentence; `source`: where rounds were read;
    `chains`: every draft is one line of tokens, so that counts alone say which positions were tested.
    """

    engine: str
    version: str | None = None
    setting: str = ""
    how: str = ""
    promise: Promise = "unknown"
    known: Known = "counts"
    source: str = ""
    chains: bool = False


class Reported(Event, tag="reported", kw_only=True):
    """What an engine itself counted, over a request or over all that it served (`whole`): held against the rounds.

    `n_rounds`: those that drafted. `mean_acceptance_length`: accepted / rounds + 1, as engines count. Null: not said.
    """

    of: str  # what said it
    whole: bool = False
    n_requests: Total | None = None
    n_rounds: Total | None = None
    n_drafted: Total | None = None
    n_accepted: Total | None = None
    n_emitted: Total | None = None
    mean_acceptance_length: Real | None = None
    draft_acceptance_rate: Prob | None = None
    accepted_per_position: list[Total] | None = None
    histogram: list[Total] | None = None  # rounds by accepted tokens


class EngineCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of one of several engines behind one address (or drafters, or kinds of prompts); `name`: its own
    label. `n_drafted`, `n_calls` (how often it was asked for a draft): over all looks, where told."""

    name: str
    n_rounds: Total
    n_accepted: Total
    n_drafted: Total | None = None
    n_calls: Total | None = None


class Counted(Event, tag="counted", kw_only=True):
    """Totals of a server since it began; `wall` seconds since 1970 when they were read. Null: it does not say.

    `accept_length`, `accept_rate`: means that the engine worked out itself, over a time it does not name.
    """

    engine: str
    wall: Annotated[float, Meta(ge=0, le=2**40)]
    models: list[str] = []
    n_generated: Total | None = None
    n_rounds: Total | None = None
    n_drafted: Total | None = None
    n_accepted: Total | None = None
    per_position: list[Total] = []  # rounds that kept a token at that position
    accept_length: Real | None = None
    accept_rate: Real | None = None
    n_answers: Total | None = None  # that are over
    n_empty: Total | None = None  # of these, that ended with their first token though more were allowed
    engines: list[EngineCounts] = []  # each alone, where there are several; the totals are their sums
    parts_of: str = "engine"  # what those are: engines, drafters, prompts
    gauges: dict[str, Real] = {}  # what stood beside at that moment: requests, cache use, hits of the prefix cache
    span: str = ""  # what the totals cover, where that is not the time since the server began
    settings: dict[str, str] = {}  # how the engine ran, as far as the source states
    notes: list[str] = []  # what the source states besides counts
    drafts: bool | None = None  # whether it drafts at all, where the source states only that

    @property
    def speculates(self) -> bool:
        """Whether anything of speculation is counted."""
        return any(n is not None for n in (self.n_rounds, self.n_drafted, self.accept_length))
