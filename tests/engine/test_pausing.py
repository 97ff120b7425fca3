"""Every method with drafting that pauses and goes on: the same text, and plain rounds on record as what they are."""

from dataclasses import replace

import pytest

from specviz.commands import Start
from specviz.cost.pausing import Pausing
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.events import Event, RoundEnd, Warn
from specviz.methods import all_methods, get_method
from specviz.methods.common.missing import missing
from specviz.runlog.fold import fold
from specviz.runlog.tree import RoundTree
from specviz.view.why.closing_text import closing_words

PROMPT = "The old man and the ship of 1482 went, and went again"  # drafts of it are lost now and then
TURNS = (True, False, True, True, False, False, False)  # which rounds draft, over and over


class Turns(Pausing):
    """Pauses in turns, whatever things cost."""

    @property
    def drafts(self) -> bool:
        return TURNS[self.n % len(TURNS)]

    n = 0

    def take(self, number: int, ns: int, tokens: int, drafted: bool, read: int = 0) -> str | None:
        self.n = number
        return "a word" if number == 3 else None


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair(threads=1)


def decoded(pair: Pair, start: Start, pausing: Pausing | None) -> tuple[list[int], list[Event]]:
    events: list[Event] = []
    run = LocalRun(pair, start, events.append)
    run.session.parts = replace(run.session.parts, pausing=pausing)
    for _ in run.rounds():
        pass
    return run.tokens, events


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("name", [name for name, method in all_methods().items() if method.drafter])
def test_pausing_changes_no_text(pair: Pair, name: str, temperature: float) -> None:
    method = get_method(name)
    if missing(method, pair) is not None:
        pytest.skip(f"no part for {name} here")
    knobs = {"max_new_tokens": 64, "temperature": temperature, "seed": 3}
    if temperature and "walk" not in method.fitting(method.table.knobs(knobs).values):
        knobs["draft_mode"] = "shared"
    start = Start(prompt=PROMPT, method=name, verifier="walk", knobs=knobs, lanes="serial", level="summary")
    whole, _ = decoded(pair, start, None)
    tokens, events = decoded(pair, start, Turns())
    assert tokens == whole
    ends = [event for event in events if isinstance(event, RoundEnd)]
    paused = [end for end in ends if end.draft_end == "pausing"]
    assert paused
    assert all((end.n_drafted, end.n_emitted, end.n_draft_calls) == (0, 1, 0) for end in paused)
    assert [event.message for event in events if isinstance(event, Warn) and event.code == "auto"] == ["a word"]


def test_why_a_paused_round_has_no_draft_says_what_was_said_as_it_began(pair: Pair) -> None:
    start = Start(prompt=PROMPT, method="ngram", knobs={"max_new_tokens": 12}, level="full")
    run = fold(decoded(pair, start, Turns())[1])
    sentences = {record.r: closing_words(run, RoundTree(record)) for record in run.rounds}
    paused = [record.r for record in run.rounds if record.end and record.end.draft_end == "pausing"]
    assert [sentences[r].partition(";")[0] for r in paused if r > 3] == ["A word" for r in paused if r > 3] != []


def test_where_the_text_depends_on_what_is_drafted_every_round_drafts(pair: Pair) -> None:
    start = Start(prompt=PROMPT, method="draft", verifier="tokenwise", knobs={"temperature": 0.8, "max_new_tokens": 24})
    _, events = decoded(pair, start, Turns())
    assert all(end.draft_end != "pausing" for end in events if isinstance(end, RoundEnd))
