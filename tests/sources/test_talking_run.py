"""A conversation over a scripted core: what is handed over, what stays said, and that no message is lost."""

import pytest

from specviz import events as ev
from specviz.commands import Command, Said, Start, Stop
from specviz.errors import SpecvizError
from specviz.knobs import KnobSpec
from specviz.sources.conversation import ChatMessage
from specviz.sources.live_run import IdleWords
from specviz.sources.talking_run import ChatRun
from support.traces import make_events

RUN = make_events(temperature=0.8, new_tokens=24)
ANSWER = "".join(text for event in RUN if isinstance(event, ev.Commit) for text in event.texts)
IDLE = ev.State(state="idle")


class Core:
    """A core that says what it is told to say, and remembers what it was asked."""

    silence = None

    def __init__(self) -> None:
        self.live, self.ended = True, False
        self.commands: list[Command] = []
        self._waiting: list[ev.Event] = []

    def play(self, *events: ev.Event) -> None:
        self._waiting += events

    def poll(self) -> list[ev.Event]:
        events, self._waiting = self._waiting, []
        return events

    def send(self, command: Command) -> None:
        if not self.live:
            raise SpecvizError("the core has ended")
        self.commands.append(command)

    def close(self) -> None:
        pass


def catalogue(talks: bool = True, lacks: ev.Missing | None = None) -> ev.Catalogue:
    method = ev.MethodInfo(
        name="draft",
        help="",
        needs_draft=False,
        verifiers=[],
        default_verifier=("a", "b"),
        knobs=[KnobSpec(name="gamma", kind="int", default=4, help="drafted tokens", lo=0, hi=64)],
        missing=lacks,
    )
    models = ev.Models(target=ev.ModelInfo(name="table"))
    return ev.Catalogue(methods=[method], verifiers=[], models=models, chat=talks, talks=talks)


@pytest.fixture
def core() -> Core:
    return Core()


def over(core: Core, *events: ev.Event) -> ChatRun:
    run = ChatRun(core, IdleWords("nothing", "ready", "preparing"))
    core.play(*events)
    run.tick(0.0)
    return run


@pytest.fixture
def run(core: Core) -> ChatRun:
    """With a model that talks."""
    return over(core, catalogue(), IDLE)


def answer(run: ChatRun, core: Core, *events: ev.Event) -> None:
    core.play(*(events or (*RUN, IDLE)))
    run.tick(1.0)


def starts(core: Core) -> list[Start]:
    return [command for command in core.commands if isinstance(command, Start)]


def test_what_was_said_goes_along_with_the_next_message(run: ChatRun, core: Core) -> None:
    run.say("hello", Start(knobs={"gamma": 3}))
    answer(run, core)
    assert run.talk.spoken == [ChatMessage("user", "hello"), ChatMessage("assistant", ANSWER, "table", "factory")]
    run.say("and then?", Start(knobs={"max_new_tokens": 9}))
    first, second = starts(core)
    assert (first.history, first.chat, first.knobs) == ([], True, {"max_new_tokens": 256, "gamma": 3})
    assert second.history == [Said(role="user", text="hello"), Said(role="assistant", text=ANSWER)]
    assert (second.prompt, second.knobs) == ("and then?", {"max_new_tokens": 9})


def test_knobs_chosen_between_answers_go_with_the_next_message(run: ChatRun, core: Core) -> None:
    run.say("hello", Start(knobs={"gamma": 3}))
    answer(run, core)
    run.set_knobs({"gamma": 6, "alpha": 0.5})
    run.say("and then?", Start(knobs={"gamma": 3}))
    assert starts(core)[-1].knobs == {"max_new_tokens": 256, "gamma": 6}
    assert [notice.message for notice in run.take_notices()] == ["draft has no alpha"]
    assert run.edits.staged == {}


def test_a_knob_that_came_too_late_goes_with_the_message_that_waits(run: ChatRun, core: Core) -> None:
    run.say("hello", Start())
    answer(run, core, *RUN[:-1])
    run.say("and then?", Start())
    run.set_knobs({"gamma": 6})
    answer(run, core, RUN[-1], IDLE)
    assert starts(core)[-1].knobs["gamma"] == 6


def test_the_mark_that_ends_a_message_is_no_part_of_it(run: ChatRun, core: Core) -> None:
    run.say("hello", Start())
    commit = ev.Commit(tokens=[1, 2], texts=["yes", "<end>"], kinds=["accepted", "bonus"], n=3, finish="eos")
    answer(run, core, RUN[0], RUN[1], commit, ev.End(reason="done"), IDLE)
    assert run.talk.spoken[-1].text == "yes"


