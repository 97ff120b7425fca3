"""SmolLM2 itself: every method that works with it writes, token for token, what the library's `generate` writes
(greedy) and what plain decoding writes (T = .8), on chat prompts.

That is in float32. In the dtype that the loader chooses, where that is another, the library rounds otherwise than the
adapter, and two tokens are often a rounding apart: there methods are held against plain decoding. Answers are short,
all but the one whose drafts are kept, and trees are small, so that all of it takes some five minutes of one processor;
what a target's cache holds of a prompt is handed from run to run, as in a conversation.
"""

from pathlib import Path

import pytest
import torch

from specviz.commands import Said, Start
from specviz.engine.model.cache import KVCache
from specviz.engine.model.files.kinship import made_for
from specviz.engine.model.files.loading import plain_model
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.local_models.catalogue import SMOLLM2
from specviz.local_models.shipped import usual_draft
from specviz.methods import Method, all_methods
from specviz.methods.common.missing import missing
from support.real import PROMPTS, smollm2

__all__ = ["smollm2"]

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
LENGTHS = {prompt: 16 if prompt.startswith("Repeat") else 6 for prompt in PROMPTS}  # tokens of an answer
SYSTEM = (Said(role="system", text="You are a helpful assistant."),)


@pytest.fixture(scope="module")
def pair(smollm2: Path) -> Pair:
    """In float32."""
    return _loaded(smollm2, "float32")


@pytest.fixture(scope="module")
def library(smollm2: Path) -> object:
    """The library's own model, which no adapter has touched."""
    return plain_model(str(smollm2), "target", torch.float32).eval()


def _loaded(folder: Path, dtype: str | None) -> Pair:
    return load_pair(str(folder), None, usual_draft(str(folder)) is not None, dtype=dtype, threads=1)


def _able(pair: Pair) -> list[Method]:
    return [method for method in all_methods().values() if missing(method, pair) is None]


def _run(pair: Pair, method: Method, prompt: str, temperature: float, cache: KVCache | None) -> LocalRun:
    knobs = {"max_new_tokens": LENGTHS.get(prompt, 6), "temperature": temperature, "seed": 5}
    if temperature and "walk" not in method.fitting(method.table.knobs(knobs).values):
        knobs["draft_mode"] = "shared"  # what walk takes of drawn drafts
    if any(spec.name == "node_budget" for spec in method.own):
        knobs["node_budget"] = 16  # of sixty rows a pass takes four times as long in float32
    start = Start(prompt=prompt, method=method.name, verifier="walk", knobs=knobs, history=list(SYSTEM), level="none")
    run = LocalRun(pair, start, lambda event: None, cache=cache)
    for _ in run.rounds():
        pass
    return run


def _plain(pair: Pair) -> Method:
    return next(method for method in _able(pair) if method.traits.plain)


def _all_agree(pair: Pair, prompt: str) -> LocalRun:
    """Every method writes what plain decoding writes, greedy and drawn; the first run, which was plain and greedy."""
    first = _run(pair, _plain(pair), prompt, 0, None)
    cache = first.session.cache
    for temperature in (0, 0.8):
        want = first.tokens if not temperature else _run(pair, _plain(pair), prompt, 0.8, cache).tokens
        for method in _able(pair):
            run = _run(pair, method, prompt, temperature, cache)
            assert run.tokens == want, (method.name, temperature)
    return first


def _generated(library: object, first: LocalRun, prompt: str) -> list[int]:
    """The library's greedy answer to the prompt of a run."""
    ids = torch.tensor([first.session.prompt])
    with torch.inference_mode():
        whole = library.generate(  # type: ignore[attr-defined]
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=LENGTHS[prompt]
        )
    return [int(token) for token in whole[0, ids.shape[1] :]]


@pytest.mark.parametrize(
    "prompt", PROMPTS, ids=[prompt.split()[0].lower() + str(k) for k, prompt in enumerate(PROMPTS)]
)
def test_every_method_writes_what_generate_and_plain_decoding_write(prompt: str, pair: Pair, library: object) -> None:
    first = _all_agree(pair, prompt)
    assert first.tokens == _generated(library, first, prompt)


def test_so_does_every_method_beside_plain_decoding_as_it_is_loaded(smollm2: Path) -> None:
    as_loaded = _loaded(smollm2, None)
    if as_loaded.target.adapter.dtype == torch.float32:
        pytest.skip("the loader takes float32 here, which the other test decodes in")
    _all_agree(as_loaded, PROMPTS[0])


def test_the_weights_are_those_that_parts_are_made_for(pair: Pair) -> None:
    assert any(made_for(weights, pair.target.adapter) for weights in SMOLLM2.weights)


def test_it_answers_through_its_template_and_reads_digits_one_by_one(pair: Pair) -> None:
    run = _run(pair, _plain(pair), "What is 2 + 2?", 0, None)
    prompt = pair.target.tokenizer.decode(run.session.prompt)
    assert prompt.endswith("<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\n")
    assert run.answer
    assert len(pair.target.tokenizer("1234")["input_ids"]) == 4
