"""A conversation: messages go through the template, and what the target's cache holds of it is not computed again."""

from pathlib import Path

import pytest
import torch

from specviz.commands import Said, Start
from specviz.engine.model.cache import KVCache
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.engine.run.prepare import wants_chat
from specviz.engine.run.worker import WorkerLoop
from specviz.errors import SpecvizError
from specviz.events import Event, Prefill
from support.gguf_files import TEMPLATE
from support.models import build, save, tokenizer

KNOBS = {"max_new_tokens": 6, "temperature": 0}


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A target whose tokenizer has a template."""
    tokens = tokenizer()
    tokens.chat_template = TEMPLATE
    folder = save(build("llama", seed=3), tmp_path_factory.mktemp("chatty") / "model", tokens)
    return load_pair(folder, needs_draft=False, dtype="float32", threads=1)


def _run(
    pair: Pair, prompt: str, history: tuple[Said, ...] = (), cache: KVCache | None = None, method: str = "ngram"
) -> LocalRun:
    start = Start(prompt=prompt, method=method, knobs=KNOBS, history=list(history), level="none")
    run = LocalRun(pair, start, lambda event: None, cache=cache)
    for _ in run.rounds():
        pass
    return run


def test_models_with_a_template_answer_and_the_embedded_pair_goes_on(chatty: Pair) -> None:
    assert wants_chat(chatty.target, None)
    assert not wants_chat(chatty.target, False)
    embedded = load_pair(needs_draft=False, threads=1)
    assert embedded.target.tokenizer.chat_template, "it has a template all the same"
    assert not wants_chat(embedded.target, None)
    assert wants_chat(embedded.target, True)
    catalogues = [WorkerLoop(pair, lambda event: None).catalogue() for pair in (chatty, embedded)]
    assert [(one.chat, one.talks) for one in catalogues] == [(True, True), (True, False)]


def test_the_template_is_part_of_the_prompt_in_the_trace(chatty: Pair) -> None:
    events: list[Event] = []
    list(LocalRun(chatty, Start(prompt="hi", method="ngram", knobs=KNOBS), events.append).rounds())
    (prefill,) = (event for event in events if isinstance(event, Prefill))
    assert chatty.target.tokenizer.decode(prefill.prompt) == "<s>user:hi</s><s>assistant:"
    assert prefill.text == "hi"


@pytest.mark.parametrize("method", ["ar", "ngram", "layerskip", "lookahead"])
def test_a_conversation_that_goes_on_says_what_one_from_the_start_would(
    method: str, chatty: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _run(chatty, "ab ab", method=method)
    history = (Said(role="user", text="ab ab"), Said(role="assistant", text=first.answer))
    fresh = _run(chatty, "and?", history, method=method)
    cache = first.session.cache
    whole = fresh.session.prompt
    n_held = cache.holds(whole[:-1])
    assert n_held >= len("<s>user:ab ab</s><s>assistant:") - 12, "the first message is there already"
    fed = []
    add = KVCache.add
    monkeypatch.setattr(KVCache, "add", lambda self, token, parent: (fed.append(token), add(self, token, parent))[1])
    went_on = _run(chatty, "and?", history, cache, method)
    monkeypatch.undo()
    assert went_on.tokens == fresh.tokens
    assert fed[: len(whole) - 1 - n_held] == list(whole[n_held:-1]), "only what was new of the prompt was fed"


def test_a_drafter_that_reads_states_is_shown_the_whole_conversation(chatty: Pair) -> None:
    first = _run(chatty, "ab ab")
    session = first.session
    session.drafter.taps = (1,)  # type: ignore[union-attr]
    from specviz.engine.decode.session import Session

    again = Session(session.parts, session.prompt, first.table, session.knobs, cache=session.cache)
    assert again.cache is not session.cache
    assert again.cache.length == 0


def test_a_widened_cache_holds_what_it_held(chatty: Pair) -> None:
    cache = _run(chatty, "ab ab").session.cache
    wide = cache.widened(cache.capacity + 100)
    assert wide.capacity == cache.capacity + 100
    assert wide.tokens == cache.tokens
    old, new = cache._buffer, wide._buffer
    assert old is not None
    assert new is not None
    assert torch.equal(new[..., : cache.length, :], old[..., : cache.length, :])
    assert cache.widened(3) is cache


def test_an_answer_is_without_the_mark_that_ends_it(chatty: Pair) -> None:
    ids = chatty.target.tokenizer("</s>", add_special_tokens=False)["input_ids"]
    run = _run(chatty, "ab")
    run.session._output.text = "hello</s>"
    run.session.tokens += ids
    run.session.finish = "eos"
    assert run.answer == "hello"
    run.session.finish = "length"
    assert run.answer == "hello</s>"


def test_a_conversation_without_a_template_is_refused(tmp_path: Path) -> None:
    pair = load_pair(save(build("llama"), tmp_path / "plain"), needs_draft=False, dtype="float32", threads=1)
    history = (Said(role="user", text="a"), Said(role="assistant", text="b"))
    with pytest.raises(SpecvizError, match="a conversation goes through the tokenizer's chat template"):
        _run(pair, "c", history)
