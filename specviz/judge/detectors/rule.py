"""The rule in force: exact match at a temperature above 0 keeps far less than the ratio test (fault 8)."""

from specviz.judge.evidence import RoundsCounted
from specviz.judge.finding import Finding
from specviz.judge.registry import detector
from specviz.numerals import number
from specviz.text import running
from specviz.trace.rules import RULES
from specviz.traits import TOKENWISE

MORE = 1.2  # times as many tokens the ratio test would keep of the same drafts
NEXT = "Choose the ratio test (tokenwise, or block by block), which has the same law; or temperature 0."
GOOD = 0.6  # of first tokens kept, above which nobody asks


@detector(RoundsCounted, 45)
def exact_match(counted: RoundsCounted) -> Finding | None:
    """A draft that is kept only where the target's own draw is the same token."""
    header, metrics = counted.run.header, counted.metrics
    if header is None or not counted.temperature or not metrics.n_drafted:
        return None
    rule = RULES.get(header.outside.setting) if header.outside is not None else None
    if not (rule.traits.draws if rule is not None else header.outside is None and header.verifier_traits.draws):
        return None
    name = running(header.verifier if rule is None else rule.name)
    kept, same = metrics.mean_accepted, metrics.same_draft
    ratio = None if same is None else same.expected_accepted.get(TOKENWISE)
    first = (metrics.position_acceptance or {}).get(1)
    at = f"At temperature {number(counted.temperature)} {name} keeps a drafted token only where the target draws it"
    if ratio is not None and kept is not None and kept.interval is not None:
        if ratio < MORE * kept.interval[1]:
            return None
        claim = (
            f"{at}: {number(kept.value)} a draft, where the ratio test would keep {number(ratio)} of the same drafts."
        )
        return _finding(claim, ratio - kept.value)
    if rule is None or first is None or first.interval is None or first.interval[1] > GOOD:
        return None
    return _finding(f"{at}; what the ratio test would keep of these drafts is not on record.", None)


def _finding(claim: str, tokens: float | None) -> Finding:
    return Finding(
        "exact_match",
        8,
        "exact match at temperature above 0",
        claim,
        "sure" if tokens is not None else "likely",
        next_step=NEXT,
        decides=""
        if tokens is not None
        else "The probabilities of draft and target: specviz whatif, or temperature 0.",
        tokens=tokens,
        screen="verification",
    )
