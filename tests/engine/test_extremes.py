"""What real models and real users bring along: short draft contexts, odd tokenizers, hostile numbers, long prompts."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from specviz.commands import Command, Shutdown, Start, Stop
from specviz.engine.decode.text_output import Texts
from specviz.engine.model import rows
from specviz.engine.model.files.loading import stop_tokens
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.engine.run.worker import WorkerLoop
from specviz.errors import KnobError, ModelError, SpecvizError
from specviz.events import End, Event, Refused, RoundEnd
from specviz.methods import get_method
from support.driver import greedy, session
from support.models import blurred, build, save, tokenizer

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
SHAPES: list[dict[str, Any]] = [
    {"gamma": 5},
    {"shape": "tree", "d_max": 3, "node_budget": 12},
    {"shape": "caterpillar", "gamma": 3},
]


@pytest.mark.parametrize("knobs", SHAPES)
@pytest.mark.parametrize("arch", ["llama", "gpt2"])
@pytest.mark.parametrize("n_prompt", [60, 180])
def test_a_draft_model_with_the_shorter_context_stops_drafting(
    tmp_path: Path, arch: str, knobs: dict[str, Any], n_prompt: int
) -> None:
    """The text goes on past the draft model's context as plain decoding would have it, and nothing is drafted there."""
    size = "n_positions" if arch == "gpt2" else "max_position_embeddings"
    target = save(build(arch, seed=1), tmp_path / "target")
    draft = save(blurred(build(arch, seed=1, **{size: 64})), tmp_path / "draft")
    pair = load_pair(target, draft, dtype="float64", threads=1)
    prompt = ("abc " * 50)[:n_prompt]
    run = LocalRun(pair, Start(prompt=prompt, knobs={"max_new_tokens": 10, **knobs}), lambda event: None)
    done = list(run.rounds())
    plain = LocalRun(pair, Start(prompt=prompt, method="ar", knobs={"max_new_tokens": 10}), lambda event: None)
    list(plain.rounds())
    assert run.tokens == plain.tokens
    assert all(len(outcome.draft) == 0 for outcome in done if outcome.n > 65)
    assert any(len(outcome.draft) for outcome in done) == (n_prompt < 64)


