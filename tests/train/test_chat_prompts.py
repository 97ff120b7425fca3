"""What chat models are asked: split by what it is about, never twice, and through templates that may do anything."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from specviz.engine.model.files.chat_template import speaks_chat
from specviz.errors import SpecvizError
from specviz_train.common import chat_prompts, corpus, own_text, training_text
from specviz_train.common.own_text import OwnTextConfig
from specviz_train.common.training_text import Chats, ChatTurn
from support.models import build, tokenizer

USER, END = "<user>", "<end>"
TURNS = (
    "{% for m in messages %}" + USER + "{{ m['content'] }}" + END + "{% endfor %}"
    "{% if add_generation_prompt %}" + USER + "{% endif %}"
)
ONE = "{% if messages|length > 1 %}{{ raise_exception('one turn alone') }}{% endif %}" + TURNS
FAILS = "{{ raise_exception('not today') }}"


def prompts(seed: int = 0, texts: tuple[Path, ...] = ()) -> list[chat_prompts.ChatPrompt]:
    passage = (
        "The sea was calm. " * 10 + "Nobody had seen the ship for a long time, and few believed that it would come."
    )
    documents = [
        corpus.Document("prose", "docs", corpus.key_of(f"{n}"), f"{passage} It was year {n}.\n\n") for n in range(80)
    ]
    code = [
        corpus.Document("code", "x", corpus.key_of(f"f{n}"), f"def f{n}(x):\n    return x + {n}\n") for n in range(40)
    ]
    return chat_prompts.gather([*documents, *code], texts, seed)


def chatty(template: str | None) -> PreTrainedTokenizerFast:
    own_tokenizer: Any = tokenizer()
    own_tokenizer.add_special_tokens({"additional_special_tokens": [USER, END]})
    own_tokenizer.chat_template = template
    return own_tokenizer


def test_prompts_are_the_same_every_time_and_never_twice() -> None:
    first = prompts()
    assert first == prompts()
    assert len({prompt.text for prompt in first}) == len(first)
    assert {"summaries", "passages", "code", "sums", "writing", "reasoning"} <= {prompt.domain for prompt in first}
    assert first != prompts(seed=1)


def test_a_prompt_keeps_the_side_of_what_it_is_about() -> None:
    """All that is asked about one document lies on one side; what fills a form decides where it lies."""
    by_side = prompts()
    sides: dict[str, set[bool]] = {}
    for prompt in by_side:
        sides.setdefault(prompt.key, set()).add(prompt.held_out)
    assert all(len(side) == 1 for side in sides.values())
    held_out = sum(prompt.held_out for prompt in by_side) / len(by_side)
    assert 0 < held_out < 3 * corpus.HELD_OUT_SHARE


HOSTILE = [
    {"question": 3, "prompt": None},
    {"turns": []},
    {"turns": [{"content": "x"}]},
    {"instruction": "   "},
    {"turns": ["\x1b[31m Who? \u202e", "and then?"]},
    {"prompt": "p", "question": "q"},
]


def test_lines_without_a_question_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_text("".join(json.dumps(question) + "\n" for question in HOSTILE), encoding="utf-8")
    questions = [*chat_prompts.asked_in(path)]
    assert [question.text for question in questions] == ["\x1b[31m Who? \u202e", "q"]
    assert {question.domain for question in questions} == {"asked"}


@pytest.mark.parametrize("line", ["{half", "[1]", "7"])
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"question": "?"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(SpecvizError, match=r"bad\.jsonl, line 2"):
        list(chat_prompts.asked_in(path))


def test_whether_a_model_speaks_in_turns_is_its_templates_to_say() -> None:
    assert speaks_chat(chatty(TURNS))
    assert not speaks_chat(chatty(None))
    assert not speaks_chat(chatty(FAILS))
    assert not speaks_chat(chatty("{{ messages[0]['content'] }}"))  # marks no turns
    assert training_text.in_turns(False, chatty(TURNS)) is False
    assert training_text.in_turns(True, chatty(None)) is True


def asked(template: str) -> ChatTurn:
    return training_text._turn(chatty(template), chat_prompts.ChatPrompt("x", "0" * 8, "hello"))


def test_a_chat_is_gone_on_with_where_the_template_can() -> None:
    words = chatty(TURNS)
    turn = asked(TURNS)
    assert words.decode(turn.first) == f"{USER}hello{END}{USER}"
    assert words.decode(turn.further).endswith(f"{USER}hello{END}{USER}")
    single = asked(ONE)
    assert single.first == turn.first
    assert single.further == []


def test_chats_read_back_and_are_drawn_alike(tmp_path: Path) -> None:
    turns = {"a": [ChatTurn([1, 2], [3]), ChatTurn([4], [])], "b": [ChatTurn([5, 6, 7], [8, 9])]}
    chats = Chats({"train": turns, "held_out": turns})
    chats.save(tmp_path / "chats.npz")
    again = Chats.load(tmp_path / "chats.npz")
    assert again.turns == chats.turns

    def drawn(of: Chats) -> list[list[int]]:
        return [next(row) for row in of.begin("train", 40, 5, (0, 1, 2))]

    assert drawn(chats) == drawn(again)
    assert {tuple(row) for row in drawn(chats)} == {(1, 2), (4,), (5, 6, 7)}


def test_what_is_measured_is_bounded_over_all_kinds() -> None:
    many = {f"kind {n}": [ChatTurn([n], [])] * 50 for n in range(12)}
    chats = Chats({"train": many, "held_out": many})
    assert {len(own) for own in chats.prompts("held_out", 8, 48).values()} == {1}, "one of each, however many kinds"
    three = Chats({"train": many, "held_out": {kind: many[kind] for kind in list(many)[:3]}})
    lengths = [len(own) for own in three.prompts("held_out", 8, 48).values()]
    assert set(lengths) == {training_text.MOST_MEASURED // 3}
    few = Chats({"train": many, "held_out": {"one": many["kind 0"]}})
    assert len(few.prompts("held_out", 8, 48)["one"]) == 8


def test_windows_hold_the_targets_own_tokens_and_what_it_was_given() -> None:
    """No padding, prompts of any length; every token marked as written is the target's greedy one."""
    model = build("llama", seed=5).requires_grad_(False).eval()
    starts = [[3, 4, 5, 6], [9], [11, 12]]
    more = [20, 21, 22]
    stops = frozenset(range(100, 160))
    streams = [iter([start, *([more] * 50)]) for start in starts]
    windows = own_text.continued(model, streams, OwnTextConfig(3, 4, 48, (0.0,)), torch.Generator(), stops)
    assert windows.ids.shape == (3, 48)
    again = 0
    for ids, written, start in zip(windows.ids.tolist(), windows.written.tolist(), starts, strict=True):
        assert ids[: len(start)] == start
        assert written[: len(start)] == [False] * len(start)
        best = model(input_ids=torch.tensor([ids])).logits[0].argmax(-1).tolist()
        waiting: list[int] = []
        for place in range(len(start), 48):
            assert written[place] == (not waiting)
            assert ids[place] == (waiting.pop(0) if waiting else best[place - 1])
            if written[place] and ids[place] in stops:
                waiting, again = [*more], again + 1
    assert again > 0  # some row ended and was asked again
