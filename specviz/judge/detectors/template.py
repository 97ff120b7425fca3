"""What prompts, answers and counts of them tell of the chat template: put in twice, or left out (fault 6)."""

import re

from specviz.judge.evidence import CountsLooked, RoundsCounted
from specviz.judge.finding import EvidencePlace, Finding
from specviz.judge.registry import detector
from specviz.numerals import plural
from specviz.text import running

LEAST_CLOSED = 3  # answers
SELDOM = 0.1  # of answers, which a model that was asked properly hardly leaves empty
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


@detector(RoundsCounted, 4)
def template_left_out(counted: RoundsCounted) -> Finding | None:
    """Many answers are nothing but the mark that ends a turn, and no prompt has begun one."""
    return _left_out(
        counted.metrics.n_queries,
        counted.tally.texts.n_closed_at_once,
        "the first round writes the mark that ends a turn of a chat, of which the prompt has none",
    )


@detector(CountsLooked, 4)
def template_left_out_counted(counted: CountsLooked) -> Finding | None:
    """Many answers end with their first token, which by then can only be a mark."""
    n, empty = counted.picture.answers or (0, 0)
    return _left_out(n, empty, "the first token ended it, though more were allowed")


def _left_out(n: int, closed: int, how: str) -> Finding | None:
    from specviz.metrics import wilson_interval

    if closed < LEAST_CLOSED or wilson_interval(closed, n)[0] < SELDOM:
        return None
    return Finding(
        "template_left_out",
        6,
        "the chat template was left out",
        f"In {closed} of {plural(n, 'answer')} {how}: the target was taught by a template, and reads bare text.",
        "likely",
        next_step="Send messages through the chat template; a raw prompt should be text to go on with.",
        decides="The same prompts as messages.",
        evidence=(EvidencePlace(0, "the prompts", kind="line"),),
    )