def test_a_message_waits_for_the_answer_in_hand_and_a_second_one_is_refused(run: ChatRun, core: Core) -> None:
    run.say("one", Start())
    answer(run, core, *RUN[:-1])
    run.say("two", Start())
    with pytest.raises(SpecvizError, match="one message waits already"):
        run.say("three", Start())
    assert len(core.commands) == 1, "the answer is not stopped for it"
    answer(run, core, RUN[-1])
    assert len(core.commands) == 1, "the worker has not said that it is free"
    answer(run, core, IDLE)
    assert [start.prompt for start in starts(core)] == ["one", "two"]
    assert len(starts(core)[1].history) == 2


def test_a_message_waits_for_the_models(core: Core) -> None:
    run = over(core)
    run.say("hello", Start())
    assert core.commands == []
    answer(run, core, catalogue(), IDLE)
    assert [start.prompt for start in starts(core)] == ["hello"]


def test_to_a_model_that_goes_on_with_texts_a_waiting_message_is_a_prompt(core: Core) -> None:
    run = over(core)
    run.say("def f(", Start())
    answer(run, core, catalogue(talks=False), IDLE)
    (start,) = starts(core)
    assert (start.chat, start.history, start.knobs) == (None, [], {})
    assert not run.answering
    with pytest.raises(SpecvizError, match="goes on with texts"):
        run.say("more", Start())


def test_a_stopped_answer_stays_said(run: ChatRun, core: Core) -> None:
    run.say("hello", Start())
    answer(run, core, *RUN[:-1])
    run.stop()
    answer(run, core, ev.End(reason="stopped"), IDLE)
    assert run.talk.spoken[-1] == ChatMessage("assistant", ANSWER, "table", "factory", stopped=True)
    assert run.talk.unsent == ""


def test_a_message_that_came_to_nothing_is_offered_again(run: ChatRun, core: Core) -> None:
    run.say("too long", Start())
    answer(run, core, ev.Refused(id=core.commands[0].id, message="longer than the context"))
    assert (run.talk.unsent, run.talk.spoken, run.talk.asked) == ("too long", [], None)
    run.say("again", Start())
    answer(run, core, *RUN[:2], ev.End(reason="error", message="out of memory"), IDLE)
    assert (run.talk.unsent, run.talk.spoken) == ("again", [])
    run.say("once more", Start())
    core.live, core.ended = False, True
    run.tick(2.0)
    assert run.talk.unsent == "once more"


def test_where_something_was_said_before_a_new_conversation_is_a_way_out(run: ChatRun, core: Core) -> None:
    run.say("hello", Start())
    answer(run, core)
    run.say("more", Start())
    answer(run, core, ev.Refused(id=core.commands[-1].id, message="longer than the context"))
    (notice,) = run.take_notices()
    assert (notice.message, notice.severe) == ("longer than the context; or begin a new conversation", True)
    assert len(run.talk.spoken) == 2


def test_a_message_that_waits_for_models_that_never_come_is_offered_again(core: Core) -> None:
    run = over(core)
    run.say("hello", Start())
    core.live, core.ended = False, True
    run.tick(1.0)
    assert (run.talk.unsent, run.talk.waiting, run.never_ready) == ("hello", None, True)


def test_a_core_that_has_just_gone_leaves_the_message(run: ChatRun, core: Core) -> None:
    core.live = False
    with pytest.raises(SpecvizError, match="has ended"):
        run.say("hello", Start())
    assert (run.talk.unsent, run.talk.asked) == ("hello", None)


def test_a_method_that_lacks_a_part_is_refused_and_nothing_is_sent(core: Core) -> None:
    run = over(core, catalogue(lacks=ev.Missing(why="no heads", command="specviz train heads")), IDLE)
    with pytest.raises(SpecvizError, match="no heads: specviz train heads"):
        run.say("hello", Start())
    assert not core.commands
    assert not run.talk


def test_another_prompt_is_no_part_of_the_conversation(run: ChatRun, core: Core) -> None:
    run.say("hello", Start())
    answer(run, core)
    run.start(Start(prompt="x"))
    answer(run, core)
    assert len(run.talk.spoken) == 2


def test_a_new_conversation_forgets_an_answer_that_is_still_coming(run: ChatRun, core: Core) -> None:
    run.say("hello", Start())
    answer(run, core, *RUN[:-1])
    run.new_conversation()
    assert [type(command) for command in core.commands] == [Start, Stop]
    answer(run, core, RUN[-1], IDLE)
    assert not run.talk
    run.say("fresh", Start())
    assert starts(core)[-1].history == []


def test_the_conversation_goes_on_with_another_core(run: ChatRun, core: Core) -> None:
    run.say("hello", Start())
    answer(run, core, *RUN[:-1])
    other = Core()
    trial = over(other, catalogue(), IDLE)
    assert run.go_on_with(trial) is core
    assert (run.running, run.source, run.run.end is not None) == (False, other, True)
    run.say("and you?", Start())
    assert [turn.text for turn in starts(other)[0].history] == ["hello", ANSWER]
    assert len(run.run.rounds) > 0, "what was decoded stays on screen"
