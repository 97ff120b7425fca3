"""What the judge says: a fault, a claim in one sentence, what it rests on, how certain it is, and what to do next."""

from dataclasses import dataclass
from typing import Any, Literal

from specviz.check.findings import FAULTS
from specviz.numerals import number, percent

Certainty = Literal["sure", "likely", "cannot tell"]
CERTAINTIES: tuple[Certainty, ...] = ("sure", "likely", "cannot tell")
_BROKEN = frozenset((1, 2, 3, 5, 9, 10))  # faults that no setting of the draft mends
PlaceKind = Literal["round", "window", "line", "tensor"]


@dataclass(frozen=True, slots=True)
class EvidencePlace:
    """Where evidence is seen. Of a round: `index` over the whole run, and perhaps a node of it. Of a window (what was
    counted between two looks at a server): its number. Lines and tensors have their name alone."""

    index: int
    label: str  # "r12", "q1 r3", "14:05:10", "model.layers.0.self_attn.q_proj"
    node: int | None = None
    kind: PlaceKind = "round"

    @property
    def at(self) -> str:
        """Of a round as `specviz tui --at` takes it: `q1/r3/n40`."""
        if self.kind != "round":
            return self.label
        place = self.label.replace(" ", "/")
        return place if self.node is None else f"{place}/n{self.node}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that stands out.

    `fault`: 1 to 16, which of `FAULTS`; 0 where it is none of them. `others`: faults that would look the same here.
    `decides`: what would settle it; "" where nothing is open. `tokens`: what it costs in tokens a round; `time`: as a
    share of the time; None where nothing on record tells. `screen`: the id of the panel that shows its evidence, "tree"
    for the draft tree. Every text is escaped.
    """

    detector: str  # the rule that speaks, as in a `finding` record
    fault: int
    headline: str  # a few words: "the draft is never kept"
    claim: str  # a sentence or two, with the numbers it rests on
    certainty: Certainty = "sure"
    next_step: str = ""
    decides: str = ""
    others: tuple[int, ...] = ()
    tokens: float | None = None
    time: float | None = None
    screen: str = "tree"
    evidence: tuple[EvidencePlace, ...] = ()

    @property
    def name(self) -> str:
        """The fault in words, as in the documents; "" where it is none of the sixteen."""
        return FAULTS[self.fault - 1] if self.fault else ""

    @property
    def broken(self) -> bool:
        """Whether something is broken, as far as it can be told: what no setting of the draft mends."""
        return self.fault in _BROKEN and self.certainty != "cannot tell"

    @property
    def text(self) -> str:
        """All of it in one paragraph."""
        doubt = {"sure": "", "likely": "Likely, not sure.", "cannot tell": "It cannot be told from this."}[
            self.certainty
        ]
        of = f"({self.faults})" if self.fault else ""
        decides = f"What would decide: {self.decides}" if self.decides else ""
        following = f"Next: {self.next_step}" if self.next_step else ""
        return " ".join(part for part in (self.claim, doubt, decides, following, self.cost, of) if part)

    @property
    def cost(self) -> str:
        """`It costs 1.2 tokens a round and 13 % of the time.`; "" where nothing tells."""
        parts = (
            f"{number(self.tokens, 1)} tokens a round" if self.tokens is not None else "",
            f"{percent(self.time)} of the time" if self.time is not None else "",
        )
        costs = " and ".join(part for part in parts if part)
        return f"It costs {costs}." if costs else ""

    @property
    def faults(self) -> str:
        """`fault 3, or 1, 5: the head is random, quantised to death, or not loaded`; "" where it is none."""
        if not self.fault:
            return ""
        others = f", or {', '.join(map(str, self.others))}" if self.others else ""
        return f"fault {self.fault}{others}: {self.name}"

    @property
    def places(self) -> tuple[EvidencePlace, ...]:
        """The rounds that show it."""
        return tuple(place for place in self.evidence if place.kind == "round")

    @property
    def where(self) -> str:
        """`r2, r5, r9`; "" where no round shows it better than others."""
        return ", ".join(dict.fromkeys(place.label for place in self.places))

    def as_object(self) -> dict[str, Any]:
        """As JSON of commands has it; places of rounds as `specviz tui --at` takes them."""
        words = ("detector", "fault", "name", "headline", "claim", "certainty", "decides", "next_step")
        return {
            **{name: getattr(self, name) for name in (*words, "tokens", "time")},
            "others": list(self.others),
            "evidence": list(dict.fromkeys(place.at for place in self.evidence)),
        }
