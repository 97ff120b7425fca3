"""What a prompt tells of its chat template: one that was put in twice (fault 6)."""

import re

from specviz.judge.evidence import RoundsCounted
from specviz.judge.finding import EvidencePlace, Finding
from specviz.judge.registry import detector
from specviz.text import running

_MARK = re.compile(r"<\|?[a-z_]{3,32}\|?>")  # what a message begins with: <|im_start|>, <start_of_turn>


@detector(RoundsCounted, 3)
def template_twice(counted: RoundsCounted) -> Finding | None:
    """The first prompt begins with a template's mark already, and its ids hold more of them than its text."""
    query = counted.run.queries[0] if counted.run.queries else None
    prefill = None if query is None else query.prefill
    mark = None if prefill is None else _MARK.match(prefill.text)
    if prefill is None or mark is None or not prefill.prompt:
        return None
    n_marks, fed = prefill.text.count(mark.group(0)), prefill.prompt.count(prefill.prompt[0])
    if fed <= n_marks:
        return None
    return Finding(
        "template_twice",
        6,
        "the chat template was put in twice",
        f"The prompt's text begins with {running(mark.group(0))} and holds {n_marks} of them; what the models read has "
        f"{fed}: a text that has the template in it went through the template again.",
        "likely",
        next_step="Send messages alone, or send the text with its template as a raw prompt.",
        decides="The request as the client sends it.",
        evidence=(EvidencePlace(0, "the prompt", kind="line"),),
    )
