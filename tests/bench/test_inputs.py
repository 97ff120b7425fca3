"""Arms, knobs and prompt files: what is read, and what is refused in one line that helps."""

import json
from pathlib import Path

import pytest

from specviz.errors import SpecvizError
from specviz.sources.chat_examples import CHAT_EXAMPLES
from specviz.sources.prompts import load_prompts, spread, suited
from specviz_lab.bench.measure import Sample
from specviz_lab.bench.results import ratios_of
from specviz_lab.bench.settings import DEFAULT, SHAPES, BenchSettings, Contestant, contestants, parse_knobs


def test_the_default_measures_every_comparison_there_is_a_bar_for() -> None:
    names = {arm.name for arm in contestants(DEFAULT)}
    assert {"ar", "hf-generate", "chain", "hf-assisted", "chain+summary", "chain+full"} <= names


def test_arms_are_kind_and_level() -> None:
    assert contestants("chain+full, hf-lookup") == (
        Contestant("chain+full", "chain", "full"),
        Contestant("hf-lookup", "hf-lookup"),
    )


def test_an_arm_may_name_its_verifier() -> None:
    """Recorded, it is held against the same arm unrecorded."""
    [arm] = contestants("chain:hsd+full")
    assert arm == Contestant("chain:hsd+full", "chain", "full", "hsd")
    assert arm.bare == "chain:hsd"


def test_an_arm_may_have_knobs_of_its_own() -> None:
    """What the method chooses by itself is held against it."""
    alone, fixed = contestants("chain,chain:hsd@gamma=2@top_k=1")
    assert fixed == Contestant(fixed.name, "chain", None, "hsd", (("gamma", "2"), ("top_k", "1")))
    samples = [Sample(arm, 0, 0, 1.0 + arm, [1, 2]) for arm in (0, 1)]
    [ratio] = ratios_of((alone, fixed), samples)
    assert (ratio.arm, ratio.base, ratio.value) == ("chain", fixed.name, 2.0)


def test_random_weights_of_a_shape_are_a_pair_of_one_vocabulary() -> None:
    pytest.importorskip("torch")
    from specviz_lab.bench.speed import SIZES, shaped_pair

    assert set(SHAPES) == set(SIZES)
    pair = shaped_pair("tiny", None, None)
    assert pair.draft is not None
    assert pair.target.adapter.vocab == pair.draft.adapter.vocab == 32768
    assert (pair.target.info.n_params or 0) > (pair.draft.info.n_params or 0)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("chian", "did you mean 'chain'"),
        ("ar,ar", "'ar' twice"),
        (" , ", "names nothing"),
        ("chain+ful", "did you mean 'full'"),
        ("hf-generate+full", "only our own"),
        ("hf-lookup:hsd", "only our own"),
        ("chain:hsdd", "did you mean 'hsd'"),
        ("ar:hsd", "known: walk"),
        ("hf-lookup@gamma=3", "only our own"),
        ("chain@gamma", "behind @ stands KNOB=VALUE"),
    ],
)
def test_arms_that_are_none(names: str, message: str) -> None:
    with pytest.raises(SpecvizError, match=message.replace("+", r"\+")):
        contestants(names)


def test_chain_and_tree_differ_by_shape_and_share_gamma_and_length() -> None:
    settings = BenchSettings(contestants("chain,tree"), gamma=7, max_new_tokens=33, temperature=0.5)
    for kind in ("chain", "tree"):
        method, knobs = settings.method_knobs(kind)
        assert (method.name, knobs["shape"], knobs["max_new_tokens"], knobs["temperature"]) == ("draft", kind, 33, 0.5)
    assert settings.method_knobs("chain")[1]["gamma"] == settings.method_knobs("ngram")[1]["gamma"] == 7


def test_knobs_reach_their_own_method_only() -> None:
    knobs = parse_knobs(("tree.node_budget=9", "ngram.ngram_max=2"))
    settings = BenchSettings(contestants("tree,chain,ngram"), knobs=knobs)
    assert settings.method_knobs("tree")[1]["node_budget"] == 9
    assert settings.method_knobs("chain")[1]["node_budget"] != 9
    assert settings.lookup_length == 2


@pytest.mark.parametrize("text", ["tree", "tree.=3", "node_budget=3", "tre.node_budget=3", "chain.gamma=3"])
def test_knobs_that_are_none(text: str) -> None:
    with pytest.raises(SpecvizError, match="--knob"):
        parse_knobs((text,))


def test_bundled_prompts_are_all_there_by_default() -> None:
    prompts = load_prompts(None)
    assert prompts.source == "bundled"
    assert prompts.n_found == len(prompts.texts) > 5


def test_a_chat_model_is_asked_messages_unless_a_file_is_named(tmp_path: Path) -> None:
    asked = suited(load_prompts(None), True)
    assert asked.source == "bundled messages"
    assert set(asked.texts) == set(CHAT_EXAMPLES.values())
    assert len(suited(load_prompts(None, 2), True).texts) == 2
    assert suited(load_prompts(None), False) == load_prompts(None)
    file = tmp_path / "bundled"  # a file of that name is a file
    file.write_text(json.dumps({"prompt": "a"}))
    assert suited(load_prompts(file), True) == load_prompts(file)


def test_a_file_may_mix_the_three_fields(tmp_path: Path) -> None:
    lines = [{"prompt": "a", "question": "no"}, {"turns": ["b", "no"], "id": 3}, {"question": "c\nd", "answer": "no"}]
    file = tmp_path / "p.jsonl"
    file.write_text("\n\n".join(map(json.dumps, lines)))
    prompts = load_prompts(file)
    assert prompts.texts == ("a", "b", "c\nd")
    assert prompts.source == "p.jsonl"


def test_unusual_line_separators_inside_a_text_end_no_line(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_bytes('{"prompt": "a\u2028b\u0085c"}\r\n{"prompt": "d"}\n'.encode())
    assert load_prompts(file).texts == ("a\u2028b\u0085c", "d")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "hold no line"),
        (b"{}", "line 1 has none of prompt, turns, question"),
        (b'{"prompt": "a"}\n[1]', "line 2"),
        (b'{"prompt": 3}', "holds no text"),
        (b'{"turns": []}', "holds no text"),
        (b'{"prompt"', "is not JSON"),
        (b'{"prompt": "\xff"}', "not UTF-8"),
        (b'{"prompt": ""}', "holds no text"),
    ],
)
def test_files_that_hold_no_prompts(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(content)
    with pytest.raises(SpecvizError, match=message):
        load_prompts(tmp_path / "p.jsonl")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecvizError, match="cannot read"):
        load_prompts(tmp_path / "none")


def test_a_limit_takes_prompts_from_the_whole_file() -> None:
    texts = [str(k) for k in range(100)]
    assert spread(texts, 4) == ["0", "25", "50", "75"]
    assert spread(texts, 200) == spread(texts, None) == texts