@pytest.mark.parametrize("block", [3, 8])
def test_a_long_prompt_is_fed_in_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks change nothing, sliding windows included, and no forward is wider than one."""
    monkeypatch.setattr(rows, "BLOCK", block)
    monkeypatch.setattr("specviz.methods.common.runner.BLOCK", block)
    prompt = [(7 * k) % 250 for k in range(50)]
    target, draft = build("mistral", seed=1), blurred(build("mistral", seed=1))
    want = greedy(build("mistral", seed=1), prompt, 20)
    run = session(target, draft, prompt, gamma=1, max_new_tokens=20)
    widths: list[int] = []
    for adapter in (run.target, run.parts.models.draft):
        adapter.layers[0].register_forward_pre_hook(lambda module, argument: widths.append(argument[0].shape[1]))
    assert run.generate() == want
    assert max(widths) <= block + 1


def test_token_ids_may_have_gaps(tmp_path: Path) -> None:
    """An end token behind a gap is still one: the vocabulary reaches to the largest id, not to their number."""
    raw = json.loads(tokenizer().backend_tokenizer.to_str())
    raw["model"]["vocab"] |= {"<s>": 280, "</s>": 299}
    raw["added_tokens"] = []
    fast = Tokenizer.from_str(json.dumps(raw))
    fast.add_special_tokens(["<s>", "</s>"])
    tokens = hf.PreTrainedTokenizerFast(tokenizer_object=fast, bos_token="<s>", eos_token="</s>")
    model = build("llama", seed=1, vocab_size=304, bos_token_id=280, eos_token_id=299, pad_token_id=None)
    loaded = load_pair(save(model, tmp_path / "target", tokens), needs_draft=False).target
    assert loaded.adapter.vocab == 300
    assert stop_tokens(loaded) == {299}


@pytest.mark.parametrize(("target_ids", "draft_ids"), [(260, 256), (256, 260)])
def test_a_pair_that_shares_only_part_of_the_tokenizer_is_refused(
    tmp_path: Path, target_ids: int, draft_ids: int
) -> None:
    """Padding beyond the tokenizer may differ; what falls short of it would meet rows of another width."""
    ends = {"eos_token_id": None, "bos_token_id": None, "pad_token_id": None}
    target = save(build("llama", seed=1, vocab_size=target_ids, **ends), tmp_path / "target")
    draft = save(build("llama", seed=2, vocab_size=draft_ids, **ends), tmp_path / "draft")
    with pytest.raises(
        ModelError, match=f"target has {target_ids} of the tokenizer's ids, the draft model {draft_ids}"
    ):
        load_pair(target, draft)


def test_byte_fallback_streams_what_is_no_utf8() -> None:
    """A run of byte tokens that turns invalid is spelled anew by the library, whose stream gives up there."""
    words = {word: k for k, word in enumerate(["<unk>", "a", *(f"<0x{b:02X}>" for b in range(256))])}
    fast = Tokenizer(models.BPE(vocab=words, merges=[], unk_token="<unk>", byte_fallback=True))
    fast.pre_tokenizer = pre_tokenizers.Metaspace()
    fast.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    stream = Texts(hf.PreTrainedTokenizerFast(tokenizer_object=fast)).stream([words["a"]])
    spelled = [words[w] for w in ("a", "<0x5C>", "<0xFF>", "a", "<0xC3>", "<0xA9>", "a")]
    pieces = [stream.push(token) for token in spelled]
    assert "".join(pieces).replace("\ufffd", "") == "a\\aéa"
    assert "\ufffd" in "".join(pieces)


@pytest.mark.parametrize("temperature", [1e-6, 1e-38, 1e-45, 5e-324])
@pytest.mark.parametrize("knobs", [{}, {"top_p": 0.5, "draw": "race"}, {"repetition_penalty": 1e30}])
def test_a_temperature_next_to_zero_is_greedy(temperature: float, knobs: dict[str, Any]) -> None:
    """In float32 a quotient by it overflows; the law does not."""
    model = build("llama", seed=1)
    plain = {key: value for key, value in knobs.items() if key == "repetition_penalty"}
    want = session(model, None, PROMPT, method="ar", **plain).generate()
    assert session(model, None, PROMPT, method="ar", temperature=temperature, **knobs).generate() == want


@pytest.mark.parametrize(
    "knobs", [{}, {"temperature": 1.0}, {"temperature": 1.0, "draw": "race"}, {"temperature": 1.0, "top_k": 3}]
)
def test_numbers_that_are_not_finite_are_named(knobs: dict[str, Any]) -> None:
    """A half-precision overflow must not become text or an index error."""
    model = build("llama", seed=1)
    with torch.no_grad():
        model.lm_head.weight[7] = float("nan")
    with pytest.raises(SpecvizError, match="not finite"):
        session(model, None, PROMPT, method="ar", **knobs).generate()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gamma", float("inf")),
        ("temperature", float("inf")),
        ("temperature", 10**400),
        ("stop", ""),
        ("stop", ["a", ""]),
    ],
)
def test_values_no_round_can_run_with_are_refused(name: str, value: Any) -> None:
    """JSON commands can carry them; JSON traces could not."""
    with pytest.raises(KnobError, match=f"knob {name}"):
        get_method("draft").table.check({name: value})


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A target alone, whose chat template refuses everything."""
    tokens = tokenizer()
    tokens.chat_template = "{{ raise_exception('no such\n role') }}"
    return load_pair(save(build("llama", seed=1), tmp_path_factory.mktemp("alone"), tokens), needs_draft=False)


def serve(pair: Pair, *commands: Command) -> list[Event]:
    """What a worker says to commands that all wait already."""
    events: list[Event] = []
    worker = WorkerLoop(pair, events.append)
    for command in commands:
        worker.commands.put(command)
    worker.serve()
    return events


def test_a_broken_chat_template_is_one_line(pair: Pair) -> None:
    """Its own words, and what to do."""
    with pytest.raises(SpecvizError, match=r"chat template fails.*no such role.*give --raw"):
        LocalRun(pair, Start(prompt="a", method="ar", chat=True), lambda event: None)


def test_a_request_nobody_thought_of_does_not_end_the_worker(pair: Pair) -> None:
    """The models stay, the next run comes about."""
    odd = Start(prompt="\ud800", method="ar", id=3, chat=False)  # half a character
    events = serve(pair, odd, Start(prompt="a", method="ar", paused=True, chat=False), Stop(), Shutdown())
    assert [event.id for event in events if isinstance(event, Refused)] == [3]
    assert any(isinstance(event, End) for event in events)


@pytest.mark.parametrize("last", [Stop(), Shutdown()])
def test_a_stop_before_the_first_round_decodes_nothing(pair: Pair, last: Command) -> None:
    """Paused at the prompt, then stopped: no round, and an end that says so."""
    events = serve(pair, Start(prompt="ab", method="ar", paused=True, chat=False), last, Shutdown())
    assert [event.reason for event in events if isinstance(event, End)] == ["stopped"]
    assert not any(isinstance(event, RoundEnd) for event in events)
