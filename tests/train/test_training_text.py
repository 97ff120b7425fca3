"""The text a pair is trained on: split by file, the same on every machine, read back unchanged by the tokenizer."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import SpecvizError
from specviz_train.common import corpus, training_text
from specviz_train.draft_pair import tokenizer as words

HOSTILE = [
    "",
    " ",
    "\x00\x1b[31mred\x1b[0m\x7f",
    "<|endoftext|",
    "日本語 עברית \u202egnissim\u202c 👩‍👩‍👧 e\u0301",
    "\t\tif x:\r\n\r\n    pass   \n\n\n",
    "12345 007 ½ ٣",
    "\ufeff\u2028\u2029\uffff",
]


@pytest.fixture(scope="module")
def tokenizer():
    """A tokenizer of the real recipe, learnt from a little text."""
    texts = [Path(corpus.__file__).read_text(encoding="utf-8"), *corpus.sum_pages(20, seed=1)]
    return words.train_tokenizer(texts, context=64)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_comes_back_unchanged(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text_comes_back_unchanged(tokenizer, text):
    if words.END not in text:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_digits_are_single_tokens(tokenizer):
    assert len(tokenizer.encode("90210")) == 5


def test_chat_template_ends_where_the_assistant_starts(tokenizer):
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert text == "User: Hi\nAssistant:"


def _documents(n: int) -> list[corpus.Document]:
    texts = [f"def f{number}():\n    return {number}\n" for number in range(n)]
    return [corpus.Document("code", "stdlib", corpus.key_of(text), text) for text in texts]


def test_split_follows_the_contents_and_nothing_else():
    first = {document.text for document in _documents(2_000) if document.held_out}
    again = {document.text for document in reversed(_documents(2_000)) if document.held_out}
    assert first == again
    assert 0.015 < len(first) / 2_000 < 0.045  # 3 %, four standard errors either way


def test_docstrings_fall_on_the_side_of_their_file(tmp_path):
    for number in range(60):
        doc = f"Explain number {number}.\n" * 30
        (tmp_path / f"m{number}.py").write_text(f'"""{doc}"""\n\nX = {number}\n', encoding="utf-8")
    documents = list(corpus._documents(corpus._files(tmp_path, ()), "packages"))
    sides: dict[str, set[bool]] = {}
    for document in documents:
        sides.setdefault(document.key, set()).add(document.held_out)
    assert {document.domain for document in documents} == {"code", "prose"}
    assert all(len(side) == 1 for side in sides.values())


def test_sides_share_no_document(tokenizer):
    documents = _documents(400)
    store = words.encode(documents, tokenizer)
    train = tokenizer.decode(store.train["code"]).split(words.END)
    held_out = tokenizer.decode(store.held_out["code"]).split(words.END)
    assert len(train) + len(held_out) == 402  # one empty piece after each last end token
    assert not set(train) & set(held_out) - {""}


def test_store_reads_back_what_it_wrote(tokenizer, tmp_path):
    store = words.encode(_documents(100), tokenizer)
    store.save(tmp_path / "tokens.npz")
    again = training_text.TokenStore.load(tmp_path / "tokens.npz")
    assert list(again.held_out) == ["code", words.STDLIB]
    assert (again.train["code"] == store.train["code"]).all()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import os\n\n\ndef f():\n    return os.name\n", True),
        ("x = 1\n", False),
        ("T = [" + "0x1f, 992, " * 500 + "]\n", False),
        ("var a=" + "function(){};" * 400 + "\n", False),
        ("a = b\n" * 60_000, False),
    ],
)
def test_only_text_that_teaches_is_kept(text, wanted):
    assert corpus.teaches(text) == wanted


def test_jsonl_fields_become_lines_without_calculator_marks(tmp_path):
    path = tmp_path / "sums.jsonl"
    record = {"question": "How many?\u2028Count.", "answer": "48/2 = <<48/2=24>>24\n#### 24", "n": 3}
    path.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    (document,) = corpus.read_text_file(path)
    assert document.text == "Question: How many?\u2028Count.\nAnswer: 48/2 = 24\n#### 24\n"
    assert document.domain == "prose"


@pytest.mark.parametrize("text", ["{broken\n", '["no object"]\n'])
def test_broken_jsonl_names_its_line(tmp_path, text):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"a": "b"}\n' + text, encoding="utf-8")
    with pytest.raises(SpecvizError, match=r"bad\.jsonl, line 2"):
        list(corpus.read_text_file(path))


def test_text_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"\xff\xfe\xe9")
    with pytest.raises(SpecvizError, match=r"latin\.txt"):
        list(corpus.read_text_file(path))


def test_sums_are_right_and_repeatable():
    pages = list(corpus.sum_pages(200, seed=3))
    assert pages == list(corpus.sum_pages(200, seed=3))
    lines = [line for page in pages for line in page.splitlines() if " = " in line]
    for line in lines:
        question, _, answer = line.partition(" = ")
        assert eval(question) == int(answer)
    assert len(lines) > 1_000


def test_windows_are_keyed_and_keep_to_the_text(tokenizer):
    streams = words.encode(_documents(400), tokenizer).train
    feed = training_text.WindowFeed(streams)
    first = feed.draw((4, 16), (0, 7, 0))
    assert first.shape == (4, 17)
    assert first.equal(feed.draw((4, 16), (0, 7, 0)))
    assert not first.equal(feed.draw((4, 16), (0, 8, 0)))


def test_aligned_windows_begin_at_top_level_definitions(tokenizer):
    text = "class A:\n    def f(self):\n        return 1\n\n\ndef g():\n    return 'def'\n" * 50
    stream = words.encode([corpus.Document("code", "stdlib", "f" * 64, text)], tokenizer).train["code"]
    starts = words.definition_starts(stream, tokenizer)
    windows = training_text.WindowFeed({"code": stream}, {"code": starts}, {"code": 1.0}).draw((20, 8), (0, 0, 0))
    beginnings = {tokenizer.decode(window)[:5] for window in windows}
    assert beginnings == {"class", "def g"}
